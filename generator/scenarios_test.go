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
			all = append(all, fmt.Sprintf("%s %s %d+%d", d.At().Format("15:04:05"), d.Overlay, d.Sum.Demand, d.Sum.WarmPool))
		}
	}
	return all
}

// TestManyOrderWhatOneWould: two or five musters on one repository order exactly what one would, tick
// for tick, whichever pushes first.
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
	}
}

// TestTurnsOrderWhatOneWould: musters that take turns order what one would that polls as often as all
// of them.
func TestTurnsOrderWhatOneWould(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, seed := range scenarioSeeds() {
		s := plainShape(seed)
		s.every = 15 * time.Second
		one := playPlain(t, s).ordered()
		s = plainShape(seed)
		s.every, s.musters, s.stagger = time.Minute, 4, 15*time.Second
		if diff := cmp.Diff(one, playPlain(t, s).ordered()); diff != "" {
			t.Errorf("seed %d: one muster and four in turns (-one +four):\n%s", seed, diff)
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

// breakerScenario is one overlay with more jobs than it will ever get to, and no
// agent that is of any use until the world is healed.
func breakerScenario(t *testing.T, http bool) *scenario {
	s := quietNight()
	s.http, s.every = http, 30*time.Second
	p := &s.overlays[0].spec
	p.min, p.buffer, p.max, p.lease, p.idle = 0, 0, 8, 5*time.Minute, 3*time.Minute
	s.overlays[0].tags = []string{"os=linux"}
	w := startScenario(t, s)
	w.server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{
		Agents: []string{"queue=default", "os=linux"}, Parallelism: 30, Duration: time.Minute,
	}}})
	return w
}

// TestBreaker: when nothing that is ordered is of use, there are three full
// orders, or one where it is clear that no other would be, then single probes a
// minute after the failure and later twice as long each time, up to half an
// hour. A tick after the first probe is of use, all is as it was.
func TestBreaker(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	const m = time.Minute
	for name, test := range map[string]struct {
		hurt  func(k *kube)
		full  int           // orders, of all 8
		first time.Duration // to the first probe
	}{
		"never-registered": {func(k *kube) { k.broken = true }, 3, m},
		// The useless agents are at max, and have to leave first.
		"wrong-tags": {func(k *kube) { k.Untagged = "os=linux" }, 1, 2 * m},
	} {
		w := breakerScenario(t, name == "never-registered")
		k := w.overlays[0].kube
		test.hurt(k)
		w.play(5*time.Hour, nil)
		var sizes []int
		var waits []time.Duration
		var failed time.Time
		for _, c := range w.fleet.history()[1:] {
			d := c.operation.Decision
			if c.operation.Kind == ledger.Dispatch {
				sizes = append(sizes, d.Sum.Dispatch)
				if d.Probe {
					waits = append(waits, d.At().Sub(failed).Round(time.Minute))
				}
			}
			if b := d.State.Breaker; b.Failures > 0 {
				failed = b.At
				if string(b.Cause) != name {
					t.Errorf("%s: the cause is given as %q", name, b.Cause)
				}
			}
		}
		if n := test.full; len(sizes) < 10 || slices.Min(sizes[:n]) != 8 || slices.Max(sizes[n:]) != 1 {
			t.Errorf("%s: orders of %v, want %d of 8 and then of 1", name, sizes, n)
		}
		want := []time.Duration{test.first, 2 * m, 4 * m, 8 * m, 16 * m, 30 * m, 30 * m}
		if len(waits) < len(want) || !slices.Equal(waits[:len(want)], want) || slices.Max(waits) != 30*m {
			t.Errorf("%s: probes after %v, want %v and so on", name, waits, want)
		}
		w.checkRecovery(t, name)
	}
}

// checkRecovery ends the faults and asserts full service a tick after the first
// probe that is of use.
func (w *scenario) checkRecovery(t *testing.T, name string) {
	t.Helper()
	k := w.overlays[0].kube
	k.broken, k.Untagged = false, ""
	var worked, full time.Time
	w.play(w.since()+3*time.Hour, func() bool {
		if worked.IsZero() && slices.ContainsFunc(w.server.Jobs(), func(j fakebuildkite.JobRecord) bool { return !j.Started.IsZero() }) {
			worked = w.server.Now()
		}
		if n := len(w.audit.orders); full.IsZero() && w.audit.orders[n-1].Agents > 1 && !worked.IsZero() {
			full = w.server.Now()
		}
		return !full.IsZero()
	})
	if worked.IsZero() || full.IsZero() || full.Sub(worked) > w.every {
		t.Errorf("%s: a probe is seen at work at %s, and the next full order is of %s\n%s", name, worked, full, w.story())
	}
	w.play(w.since()+6*time.Hour, w.idle)
	if stuck := w.waiting(); len(stuck) > 0 {
		t.Errorf("%s: %d jobs still wait after six hours", name, len(stuck))
	}
}

