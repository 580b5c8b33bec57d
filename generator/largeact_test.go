package generator_test

import (
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// TestLargeActsOnGitHub: an order and a retirement of 400 dispatches are each cut into
// acts that GitHub takes in one request that writes, and every act is what its decision
// says.
func TestLargeActsOnGitHub(t *testing.T) {
	const (
		dispatches = 400
		jobs       = dispatches * plan.JobAgents
	)
	b := newBench("a")
	b.overlays[0].spec.max = jobs
	b.fleet = newFleet(b.Now, files(b.overlays))
	b.jobs("a", jobs)
	repository, limiter := onGitHub(t, b)
	g := b.generator(func(c *generator.Config) { c.Repository = repository })
	ops, agents, retired := 0, 0, 0
	var ordered []plan.Dispatch
	for range 15 {
		r := tick(t, g)
		ops += len(r.Operations)
		for _, a := range r.Operations {
			ids, n := a.Dispatches()
			if a.Kind == ledger.Retire {
				retired += len(ids)
				continue
			}
			agents += n
			ordered = append(ordered, a.Decision.Dispatch...)
		}
		if b.now = b.now.Add(time.Minute); agents == jobs && len(b.snapshot.Jobs) > 0 { // all come
			b.snapshot.Jobs = nil
			for _, d := range ordered {
				b.snapshot.Sightings = append(b.snapshot.Sightings, sightings(d, "a")...)
			}
		}
	}
	if agents != jobs || retired != dispatches || limiter.Writes() != ops || ops != 6 {
		t.Errorf("%d acts in %d writes order %d agents and retire %d dispatches, want 6 for %d and %d", ops, limiter.Writes(), agents, retired, jobs, dispatches)
	}
	if n := verifyAll(t, b.fleet); n != ops {
		t.Errorf("%d commits are muster's, want %d", n, ops)
	}
}
