package generator_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// TestLeaseOfAnotherPolicy: how far back a new process looks for orders that were
// deleted does not depend on what the policies say now.
func TestLeaseOfAnotherPolicy(t *testing.T) {
	for name, change := range map[string]func(o *overlay) []byte{
		"broken":        func(*overlay) []byte { return []byte("spec: {queue: [") },
		"shorter lease": func(o *overlay) []byte { o.spec.lease = time.Minute; return o.policyText() },
	} {
		a, _, d := twins(t)
		a.now = a.now.Add(5 * time.Minute)
		changes := []branch.Change{{Path: dispatches + "/" + d.ID + ".yaml"}}
		for _, o := range a.overlays {
			changes = append(changes, branch.Change{Path: o.path() + "/scaling.yaml", Content: change(o)})
		}
		a.fleet.edit("a person", changes...)
		g := a.generator()
		first := tick(t, g)
		for i, o := range a.overlays {
			changes[i] = branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()}
		}
		a.fleet.edit("a person", changes[:2]...)
		r := tick(t, g)
		if got := r.Decisions[0].Sum.InFlight; got != 5 || ordered(first)+ordered(r) > 0 {
			t.Errorf("%s: %q and %q with %d in flight, want 5 and nothing ordered", name, kinds(first.Operations), kinds(r.Operations), got)
		}
	}
}

func ordered(r generator.Result) int {
	n := 0
	for _, a := range r.Operations {
		if a.Kind == ledger.Dispatch {
			n += a.Decision.Sum.Dispatch
		}
	}
	return n
}

// TestEditsBetweenLooks: of a dispatch that is found edited or deleted, each version
// that others have committed since it was last seen counts: a syncer may have made
// a Job of any.
func TestEditsBetweenLooks(t *testing.T) {
	raised, longer := rewrite(lowered, "$1: 50"), rewrite("T06:10:00Z", "T06:20:00Z")
	deleted := func(file, _ string) []branch.Change { return []branch.Change{{Path: file}} }
	for _, test := range []struct {
		name   string
		first  func(file, text string) []branch.Change
		then   func(file, text string) []branch.Change
		agents int
		until  time.Duration // of the lease
		look   time.Duration // the first after that
	}{
		{"raised and deleted", raised, deleted, 50, 10 * time.Minute, 0},
		{"raised and raised less", raised, rewrite(lowered, "$1: 9"), 50, 10 * time.Minute, 0},
		{"raised and another lease", raised, longer, 50, 20 * time.Minute, 0},
		{"longer and deleted", longer, deleted, 5, 20 * time.Minute, 0},
		{"longer and deleted, seen late", longer, deleted, 5, 20 * time.Minute, 15 * time.Minute},
		{"unreadable and deleted", rewrite("(?s).*", "<<<<<<< HEAD\n"), deleted, 5, 10 * time.Minute, 0},
		{"deleted and edited", deleted, rewrite(lowered, "$1: 1"), 5, 10 * time.Minute, 0},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restarted %t", test.name, restarted), func(t *testing.T) {
				a, g, d := twins(t)
				file := dispatches + "/" + d.ID + ".yaml"
				text := a.at(file)
				a.fleet.edit("a person", test.first(file, text)...)
				a.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("Else.\n")})
				a.fleet.edit("a person", test.then(file, text)...)
				if restarted {
					g = a.generator()
				}
				for _, after := range []time.Duration{test.look, test.until + time.Minute} {
					a.now = scenarioStart().Add(after)
					if r := tick(t, g); r.Decisions[0].Sum.InFlight != test.agents || ordered(r) > 0 {
						t.Errorf("after %s: %q with %d in flight, want %d and nothing ordered", after, kinds(r.Operations), r.Decisions[0].Sum.InFlight, test.agents)
					}
				}
			})
		}
	}
}

// TestEditSeenWithoutTheLog: an edit that a tick has seen counts when it is undone to the
// letter, though the log could not be read meanwhile: a syncer may have made the larger
// Job. A world of faults that is told of pushes found it (seed 944).
func TestEditSeenWithoutTheLog(t *testing.T) {
	a, g, d := twins(t)
	file := dispatches + "/" + d.ID + ".yaml"
	text := a.at(file)
	a.fleet.edit("a person", rewrite(lowered, "$1: 50")(file, text)...)
	a.lost = errors.New("no answer")
	for range 13 {
		if _, err := g.Tick(t.Context()); !errors.Is(err, a.lost) {
			t.Fatalf("%v, want a tick that fails", err)
		}
		a.now = a.now.Add(40 * time.Second)
	}
	a.lost = nil
	a.fleet.edit("a person", branch.Change{Path: file, Content: []byte(text)})
	if r := tick(t, g); r.Decisions[0].Sum.InFlight != 50 || ordered(r) > 0 {
		t.Errorf("%q with %d in flight, want 50 and nothing ordered", kinds(r.Operations), r.Decisions[0].Sum.InFlight)
	}
}
