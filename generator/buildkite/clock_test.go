package buildkite

import (
	"strings"
	"testing"
	"time"
)

// TestClocksFarApart: a Date that no Duration reaches is said in words.
func TestClocksFarApart(t *testing.T) {
	c := &Client{began: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	for _, at := range []time.Time{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)} {
		if err := c.checkClock(at); err == nil || !strings.Contains(err.Error(), "more than a year behind") {
			t.Error(err)
		}
	}
}
