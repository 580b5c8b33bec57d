package simulation

import (
	"testing"
	"time"

	"muster/gitops/unraced"
)

// fixedLease gives a policy a fixed lease.
func fixedLease(w *Scenario) { w.Policy.LeaseAuto = false }

// playWith plays some hours of steady load in a changed scenario.
func playWith(t *testing.T, name string, seed uint64, hours int, change func(*Scenario)) Measures {
	t.Helper()
	w := DefaultScenario()
	w.Seed = seed
	a := algorithmNamed(t, name)
	w = a.In(w)
	change(&w)
	return Play(w, loadNamed(t, "steady").Generate(seed, time.Duration(hours)*time.Hour), a.New(), nil)
}

// TestNoShows: where 2 % of the pods never register, 95 % of the jobs wait at most 1.15
// times as long as with those that see pods, in the same transport, and no agent more is
// started. With a fixed lease it is half as long again and more.
func TestNoShows(t *testing.T) {
	unraced.Only(t)
	for _, seed := range []uint64{3, 4} {
		t.Run(string(rune('0'+seed)), func(t *testing.T) {
			t.Parallel()
			lossy := func(w *Scenario) { w.Faults.NoShow = 0.02 }
			fixed := playWith(t, "muster", seed, 24, func(w *Scenario) { lossy(w); fixedLease(w) })
			learned := playWith(t, "muster", seed, 24, lossy)
			if learned.Unserved > 0 || learned.Agents != learned.Jobs || learned.Unused > 0 {
				t.Errorf("%d agents for %d jobs, %d unused, %d jobs never served", learned.Agents, learned.Jobs, learned.Unused, learned.Unserved)
			}
			for _, name := range []string{"arc", "agent-stack-k8s-max"} {
				rival := playWith(t, name, seed, 24, func(w *Scenario) {
					lossy(w)
					d := DefaultScenario()
					w.Direct, w.Stateless, w.Makers, w.Interval, w.Triggered = d.Direct, d.Stateless, d.Makers, d.Interval, d.Triggered
				})
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

// eventAt is when the events of TestFalselyOverdue begin.
const eventAt = 4 * time.Hour

// tenMinutes calls begin at eventAt, and end ten minutes later.
func tenMinutes(begin, end func(*run)) func(*Scenario) {
	return func(w *Scenario) {
		w.plan = func(r *run) {
			at := r.start.Add(eventAt)
			r.buildkite.At(at, func() { begin(r) })
			r.buildkite.At(at.Add(10*time.Minute), func() { end(r) })
		}
	}
}

// slower triples start-up times from eventAt on.
func slower(w *Scenario) {
	w.plan = func(r *run) {
		fate := r.cluster.Fate
		r.cluster.Fate = func() Fate {
			f := fate()
			if r.buildkite.Now().Sub(r.start) >= eventAt {
				f.Startup *= 3
			}
			return f
		}
	}
}

// TestFalselyOverdue: no agent is ordered twice because it is overdue and registers later, such as
// while a syncer is down or nodes are full.
func TestFalselyOverdue(t *testing.T) {
	unraced.Only(t)
	for name, change := range map[string]func(*Scenario){
		"nothing":         func(*Scenario) {},
		"a syncer down":   tenMinutes(func(r *run) { r.down = true }, func(r *run) { r.down = false }),
		"nodes full":      tenMinutes(func(r *run) { r.cluster.SetNodes(1) }, func(r *run) { r.cluster.SetNodes(0) }),
		"slower start-up": slower,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := playWith(t, "muster", 3, 10, change)
			if m.Unserved > 0 || m.Agents > m.Jobs || m.Unused > 0 {
				t.Errorf("%d agents for %d jobs, %d unused, %d jobs never served", m.Agents, m.Jobs, m.Unused, m.Unserved)
			}
		})
	}
}
