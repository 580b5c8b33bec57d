package generator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/generator"
)

// TestUnreadIsAProblem: what cannot be read of Buildkite is among the problems for
// as long as that lasts, also while a tick fails, and is logged when it begins and
// when it is over.
func TestUnreadIsAProblem(t *testing.T) {
	const text = "clusters cannot be read: no scope"
	b := newBench("a")
	b.snapshot.Unread = text
	var shown []bool
	b.run(t, 15*time.Second, func(ticks int, _ generator.Result, _ error) bool { return ticks < 4 }, func(c *generator.Config) {
		c.Watch = reports(func(r generator.Report) {
			is := false
			for _, p := range r.Problems {
				is = is || p.Words() == text && p.Reason == "unread"
			}
			shown = append(shown, is)
			switch len(shown) {
			case 2:
				b.err = context.DeadlineExceeded
			case 3:
				b.err, b.snapshot.Unread = nil, ""
			}
		})
	})
	if len(shown) != 4 || !shown[0] || !shown[1] || !shown[2] || shown[3] {
		t.Errorf("among the problems of each tick: %v", shown)
	}
	for _, want := range []string{`level=WARN msg="` + text + `" reason=unread`, `level=INFO msg="resolved: ` + text + `" reason=unread duration=45s`} {
		if n := strings.Count(b.log.String(), want); n != 1 {
			t.Errorf("%d lines %s, want one:\n%s", n, want, b.log.String())
		}
	}
}
