package chart

import (
	"math"
	"strconv"
	"strings"
)

// scale is where values stand on an axis that begins with zero.
type scale struct {
	step  float64 // from tick to tick
	steps int
	width float64
}

// tickWidth is the room that a number below the axis needs.
const tickWidth = 36

// newScale makes the scale of a panel: up to its largest value or least, in
// steps of 1, 2 or 5 and zeros, as many as there is room for, at most five.
func newScale(least, width float64, values ...float64) scale {
	highest := least
	for _, v := range values {
		highest = max(highest, v)
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

// number is a value as it is written at its bar: two digits at least.
func number(v float64) string {
	switch {
	case v == 0 || v >= 9.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 0.05:
		return "<0.1"
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}
