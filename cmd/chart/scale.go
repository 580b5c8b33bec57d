package chart

import (
	"math"
	"strconv"
	"strings"

	svg "github.com/ajstarks/svgo/float"
)

// scale maps values to an axis that begins at zero.
type scale struct {
	step  float64 // from tick to tick
	steps int
	width float64
}

// tickWidth is the width of a number below the axis.
const tickWidth = 36

// newScale returns the scale up to the largest value or least, with at most five steps of 1, 2
// or 5 times a power of ten, as the width allows.
func newScale(least, width float64, values ...float64) scale {
	highest := least
	for _, v := range values {
		if v > highest { // NaN is not
			highest = v
		}
	}
	if highest == 0 {
		highest = 1
	}
	most := min(5, max(1, math.Floor(width/tickWidth)))
	power := math.Pow(10, math.Floor(math.Log10(highest/most)))
	step := 10 * power
	for _, leading := range []float64{5, 2, 1} {
		if highest <= leading*power*most {
			step = leading * power
		}
	}
	return scale{step: step, steps: int(math.Ceil(highest/step - 1e-9)), width: width}
}

func (s scale) at(v float64) float64 {
	return math.Round(v/(s.step*float64(s.steps))*s.width*10) / 10
}

// draw draws a line and a number for each step, from bottom up. zero is the class of the
// lowest line.
func (s scale) draw(d *svg.SVG, left, right, bottom float64, zero string) {
	line := zero
	for i := range s.steps + 1 {
		value := float64(i) * s.step
		at := bottom - s.at(value)
		d.Line(left, at, right, at, `class="`+line+`"`)
		d.Text(left-6, at+4, number(value), `class="small end"`)
		line = "grid"
	}
}

// number formats a value with at least two digits.
func number(v float64) string {
	switch {
	case v == 0 || v >= 9.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 0.05:
		return "<0.1"
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}
