package chart

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"
)

// Curves compares series over time. Each band is a quantity, with one axis for all series.
type Curves struct {
	Title string
	// Series are the names, at most MaxSeries.
	Series []string
	// Times are those of the values. The axis is in the location of the first.
	Times []time.Time
	Bands []Band
}

// Band is a quantity.
type Band struct {
	Title string
	// Values are by series and by time. NaN, or a value that is missing at the end, is not drawn.
	Values [][]float64
}

const curvesHeight = 220.0

// SVG draws the chart.
func (c Curves) SVG() []byte {
	var out bytes.Buffer
	top := header + 16.0
	bottom := top + float64(len(c.Bands))*(headHeight+curvesHeight)
	height := bottom + axisHeight + margin
	left, right := float64(margin+scaleWidth), float64(chartWidth-2*margin)
	d := newCanvas(&out, c.Title, seriesStyle(), height)
	names(d, c.Series, header+8)
	var axis timeAxis
	if len(c.Times) > 0 {
		axis = newTimeAxis(c.Times[0], c.Times[len(c.Times)-1], right-left)
	}
	for i, band := range c.Bands {
		upper := top + float64(i)*(headHeight+curvesHeight) + headHeight
		lower := upper + curvesHeight
		d.Text(margin, upper-8, band.Title, `class="head"`)
		s := newScale(3, curvesHeight, slices.Concat(band.Values...)...)
		s.draw(d, left, right, lower, "grid")
		if len(c.Times) > 0 {
			for _, tick := range axis.ticks() {
				at := left + axis.at(tick.at)
				d.Line(at, upper, at, lower, `class="grid"`)
				if i == len(c.Bands)-1 {
					d.Text(at, lower+15, tick.label, `class="small middle"`)
				}
			}
		}
		for series, values := range band.Values {
			var xs, ys []float64
			flush := func() {
				if len(xs) > 1 {
					d.Polyline(xs, ys, fmt.Sprintf(`class="p%d curve"`, series))
				}
				xs, ys = nil, nil
			}
			for i, v := range values[:min(len(values), len(c.Times))] {
				if math.IsNaN(v) {
					flush()
					continue
				}
				x, y := left+axis.at(c.Times[i]), lower-s.at(v)
				marker(d, series, x, y)
				xs, ys = append(xs, x), append(ys, y)
			}
			flush()
		}
	}
	d.End()
	return out.Bytes()
}
