package preview

import (
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
)

// TestPlayOverrides asserts that overrides of the compared policies, which begin with a commit, do not
// apply to past jobs, and that those which were in force then do, at their time.
func TestPlayOverrides(t *testing.T) {
	begin := time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)
	var observed []plan.Observation
	for i := range 10 {
		at := begin.Add(time.Duration(i) * 3 * time.Minute)
		observed = append(observed, plan.Observation{At: at, Until: at, Queue: "default", Jobs: []plan.Demand{{Overlays: []string{"default"}, Pending: 8 * (i % 2), Oldest: &at}}})
	}
	before := plan.Policy{Queue: "default", Max: 2, Lease: 10 * time.Minute, IdleTimeout: time.Minute}
	after := before
	after.Max = 30
	var past []plan.Override
	play := func(before, after plan.Policy) Change {
		c := Change{Overlay: "default", Kind: Changed, Queue: "default", Before: before, After: after}
		if err := c.Play(t.Context(), observed, past, false); err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain := play(before, after)
	most := 50
	for _, p := range []*plan.Policy{&before, &after} {
		p.Overrides = []plan.Override{{Until: begin.AddDate(0, 0, 7), Max: &most}}
	}
	overridden := play(before, after)
	if plain.Replay == nil || overridden.Replay == nil {
		t.Fatalf("nothing is simulated: %s, %s", plain.NotPlayed, overridden.NotPlayed)
	}
	if a, b := plain.Replay, overridden.Replay; a.Before.Wait != b.Before.Wait || a.After.Wait != b.After.Wait || a.Before.Wait == a.After.Wait {
		t.Errorf("mean waits are %s and %s, with overrides %s and %s", a.Before.Wait.Mean, a.After.Wait.Mean, b.Before.Wait.Mean, b.After.Wait.Mean)
	}
	without := before
	without.Overrides = nil
	if c := play(without, before); c.Replay != nil || !strings.Contains(c.NotPlayed, "Changed overrides apply from their commit on") {
		t.Errorf("an override alone is simulated: %s", c.NotPlayed)
	}
	none := 0
	for name, c := range map[string]struct {
		override plan.Override
		same     bool // as without it
	}{
		"in force":     {plan.Override{Since: begin.Add(-time.Hour), Until: begin.Add(12 * time.Hour), Max: &none}, false},
		"until later":  {plan.Override{Until: begin.Add(12 * time.Hour), Max: &most}, false},
		"over":         {plan.Override{Since: begin.Add(-2 * time.Hour), Until: begin.Add(-time.Hour), Max: &none}, true},
		"not yet made": {plan.Override{Since: begin.Add(20 * time.Hour), Until: begin.Add(30 * time.Hour), Max: &none}, true},
	} {
		past = []plan.Override{c.override}
		with := play(plain.Before, plain.After).Replay
		if same := with.Before.Wait == plain.Replay.Before.Wait; same != c.same {
			t.Errorf("%s: the mean wait is %s, and %s without the override", name, with.Before.Wait.Mean, plain.Replay.Before.Wait.Mean)
		}
	}
}
