package chart

import "embed"

// UPlot is uPlot 1.6.32 as npm publishes it: uPlot.iife.min.js, uPlot.min.css and
// its LICENSE, in the directory uplot. It draws in a page what has a time axis to zoom into.
//
//go:embed uplot
var UPlot embed.FS

// Script draws a [Timeline] with uPlot, after which it stands in a page. It offers
// timelines, whose functions are said in it.
//
//go:embed timeline.js
var Script []byte
