package simulation

import (
	"testing"
	"time"

	"muster/gitops/unraced"
)

// auto is muster with a lease that goes by boots.
const auto = "muster, lease: auto"

// playWith plays a day of a workload in a world that is changed.
func playWith(t *testing.T, load, name string, seed uint64, change func(*Scenario)) Measures {
	t.Helper()
	w := DefaultScenario()
	w.Seed = seed
	g := loadNamed(t, load)
	w = g.Scenario(w)
	if name == auto {
		name, w.Policy.LeaseAuto = "muster", true
	}
	a := algorithmNamed(t, name)
	w = a.In(w)
	change(&w)
	return Play(w, g.Generate(seed, 24*time.Hour), a.New(), nil)
}

// TestNoShows: where 2 % of the pods never register, 95 % of the jobs wait at most 1.15
// times as long as with those that see pods, in the same transport, and no agent more is
// started. With a fixed lease it is half as long again and more.
func TestNoShows(t *testing.T) {
	unraced.Only(t)
	for _, seed := range []uint64{3, 4, 5} {
		t.Run(string(rune('0'+seed)), func(t *testing.T) {
			t.Parallel()
			lossy := func(w *Scenario) { w.Faults.NoShow = 0.02 }
			fixed, learned := playWith(t, "steady", "muster", seed, lossy), playWith(t, "steady", auto, seed, lossy)
			if learned.Unserved > 0 || learned.Agents != learned.Jobs || learned.Unused > 0 {
				t.Errorf("%d agents for %d jobs, %d unused, %d jobs never served", learned.Agents, learned.Jobs, learned.Unused, learned.Unserved)
			}
			for _, name := range []string{"arc-git", "agent-stack-k8s-git"} {
				rival := playWith(t, "steady", name, seed, lossy)
				ratio := float64(learned.Wait.P95) / float64(rival.Wait.P95)
				t.Logf("p95 %s, of %s %s: %.3f times; with a fixed lease %s", learned.Wait.P95, name, rival.Wait.P95, ratio, fixed.Wait.P95)
				if ratio > 1.15 {
					t.Errorf("p95 is %.3f times that of %s", ratio, name)
				}
			}
			if float64(fixed.Wait.P95) < 1.3*float64(learned.Wait.P95) {
				t.Errorf("p95 is %s, with a fixed lease %s: nothing is won", learned.Wait.P95, fixed.Wait.P95)
			}
		})
	}
}

// tenMinutes lets something begin after so many hours and end ten minutes later.
func tenMinutes(hours int, begin, end func(*run)) func(*Scenario) {
	return func(w *Scenario) {
		w.plan = func(r *run) {
			at := r.start.Add(time.Duration(hours) * time.Hour)
			r.buildkite.At(at, func() { begin(r) })
			r.buildkite.At(at.Add(10*time.Minute), func() { end(r) })
		}
	}
}

// slower lets boots take three times as long from an hour on.
func slower(hours int) func(*Scenario) {
	return func(w *Scenario) {
		w.plan = func(r *run) {
			fate := r.cluster.Fate
			r.cluster.Fate = func() Fate {
				f := fate()
				if r.buildkite.Now().Sub(r.start) >= time.Duration(hours)*time.Hour {
					f.Startup *= 3
				}
				return f
			}
		}
	}
}

// TestFalselyLate: what agents cost that are late and come after all. Each is an agent too
// many at most; orders are not repeated while a syncer is down or nodes are full.
func TestFalselyLate(t *testing.T) {
	unraced.Only(t)
	for name, test := range map[string]struct {
		change func(*Scenario)
		most   int // agents too many
	}{
		"nothing":       {func(*Scenario) {}, 0},
		"a syncer down": {tenMinutes(12, func(r *run) { r.down = true }, func(r *run) { r.down = false }), 0},
		"nodes full":    {tenMinutes(12, func(r *run) { r.cluster.SetNodes(1) }, func(r *run) { r.cluster.SetNodes(0) }), 0},
		"slower boots":  {slower(12), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixed, learned := playWith(t, "steady", "muster", 3, test.change), playWith(t, "steady", auto, 3, test.change)
			t.Logf("%d agents and %d unused for %d jobs, p95 %s, longest %s, pods %.1f h; with a fixed lease %d and %d, p95 %s, longest %s, pods %.1f h", learned.Agents, learned.Unused, learned.Jobs, learned.Wait.P95, learned.Wait.Max, learned.Pods.Hours(),
				fixed.Agents, fixed.Unused, fixed.Wait.P95, fixed.Wait.Max, fixed.Pods.Hours())
			if learned.Unserved > 0 || learned.Agents-learned.Jobs > test.most || learned.Unused > test.most {
				t.Errorf("%d agents for %d jobs, %d unused, %d jobs never served; at most %d too many", learned.Agents, learned.Jobs, learned.Unused, learned.Unserved, test.most)
			}
		})
	}
}
