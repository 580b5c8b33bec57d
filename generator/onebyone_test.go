package generator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// single is a repository that takes acts one by one, as GitHub's API does.
type single struct{ *hooked }

func (single) Limits() branch.Limits { return branch.Limits{OneByOne: true} }

func newSingle(refuses func(ledger.Operation) error, names ...string) (single, *generator.Generator) {
	h, _ := newHooked(refuses, names...)
	return single{h}, h.generator(func(c *generator.Config) { c.Repository = single{h} })
}

// TestActsOneByOne: where the repository asks for it, each act is pushed by itself, on
// the commit of the one before it.
func TestActsOneByOne(t *testing.T) {
	s, g := newSingle(func(ledger.Operation) error { return nil }, "a", "b", "c")
	r := tick(t, g)
	if got := kinds(r.Operations); got != "a: dispatch 2; b: dispatch 2; c: dispatch 2" || s.pushes != 3 {
		t.Errorf("acts %q in %d pushes, want three in 3", got, s.pushes)
	}
	if log := s.fleet.history(); len(log) != 4 || r.Head.Commit != log[3].id {
		t.Errorf("%d commits, and the tick's tip is %s", len(log)-1, r.Head.Commit)
	}
}

// TestRaceAmongSingleActs: what was committed before another writer was first is
// reported, and the rest is decided again, on what that one left.
func TestRaceAmongSingleActs(t *testing.T) {
	s, g := newSingle(nil, "a", "b", "c")
	raced := false
	s.refuses = func(a ledger.Operation) error {
		if a.Path == "overlays/b" && !raced {
			raced = true
			s.overlays[1].spec.max = 1
			s.fleet.edit("a person", branch.Change{Path: "overlays/b/scaling.yaml", Content: s.overlays[1].policyText()})
			return fmt.Errorf("pushing: %w", branch.ErrMoved)
		}
		return nil
	}
	r := tick(t, g)
	if got := kinds(r.Operations); got != "a: dispatch 2; b: dispatch 1; c: dispatch 2" || r.Conflicts != 1 {
		t.Errorf("acts %q after %d races", got, r.Conflicts)
	}
	var who []string
	for _, c := range s.fleet.history()[1:] {
		who = append(who, c.who)
	}
	if got := strings.Join(who, ", "); got != "muster, a person, muster, muster" {
		t.Errorf("the commits are of %s", got)
	}
}

// TestLimitAmongSingleActs: what a limit left over is decided again when it is over, and
// comes first then.
func TestLimitAmongSingleActs(t *testing.T) {
	s, g := newSingle(nil, "a", "b", "c")
	left := 1
	s.refuses = func(ledger.Operation) error {
		if left--; left < 0 {
			return retryAfter(time.Minute)
		}
		return nil
	}
	var all []string
	for i := range 4 {
		r, err := g.Tick(t.Context())
		var wait retryAfter
		if errors.As(err, &wait) != (i < 3) || i == 3 && err != nil {
			t.Errorf("tick %d: %v", i, err)
		}
		for _, a := range r.Operations {
			all = append(all, kinds([]ledger.Operation{a}))
		}
		s.now = s.now.Add(time.Second)
		if i == 0 {
			s.jobs("a", 3) // a has acts again, and its turn comes last
		}
		left = 1
	}
	if got := strings.Join(all, "; "); !strings.HasPrefix(got, "a: dispatch 2; b: dispatch 2; c: dispatch 2; a: dispatch ") {
		t.Errorf("the acts are %s", got)
	}
}
