package fleet

import (
	"fmt"
	"testing"
)

const header = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\n"

// TestManyFindings: what is said of one overlay has an end.
func TestManyFindings(t *testing.T) {
	f := sound(t)
	f["overlays/default/scaling.yaml"] = header + "spec:\n  queue: q\n  max: 1\n"
	for i := range 1000 {
		f["overlays/default/scaling.yaml"] += fmt.Sprintf("  y%d: 1\n", i)
	}
	o := load(t, NewLoader("overlays"), f.tree())[0]
	if n := len(o.findings); n != maxFindings {
		t.Errorf("%d findings, want %d", n, maxFindings)
	}
}

// TestManyBrokenOverlays: what is said of thousands of overlays is bounded together,
// and each of them is suspended.
func TestManyBrokenOverlays(t *testing.T) {
	f := sound(t)
	broken := header + "spec:\n"
	for i := range maxFindings {
		broken += fmt.Sprintf("  y%d: 1\n", i)
	}
	const overlays = 2 * maxLogged / maxFindings
	for i := range overlays {
		f[fmt.Sprintf("overlays/a%03d/scaling.yaml", i)] = fmt.Sprintf("%s  z%d: 1\n", broken, i)
	}
	l := NewLoader("overlays")
	for range 2 {
		said, remembered := 0, 0
		for _, o := range load(t, l, f.tree()) {
			if (o.Err() == nil) != (o.Name == "default") {
				t.Fatalf("%s: %v", o.Name, o.Err())
			}
			said += len(o.findings)
		}
		for _, p := range l.policies.last {
			remembered += len(p.findings)
		}
		if most := maxLogged + maxFindings + overlays*fewFindings; said > most || remembered > most+overlays {
			t.Errorf("%d findings, and %d are remembered, want %d at most", said, remembered, most)
		}
	}
}
