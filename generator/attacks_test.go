package generator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/simulation"
	"muster/gitops/unraced"
)

// The cases of this file once broke muster.

// attacked is a world of one overlay without a min and a buffer.
func attacked(t *testing.T, change func(s *shape, p *policy)) *scenario {
	t.Helper()
	s := quietNight()
	p := &s.overlays[0].spec
	p.min, p.buffer = 0, 0
	change(&s, p)
	return startScenario(t, s)
}

// build asks for jobs of the queue default.
func (w *scenario) build(jobs int, length time.Duration) string {
	return w.server.CreateBuild(fakebuildkite.Build{Cluster: w.cluster, Steps: []fakebuildkite.Step{{
		Agents: []string{"queue=default"}, Parallelism: jobs, Duration: length,
	}}})
}

// running returns the number of jobs of a cluster that run.
func (w *scenario) running(cluster string) (n int) {
	for _, j := range w.server.Jobs() {
		if j.Cluster == cluster && j.State == "running" {
			n++
		}
	}
	return n
}

// sizes lists how many agents each commit ordered.
func (w *scenario) sizes() []int {
	var all []int
	for _, c := range w.fleet.history()[1:] {
		if c.operation != nil && c.operation.Kind == ledger.Dispatch {
			all = append(all, c.operation.Decision.Sum.Dispatch)
		}
	}
	return all
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
		w := attacked(t, func(s *shape, p *policy) { p.lease = 3 * time.Minute })
		w.overlays[0].kube.NoHook = test.noHook
		w.server.RefuseAgents(scenarioStart().Add(20*time.Second), scenarioStart().Add(test.until))
		w.build(10, time.Hour)
		w.play(20*time.Minute, nil)
		if got, came := w.sizes(), len(w.audit.agents); !slices.Equal(got, test.ordered) || came != test.came {
			t.Errorf("%s: ordered %v and %d registered, want %v and %d\n%s", test.name, got, came, test.ordered, test.came, w.story())
		}
	}
}

// TestLostAnswers: agents that register twice, because the answers to the first
// time get lost, are one agent each.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	w := attacked(t, func(*shape, *policy) {})
	w.server.LoseAnswers(scenarioStart(), scenarioStart().Add(2*time.Minute))
	w.build(10, 5*time.Minute)
	w.play(20*time.Minute, nil)
	if got, came := w.sizes(), len(w.server.Agents()); !slices.Equal(got, []int{10}) || came != 10 || w.audit.worked[0] != 10 {
		t.Errorf("ordered %v, %d registered and %d worked, want 10 once", got, came, w.audit.worked[0])
	}
}

// TestLookaheadBehindALongStep asserts that look-ahead orders one agent for each of 20 jobs behind a
// long step, also in parts if max has no room for all. It orders none of them again before the jobs
// can run.
func TestLookaheadBehindALongStep(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, test := range []struct {
		max, perHour int
		idle         time.Duration
		step         time.Duration
		again        int // agents for the jobs when they can run; 0 if not asserted
	}{
		{50, 0, 5 * time.Minute, time.Hour, 20},
		{6, 0, 2 * time.Minute, 4 * time.Hour, 0},
		{6, 6, 2 * time.Minute, 4 * time.Hour, 0},
	} {
		w := attacked(t, func(_ *shape, p *policy) {
			p.lookahead, p.max, p.perHour, p.idle = 100, test.max, test.perHour, test.idle
		})
		step := fakebuildkite.Step{Agents: []string{"queue=default"}, Duration: test.step}
		after := step
		after.Parallelism, after.Duration = 20, time.Minute
		w.server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{step, {Type: fakebuildkite.Wait}, after}})
		w.play(test.step-5*time.Minute, nil)
		if n := w.audit.total(); n != 1+20 {
			t.Errorf("%+v: %d agents are ordered during the step: %v, want 1 and 20", test, n, w.sizes())
		}
		w.play(3*test.step, nil)
		if n := w.audit.total(); test.again > 0 && n != 1+20+test.again || len(w.waiting()) > 0 {
			t.Errorf("%+v: %d agents are ordered in all: %v; waiting %v", test, n, w.sizes(), w.waiting())
		}
	}
}

