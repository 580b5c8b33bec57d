package generator_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/branch"
)

// TestCopyHidesNoDeletion asserts that an order which a person deletes counts, although a copy of its overlay
// has withdrawn or retired the copied order: in the process that did so, in another one and in a new one,
// before and after the copy is removed.
func TestCopyHidesNoDeletion(t *testing.T) {
	for _, by := range []string{"the same process", "another process", "a new process"} {
		for _, removed := range []bool{false, true} {
			b := newBench("a")
			b.limit(3)
			b.jobs("a", 3)
			g, other := b.generator(onBranch("main")), b.generator(onBranch("main"))
			d := tick(t, g).Operations[0].Decision.Dispatch[0]
			tick(t, other)
			b.copyOverlay()
			if got := kinds(tick(t, g).Operations); got != "z: withdraw 1" {
				t.Fatalf("%s, want the copied dispatch withdrawn", got)
			}
			deleted := []branch.Change{{Path: "overlays/a/dispatches/" + d.ID + ".yaml"}, {Path: "overlays/a/dispatches/kustomization.yaml"}}
			for name := range b.fleet.head().tree.files {
				if removed && strings.HasPrefix(name, "overlays/z/") {
					deleted = append(deleted, branch.Change{Path: name})
				}
			}
			b.fleet.edit("a person", deleted...)
			switch by {
			case "another process":
				g = other
			case "a new process":
				g = b.generator(onBranch("main"))
			}
			r := tick(t, g)
			if s := r.Decisions[0].Figures; s.InFlight != 3 && s.Stopping != 3 || s.Dispatch != 0 {
				t.Errorf("%s, the copy removed %t: %d in flight, %d stopping, %d dispatched; want three and none (%s)", by, removed, s.InFlight, s.Stopping, s.Dispatch, kinds(r.Operations))
			}
		}
	}
}

// TestRetiredUnderAnotherName asserts that an order counts no longer once its overlay has retired it, also
// under another name than it was ordered by, and that a new process agrees.
func TestRetiredUnderAnotherName(t *testing.T) {
	for _, again := range []bool{false, true} {
		b := newBench("a")
		b.jobs("a", 3)
		g := b.generator(onBranch("main"))
		d := tick(t, g).Operations[0].Decision.Dispatch[0]
		rename := func(from, to string) {
			var all []branch.Change
			for name, text := range b.fleet.head().tree.files {
				if rest, ok := strings.CutPrefix(name, "overlays/"+from+"/"); ok {
					all = append(all, branch.Change{Path: name}, branch.Change{Path: "overlays/" + to + "/" + rest, Content: bytes.Clone(text)})
				}
			}
			b.fleet.edit("renames an overlay", all...)
		}
		rename("a", "y")
		b.snapshot.Jobs = nil
		for i := range d.Agents {
			b.snapshot.Agents = append(b.snapshot.Agents, plan.Agent{ID: string(rune('0' + i)), State: plan.AgentBusy, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index="+string(rune('0'+i)))})
		}
		tick(t, g)
		b.now = b.now.Add(6 * time.Minute)
		tick(t, g)
		b.now = b.now.Add(6 * time.Minute)
		if r := tick(t, g); len(b.fleet.head().tree.below("overlays/y/dispatches")) != 2 {
			t.Fatalf("the dispatch is not retired: %s, %v", kinds(r.Operations), b.fleet.head().tree.below("overlays/y/dispatches"))
		}
		if again {
			rename("y", "z")
		}
		b.snapshot.Agents = nil
		for _, g := range []string{"the same process", "a new process"} {
			of := b.generator(onBranch("main"))
			r := tick(t, of)
			if s := r.Decisions[0].Figures; s.Current != 0 || len(r.Operations) != 0 {
				t.Errorf("%s, renamed again %t: %+v, %s", g, again, s, kinds(r.Operations))
			}
		}
	}
}
