// Package chart draws what muster has to show. A chart knows nothing of what its
// numbers mean, and takes its colours from whether its viewer prefers light or
// dark. docs/design.md says what draws which kind.
package chart

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	svg "github.com/ajstarks/svgo/float"
)

// Panels are small charts of points, one for each case: what something costs to the
// right, on a logarithmic scale, and what it brings upwards, on a linear one from zero:
// the less of both the better. Each point has its name beside it. So nothing is told by
// colour alone.
type Panels struct {
	Title string
	// Keys say what the marked points are, the others, and the line across each panel.
	Keys [3]string
	// X and Y say what the axes are.
	X, Y   string
	Panels []Panel
}

// Panel is one of them.
type Panel struct {
	Title  string
	Points []Point
	// Line is drawn across it, where it is not zero.
	Line float64
}

// Point is what one thing costs and brings. Those that are marked stand out, and a line
// joins those of them that no other marked one is below and left of: the frontier.
type Point struct {
	Name   string
	X, Y   float64
	Marked bool
}

// The measures of a chart, in pixels.
const (
	chartWidth = 1120
	margin     = 16
	header     = 44
	rowHeight  = 18
	barHeight  = 12
	axisHeight = 20
	letter     = 6.6 // of the text's size, on average

	inRow      = 3
	panelHead  = 28
	panelFoot  = 44
	plotHeight = 250
	plotLeft   = 40
	dot        = 4.0
	keyHeight  = 22
)

const style = `
text { font: 12px 'Liberation Sans', Arial, Helvetica, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: bold }
.head { font-weight: bold }
.small { font-size: 10.5px; fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.page { fill: #ffffff }
.other { fill: #6e7781 }
.marked { fill: #0969da }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.axis { stroke: #59636e; stroke-width: 1 }
.line { stroke: #bc4c00; stroke-width: 2 }
.frontier { stroke: #0969da; stroke-width: 1.5; fill: none }
.leader { stroke: #98a2ad; stroke-width: 0.7 }
.ours { fill: #0550ae }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.small { fill: #9198a1 }
.page { fill: #0d1117 }
.other { fill: #98a2ad }
.marked { fill: #4493f8 }
.grid { stroke: #30363d }
.axis { stroke: #9198a1 }
.line { stroke: #f0883e }
.frontier { stroke: #4493f8 }
.leader { stroke: #59636e }
.ours { fill: #79c0ff }
}
`

// SVG draws the chart.
func (p Panels) SVG() []byte {
	var out bytes.Buffer
	d := svg.New(&out)
	rows := (len(p.Panels) + inRow - 1) / inRow
	height := float64(header + keyHeight + rows*(panelHead+plotHeight+panelFoot) + margin)
	d.Startview(chartWidth, height, 0, 0, chartWidth, height)
	d.Title(p.Title)
	d.Style("text/css", style)
	d.Rect(0, 0, chartWidth, height, `class="page"`)
	d.Text(margin, 28, p.Title, `class="title"`)
	x := float64(margin)
	for i, class := range []string{"marked", "other"} {
		d.Circle(x+dot, header+6, dot, `class="`+class+`"`)
		d.Text(x+14, header+10, p.Keys[i])
		x += width(p.Keys[i]) + 34
	}
	d.Line(x, header+6, x+16, header+6, `class="line"`)
	d.Text(x+22, header+10, p.Keys[2])
	wide := float64(chartWidth-margin) / inRow
	for i, panel := range p.Panels {
		left := margin + float64(i%inRow)*wide + plotLeft
		top := float64(header + keyHeight + panelHead + i/inRow*(panelHead+plotHeight+panelFoot))
		newPlot(d, left, top, wide-plotLeft-margin, panel).draw(p.X, p.Y)
	}
	d.End()
	return out.Bytes()
}

// plot is one panel on its way to the canvas.
type plot struct {
	*svg.SVG
	panel            Panel
	left, top, width float64
	low, high        float64 // of the logarithmic axis
	scale            scale
	spots            []spot
	taken            []box // by labels and dots
}