// TestWarmTimeoutEdited: an edit of warmIdleTimeout reaches the agents ordered from
// then on. With min 10, that is at most 10 in the hour after it went from 4h to
// 10m, and min holds throughout after it went from 10m to 4h.
func TestWarmTimeoutEdited(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		before, after time.Duration
		most          int
	}{{4 * time.Hour, 10 * time.Minute, 10}, {10 * time.Minute, 4 * time.Hour, 20}} {
		w := attacked(t, func(_ *shape, p *policy) { p.min, p.max, p.upkeepIdle = 10, 40, test.before })
		w.play(15*time.Minute, nil)
		before, o := w.audit.total(), w.overlays[0]
		o.spec.upkeepIdle = test.after
		o.note(w.since())
		w.edit("edits warmIdleTimeout", changeOf(o.path()+"/scaling.yaml", o.policyText()))
		w.play(w.since()+time.Hour, func() bool {
			if n := o.kube.Connected(); n < 10 {
				t.Errorf("%s to %s: at %s there are %d agents, min is 10\n%s", test.before, test.after, w.server.Now(), n, w.story())
			}
			return t.Failed()
		})
		if n := w.audit.total() - before; n > test.most {
			t.Errorf("%s to %s: %d agents are ordered in an hour, want at most %d\n%s", test.before, test.after, n, test.most, w.story())
		}
	}
}

// TestClusterEdited: when spec.cluster is edited while 10 agents work in the old
// one, jobs of the new one get what max leaves, at once, and the commit says why
// not more.
func TestClusterEdited(t *testing.T) {
	t.Parallel()
	for _, most := range []int{10, 16} {
		w := attacked(t, func(s *shape, p *policy) {
			s.inCluster, s.clusters = true, true
			p.max, p.cluster = most, "ci"
		})
		o := w.overlays[0]
		w.build(10, 2*time.Hour)
		w.play(10*time.Minute, nil)
		o.spec.cluster, o.kube.BuildkiteCluster = "second", w.second
		o.note(w.since())
		w.audit.mute = true // its books are on one cluster's jobs
		w.edit("edits the cluster", changeOf(o.path()+"/scaling.yaml", o.policyText()))
		w.server.CreateBuild(fakebuildkite.Build{Cluster: w.second, Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}, Parallelism: 20, Duration: time.Hour}}})
		w.play(w.since()+30*time.Minute, nil)
		want := []int{10}
		if most > 10 {
			want = append(want, most-10)
			text := strings.ReplaceAll(ledger.Message(*w.fleet.history()[lastOrder(w)].operation, "test"), "\n", " ")
			if say := "10 agents are in another queue or cluster than the policy says, and count as stopping."; !strings.Contains(text, say) {
				t.Errorf("the commit does not say %q:\n%s", say, text)
			}
		}
		if got := w.sizes(); !slices.Equal(got, want) {
			t.Errorf("max %d: ordered %v, want %v\n%s", most, got, want, w.story())
		}
		if running := w.running(w.second); running != most-10 {
			t.Errorf("max %d: %d jobs of the new cluster run, want %d", most, running, most-10)
		}
	}
}

func lastOrder(w *scenario) int {
	log := w.fleet.history()
	for i := len(log) - 1; i > 0; i-- {
		if log[i].operation != nil && log[i].operation.Kind == ledger.Dispatch {
			return i
		}
	}
	return 0
}

