package laboratory

import (
	"errors"
	"strings"
	"time"

	"muster/cmd/invocation"
)

// durationRange is the value of a flag with the shortest and the longest duration, as in "25s-1m10s", or with one
// duration if they are equal.
type durationRange [2]time.Duration

// Set parses the value of the flag.
func (s *durationRange) Set(text string) error {
	first, last, both := strings.Cut(text, "-")
	if !both {
		last = first
	}
	shortest, ok := invocation.ReadDuration(first)
	longest, valid := invocation.ReadDuration(last)
	if !ok || !valid || shortest < 0 || longest < shortest {
		return errors.New("no range")
	}
	*s = durationRange{shortest, longest}
	return nil
}

// String returns the value of the flag.
func (s *durationRange) String() string { return s[0].String() + "-" + s[1].String() }

// Type returns the name of the value in help texts.
func (*durationRange) Type() string { return "range" }
