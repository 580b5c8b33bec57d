package chart

import (
	"bytes"
	"fmt"
	"math"

	svg "github.com/ajstarks/svgo/float"
)

// Dots compares series over rows. Each column is a quantity, with one logarithmic axis for
// all rows, so that dots can be compared along the row and from row to row.
type Dots struct {
	Title string
	// Series are the names, at most MaxSeries.
	Series []string
	// Rows are the names of the rows.
	Rows    []string
	Columns []Column
}

// Column is a quantity.
type Column struct {
	Title string
	// Min is the left end of the axis. Smaller values are drawn there.
	Min float64
	// Values are positive numbers or zero, by row and by series. NaN is not drawn.
	Values [][]float64
}

// The sizes of Dots, in pixels.
const (
	nameWidth  = 104.0
	lane       = 9.0 // height of a series in a row
	rowGap     = 10.0
	columnGap  = 36.0
	dotsHeader = header + 48.0
)

// SVG draws the chart.
func (c Dots) SVG() []byte {
	var out bytes.Buffer
	row := lane*float64(len(c.Series)) + rowGap
	bottom := dotsHeader + row*float64(len(c.Rows))
	height := bottom + axisHeight + margin
	d := newCanvas(&out, c.Title, seriesStyle(), chartWidth, height)
	names(d, c.Series, header+8)
	for i, name := range c.Rows {
		d.Text(margin, dotsHeader+row*(float64(i)+0.5)+4, fit(name, nameWidth), `class="head"`)
		d.Line(margin, dotsHeader+row*float64(i), chartWidth-margin, dotsHeader+row*float64(i), `class="grid"`)
	}
	d.Line(margin, bottom, chartWidth-margin, bottom, `class="grid"`)
	columns := float64(max(1, len(c.Columns)))
	each := (chartWidth - 2*margin - nameWidth - columnGap*columns) / columns
	for i, column := range c.Columns {
		left := margin + nameWidth + float64(i)*(each+columnGap) + columnGap/2
		d.Text(left, dotsHeader-22, column.Title, `class="head"`)
		axis := newLogAxis(column, left, each)
		for _, tick := range axis.ticks() {
			at := axis.at(tick.value)
			d.Line(at, dotsHeader, at, bottom+3, `class="grid"`)
			d.Text(at, bottom+15, tick.label, `class="small middle"`)
			d.Text(at, dotsHeader-5, tick.label, `class="small middle"`)
		}
		for j, values := range column.Values {
			for k, v := range values {
				if !math.IsNaN(v) {
					marker(d, k, axis.at(v), dotsHeader+row*float64(j)+rowGap/2+lane*(float64(k)+0.5))
				}
			}
		}
	}
	d.End()
	return out.Bytes()
}

// logAxis is a logarithmic axis.
type logAxis struct {
	low, high, left, width float64
	below                  bool // values below low are drawn at low
}

func newLogAxis(c Column, left, width float64) logAxis {
	a := logAxis{low: c.Min, high: 2 * c.Min, left: left, width: width}
	for _, values := range c.Values {
		for _, v := range values {
			if v < a.low {
				a.below = true
			}
			if v > a.high { // NaN is not
				a.high = v
			}
		}
	}
	a.high *= math.Pow(a.high/a.low, 0.03)
	return a
}

func (a logAxis) at(v float64) float64 {
	return a.left + math.Round(math.Log(max(v, a.low)/a.low)/math.Log(a.high/a.low)*a.width*10)/10
}

// logTick is a label of a logarithmic axis.
type logTick struct {
	value float64
	label string
}

func (a logAxis) ticks() []logTick {
	least := number(a.low)
	if a.below {
		least = "≤ " + least
	}
	all := []logTick{{a.low, least}}
	for power := math.Pow(10, math.Floor(math.Log10(a.low))); power <= a.high; power *= 10 {
		for _, leading := range []float64{1, 2, 5} {
			value := leading * power
			if value <= a.high && a.at(value)-a.at(all[len(all)-1].value) > tickWidth*0.8 {
				all = append(all, logTick{value, number(value)})
			}
		}
	}
	return all
}

// MaxSeries is the number of series that a chart can distinguish.
const MaxSeries = 5

// seriesStyle returns the style of series 0 to MaxSeries-1.
func seriesStyle() string {
	colours := [MaxSeries][2]string{
		{"#0969da", "#4493f8"}, {"#1a7f37", "#3fb950"}, {"#bc4c00", "#f0883e"}, {"#8250df", "#a371f7"}, {"#59636e", "#9198a1"},
	}
	return palette(".p%[1]d { fill: %[2]s; stroke: %[2]s }\n", colours[:], "", "")
}

// marker draws the marker of a series, so that readers need not distinguish colours.
func marker(d *svg.SVG, series int, x, y float64) {
	const r = 4.0
	class := fmt.Sprintf(`class="p%d"`, series)
	switch series {
	case 0:
		d.Circle(x, y, r, class)
	case 1:
		d.Rect(x-r+0.5, y-r+0.5, 2*r-1, 2*r-1, class)
	case 2:
		d.Polygon([]float64{x, x + r, x - r}, []float64{y - r, y + r - 1, y + r - 1}, class)
	case 3:
		d.Polygon([]float64{x, x + r, x, x - r}, []float64{y - r, y, y + r, y}, class)
	default:
		d.Path(fmt.Sprintf("M%s %sh%sM%s %sv%s", short(x-r), short(y), short(2*r), short(x), short(y-r), short(2*r)), class, `stroke-width="2"`)
	}
}

// names writes the legend: the name of each series next to its marker.
func names(d *svg.SVG, series []string, y float64) {
	x := float64(margin) + 4
	for i, name := range series {
		marker(d, i, x, y-4)
		d.Text(x+10, y, name)
		x += width(name)*1.05 + 36
	}
}
