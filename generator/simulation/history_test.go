package simulation_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops/unraced"
)

// record plays muster and returns the messages of its commits.
func record(t *testing.T, workload string, seed uint64) (simulation.Workload, []string) {
	t.Helper()
	all := simulation.Loads()
	g := all[slices.IndexFunc(all, func(g simulation.Load) bool { return g.Name == workload })]
	load := g.Generate(seed, 12*time.Hour)
	w := simulation.DefaultScenario()
	w.Seed = seed
	var messages []string
	simulation.Play(w, load, &simulation.Muster{}, func(a simulation.Operation) {
		d := *a.Decision
		if len(a.Order) > 0 {
			messages = append(messages, ledger.Message(ledger.Operation{Kind: ledger.Dispatch, Path: "overlays/default", Decision: d}, "v0"))
		}
		if len(a.Retire) > 0 {
			messages = append(messages, ledger.Message(ledger.Operation{Kind: ledger.Retire, Path: "overlays/default", Decision: d}, "v0"))
		}
	})
	return load, messages
}

// TestHistoryRoundTrip: muster's commits are enough to estimate how many jobs were created, when, and
// how long they kept agents busy.
func TestHistoryRoundTrip(t *testing.T) {
	unraced.Only(t)
	for _, workload := range []string{"steady", "bursts"} {
		load, messages := record(t, workload, 5)
		var observed []plan.Observation
		for _, m := range slices.Backward(messages) { // as git log lists them
			e, err := ledger.Parse(m)
			if err != nil {
				t.Fatalf("reading a message: %v\n%s", err, m)
			}
			observed = append(observed, e.Observation)
		}
		got, err := simulation.Rebuild("history", "default", observed)
		if err != nil {
			t.Fatal(err)
		}
		if jobs := got.Jobs(); math.Abs(float64(jobs-load.Jobs())) > 0.02*float64(load.Jobs()) {
			t.Errorf("%s: %d jobs rebuilt of %d", workload, jobs, load.Jobs())
		}
		if !got.Start.Equal(simulation.Start()) {
			t.Errorf("%s: starts at %s, want %s", workload, got.Start, simulation.Start())
		}
		// The same number in each hour, within two minutes and 3 %.
		for hour := range 12 {
			at, off := time.Duration(hour)*time.Hour, 2*time.Minute
			least, most, is := until(load, at-off), until(load, at+off), until(got, at)
			if slack := 5 + 0.03*float64(most); float64(is) < float64(least)-slack || float64(is) > float64(most)+slack {
				t.Errorf("%s: %d jobs rebuilt of the %d to %d in the first %d hours", workload, is, least, most, hour)
			}
		}
		before, after := work(load), work(got)
		if ratio := after / before; ratio < 0.8 || ratio > 1.2 {
			t.Errorf("%s: %.0f hours of work rebuilt of %.0f", workload, after, before)
		}
	}
}

func until(l simulation.Workload, at time.Duration) int {
	n := 0
	for _, a := range l.Arrivals {
		if a.At < at {
			n += max(1, a.Build.Steps[0].Parallelism)
		}
	}
	return n
}

func work(l simulation.Workload) float64 {
	var sum time.Duration
	for _, a := range l.Arrivals {
		sum += a.Build.Steps[0].Duration * time.Duration(max(1, a.Build.Steps[0].Parallelism))
	}
	return sum.Hours()
}

func TestRebuildNothing(t *testing.T) {
	if _, err := simulation.Rebuild("x", "default", nil); err == nil {
		t.Error("no observations made a workload")
	}
	if _, err := simulation.Rebuild("x", "default", []plan.Observation{{At: simulation.Start()}}); err == nil {
		t.Error("an empty queue made a workload")
	}
}
