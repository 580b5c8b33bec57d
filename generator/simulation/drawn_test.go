package simulation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDrawn asserts that a seed always makes the same workload, and that all kinds of workloads are among those drawn.
func TestDrawn(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(DrawnLoads) {
		l, o := Drawn(seed+1), drawOrganisation(seed+1)
		w := l.Generate(1, 0)
		if seed < 5 {
			if diff := cmp.Diff(w.Arrivals, Drawn(seed+1).Generate(1, 0).Arrivals); diff != "" {
				t.Errorf("%s differs from itself:\n%s", l.Name, diff)
			}
			if cmp.Equal(w.Arrivals, l.Generate(2, 0).Arrivals) {
				t.Errorf("%s has the same jobs on another day", l.Name)
			}
		}
		if len(w.Arrivals) > 0 {
			kinds["builds"]++
		}
		kinds[l.Scenario(DefaultScenario()).Startup[0].String()]++
		for kind, has := range map[string]bool{
			"small": o.jobsADay < 20, "large": o.jobsADay > 2000, "cron": o.cron > 0, "queue": o.queue > 0,
			"one zone": len(o.zones) == 1, "zones": len(o.zones) > 1, "weekend": o.start >= 5,
		} {
			if has {
				kinds[kind]++
			}
		}
		for kind, is := range map[string]func(Arrival) bool{
			"cancelled": func(a Arrival) bool { return a.Cancel > 0 },
			"single":    func(a Arrival) bool { return len(a.Build.Steps) == 1 && a.Build.Steps[0].Parallelism == 1 },
			"fan-out":   func(a Arrival) bool { return a.Build.Steps[0].Parallelism > 1 },
			"chain":     func(a Arrival) bool { return len(a.Build.Steps) > 5 },
			"failing":   func(a Arrival) bool { return a.Build.Steps[0].Fail > 0 },
			"upload":    func(a Arrival) bool { return len(a.Build.Steps[0].Uploads) > 0 },
		} {
			if slices.ContainsFunc(w.Arrivals, is) {
				kinds[kind]++
			}
		}
	}
	for _, kind := range []string{
		"8s", "25s", "1m0s", "small", "large", "cron", "queue", "one zone", "zones", "weekend",
		"cancelled", "single", "fan-out", "chain", "failing", "upload",
	} {
		if kinds[kind] < 5 {
			t.Errorf("%d workloads are of the kind %q", kinds[kind], kind)
		}
	}
	t.Log(kinds)
}

// TestUploadedStepsRun asserts that muster's agents run the jobs of steps that a first step uploads.
func TestUploadedStepsRun(t *testing.T) {
	a := algorithmNamed(t, "muster")
	w := Drawn(55).Generate(1, 0)
	if m := Play(a.In(Drawn(55).Scenario(DefaultScenario())), w, a.New(), nil); m.Unserved > 0 || m.Jobs <= w.Jobs() {
		t.Errorf("%d jobs, %d never served, of builds with %d jobs before uploads", m.Jobs, m.Unserved, w.Jobs())
	}
}
