package generator_test

import (
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
)

const dispatches = "overlays/a/dispatches"

// TestRefusedDispatchIsWithdrawn: the syncer refuses a dispatch, and a person
// corrects the template. The dispatch leaves the syncer's list, so that what is
// ordered next is not stopped by it; its agents are not ordered again while one
// of them may still come, and are once none can.
func TestRefusedDispatchIsWithdrawn(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	g := b.generator()
	d := tick(t, g).Operations[0].Decision.Dispatch[0] // lease 10m
	b.correct()
	b.now = b.now.Add(3 * time.Minute)
	if r := tick(t, g); len(r.Operations) != 0 {
		t.Errorf("after 3 minutes: %q, want nothing yet", kinds(r.Operations))
	}
	b.now = b.now.Add(time.Minute)
	b.snapshot.Jobs = nil
	b.jobs("a", 5) // two of them are new
	if got, want := kinds(tick(t, g).Operations), "a: dispatch 2; a: retire 1"; got != want {
		t.Fatalf("after 4 minutes: %q, want %q", got, want)
	}
	if b.at(path.Join(dispatches, d.ID+".yaml")) != "" || b.at(path.Join(dispatches, "withdrawn", d.ID+".yaml")) == "" {
		t.Error("the dispatch was not moved")
	}
	if list := b.at(path.Join(dispatches, "kustomization.yaml")); strings.Contains(list, d.ID) {
		t.Errorf("the syncer still applies it:\n%s", list)
	}
	for range 7 { // its lease, and the grace
		b.now = b.now.Add(time.Minute)
		if r := tick(t, b.generator()); len(r.Operations) != 0 { // a new one each time: nothing is remembered but in git
			t.Fatalf("%s after the order: %q, want nothing", b.now.Sub(d.At), kinds(r.Operations))
		}
	}
	b.now = d.NotAfter.Add(2*time.Minute + time.Second)
	r := tick(t, g)
	if got, want := kinds(r.Operations), "a: dispatch 3; a: retire 1"; got != want {
		t.Fatalf("when its lease is over: %q, want %q", got, want)
	}
	if failures := r.Operations[0].Decision.State.Breaker.Failures; failures != 0 {
		t.Errorf("%d failures: what was withdrawn is none", failures)
	}
}

// TestWithdrawnAgentsMayCome: the Job was made just before its manifest was
// withdrawn. Its agents count as registered, and nothing is ordered for them.
func TestWithdrawnAgentsMayCome(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	g := b.generator()
	d := tick(t, g).Operations[0].Decision.Dispatch[0]
	b.correct()
	b.now = b.now.Add(4 * time.Minute)
	if got, want := kinds(tick(t, g).Operations), "a: retire 1"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	b.snapshot.Sightings, b.snapshot.Jobs = sightings(d, "a"), nil // they came, and took the jobs
	b.now = b.now.Add(time.Minute)
	tick(t, g)
	b.now = b.now.Add(6 * time.Minute)
	if got, want := kinds(tick(t, g).Operations), "a: retire 1"; got != want {
		t.Fatalf("%q, want %q: all have registered", got, want)
	}
	if b.at(path.Join(dispatches, "withdrawn", d.ID+".yaml")) != "" {
		t.Error("it is still there")
	}
}

// correct is a person's edit of the base.
func (b *bench) correct() {
	text := strings.Replace(agentJob, "agent:3", "agent:4", 1)
	b.fleet.edit("a person", branch.Change{Path: "base/job.yaml", Content: []byte(text)})
}

// at returns the text of a file of the tip; "" where it is missing.
func (b *bench) at(name string) string {
	data, _ := fs.ReadFile(b.fleet.head().head().Tree, name)
	return string(data)
}