// TestUselessAgents: agents that cannot take the jobs that they were ordered for (a template that loses
// a tag) are ordered once in full, not again at every tick until max is reached.
func TestUselessAgents(t *testing.T) {
	t.Parallel()
	s := quietNight()
	p := &s.overlays[0].spec
	p.min, p.buffer, p.max, p.lease = 0, 0, 40, 5*time.Minute
	s.overlays[0].tags = []string{"os=linux"}
	w := startScenario(t, s)
	w.server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=default", "os=linux"}, Parallelism: 8, Duration: time.Minute}}})
	w.overlays[0].kube.Untagged = "os=linux"
	w.play(40*time.Minute, nil)
	if n := w.audit.total(); n > 8+10 {
		t.Errorf("%d agents are ordered for 8 jobs, want 8 and some probes\n%s", n, w.story())
	}
}

// TestUselessUpkeep: the same for agents that are kept for min and buffer, with
// no job in sight. Once the template is fixed, min and buffer are there again.
func TestUselessUpkeep(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	s := quietNight()
	p := &s.overlays[0].spec
	p.min, p.buffer, p.max, p.lease = 5, 5, 100, 5*time.Minute
	s.overlays[0].tags = []string{"os=linux"}
	w := startScenario(t, s)
	k := w.overlays[0].kube
	k.Untagged = "os=linux"
	w.play(2*time.Hour, nil)
	if n := w.audit.total(); n > 5+5+12 {
		t.Errorf("%d agents are ordered for a buffer of 5, want one order and some probes\n%s", n, w.story())
	}
	k.Untagged = ""
	w.play(3*time.Hour, nil)
	spare := 0
	for _, d := range w.fleet.history()[len(w.fleet.history())-1:] {
		for _, g := range d.operation.Decision.Observation.Idle {
			spare += g.Agents
		}
	}
	if spare < 4 {
		t.Errorf("an hour after the template was fixed %d agents are spare\n%s", spare, w.story())
	}
}

// TestAgentsOfAnotherCluster: agents whose token is of another Buildkite cluster
// than the policy's are still the overlay's, and max bounds them.
func TestAgentsOfAnotherCluster(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	s := quietNight()
	s.inCluster = true
	p := &s.overlays[0].spec
	p.min, p.buffer, p.max = 10, 0, 20
	w := startScenario(t, s)
	wrong := w.server.AddCluster("wrong")
	w.server.AddQueue(wrong, p.queue)
	w.overlays[0].kube.BuildkiteCluster = wrong
	w.edit("names the cluster", changeOf("overlays/a/scaling.yaml", append(w.overlays[0].policyText(), "  cluster: ci\n"...)))
	w.play(2*time.Hour, func() bool {
		if n := w.overlays[0].kube.Connected(); n > p.max {
			t.Errorf("at %s there are %d agents, max is %d\n%s", w.server.Now(), n, p.max, w.story())
		}
		return t.Failed()
	})
}

// TestFailuresInFlight: orders that were under way when the breaker opened do
// not put off the first probe for half an hour.
func TestFailuresInFlight(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	s := quietNight()
	p := &s.overlays[0].spec
	p.min, p.buffer = 0, 0
	w := startScenario(t, s)
	for i := range 40 {
		w.at(time.Duration(i)*time.Minute, func() {
			w.server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}, Duration: time.Minute}}})
		})
	}
	w.overlays[0].kube.broken = true
	w.at(25*time.Minute, func() { w.overlays[0].kube.broken = false })
	w.play(45*time.Minute, nil)
	if stuck := w.waiting(); len(stuck) > 0 {
		t.Errorf("20 minutes after the image was fixed %d jobs wait\n%s", len(stuck), w.story())
	}
}

// TestTwins: fault simulations in which every fifth index has two pods. Nothing is ordered or counted
// for the second agent.
func TestTwins(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	came, cluster := 0, slices.Index(themes, "cluster")
	for i := range 10 {
		s := drawShape(uint64(cluster + i*len(themes)))
		s.rates.twin = 0.2
		w := playToEnd(t, s)
		came += w.seen[secondOfIndex]
	}
	if came < 20 {
		t.Errorf("%d agents were the second of their index, want some dozens", came)
	}
}
