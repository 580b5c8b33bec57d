package preview

import (
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
)

// TestPlayIgnoresOverrides asserts that overrides, which begin with a commit, do not apply to past jobs.
func TestPlayIgnoresOverrides(t *testing.T) {
	begin := time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)
	var observed []plan.Observation
	for i := range 10 {
		at := begin.Add(time.Duration(i) * 3 * time.Minute)
		observed = append(observed, plan.Observation{At: at, Until: at, Queue: "default", Jobs: []plan.Demand{{Overlays: []string{"default"}, Pending: 8 * (i % 2), Oldest: &at}}})
	}
	before := plan.Policy{Queue: "default", Max: 2, Lease: 10 * time.Minute, IdleTimeout: time.Minute}
	after := before
	after.Max = 30
	play := func(before, after plan.Policy) Change {
		c := Change{Overlay: "default", Kind: Changed, Queue: "default", Before: before, After: after}
		if err := c.Play(t.Context(), observed, false); err != nil {
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
	if c := play(without, before); c.Replay != nil || !strings.Contains(c.NotPlayed, "Overrides apply from their commit on") {
		t.Errorf("an override alone is simulated: %s", c.NotPlayed)
	}
}
