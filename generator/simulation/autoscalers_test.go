package simulation

import (
	"flag"
	"slices"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/unraced"
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
	// Ordered at 75s, and at 62.25s after a webhook. Flux polls at 120s; a notified syncer applies it at 66.85s.
	if waits["flux"] != 89*time.Second || waits["notified"] != 35850*time.Millisecond {
		t.Errorf("waits of %v", waits)
	}
	if argo := waits["argocd"]; argo < 89*time.Second || argo > 149*time.Second {
		t.Errorf("Argo CD's first look comes between 120s and 180s: a wait of %s", argo)
	}
}

// TestAgentStack asserts that agent-stack-k8s has at most 25 pods, ends those of cancelled jobs at the
// next check, and fails the job of a pod that ended without an agent, so that it is retried at once.
func TestAgentStack(t *testing.T) {
	play := func(jobs int, cancel time.Duration, lost bool) Measures {
		a := algorithmNamed(t, "agent-stack-k8s")
		w := a.In(DefaultScenario())
		w.Startup = [2]time.Duration{30 * time.Second, 30 * time.Second}
		w.plan = func(r *run) {
			fate := r.cluster.Fate
			r.cluster.Fate = func() Fate {
				f := fate()
				f.NoShow, lost = lost, false
				return f
			}
		}
		build := fakebuildkite.Build{Steps: []fakebuildkite.Step{{Parallelism: jobs, Duration: time.Minute, Retries: 1}}}
		return Play(w, Workload{Length: time.Hour, Arrivals: []Arrival{{At: time.Minute, Cancel: cancel, Build: build}}}, a.New(), nil)
	}
	if m := play(60, 0, false); m.Highest != 25 || m.Unserved != 0 {
		t.Errorf("%d agents at once, %d jobs never served; want 25 and none", m.Highest, m.Unserved)
	}
	if m := play(5, 12*time.Second, false); m.Agents != 0 || m.Pods != 5*15*time.Second {
		t.Errorf("%d agents and %s of pods for 5 cancelled jobs, want none and 75s", m.Agents, m.Pods)
	}
	if m := play(1, 0, true); m.Unserved != 0 || m.Wait.Max > 31*time.Second {
		t.Errorf("after a lost pod: %d jobs never served, a wait of %s", m.Unserved, m.Wait.Max)
	}
}

// TestRivalsAtTheirBest asserts that each rival with its best-known configuration has shorter waits than
// as it is installed, and that start-up of EC2 lengthens them.
func TestRivalsAtTheirBest(t *testing.T) {
	unraced.Only(t)
	for _, pair := range [][2]string{
		{"keda-5s-stay", "keda-accurate"}, {"elastic-ci-stack-60s", "elastic-ci-stack-60s-ec2"},
		{"agent-stack-k8s-max", "agent-stack-k8s"}, {"arc-stay", "arc"}, {"arc-min-4", "arc"},
	} {
		best, other := play(t, 1, 2, "cron", pair[0]), play(t, 1, 2, "cron", pair[1])
		if best.Wait.Mean >= other.Wait.Mean {
			t.Errorf("a mean wait of %s with %s, and %s with %s", best.Wait.Mean, pair[0], other.Wait.Mean, pair[1])
		}
	}
}

var frontierLoads = flag.Uint64("frontier", 2, "number of drawn workloads of TestFrontier")

// TestFrontier asserts that in 95 % of the drawn workloads no other autoscaler is below muster's frontier: at least as
// good as each of muster's policies in mean wait, p95 and pod time, and by more than 2 % better in one of them.
func TestFrontier(t *testing.T) {
	unraced.Only(t)
	below := uint64(0)
	for seed := uint64(1); seed <= *frontierLoads; seed++ {
		l := Drawn(seed)
		rows, err := Compare(t.Context(), []Case{{Scenario: l.Scenario(DefaultScenario()), Workload: l.Generate(1, 0)}}, Algorithms(), 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		policies := len(policies())
		better := slices.IndexFunc(rows[policies:], func(r Row) bool {
			return !slices.ContainsFunc(rows[:policies], func(m Row) bool {
				mean, p95, pods := ratio(r.Wait.Mean, m.Wait.Mean), ratio(r.Wait.P95, m.Wait.P95), ratio(r.Pods, m.Pods)
				return max(mean, p95, pods) > 1 || min(mean, p95, pods) >= 0.98
			})
		})
		if better >= 0 {
			below++
			t.Logf("%s: %s is better than each policy of muster", l.Name, rows[policies+better].Algorithm)
		}
	}
	if 20*below > *frontierLoads {
		t.Errorf("another autoscaler is below muster's frontier in %d of %d workloads", below, *frontierLoads)
	}
}

// ratio compares durations, with a second added to each.
func ratio(a, b time.Duration) float64 { return float64(a+time.Second) / float64(b+time.Second) }
