package simulation

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// loadNamed returns one of [Loads].
func loadNamed(t *testing.T, name string) Load {
	t.Helper()
	all := Loads()
	i := slices.IndexFunc(all, func(l Load) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no workload %q", name)
	}
	return all[i]
}

// algorithmNamed returns one of [Algorithms].
func algorithmNamed(t *testing.T, name string) Named {
	t.Helper()
	all := Algorithms()
	i := slices.IndexFunc(all, func(a Named) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("no algorithm %q", name)
	}
	return all[i]
}

// play runs some hours of a generated workload, in the algorithm's own transport.
func play(t *testing.T, seed uint64, hours int, workload, name string) Measures {
	t.Helper()
	w := DefaultScenario()
	w.Seed = seed
	g, a := loadNamed(t, workload), algorithmNamed(t, name)
	return Play(a.In(g.Scenario(w)), g.Generate(seed, time.Duration(hours)*time.Hour), a.New(), nil)
}

// TestBounds: every algorithm serves every job it can, with one agent each unless agents are reusable,
// and within max; and none that started exactly one agent per job was faster than the bound.
func TestBounds(t *testing.T) {
	unraced.Only(t)
	for i, g := range Loads() {
		for j, a := range Algorithms() {
			hours := 3
			switch {
			case a.Name == "agent-stack-k8s": // 25 pods at once are too few; agent-stack-k8s-max has the same rule
				continue
			case !a.Policy: // most tick each second
				hours = 1
			}
			if a.Policy && a.Name != "muster" && a.Name != "muster-buffer-4" || i >= len(plainLoads()) {
				// A sample. make quality plays all, and those of thousands of jobs.
				if hours = 1; (i+j)%12 != 0 || g.Name == "herd" || g.Name == "short-busy" {
					continue
				}
			}
			t.Run(g.Name+"/"+a.Name, func(t *testing.T) {
				seed := uint64(len(g.Name) + 7*len(a.Name))
				m := play(t, seed, hours, g.Name, a.Name)
				if m.Unserved != 0 {
					t.Errorf("seed %d: %d jobs were never served", seed, m.Unserved)
				}
				stay := strings.HasPrefix(a.Name, "elastic") || strings.HasSuffix(a.Name, "-stay") || a.In(DefaultScenario()).Policy.Reuse.On()
				if m.Agents < m.Jobs && !stay {
					t.Errorf("seed %d: %d agents for %d jobs", seed, m.Agents, m.Jobs)
				}
				if most := DefaultScenario().Policy.Max; m.Highest > most {
					t.Errorf("seed %d: %d agents at once, and max is %d", seed, m.Highest, most)
				}
				// agent-stack-k8s starts jobs in an order of its own, short before long where
				// max binds. An agent that is lost while idle, or ordered for a retry early,
				// makes a rough run faster without an unused one.
				early := a.In(DefaultScenario()).Policy.Lookahead > 0 || m.Unmatched > 0 && !a.Policy
				if m.Unused == 0 && m.Agents == m.Jobs && !early && !g.rough && !strings.HasPrefix(a.Name, "agent-stack") && m.Wait.Mean < m.Bound.Mean {
					t.Errorf("seed %d: waits of %v on average beat the bound, %v", seed, m.Wait.Mean, m.Bound.Mean)
				}
			})
		}
	}
}

// TestMusterIsExact: muster starts one agent for each job and no more in every
// scenario where nothing fails, and reaches the bound. Buildkite gives an agent the job that was
// scheduled first, and a job behind a wait step was scheduled with its build. So muster reaches
// the bound exactly where late steps of old builds overtake the first of new ones (diurnal), and
// where jobs wait for their concurrency group (limited).
func TestMusterIsExact(t *testing.T) {
	unraced.Only(t)
	for _, workload := range []string{"steady", "diurnal", "bursts", "flaky", "limited", "unsatisfiable"} {
		for seed := range uint64(2) {
			m := play(t, seed, 8, workload, "muster")
			if m.Agents != m.Jobs || m.Unused != 0 {
				t.Errorf("%s, seed %d: %d agents for %d jobs, %d unused", workload, seed, m.Agents, m.Jobs, m.Unused)
			}
			if float64(m.Wait.P95) > 1.05*float64(m.Bound.P95) {
				t.Errorf("%s, seed %d: p95 wait is %v, the bound %v", workload, seed, m.Wait.P95, m.Bound.P95)
			}
			if (workload == "diurnal" || workload == "limited") && m.Wait != m.Bound {
				t.Errorf("%s, seed %d: waits of %+v, and the bound is %+v", workload, seed, m.Wait, m.Bound)
			}
		}
	}
}

// TestDemandAsked: jobs that no agent can serve make the algorithms that read
// only a queue's metrics order agents that are unused.
func TestDemandAsked(t *testing.T) {
	unraced.Only(t)
	for _, workload := range []string{"limited", "unsatisfiable"} {
		for _, name := range []string{"plain-cooldown", "keda-accurate", "keda-default", "elastic-ci-stack"} {
			if m := play(t, 1, 4, workload, name); m.Unused == 0 {
				t.Errorf("%s: %s started no unused agent", workload, name)
			}
		}
	}
}

