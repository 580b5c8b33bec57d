package buildkite

import (
	"strings"
	"testing"
	"time"
)

// TestClocksApart: a clock may be off by what the leases allow for, and by two
// seconds more behind, which are the answer's and those of a Date.
func TestClocksApart(t *testing.T) {
	began := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	c := &Client{began: began}
	for off, want := range map[time.Duration]string{
		0: "", time.Minute: "", -62 * time.Second: "",
		61 * time.Second: "ahead", -63 * time.Second: "behind",
		20 * time.Minute:  "the clock here is 20m0s ahead of Buildkite's",
		-20 * time.Minute: "the clock here is 20m0s behind Buildkite's",
	} {
		err := c.checkClock(began.Add(off))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("off by %s: %v, want it %q", off, err, want)
		}
	}
	if err := (&Client{}).checkClock(began); err != nil {
		t.Errorf("where no answer had a Date: %v", err)
	}
}

// TestClocksFarApart: a Date that no Duration reaches is said in words.
func TestClocksFarApart(t *testing.T) {
	c := &Client{began: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	for _, at := range []time.Time{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)} {
		if err := c.checkClock(at); err == nil || !strings.Contains(err.Error(), "more than a year behind") {
			t.Error(err)
		}
	}
}
