package generator_test

import (
	"slices"
	"testing"
	"time"

	"muster/generator/explanation"
	"muster/generator/fleet"
	"muster/generator/plan"
)

// TestGapsAreStored: the gaps between jobs are in the commit of the next order, each once, a restarted muster continues
// from them, and every commit can be recomputed.
func TestGapsAreStored(t *testing.T) {
	b := newBench("a")
	b.overlays[0].spec.max, b.overlays[0].spec.reuse = 50, reuse{uptime: time.Hour, auto: true}
	b.fleet = newFleet(b.Now, files(b.overlays))
	g := b.generator()
	for i, step := range []struct {
		after   time.Duration
		jobs    int
		restart bool
		want    string // gaps in state.yaml; "-" without a commit
	}{
		{0, 2, false, ""},
		{15 * time.Second, 0, false, "-"},
		{25 * time.Second, 3, false, ""}, // two agents were needed again after 40 s
		{15 * time.Second, 4, false, "0 0 2 0 0 0"},
		{15 * time.Second, 3, false, "-"},
		{15 * time.Second, 5, true, "0 0 2 0 0 0"},
		{15 * time.Second, 4, false, "-"},
		{10 * time.Second, 5, false, "-"}, // one after 25 s
		{15 * time.Second, 6, false, "0 1 2 0 0 0"},
	} {
		b.now, b.snapshot.Jobs = b.now.Add(step.after), nil
		b.jobs("a", step.jobs)
		if step.restart {
			g = b.generator()
		}
		got := "-"
		if r := tick(t, g); len(r.Operations) == 1 {
			got = r.Operations[0].Decision.State.Gaps.String()
		}
		if got != step.want {
			t.Errorf("step %d: gaps %q, want %q", i, got, step.want)
		}
	}
	if n := verifyAll(t, b.fleet); n != 5 {
		t.Errorf("%d commits, want 5", n)
	}
}

// TestIdleAutoIsExplained: the commit of an order, and its explanation, have the gaps from which the idle time was
// chosen.
func TestIdleAutoIsExplained(t *testing.T) {
	b := newBench("a")
	b.overlays[0].spec.max, b.overlays[0].spec.reuse = 50, reuse{uptime: time.Hour, auto: true}
	b.fleet = newFleet(b.Now, retiringFiles(b.overlays))
	g := b.generator()
	b.jobs("a", plan.MinStartupTimes)
	d := tick(t, g).Operations[0].Decision.Dispatch[0]
	b.now, b.snapshot.Jobs, b.snapshot.Sightings = b.now.Add(40*time.Second), nil, sightings(d, "a")
	tick(t, g)
	for range 4 { // until it is retired, and the gaps are long
		b.now = b.now.Add(2 * time.Minute)
		tick(t, g)
	}
	b.jobs("a", 1)
	r := tick(t, g)
	if got := kinds(r.Operations); got != "a: dispatch 1" {
		t.Fatal(got)
	}
	c := explanation.Config{Repository: b.remote, Overlays: "overlays", Loader: fleet.NewLoader("overlays"), Now: b.now}
	found, err := c.Explain(t.Context(), explanation.Question{Name: r.Head.Commit})
	const want = "This idle time is chosen from start-up times and 20 recent gaps between jobs: 0 were at most 15 seconds."
	if err != nil || len(found) != 1 || !slices.Contains(found[0].Why, want) {
		t.Errorf("explained as %+v: %v", found, err)
	}
}
