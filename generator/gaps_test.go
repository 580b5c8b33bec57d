package generator_test

import (
	"slices"
	"testing"
	"time"

	"muster/generator/explanation"
	"muster/generator/fleet"
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
	c := explanation.Config{Repository: b.remote, Overlays: "overlays", Loader: fleet.NewLoader("overlays"), Now: b.now}
	found, err := c.Explain(t.Context(), explanation.Question{Name: b.fleet.head().id})
	const want = "0 of the latest 3 gaps between jobs ended within 20 seconds."
	if err != nil || len(found) != 1 || !slices.Contains(found[0].Why, want) {
		t.Errorf("explained as %+v: %v", found, err)
	}
	if n := verifyAll(t, b.fleet); n != 5 {
		t.Errorf("%d commits, want 5", n)
	}
}
