package generator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// cutShort is two overlays that have everything to do at once, of which a limit lets only
// so many acts of the first tick through: a list broken by hand is repaired, one more
// agent is ordered than the hour's limit left, and an order that has come is retired.
type cutShort struct {
	single
	left int // operations that are let through; below zero: all
}

func newCutShort(t *testing.T) *cutShort {
	t.Helper()
	s, _ := newSingle(func(ledger.Operation) error { return nil }, "a", "b")
	for _, o := range s.overlays {
		o.spec.perHour, o.spec.lookahead = 3, 100
	}
	s.fleet = newFleet(s.Now, files(s.overlays))
	c := &cutShort{single: s, left: -1}
	g := s.generator(func(cfg *generator.Config) { cfg.Repository = c })
	first := tick(t, g)
	if got := kinds(first.Operations); got != "a: dispatch 2; b: dispatch 2" {
		t.Fatalf("began with %q", got)
	}
	s.snapshot.Jobs = nil
	for _, a := range first.Operations {
		name := strings.TrimPrefix(a.Path, "overlays/")
		for _, d := range a.Decision.Dispatch {
			s.snapshot.Sightings = append(s.snapshot.Sightings, sightings(d, name)...)
		}
		s.jobs(name, 2)
		s.fleet.edit("a person", branch.Change{Path: a.Path + "/dispatches/kustomization.yaml", Content: []byte("resources: []\n")})
	}
	s.now = s.now.Add(10 * time.Minute)
	s.refuses = func(ledger.Operation) error {
		if c.left == 0 {
			return retryAfter(time.Minute)
		}
		c.left--
		return nil
	}
	return c
}

// ordered is how many agents each overlay has ordered, and what its dispatches are named
// that are in git.
func (c *cutShort) ordered(t *testing.T) map[string]int {
	t.Helper()
	all, names := map[string]int{}, map[string]bool{}
	for _, x := range c.fleet.history() {
		if x.operation == nil || x.operation.Kind != ledger.Dispatch {
			continue
		}
		for _, d := range x.operation.Decision.Dispatch {
			if names[d.ID] {
				t.Errorf("%s is ordered twice", d.ID)
			}
			names[d.ID] = true
			all[x.operation.Path] += d.Agents
		}
	}
	return all
}

// TestEveryPrefixOfATick: where acts are pushed one by one, what is in git when a limit
// ends the tick is right by itself, after each of them: one who starts then orders nothing
// twice, keeps the hour's limit, and comes to what one comes to who was never stopped.
func TestEveryPrefixOfATick(t *testing.T) {
	const acts = "a: repair, dispatch 1, retire 1; b: repair, dispatch 1, retire 1"
	for k := range 7 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			c := newCutShort(t)
			start := func() *generator.Generator {
				return c.generator(func(cfg *generator.Config) { cfg.Repository = c })
			}
			c.left = k
			r, err := start().Tick(t.Context())
			if len(r.Operations) != k || (err != nil) != (k < 6) {
				t.Fatalf("%q and %v, want %d acts of %q", kinds(r.Operations), err, k, acts)
			}
			c.left = -1
			for range 3 {
				c.now = c.now.Add(15 * time.Second)
				tick(t, start())
			}
			for overlay, agents := range c.ordered(t) {
				if agents != 3 {
					t.Errorf("%s has ordered %d agents in this hour, of 3", overlay, agents)
				}
			}
			if n := verifyAll(t, c.fleet); n != 8 {
				t.Errorf("%d commits, want those of %q and the first two", n, acts)
			}
		})
	}
}
