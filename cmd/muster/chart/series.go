package chart

import (
	"fmt"

	svg "github.com/ajstarks/svgo/float"
)

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
