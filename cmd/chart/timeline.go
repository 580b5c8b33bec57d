package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	svg "github.com/ajstarks/svgo/float"
)

// Timeline shows quantities over time, in bands with a common axis.
type Timeline struct {
	// Title may be empty: it is then not drawn.
	Title string
	// Times are the times of the values, oldest first. A value is valid until the next time;
	// the last has no width. With Points, a value is valid at its time only, and drawn as a bar. The
	// axis is in the location of the first time.
	Times  []time.Time
	Points bool
	// From and To are the ends of the axis; if they are zero, those of Times.
	From, To time.Time
	Bands    []Stack
	// Width is the width of the picture, and BandHeight that of a band, in pixels; zero are 1120 and 132.
	Width, BandHeight float64
	// Order names series in the order of their colours; the others follow in that of the bands.
	Order []string
}

// Stack is a band of stacked areas, the first at the bottom.
type Stack struct {
	Title  string
	Series []Series
	// Marks are drawn below the areas; MarksAre describes them in a word or two. Those outside
	// the timeline's times are omitted.
	Marks    []Mark
	MarksAre string
}

// Series is a quantity.
type Series struct {
	Name string
	// Values are those at the timeline's times. NaN, or a value missing at the end, leaves a
	// gap.
	Values []float64
}

// Mark is an event.
type Mark struct {
	At time.Time
	// Label is a number or short word, drawn if there is room.
	Label string
	// Text is shown when the pointer is on the mark.
	Text string
	// Callout labels a line through the band; if it is empty, neither is drawn.
	Callout string
}

// Sizes of a timeline, in pixels.
const (
	scaleWidth = 36 // left of the bands
	bandHeight = 132
	headHeight = 28
	markHeight = 28
	markLine   = 10
	markGap    = 4 // between two labels
	thinnest   = 2 // width of a run of values, however short it is
	entryGap   = 8 // between two entries of a legend
	barWidth   = 2.5
)

// timeline is a timeline that is being drawn.
type timeline struct {
	*svg.SVG
	Timeline
	axis        timeAxis
	left, right float64
	top, bottom float64 // of the bands
	height      float64 // of a band
	// names are the names of the series: a name has the same colour in all bands.
	names []string
}

// SVG draws the timeline.
func (t Timeline) SVG() []byte {
	var out bytes.Buffer
	width, height := t.Size()
	canvas := newCanvas(&out, t.Title, timelineStyle(), width, height)
	d := timeline{SVG: canvas, Timeline: t, left: margin + scaleWidth, right: width - margin, bottom: height - axisHeight - margin}
	d.top, d.height = t.header(), t.bandHeight()
	for _, name := range t.Order {
		d.class(name)
	}
	for _, b := range t.Bands {
		for _, s := range b.Series {
			d.class(s.Name)
		}
	}
	if len(t.Times) > 0 {
		d.axis = newTimeAxis(cmp.Or(t.From, t.Times[0]), cmp.Or(t.To, t.Times[len(t.Times)-1]), d.right-d.left)
	}
	d.times()
	y := d.top
	for _, b := range t.Bands {
		d.band(y+headHeight, b)
		d.marks(y+headHeight+d.height, b)
		y += headHeight + d.height + b.marksHeight()
	}
	d.End()
	return out.Bytes()
}

func (t Timeline) bandHeight() float64 { return cmp.Or(t.BandHeight, bandHeight) }

// header returns the height of the title.
func (t Timeline) header() float64 {
	if t.Title == "" {
		return 0
	}
	return header
}

// Size returns the width and the height of the picture, in pixels.
func (t Timeline) Size() (width, height float64) {
	height = t.header() + axisHeight + margin
	for _, b := range t.Bands {
		height += headHeight + t.bandHeight() + b.marksHeight()
	}
	return cmp.Or(t.Width, chartWidth), height
}

func (b Stack) marksHeight() float64 {
	if b.MarksAre != "" {
		return markHeight
	}
	return 0
}

// colours are the fills of the series on light and dark pages, in the order of [Timeline].Order.
// The luminance of neighbours in a stack differs by a factor of two or more.
var colours = [][2]string{
	{"#bc4c00", "#f0883e"}, {"#0a3069", "#cae8ff"}, {"#0969da", "#58a6ff"}, {"#96a4b3", "#57606a"}, {"#6639ba", "#bc8cff"},
}

func timelineStyle() string {
	const light, dark = ".mark { stroke: #1f2328; stroke-width: 1.5 }\n", ".mark { stroke: #f0f6fc }\n"
	return palette(".s%d { fill: %s }\n", colours, light, dark)
}

// class returns the class attribute of a series.
func (d *timeline) class(name string) string {
	i := slices.Index(d.names, name)
	if i < 0 {
		i = len(d.names)
		d.names = append(d.names, name)
	}
	return fmt.Sprintf(`class="s%d"`, i%len(colours))
}

// times draws the axis of time and its lines through all bands.
func (d *timeline) times() {
	if len(d.Times) == 0 {
		return
	}
	for _, tick := range d.axis.ticks() {
		x := d.left + d.axis.at(tick.at)
		d.SVG.Line(x, d.top+headHeight, x, d.bottom, `class="grid"`)
		if half := width(tick.label) / 2; x+half <= d.right+margin {
			d.Text(x, d.bottom+15, tick.label, `class="small middle"`)
		}
	}
	if d.top > 0 {
		d.Text(d.right, 28, d.Times[0].Format("2 Jan 2006 MST"), `class="small end"`)
	}
}

