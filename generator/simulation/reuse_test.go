package simulation

import (
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestReuse: with agents that stay fewer are started for the same jobs, and jobs wait
// less.
func TestReuse(t *testing.T) {
	unraced.Only(t)
	for _, workload := range []string{"steady", "diurnal"} {
		w, g := DefaultScenario(), loadNamed(t, workload)
		one := Play(w, g.Generate(1, 8*time.Hour), &Muster{}, nil)
		w.Policy.Reuse = plan.Reuse{Idle: time.Minute, Uptime: 30 * time.Minute}
		stay := Play(w, g.Generate(1, 8*time.Hour), &Muster{}, nil)
		if stay.Jobs != one.Jobs || stay.Unserved != 0 || stay.Agents >= one.Agents || stay.Wait.Mean >= one.Wait.Mean || stay.Wait.P95 >= one.Wait.P95 {
			t.Errorf("%s: %d agents, wait %+v, unserved %d; with one job each %d, %+v", workload, stay.Agents, stay.Wait, stay.Unserved, one.Agents, one.Wait)
		}
	}
}
