package forecast

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Series are whole numbers from zero on, as text in the form "0*96 12 34*2": a number, and
// how often it stands there. Zeros at the end are left out.
type Series []int

// Bounds of what is read.
const (
	// longestSeries is how many numbers one has at most: the minutes of a week.
	longestSeries = 7 * 24 * 60
	largestNumber = 1_000_000_000
)

var errSeries = errors.New("it is no list of whole numbers, as in 0*96 12 34*2")

// MarshalText implements [encoding.TextMarshaler].
func (s Series) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Series) String() string {
	end := len(s)
	for end > 0 && s[end-1] == 0 {
		end--
	}
	var words []string
	for i := 0; i < end; {
		n := i + 1
		for n < end && s[n] == s[i] {
			n++
		}
		word := strconv.Itoa(s[i])
		if n-i > 1 {
			word += "*" + strconv.Itoa(n-i)
		}
		words = append(words, word)
		i = n
	}
	return strings.Join(words, " ")
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Series) UnmarshalText(text []byte) error {
	*s = nil
	for _, word := range strings.Fields(string(text)) {
		value, often, many := strings.Cut(word, "*")
		n, err := strconv.Atoi(value)
		times := 1
		if many && err == nil {
			times, err = strconv.Atoi(often)
		}
		if err != nil || n < 0 || n > largestNumber || times < 1 || len(*s)+times > longestSeries {
			return errSeries
		}
		*s = append(*s, slices.Repeat(Series{n}, times)...)
	}
	return nil
}

// at is number i; zero where there is none.
func (s Series) at(i int) int {
	if i < 0 || i >= len(s) {
		return 0
	}
	return s[i]
}

// sized is a copy with n numbers.
func (s Series) sized(n int) Series {
	c := make(Series, n)
	copy(c, s)
	return c
}

// equal reports whether two series say the same: zeros at the end say nothing.
func (s Series) equal(other Series) bool {
	for i := range max(len(s), len(other)) {
		if s.at(i) != other.at(i) {
			return false
		}
	}
	return true
}

// sum adds up the numbers from one to before another.
func (s Series) sum(from, to int) int {
	n := 0
	for i := from; i < to; i++ {
		n += s.at(i)
	}
	return n
}
