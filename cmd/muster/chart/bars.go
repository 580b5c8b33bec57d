// Package chart draws what muster has to show. A chart knows nothing of what its
// numbers mean, and takes its colours from whether its viewer prefers light or
// dark. docs/design.md says what draws which kind.
package chart

import (
	"bytes"
	"unicode/utf8"

	svg "github.com/ajstarks/svgo/float"
)

// Bars are small bar charts in rows and columns, the panels: a band of them for
// each measure, a column for each case. In every panel the bars lie one below
// the other in the same order, named at the left of the band; what each comes to
// is written at its end. So nothing is told by colour alone.
type Bars struct {
	Title string
	// Columns are the names of the cases.
	Columns []string
	// Names are those of the bars, from the top; the first Marked of them are
	// drawn to stand out. Keys says what those are, and what the others.
	Names  []string
	Marked int
	Keys   [2]string
	Bands  []Band
}

// Band is one measure.
type Band struct {
	Title string
	// Unit is written at the end of each scale.
	Unit string
	// Line says what the line of the panels is; empty where they have none.
	Line string
	// Least is how far each scale reaches at the least, so that next to nothing
	// looks like it.
	Least float64
	// Panels are one for each column.
	Panels []Panel
}

// Panel is one chart with a scale of its own, linear and from zero. Line is
// drawn across each bar's place, where there is one.
type Panel struct {
	Values, Line []float64
}

// The measures of a chart, in pixels.
const (
	chartWidth = 1120
	margin     = 16
	header     = 44
	bandTitle  = 24
	columnHead = 20
	rowHeight  = 18
	barHeight  = 12
	axisHeight = 20
	bandGap    = 18
	valueWidth = 34  // beside the longest bar
	panelGap   = 14  // to the next panel
	mostPanel  = 380 // where columns are few
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
.stripe { fill: #f3f5f7 }
.bar { fill: #98a2ad }
.marked { fill: #0969da }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.axis { stroke: #59636e; stroke-width: 1 }
.line { stroke: #bc4c00; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.small { fill: #9198a1 }
.page { fill: #0d1117 }
.stripe { fill: #161b22 }
.bar { fill: #6e7781 }
.marked { fill: #4493f8 }
.grid { stroke: #30363d }
.axis { stroke: #9198a1 }
.line { stroke: #f0883e }
}
`

// drawing is a chart on its way to the canvas.
type drawing struct {
	*svg.SVG
	Bars
	left  float64 // of the first panel
	panel float64 // a panel's width, its gap left out
}

// SVG draws the chart.
func (b Bars) SVG() []byte {
	var out bytes.Buffer
	d := drawing{SVG: svg.New(&out), Bars: b, left: margin + 6}
	for _, name := range b.Names {
		d.left = max(d.left, margin+width(name)+6)
	}
	room := (chartWidth - margin - d.left) / float64(max(1, len(b.Columns)))
	d.panel = min(room, mostPanel) - panelGap
	height := header + float64(len(b.Bands))*d.bandHeight() + margin
	d.Startview(chartWidth, height, 0, 0, chartWidth, height)
	d.SVG.Title(b.Title)
	d.Style("text/css", style)
	d.Rect(0, 0, chartWidth, height, `class="page"`)
	d.Text(margin, 28, b.Title, `class="title"`)
	x := margin + width(b.Title)*1.5
	for i, class := range []string{"marked", "bar"} {
		d.Rect(x, 18, barHeight, barHeight, `class="`+class+`"`)
		d.Text(x+barHeight+6, 28, b.Keys[i])
		x += barHeight + width(b.Keys[i]) + 24
	}
	for i, band := range b.Bands {
		d.band(header+float64(i)*d.bandHeight(), band)
	}
	d.End()
	return out.Bytes()
}

func (d drawing) bandHeight() float64 {
	return bandTitle + columnHead + float64(len(d.Names))*rowHeight + axisHeight + bandGap
}

// band draws a measure from y on down.
func (d drawing) band(y float64, b Band) {
	d.Text(margin, y+14, b.Title, `class="head"`)
	if b.Line != "" {
		x := margin + width(b.Title)*1.1 + 16
		d.SVG.Line(x, y+3, x, y+17, `class="line"`)
		d.Text(x+8, y+14, b.Line)
	}
	y += bandTitle + columnHead
	for i, name := range d.Names {
		top := y + float64(i)*rowHeight
		if i%2 == 0 {
			d.Rect(margin, top, chartWidth-2*margin, rowHeight, `class="stripe"`)
		}
		d.Text(d.left-8, top+13, name, `class="end"`)
	}
	for i, p := range b.Panels {
		x := d.left + float64(i)*(d.panel+panelGap)
		d.Text(x, y-6, fit(d.Columns[i], d.panel), `class="head"`)
		d.draw(x, y, b, p)
	}
}

// draw draws a panel: its scale, the bars, the line, and the numbers.
func (d drawing) draw(x, y float64, b Band, p Panel) {
	s := newScale(b.Least, d.panel-valueWidth, p)
	d.scale(x, y, b.Unit, s)
	for i, v := range p.Values {
		class := "bar"
		if i < d.Marked {
			class = "marked"
		}
		d.Rect(x, y+float64(i)*rowHeight+(rowHeight-barHeight)/2, s.at(v), barHeight, `class="`+class+`"`)
	}
	for i, v := range p.Line {
		top := y + float64(i)*rowHeight
		d.SVG.Line(x+s.at(v), top, x+s.at(v), top+rowHeight, `class="line"`)
	}
	for i, v := range p.Values {
		end := s.at(v)
		if i < len(p.Line) && s.at(p.Line[i]) >= end-1 && s.at(p.Line[i]) < end+valueWidth {
			end = s.at(p.Line[i]) + 1 // the number stands behind the line
		}
		d.Text(x+end+4, y+float64(i)*rowHeight+13, number(v))
	}
}

// scale draws a panel's grid and writes below it what its lines stand for.
func (d drawing) scale(x, y float64, unit string, s scale) {
	bottom := y + float64(len(d.Names))*rowHeight
	for i := range s.steps + 1 {
		value := float64(i) * s.step
		at, line, label, text := x+s.at(value), "grid", "small middle", number(value)
		if i == 0 {
			line, label = "axis", "small"
		}
		if i == s.steps && unit != "" {
			text += " " + unit
		}
		d.SVG.Line(at, y, at, bottom+3, `class="`+line+`"`)
		d.Text(at, bottom+14, text, `class="`+label+`"`)
	}
}

// width is about how wide a text is. Which font draws it is the viewer's choice.
func width(text string) float64 { return float64(utf8.RuneCountInString(text)) * letter }

// fit shortens a text that is wider than there is room for.
func fit(text string, room float64) string {
	most := int(room / (letter * 1.1))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return text
}