// TestOneJob follows one job by hand.
func TestOneJob(t *testing.T) {
	w := DefaultScenario()
	Syncer{Sync: 20 * time.Second}.Use(&w)
	w.Startup = [2]time.Duration{30 * time.Second, 30 * time.Second}
	workload := Workload{Length: time.Hour, Arrivals: loadNamed(t, "steady").Generate(1, time.Hour).Arrivals[:1]}
	workload.Arrivals[0].At = 16 * time.Second // polled at 30s, pushed at 31s, applied at 40s, up at 70s
	m := Play(w, workload, &Muster{}, nil)
	want := Waits{Mean: 54 * time.Second, P50: 54 * time.Second, P95: 54 * time.Second, Max: 54 * time.Second}
	if m.Wait != want || m.Bound != want || m.Agents != 1 || m.Highest != 1 {
		t.Errorf("got %+v, want a wait and a bound of 54s for one agent", m)
	}
	if m.Commits != 2 {
		t.Errorf("%d commits, want an order and a retirement", m.Commits)
	}
}

// TestFaultRates: faults occur as often as configured.
func TestFaultRates(t *testing.T) {
	unraced.Only(t)
	w := DefaultScenario()
	w.Faults = Faults{NoShow: 0.2, Lost: 0.2, LostWithin: time.Minute, Nodes: 12}
	workload := loadNamed(t, "steady").Generate(1, 12*time.Hour)
	m := Play(w, workload, algorithmNamed(t, "arc").New(), nil)
	if share := float64(m.NeverRegistered) / float64(m.NeverRegistered+m.Agents); share < 0.15 || share > 0.25 {
		t.Errorf("%.0f%% of the pods never registered, want about 20%%", 100*share)
	}
	if m.Jobs <= workload.Jobs() || m.Unserved != 0 {
		t.Errorf("%d jobs ran of %d, and %d never: those of lost agents are to be retried", m.Jobs, workload.Jobs(), m.Unserved)
	}
	// A dead agent is listed for three minutes after its node is free.
	if m.Highest < 12 || m.Highest > 24 {
		t.Errorf("%d agents at once on 12 nodes", m.Highest)
	}
	w.Faults = Faults{}
	workload = loadNamed(t, "steady").Generate(1, time.Hour)
	w.BuildkiteFails = 1
	if m := Play(w, workload, &Muster{}, nil); m.Commits != 0 || m.Unserved != workload.Jobs() {
		t.Errorf("blind ticks made %d commits and left %d of %d jobs", m.Commits, m.Unserved, workload.Jobs())
	}
	w.BuildkiteFails, w.PushFails = 0, 1
	if m := Play(w, workload, &Muster{}, nil); m.Commits != 0 || m.Agents != 0 {
		t.Errorf("pushes that fail made %d commits and %d agents", m.Commits, m.Agents)
	}
}

// TestRules compares each published formula with numbers computed by hand.
func TestRules(t *testing.T) {
	jobs := func(scheduled, limited, waiting, running int) func(time.Time) plan.Snapshot {
		return func(time.Time) plan.Snapshot {
			var s plan.Snapshot
			add := func(n int, state plan.JobState, rules ...string) {
				for range n {
					s.Jobs = append(s.Jobs, plan.Job{ID: strconv.Itoa(len(s.Jobs)), Rules: append(rules, "queue=default"), State: state})
				}
			}
			add(scheduled-1, plan.JobPending)
			add(1, plan.JobPending, "os=none")
			add(limited, plan.JobLimited)
			add(waiting, plan.JobUpcoming)
			s.Jobs = append(s.Jobs, plan.Job{Rules: []string{"queue=other"}, State: plan.JobPending})
			for range running {
				s.Agents = append(s.Agents, plan.Agent{Tags: []string{"queue=default"}, State: plan.AgentBusy})
			}
			return s
		}
	}
	for _, test := range []struct {
		name                                 string
		scheduled, limited, waiting, running int
		pods                                 Pods
		want                                 int
	}{
		{"plain-cooldown", 6, 2, 0, 3, Pods{Alive: 7, Starting: 4, LastUp: 0.74}, 0},
		{"plain-cooldown", 6, 2, 0, 3, Pods{Alive: 7, Starting: 4, LastUp: 0.75}, 8},
		{"keda-default", 6, 2, 0, 3, Pods{Alive: 7, Starting: 4}, 4},
		{"keda-accurate", 6, 2, 0, 3, Pods{Alive: 7, Starting: 4}, 4},
		{"keda-accurate", 18, 0, 0, 3, Pods{Alive: 7, Starting: 4}, 13},
		{"elastic-ci-stack", 6, 2, 5, 3, Pods{Alive: 7, Starting: 4}, 4},
		{"agent-stack-k8s", 6, 2, 0, 3, Pods{Alive: 7, Starting: 4}, 5},
		{"agent-stack-k8s-max", 18, 0, 0, 3, Pods{Alive: 7, Starting: 4}, 13},
		{"arc", 6, 2, 0, 3, Pods{Alive: 7, Starting: 4}, 1},
		{"arc-min-4", 6, 2, 0, 3, Pods{Alive: 7, Starting: 4}, 5},
	} {
		v := View{Overlay: plan.Overlay{Name: "default", Policy: plan.Policy{Queue: "default", Max: 20}}, Pods: test.pods,
			Snapshot: jobs(test.scheduled, test.limited, test.waiting, test.running), Reserve: func(string, time.Duration) bool { return true }}
		got := 0
		for _, d := range algorithmNamed(t, test.name).New().Tick(v).Order {
			got += d.Agents
		}
		if got != test.want {
			t.Errorf("%s: %+v orders %d, want %d", test.name, test, got, test.want)
		}
	}
}
