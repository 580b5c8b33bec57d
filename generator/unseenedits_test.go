package generator_test

import (
	"testing"
	"time"

	"muster/generator"
	"muster/gitops/branch"
	"muster/gitops/ledger"
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
			t.Errorf("%s: %q and %q with %d in flight, want 5 and nothing ordered", name, kinds(first.Acts), kinds(r.Acts), got)
		}
	}
}

func ordered(r generator.Result) int {
	n := 0
	for _, a := range r.Acts {
		if a.Kind == ledger.Dispatch {
			n += a.Decision.Sum.Dispatch
		}
	}
	return n
}
