package simulation

import (
	"testing"
	"time"

	"muster/gitops/unraced"
)

// TestBoundOfEqualTimes: a syncer that looks at the very moment of a tick does not see
// what that tick commits; in [Play] it looks first. So the bound is what muster reaches
// with a syncer that keeps time with the ticks, too.
func TestBoundOfEqualTimes(t *testing.T) {
	unraced.Only(t)
	for _, sync := range []time.Duration{15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute} {
		w := DefaultScenario()
		Syncer{Sync: sync}.Use(&w)
		w.Push = 0
		m := Play(w, loadNamed(t, "steady").Generate(1, 6*time.Hour), &Muster{}, nil)
		if m.Unused != 0 || m.Wait != m.Bound {
			t.Errorf("a look every %s: waits of %+v, and the bound is %+v", sync, m.Wait, m.Bound)
		}
	}
}
