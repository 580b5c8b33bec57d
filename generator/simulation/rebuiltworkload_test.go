package simulation

import (
	"math"
	"testing"
	"time"

	"muster/generator/plan"
)

// TestRebuild: observations are enough to estimate how many jobs were created, and how long they kept
// agents busy.
func TestRebuild(t *testing.T) {
	load := loadNamed(t, "steady").Generate(5, 6*time.Hour)
	var observed []plan.Observation
	Play(DefaultScenario(), load, &Muster{}, func(op Operation) { observed = append(observed, op.Decision.Observation) })
	got, err := Rebuild("history", "default", observed)
	if err != nil {
		t.Fatal(err)
	}
	if jobs := got.Jobs(); math.Abs(float64(jobs-load.Jobs())) > 0.02*float64(load.Jobs()) || !got.Start.Equal(Start()) {
		t.Errorf("%d jobs from %s rebuilt of %d from %s", jobs, got.Start, load.Jobs(), Start())
	}
	work := func(l Workload) (sum time.Duration) {
		for _, a := range l.Arrivals {
			sum += a.Build.Steps[0].Duration * time.Duration(max(1, a.Build.Steps[0].Parallelism))
		}
		return sum
	}
	if ratio := work(got).Hours() / work(load).Hours(); ratio < 0.8 || ratio > 1.2 {
		t.Errorf("%s of work rebuilt of %s", work(got), work(load))
	}
	for _, none := range [][]plan.Observation{nil, {{At: Start()}}} {
		if _, err := Rebuild("x", "default", none); err == nil {
			t.Errorf("%d observations of no job made a workload", len(none))
		}
	}
}
