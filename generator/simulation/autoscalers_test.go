package simulation

import (
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// TestSyncers: what a syncer's people set is what a job waits for it.
func TestSyncers(t *testing.T) {
	waits := map[string]time.Duration{}
	for _, s := range Syncers() {
		w := DefaultScenario()
		w.Startup = [2]time.Duration{30 * time.Second, 30 * time.Second}
		s.Use(&w)
		load := Workload{Length: time.Hour, Arrivals: []Arrival{{At: 61 * time.Second, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Minute}}}}}}
		m := Play(w, load, &Muster{}, nil)
		if m.Wait != m.Bound {
			t.Errorf("%s: a wait of %s, and a bound of %s", s.Name, m.Wait.Mean, m.Bound.Mean)
		}
		waits[s.Name] = m.Wait.Mean
	}
	// Ordered at 75s. Flux looks at 120s; who is told has applied it at 76.5s.
	if waits["flux"] != 89*time.Second || waits["told"] != 45500*time.Millisecond {
		t.Errorf("waits of %v", waits)
	}
	if argo := waits["argocd"]; argo < 89*time.Second || argo > 149*time.Second {
		t.Errorf("Argo CD's first look comes between 120s and 180s: a wait of %s", argo)
	}
}
