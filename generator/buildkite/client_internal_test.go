package buildkite

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNote: what answers tell of a call's time and of the limits. Answers to requests
// that were sent together come in any order, those of a proxy on the way say no limit
// and may say no time, and Buildkite's clock may be set back between two calls.
func TestNote(t *testing.T) {
	at := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	theirs := at.Add(3 * time.Hour)
	org, user := Limit{Limit: 200, Remaining: 150}, Limit{Limit: 50, Remaining: 40}
	var c Client
	for _, call := range []struct {
		what    string
		answers []notice
		sent    []time.Duration // after the beginning of the call
	}{
		{"in another order", []notice{{date: theirs, org: org}, {date: theirs.Add(20 * time.Second), user: user}, {date: theirs.Add(10 * time.Second)}}, []time.Duration{0, 20 * time.Second, 20 * time.Second}},
		{"without a time at last", []notice{{date: theirs.Add(time.Minute)}, {date: theirs.Add(time.Minute + 5*time.Second)}, {}}, []time.Duration{0, 5 * time.Second, 5 * time.Second}},
		{"their clock was set back", []notice{{date: theirs.Add(-time.Hour)}, {date: theirs.Add(-time.Hour + 7*time.Second)}}, []time.Duration{0, 7 * time.Second}},
		{"without a time at first", []notice{{failed: true}, {date: theirs}, {date: theirs.Add(9 * time.Second), refused: true}}, []time.Duration{0, 0, 9 * time.Second}},
	} {
		c.at, c.began, c.budget = at, time.Time{}, budget{} // as a call begins
		before := c.stats.Requests
		for _, n := range call.answers {
			c.note(n)
		}
		var sent []time.Duration
		for _, s := range c.budget.sent {
			sent = append(sent, s.Sub(at))
		}
		if !slices.Equal(sent, call.sent) || c.stats.Requests-before != int64(len(call.answers)) {
			t.Errorf("%s: requests at %s, %d counted, want %s", call.what, sent, c.stats.Requests-before, call.sent)
		}
		if s := c.Stats(); s.Org != org || s.User != user {
			t.Errorf("%s: limits %+v, %+v", call.what, s.Org, s.User)
		}
	}
	if c.stats.Failures != 1 || c.stats.RateLimited != 1 {
		t.Errorf("%+v", c.stats)
	}
}

// TestClockSkew: a clock may differ by the leases' allowance, and be behind by two more seconds:
// those of the response and the resolution of Date.
func TestClockSkew(t *testing.T) {
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

// TestLargeClockSkew: a difference beyond a Duration is reported in words.
func TestLargeClockSkew(t *testing.T) {
	c := &Client{began: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	for _, at := range []time.Time{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)} {
		if err := c.checkClock(at); err == nil || !strings.Contains(err.Error(), "more than a year behind") {
			t.Error(err)
		}
	}
}

// TestForgetsRequests: a server that tells no limit costs no memory either: a month of
// requests is as many as those of a minute.
func TestForgetsRequests(t *testing.T) {
	for _, perMinute := range []int{0, 25} {
		var b budget
		at := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
		for range 30 * 24 * 4 {
			b.note(at)
			at = at.Add(15 * time.Second)
			b.begin(at, perMinute)
		}
		if len(b.sent) > 4 {
			t.Errorf("with a limit of %d, %d requests are remembered", perMinute, len(b.sent))
		}
	}
}