// spot is a place with one point or several.
type spot struct {
	x, y   float64
	label  string
	marked bool
}

// box is a part of the plane.
type box struct{ left, top, right, bottom float64 }

func (b box) meets(other box) bool {
	return b.left < other.right && other.left < b.right && b.top < other.bottom && other.top < b.bottom
}

// newPlot settles a panel's scales. Its linear one ends a little above the marked points and
// the line: what is far above them is drawn at the edge, with its number.
func newPlot(canvas *svg.SVG, left, top, width float64, panel Panel) *plot {
	p := &plot{SVG: canvas, panel: panel, left: left, top: top, width: width, low: math.Inf(1), high: 0}
	highest := 1.2 * panel.Line
	for _, point := range panel.Points {
		p.low, p.high = min(p.low, point.X), max(p.high, point.X)
		if point.Marked {
			highest = max(highest, 1.1*point.Y)
		}
	}
	if p.high <= 0 {
		p.low, p.high = 1, 1
	}
	p.low = max(p.low, p.high/1e6)
	if spread := p.high / p.low; spread < 2 {
		p.low, p.high = p.low/math.Sqrt(2/spread), p.high*math.Sqrt(2/spread)
	}
	room := math.Pow(p.high/p.low, 0.12)
	p.low, p.high = p.low/math.Pow(p.high/p.low, 0.1), p.high*room
	p.scale = newScale(10, plotHeight, highest)
	return p
}

func (p *plot) x(v float64) float64 {
	v = max(v, p.low)
	return p.left + math.Round(math.Log(v/p.low)/math.Log(p.high/p.low)*p.width*10)/10
}

func (p *plot) y(v float64) float64 {
	return p.top + plotHeight - min(p.scale.at(v), plotHeight)
}

// draw draws the panel.
func (p *plot) draw(x, y string) {
	p.Text(p.left-plotLeft+4, p.top-14, p.panel.Title, `class="head"`)
	p.Text(p.left-plotLeft+4+width(p.panel.Title)*1.3+8, p.top-14, y, `class="small"`)
	p.axes(x)
	if p.panel.Line > 0 {
		p.Line(p.left, p.y(p.panel.Line), p.left+p.width, p.y(p.panel.Line), `class="line"`)
	}
	p.frontier()
	p.gather()
	if p.panel.Line > 0 {
		at := p.y(p.panel.Line)
		p.taken = append(p.taken, box{p.left, at - 2, p.left + p.width, at + 2})
	}
	for _, s := range p.spots {
		class := "other"
		if s.marked {
			class = "marked"
		}
		p.Circle(s.x, s.y, dot, `class="`+class+`"`)
	}
	for _, s := range p.spots {
		p.label(s)
	}
}

// axes draws the grid with its numbers.
func (p *plot) axes(name string) {
	bottom := p.top + plotHeight
	for i := range p.scale.steps + 1 {
		value, line := float64(i)*p.scale.step, "grid"
		if i == 0 {
			line = "axis"
		}
		p.Line(p.left, p.y(value), p.left+p.width, p.y(value), `class="`+line+`"`)
		p.Text(p.left-6, p.y(value)+4, number(value), `class="small end"`)
	}
	last := math.Inf(-1)
	for power := math.Pow(10, math.Floor(math.Log10(p.low))); power <= p.high; power *= 10 {
		for _, leading := range []float64{1, 2, 3, 5, 7} {
			value := leading * power
			if at := p.x(value); value >= p.low && value <= p.high && at-last > tickWidth*0.8 {
				p.Line(at, p.top, at, bottom+3, `class="grid"`)
				p.Text(at, bottom+15, number(value), `class="small middle"`)
				last = at
			}
		}
	}
	p.Text(p.left+p.width, bottom+30, name, `class="small end"`)
}

