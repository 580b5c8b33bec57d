package plan_test

import (
	"testing"
	"time"

	"muster/generator/plan"
)

// TestFirstAt: when the first agent of a dispatch came is known to a process that was
// there, to the look, and to no other.
func TestFirstAt(t *testing.T) {
	start := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	order := func(after time.Duration) []plan.Overlay {
		return []plan.Overlay{{Name: "default", Dispatches: []plan.Dispatch{{ID: "default-0000000a", Agents: 2, At: start.Add(after)}}}}
	}
	look := func(r *plan.Registrations, o []plan.Overlay, after time.Duration, indexes ...string) {
		var s plan.Snapshot
		for _, i := range indexes {
			s.Agents = append(s.Agents, plan.Agent{Tags: []string{"dispatch=default-0000000a", "index=" + i}})
		}
		r.Note(s)
		r.Reconcile(o, start.Add(after))
	}
	for what, x := range map[string]struct {
		ordered time.Duration // after the first look
		first   bool          // the first look finds an agent
		want    time.Duration // below nothing: not known
	}{
		"ordered by this process":            {0, false, 30 * time.Second},
		"ordered by another since":           {10 * time.Second, false, 30 * time.Second},
		"met before anybody came":            {-time.Minute, false, 30 * time.Second},
		"met when the first one was there":   {-time.Minute, true, -1},
		"seen before the order's commit was": {0, true, 0},
	} {
		var r plan.Registrations
		if x.ordered >= 0 && !x.first {
			look(&r, nil, 0)
		} else if x.first && x.ordered == 0 {
			look(&r, nil, -time.Second)
			look(&r, order(x.ordered), 0, "1")
		} else if x.first {
			look(&r, order(x.ordered), 0, "1")
		} else {
			look(&r, order(x.ordered), 0)
		}
		look(&r, order(x.ordered), 15*time.Second, map[bool][]string{true: {"1"}, false: {"7"}}[x.first]...) // 7 is not one of it
		look(&r, order(x.ordered), 30*time.Second, "1")
		look(&r, order(x.ordered), 45*time.Second, "0")
		switch got := r.Seen("default-0000000a").FirstAt; {
		case (got == nil) != (x.want < 0):
			t.Errorf("%s: %v", what, got)
		case got != nil && !got.Equal(start.Add(x.want)):
			t.Errorf("%s: after %s, want %s", what, got.Sub(start), x.want)
		}
	}
}