// band draws a stack whose upper edge is at y.
func (d *timeline) band(y float64, b Stack) {
	d.Text(margin, y-8, b.Title, `class="head"`)
	sums := make([]float64, len(d.Times))
	var layers [][2][]float64 // each series' lower and upper edge
	for _, s := range b.Series {
		lower := append([]float64(nil), sums...)
		upper := make([]float64, len(sums))
		for i := range sums {
			upper[i] = math.NaN()
			if i < len(s.Values) && !math.IsNaN(s.Values[i]) {
				sums[i] += s.Values[i]
				upper[i] = sums[i]
			}
		}
		layers = append(layers, [2][]float64{lower, upper})
	}
	s := newScale(3, d.height, sums...)
	s.draw(d.SVG, d.left, d.right, y+d.height, "axis")
	for i, l := range layers {
		d.Group(`class="series"`)
		d.SVG.Title(b.Series[i].Name)
		if path := d.area(y+d.height, s, l[0], l[1]); path != "" {
			d.Path(path, d.class(b.Series[i].Name))
		}
		d.Gend()
	}
	d.legend(y-8, b)
}

// legend draws the names of the series and the marks above a band, from the right.
func (d *timeline) legend(y float64, b Stack) {
	x := d.right
	entry := func(name string) float64 {
		x -= width(name)
		d.Text(x, y, name)
		x -= barHeight + 5
		return x
	}
	if b.MarksAre != "" {
		at := entry(b.MarksAre) + barHeight/2
		d.SVG.Line(at, y-markLine, at, y, `class="mark"`)
		x -= entryGap
	}
	for _, s := range slices.Backward(b.Series) {
		if len(b.Series) > 1 || s.Name != b.Title {
			d.Rect(entry(s.Name), y-10, barHeight, barHeight, d.class(s.Name))
			x -= entryGap
		}
	}
}

// area returns the outline between two edges, in steps: a closed path for each run of known
// values. bottom is the position of zero.
func (d *timeline) area(bottom float64, s scale, lower, upper []float64) string {
	var path strings.Builder
	for from := 0; from < len(upper); {
		if math.IsNaN(upper[from]) {
			from++
			continue
		}
		if d.Points {
			if upper[from] > lower[from] {
				x := min(max(d.left, d.left+d.axis.at(d.Times[from])-barWidth/2), d.right-barWidth)
				fmt.Fprintf(&path, "M%s %sH%sV%sH%sZ", short(x), short(bottom-s.at(upper[from])), short(x+barWidth), short(bottom-s.at(lower[from])), short(x))
			}
			from++
			continue
		}
		to := from
		for to < len(upper) && !math.IsNaN(upper[to]) {
			to++
		}
		d.closed(&path, bottom, s, lower, upper, from, to)
		from = to
	}
	return path.String()
}

// closed appends the path of one run of values: along the upper edge and back along the lower.
func (d *timeline) closed(path *strings.Builder, bottom float64, s scale, lower, upper []float64, from, to int) {
	x := func(i int) float64 { return d.left + d.axis.at(d.Times[min(i, len(d.Times)-1)]) }
	y := func(v float64) float64 { return bottom - s.at(v) }
	fmt.Fprintf(path, "M%s %s", short(x(from)), short(y(upper[from])))
	for i := from + 1; i < to; i++ {
		if upper[i] != upper[i-1] {
			fmt.Fprintf(path, "H%sV%s", short(x(i)), short(y(upper[i])))
		}
	}
	end := max(x(to), x(from)+thinnest)
	fmt.Fprintf(path, "H%sV%s", short(end), short(y(lower[to-1])))
	for i := to - 1; i > from; i-- {
		if lower[i] != lower[i-1] {
			fmt.Fprintf(path, "H%sV%s", short(x(i)), short(y(lower[i-1])))
		}
	}
	fmt.Fprintf(path, "H%sZ", short(x(from)))
}

// marks draws the marks below the areas, from y down.
func (d *timeline) marks(y float64, b Stack) {
	if len(b.Marks) == 0 {
		return
	}
	line, free := y+markHeight-markLine, 0.0
	for _, m := range b.Marks {
		if len(d.Times) == 0 || m.At.Before(d.axis.from) || m.At.After(d.axis.to) {
			continue
		}
		x := d.left + d.axis.at(m.At)
		d.Group(`class="happened"`)
		d.SVG.Title(m.Text)
		d.SVG.Line(x, line, x, line+markLine, `class="mark"`)
		d.callout(x, y, m.Callout)
		if half := width(m.Label) / 2; x-half > free && x+half <= d.right+margin {
			d.Text(x, line-4, m.Label, `class="small middle"`)
			free = x + half + markGap
		}
		d.Gend()
	}
}

// callout draws a line through the band that ends at y, and a text on the side with more room.
func (d *timeline) callout(x, y float64, text string) {
	if text == "" {
		return
	}
	d.SVG.Line(x, y-d.height, x, y, `class="axis"`)
	if x > (d.left+d.right)/2 || x-d.left > width(text) {
		d.Text(x-entryGap, y-d.height+16, fit(text, x-entryGap-d.left), `class="head end"`)
	} else {
		d.Text(x+entryGap, y-d.height+16, fit(text, d.right-x-entryGap), `class="head"`)
	}
}

// short formats pixels with at most one decimal.
func short(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
