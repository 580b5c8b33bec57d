package laboratory

import (
	"errors"
	"strings"
	"time"

	"muster/cmd/invocation"
)

// startupTimes are the shortest and the longest time from a pod's creation to its agent's registration. It is the
// value of a flag, as in "25s-1m10s", or one duration if they are equal.
type startupTimes [2]time.Duration

// Set parses the value of the flag.
func (s *startupTimes) Set(text string) error {
	first, last, both := strings.Cut(text, "-")
	if !both {
		last = first
	}
	shortest, ok := invocation.ReadDuration(first)
	longest, valid := invocation.ReadDuration(last)
	if !ok || !valid || shortest < 0 || longest < shortest {
		return errors.New("no range")
	}
	*s = startupTimes{shortest, longest}
	return nil
}

// String returns the value of the flag.
func (s *startupTimes) String() string { return s[0].String() + "-" + s[1].String() }

// Type returns the name of the value in help texts.
func (*startupTimes) Type() string { return "range" }
