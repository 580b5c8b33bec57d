package generator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/gitops/unraced"
)

// scenarioSeeds are worlds for tests that play one several times.
func scenarioSeeds() []uint64 { return []uint64{7, 28, 35} }

// plainShape is a scenario without faults, and with equal pods: their order of creation follows the
// names of their dispatches, and so the head's.
func plainShape(seed uint64) shape {
	s := drawShape(seed)
	s.length = min(s.length, 30*time.Minute)
	s.noLoops, s.hooks, s.stacks = true, hookShape{}, false // of one stack's limit all musters have a part
	s.rates = rates{lag: s.rates.lag, startup: [2]time.Duration{s.rates.startup[0], s.rates.startup[0]}}
	return s
}

func playPlain(t *testing.T, s shape) *scenario {
	t.Helper()
	w := startScenario(t, s)
	w.play(s.length, nil)
	return w
}

// ordered lists what was ordered when.
func (w *scenario) ordered() []string {
	var all []string
	for _, c := range w.fleet.history() {
		if c.operation != nil && c.operation.Kind == ledger.Dispatch {
			d := c.operation.Decision
			all = append(all, fmt.Sprintf("%s %s %d+%d", d.At().Format("15:04:05"), d.Overlay, d.Figures.Demand, d.Figures.WarmPool))
		}
	}
	return all
}

// TestManyOrderWhatOneWould: two or five musters on one repository order exactly what one would, tick
// for tick, whichever pushes first, also if they poll in turns.
func TestManyOrderWhatOneWould(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, seed := range scenarioSeeds() {
		one := playPlain(t, plainShape(seed)).ordered()
		if len(one) == 0 {
			t.Errorf("seed %d: nothing is ordered", seed)
		}
		for _, n := range []int{2, 5} {
			s := plainShape(seed)
			s.musters, s.instant, s.rates.interleave = n, true, 0.5
			many := playPlain(t, s)
			if diff := cmp.Diff(one, many.ordered()); diff != "" {
				t.Errorf("seed %d: one muster and %d (-one +%d):\n%s", seed, n, n, diff)
			}
		}
		often, turns := plainShape(seed), plainShape(seed)
		often.every = 15 * time.Second
		turns.every, turns.musters, turns.stagger = time.Minute, 4, 15*time.Second
		if diff := cmp.Diff(playPlain(t, often).ordered(), playPlain(t, turns).ordered()); diff != "" {
			t.Errorf("seed %d: one muster, and four that poll in turns (-one +four):\n%s", seed, diff)
		}
	}
}

// TestOrderOfListsChangesNothing: the same world listed in other orders gives
// the same commits, byte for byte.
func TestOrderOfListsChangesNothing(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, seed := range append(scenarioSeeds(), 13, 20) {
		var heads [2]string
		for i := range heads {
			s := drawShape(seed)
			s.length, s.shuffle = min(s.length, 30*time.Minute), uint64(i)
			w := playPlain(t, s)
			heads[i] = fmt.Sprint(len(w.fleet.history()), w.fleet.head().id)
		}
		if heads[0] != heads[1] {
			t.Errorf("seed %d: the head is %s or %s, as the lists are ordered", seed, heads[0], heads[1])
		}
	}
}

// quietNight is one overlay and no job.
func quietNight() shape {
	return shape{
		seed: 1, theme: "quiet", length: 12 * time.Hour, every: 15 * time.Second, musters: 1, perPage: 100,
		overlays: []*overlay{{name: "a", spec: policy{
			queue: "default", min: 10, buffer: 5, max: 40, lease: 15 * time.Minute, idle: 5 * time.Minute, upkeepIdle: time.Hour,
		}}},
		work:  work{burst: 1, job: time.Minute},
		rates: rates{lag: 20 * time.Second, startup: [2]time.Duration{20 * time.Second, 90 * time.Second}},
	}
}

// TestQuietNight: min 10 and buffer 5 cost at most four commits in any hour, and
// the floor holds through every relief; so it does when the process is killed
// now and then.
func TestQuietNight(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, kill := range []float64{0, 0.001} {
		s := quietNight()
		s.length, s.every, s.rates.kill = 6*time.Hour, 30*time.Second, kill
		w := startScenario(t, s)
		w.play(10*time.Minute, nil)
		w.play(s.length, func() bool {
			if n := w.overlays[0].kube.Connected(); n < 10 {
				t.Errorf("at %s there are %d agents, min is 10\n%s", w.server.Now(), n, w.story())
			}
			return t.Failed()
		})
		var at []time.Time
		for _, c := range w.fleet.history()[1:] {
			at = append(at, c.at)
			inHour := 0
			for _, x := range at {
				if c.at.Sub(x) < time.Hour {
					inHour++
				}
			}
			if inHour > 4 {
				t.Fatalf("kill %g: %d commits in the hour before %s\n%s", kill, inHour, c.at, w.story())
			}
		}
		if len(at) < 6 {
			t.Errorf("kill %g: %d commits in a night: nobody was relieved", kill, len(at))
		}
	}
}

// TestLateRegistration: Buildkite refuses agents that have passed the check of
// their lease. Those that it lets in before the lease is over take the jobs, and
// are the only ones; those that it lets in when others were ordered never connect.
// Without the hook of the base, both orders come: 20 agents for 10 jobs.
func TestLateRegistration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		until   time.Duration
		noHook  bool
		ordered []int
		came    int
	}{
		{"within the lease", 150 * time.Second, false, []int{10}, 10},
		{"after the lease", 320 * time.Second, false, []int{10, 10}, 10},
		{"after the lease, no hook", 320 * time.Second, true, []int{10, 10}, 20},
	} {
		s := quietNight()
		p := &s.overlays[0].spec
		p.min, p.buffer, p.lease = 0, 0, 3*time.Minute
		w := startScenario(t, s)
		w.overlays[0].kube.NoHook = test.noHook
		w.server.RefuseAgents(scenarioStart().Add(20*time.Second), scenarioStart().Add(test.until))
		step := fakebuildkite.Step{Agents: []string{"queue=default"}, Parallelism: 10, Duration: time.Hour}
		w.server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{step}})
		w.play(20*time.Minute, nil)
		var got []int // ordered
		for _, c := range w.fleet.history()[1:] {
			if c.operation.Kind == ledger.Dispatch {
				got = append(got, c.operation.Decision.Figures.Dispatch)
			}
		}
		if came := len(w.audit.agents); !slices.Equal(got, test.ordered) || came != test.came {
			t.Errorf("%s: ordered %v and %d registered, want %v and %d\n%s", test.name, got, came, test.ordered, test.came, w.story())
		}
	}
}
