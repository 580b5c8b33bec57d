package invocation

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// number is a type of numbers in flags and settings.
type number interface{ int | int64 | uint64 | float64 }

// ReadNumber parses a decimal number between two bounds.
func ReadNumber[T number](text string, least, most T) (T, error) {
	var n T
	var err error
	kind := "a whole number"
	switch p := any(&n).(type) {
	case *int:
		*p, err = strconv.Atoi(text)
	case *int64:
		*p, err = strconv.ParseInt(text, 10, 64)
	case *uint64:
		*p, err = strconv.ParseUint(text, 10, 64)
	case *float64:
		kind = "a number"
		*p, err = strconv.ParseFloat(text, 64)
	}
	if err == nil && n >= least && n <= most { // NaN is not
		return n, nil
	}
	bounds := fmt.Sprintf("from %v to %v", least, most)
	if float64(most) >= math.MaxInt {
		bounds = fmt.Sprintf("of %v or more", least)
	}
	return 0, fmt.Errorf("must be %s %s, got %q", kind, bounds, text)
}

// NumberVar adds a flag with a number between two bounds.
func NumberVar[T number](f *pflag.FlagSet, n *T, name, short string, value, least, most T, usage string) {
	*n = value
	parse := func(text string) error {
		read, err := ReadNumber(text, least, most)
		if err == nil {
			*n = read
		}
		return err
	}
	ParsedVar(f, name, short, "number", fmt.Sprint(value), "1", usage, parse)
}
