package simulation

import (
	"testing"

	"muster/gitops/unraced"
)

// TestIdleAutoCost asserts what "idle: auto" costs at most where it pays least: jobs are short, agents start in 8 to 20
// seconds, and few gaps are shorter than an idle time.
func TestIdleAutoCost(t *testing.T) {
	unraced.Only(t)
	for _, seed := range []uint64{14, 80} {
		pods := func(name string) float64 {
			l, a := Drawn(seed), algorithmNamed(t, name)
			return Play(a.In(l.Scenario(DefaultScenario())), l.Generate(1, 0), a.New(), nil).Pods.Hours()
		}
		if got, one := pods("muster-reuse-auto"), pods("muster"); got > 1.25*one {
			t.Errorf("drawn-%d: %.2f pod-hours, %.2f with one job per agent", seed, got, one)
		}
	}
}
