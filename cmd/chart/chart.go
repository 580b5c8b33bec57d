// Package chart draws the charts of muster. A chart does not depend on what its
// numbers mean, and takes its colours from whether its viewer prefers light or
// dark.
//
// The package computes the layout, and github.com/ajstarks/svgo writes the SVG: 45 KB of
// the program. gonum/plot would add 6.4 MB. wcharczuk/go-chart (0.6 MB) and
// vicanso/go-charts (0.9 MB) are no longer maintained, have axes that do not start at
// zero, and have one set of colours for light and dark.
package chart

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	svg "github.com/ajstarks/svgo/float"
)

// Sizes of a chart, in pixels.
const (
	chartWidth = 1120
	margin     = 16
	header     = 44
	rowHeight  = 18
	barHeight  = 12
	axisHeight = 20
	letter     = 6.6 // of the text's size, on average
)

const style = `
text { font: 12px 'Liberation Sans', Arial, Helvetica, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: bold }
.head { font-weight: bold }
.small { font-size: 10.5px; fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.page { fill: #ffffff }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.axis { stroke: #59636e; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.small { fill: #9198a1 }
.page { fill: #0d1117 }
.grid { stroke: #30363d }
.axis { stroke: #9198a1 }
}
`

// newCanvas starts an SVG with a title, which may be empty. styles are appended to the common styles.
func newCanvas(out io.Writer, title, styles string, width, height float64) *svg.SVG {
	d := svg.New(out)
	d.Startview(width, height, 0, 0, width, height)
	d.Title(title)
	d.Style("text/css", style+styles)
	d.Rect(0, 0, width, height, `class="page"`)
	if title != "" {
		d.Text(margin, 28, title, `class="title"`)
	}
	return d
}

// palette returns the styles of some colours for light and dark pages. rule is the format of a
// style, and light and dark are additional styles of each.
func palette(rule string, colours [][2]string, light, dark string) string {
	var lights, darks strings.Builder
	for i, c := range colours {
		fmt.Fprintf(&lights, rule, i, c[0])
		fmt.Fprintf(&darks, rule, i, c[1])
	}
	return lights.String() + light + "@media (prefers-color-scheme: dark) {\n" + darks.String() + dark + "}\n"
}

// width returns the approximate width of a text; the viewer chooses the font.
func width(text string) float64 { return float64(utf8.RuneCountInString(text)) * letter }

// fit shortens a text to the given width.
func fit(text string, room float64) string {
	most := int(room / (letter * 1.1))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return text
}