// frontier joins the marked points that no other marked one is better than.
func (p *plot) frontier() {
	var marked []Point
	for _, point := range p.panel.Points {
		if point.Marked {
			marked = append(marked, point)
		}
	}
	slices.SortStableFunc(marked, func(a, b Point) int {
		if a.X != b.X {
			return compare(a.X, b.X)
		}
		return compare(a.Y, b.Y)
	})
	var xs, ys []float64
	best := math.Inf(1)
	for _, point := range marked {
		if point.Y >= best {
			continue
		}
		if len(xs) > 0 { // what is between two points is had by neither
			xs, ys = append(xs, p.x(point.X)), append(ys, p.y(best))
		}
		best = point.Y
		xs, ys = append(xs, p.x(point.X)), append(ys, p.y(point.Y))
	}
	if len(xs) > 1 {
		p.Polyline(xs, ys, `class="frontier"`)
	}
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// gather makes one spot of points that lie upon each other, and takes their place.
func (p *plot) gather() {
	for _, point := range p.panel.Points {
		name := point.Name
		if p.scale.at(point.Y) > plotHeight {
			name += " ↑" + number(point.Y)
		}
		x, y := p.x(point.X), p.y(point.Y)
		i := slices.IndexFunc(p.spots, func(s spot) bool {
			return s.marked == point.Marked && math.Hypot(s.x-x, s.y-y) < dot
		})
		if i >= 0 {
			p.spots[i].label += ", " + name
			continue
		}
		p.spots = append(p.spots, spot{x, y, name, point.Marked})
		p.taken = append(p.taken, box{x - dot, y - dot, x + dot, y + dot})
	}
}

// label writes a spot's names as near as there is room, with a line to it from further off;
// in lines one below the other where they are many.
func (p *plot) label(s spot) {
	lines := wrap(s.label, p.width*0.6)
	w, h := 0.0, float64(len(lines))*labelHeight
	for _, line := range lines {
		w = max(w, width(line)*labelSize)
	}
	place, ok := p.room(s, w, h)
	if !ok {
		return // the panel is full: the table has it
	}
	p.taken = append(p.taken, place)
	x, y := min(max(s.x, place.left), place.right), min(max(s.y, place.top), place.bottom)
	if math.Hypot(x-s.x, y-s.y) > 3*dot {
		p.Line(s.x, s.y, x, y, `class="leader"`)
	}
	class := "small"
	if s.marked {
		class = "small ours"
	}
	for i, line := range lines {
		p.Text(place.left, place.top+float64(i+1)*labelHeight-3, line, `class="`+class+`"`)
	}
}

// The size of labels, and how far from their points they may be.
const (
	labelHeight = 12.0
	labelSize   = 0.84
	farthest    = 260.0
)

// room finds a place for a label of some size: right, left, above or below, as near as may be.
func (p *plot) room(s spot, w, h float64) (box, bool) {
	for away := dot + 2; away < farthest; away += 6 {
		for step := range 16 {
			angle := float64(step) * math.Pi / 8
			if step%2 == 1 {
				angle = -angle - math.Pi/8
			}
			cx, cy := s.x+math.Cos(angle)*(away+w/2), s.y+math.Sin(angle)*(away+h/2)
			b := box{cx - w/2, cy - h/2, cx + w/2, cy + h/2}
			inside := b.left >= p.left && b.right <= p.left+p.width && b.top >= p.top-2 && b.bottom <= p.top+plotHeight-1
			if inside && !slices.ContainsFunc(p.taken, b.meets) {
				return b, true
			}
		}
	}
	return box{}, false
}

// wrap breaks names that are separated by commas into lines.
func wrap(text string, most float64) []string {
	var lines []string
	for _, name := range strings.SplitAfter(text, ", ") {
		if n := len(lines); n > 0 && width(lines[n-1]+name)*labelSize <= most {
			lines[n-1] += name
			continue
		}
		lines = append(lines, name)
	}
	return lines
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