// TestTwoFleets: another fleet of the organisation has an overlay of the same name, with 10 busy
// agents. Jobs still get as many agents as max allows.
func TestTwoFleets(t *testing.T) {
	t.Parallel()
	w := attacked(t, func(s *shape, p *policy) {
		p.max = 10
		s.fleetTag = "0f1ee75a"
		other := policy{queue: "other", max: 10, lease: 5 * time.Minute, idle: 2 * time.Minute, upkeepIdle: time.Hour}
		s.namesake = &overlay{name: "a", spec: other}
	})
	w.server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=other"}, Parallelism: 10, Duration: 3 * time.Hour}}})
	w.play(10*time.Minute, nil)
	if n := w.others.Connected(); n != 10 {
		t.Fatalf("%d agents of the other fleet are connected, want 10", n)
	}
	w.build(40, 30*time.Minute)
	w.play(20*time.Minute, nil)
	if got := w.sizes(); !slices.Equal(got, []int{10}) || w.overlays[0].kube.Connected() != 10 || w.others.Connected() != 10 {
		t.Errorf("ordered %v, connected %d and the other fleet's %d, want 10 each\n%s", got, w.overlays[0].kube.Connected(), w.others.Connected(), w.story())
	}
	seen := 0
	for _, s := range w.fleet.head().operation.Decision.Observation.Overlays {
		seen += s.OtherFleets
	}
	if seen != 10 {
		t.Errorf("%d agents of a namesake are reported, want 10", seen)
	}
}

// TestAnyQueueElsewhere: jobs of any queue get the first queue's agents up to its max,
// and the other queue's where that is full or paused, each one agent.
func TestAnyQueueElsewhere(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		w := attacked(t, func(s *shape, p *policy) {
			p.max, p.paused = 4, paused
			other := overlay{name: "b", spec: *p}
			other.spec.queue, other.spec.max, other.spec.paused = "other", 20, false
			s.overlays = append(s.overlays, &other)
		})
		w.server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=*"}, Parallelism: 10, Duration: 30 * time.Minute}}})
		w.play(20*time.Minute, nil)
		want := []int{4, 6}
		if paused {
			want = []int{10}
		}
		running := w.running(w.cluster)
		if got := w.sizes(); !slices.Equal(got, want) || running != 10 {
			t.Errorf("paused %t: ordered %v, want %v; %d jobs run, want 10\n%s", paused, got, want, running, w.story())
		}
	}
}

// TestProbesWithoutAJob: agents take no job three times, and then no job is there
// whenever a probe is up. Of that nothing is learnt: there are three full orders and
// then probes.
func TestProbesWithoutAJob(t *testing.T) {
	t.Parallel()
	w := attacked(t, func(s *shape, p *policy) {
		s.inCluster, s.clusters = true, true
		p.max, p.idle, p.lease, p.cluster = 30, 2*time.Minute, 5*time.Minute, "ci"
	})
	k := w.overlays[0].kube
	k.BuildkiteCluster = w.second // where no job of theirs is
	id := w.build(30, time.Minute)
	came := k.Registered
	k.Registered = func(p *simulation.Pod) {
		came(p)
		if n := len(w.sizes()); n > 3 {
			w.server.CancelBuild(id)
			w.server.At(w.server.Now().Add(4*time.Minute), func() { id = w.build(30, time.Minute) })
		}
	}
	w.play(2*time.Hour, nil)
	got := w.sizes()
	if len(got) < 6 || fmt.Sprint(got[:5]) != "[30 30 30 1 1]" || slices.Max(got[3:]) != 1 {
		t.Errorf("ordered %v, want 30, 30, 30, 1, 1 and so on\n%s", got, w.story())
	}
}

// TestNetworkFaults: a simulation with network faults refuses requests, and changes lists between two
// pages.
func TestNetworkFaults(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	w := attacked(t, func(s *shape, p *policy) {
		s.http, s.perPage, s.rates.limited, s.rates.drift = true, 2, 0.02, 2*time.Second
		s.linger = simulation.Polling
	})
	for i := range 60 {
		w.at(time.Duration(i)*time.Minute, func() { w.build(1+i%7, 90*time.Second) })
	}
	w.play(time.Hour, nil)
	w.now.limited = 0
	w.play(2*time.Hour, nil)
	if w.seen["limited"] < 10 || w.seen["changed"] < 10 || len(w.waiting()) > 0 || w.audit.idled[0] > 0 {
		t.Errorf("happened %v, waiting %v, %d agents were of no use", w.seen, w.waiting(), w.audit.idled[0])
	}
}
