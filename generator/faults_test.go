package generator_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

var (
	seeds   = flag.Int("seeds", 6, "simulated worlds that TestFaults plays")
	replays = flag.Int("replays", 3, "simulated worlds whose commits are explained and verified again")
	first   = flag.Uint64("first", 1, "the first of their seeds")
	oneSeed = flag.Uint64("seed", 0, "the one seed to play again")
)

// themes are what goes wrong; a seed has one.
var themes = []string{"plain", "network", "rivals", "people", "cluster", "queues", "everything"}

// TestFaults runs fault simulations, and asserts what must be true in all of them. A failed seed can
// be run separately:
//
//	go test ./generator -run Faults -seed N
func TestFaults(t *testing.T) {
	if *oneSeed != 0 {
		playSeed(t, *oneSeed)
		return
	}
	var mu sync.Mutex
	seen := map[string]int{}
	t.Cleanup(func() {
		t.Logf("came about: %v", seen)
		for _, what := range []string{"rate limit", "changed list", "twin", "orders with stacks", "crowds", "tick metrics", "webhook forged"} {
			if *seeds >= 100 && seen[what] == 0 {
				t.Errorf("no seed played %q: what it does to muster is not tested", what)
			}
		}
	})
	const parts = 7 // no common factor with 32: each part has its share of the whole days
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			if part < parts-2 { // two parts suffice for the race detector, without a whole day in 100 seeds
				unraced.Only(t)
			}
			for seed := *first + part; seed < *first+uint64(*seeds); seed += parts {
				if t.Failed() {
					t.Fatalf("seed %d and each seventh after it up to %d were not played", seed, *first+uint64(*seeds)-1)
				}
				happened := playSeed(t, seed)
				mu.Lock()
				for what, n := range happened {
					seen[what] += n
				}
				mu.Unlock()
			}
		})
	}
}

// playSeed runs a simulation, and returns how often each event occurred.
func playSeed(t *testing.T, seed uint64) map[string]int {
	s := drawShape(seed)
	drawCrowds(&s)
	w := playToEnd(t, s)
	if s.stacks {
		w.seen["orders with stacks"] += w.audit.total()
	}
	if testing.Verbose() && *oneSeed != 0 {
		t.Logf("%s\n%s\n%v", w.story(), w.sums(), w.seen)
	}
	return w.seen
}

// played are the scenarios of eachReplay, by seed: functions that return a *scenario.
var played sync.Map

// eachReplay runs a subtest for each of the -replays seeds, from the first one without faults, on its
// scenario after at most two hours. The tests that recompute commits share a scenario; TestFaults asserts what happens in it.
func eachReplay(t *testing.T, check func(t *testing.T, w *scenario)) {
	t.Helper()
	plain := (*first + uint64(len(themes)) - 1) / uint64(len(themes)) * uint64(len(themes))
	for seed := plain; seed < plain+uint64(*replays); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			play, _ := played.LoadOrStore(seed, sync.OnceValue(func() *scenario {
				s := drawShape(seed)
				s.length = min(s.length, 2*time.Hour)
				w := newScenario(s, func(string) {})
				w.play(s.length, nil)
				return w
			}))
			check(t, play.(func() *scenario)())
		})
	}
}

// playToEnd plays a scenario with its faults, and then without them until all work is done.
func playToEnd(t *testing.T, s shape) *scenario {
	t.Helper()
	w := startScenario(t, s)
	w.play(s.length, nil)
	w.conclude()
	return w
}

// story is what happened last.
func (w *scenario) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world: %d musters, every %s, http %t, clusters %t, stacks %t, metrics %+v, webhooks %+v\n", len(w.musters), w.every, w.http, w.inCluster, w.stacks, w.metrics, w.hooks)
	for _, o := range w.overlays {
		fmt.Fprintf(&b, "overlay %s %v: %+v\n", o.name, o.tags, o.spec)
	}
	fmt.Fprintf(&b, "work %+v\nrates %+v\n", w.work, w.rates)
	last := w.lines[max(0, len(w.lines)-60):]
	b.WriteString(strings.Join(last, "\n"))
	return b.String()
}

func (w *scenario) sums() string {
	s := w.server.Stats()
	return fmt.Sprintf("%d jobs, %d agents ordered in %d dispatches, %d came, worked %v, left idle %v, causes %v, commits %v",
		s.Runnable, w.audit.total(), len(w.audit.orders), len(w.audit.agents), w.audit.worked, w.audit.idled, w.audit.causes(), w.audit.commits)
}

func (a *audit) total() int {
	n := 0
	for _, o := range a.orders {
		n += o.Agents
	}
	return n
}

// drawShape draws a scenario.
func drawShape(seed uint64) shape {
	r := rand.New(rand.NewPCG(seed, 1))
	s := shape{
		seed: seed, theme: themes[seed%uint64(len(themes))], length: 20*time.Minute + time.Duration(r.Int64N(int64(time.Hour))),
		every: time.Duration(15+5*r.IntN(8)) * time.Second, musters: 1, http: r.IntN(4) == 0, inCluster: r.IntN(2) == 0, perPage: 100,
	}
	if seed%32 == 0 { // a whole day
		s.length, s.every = 24*time.Hour, 2*time.Minute
	}
	if s.http && r.IntN(2) == 0 {
		s.perPage = 5
	}
	s.overlays = drawOverlays(r)
	s.work = drawWork(r)
	s.rates = rates{
		lag:     time.Duration(10+r.IntN(50)) * time.Second,
		startup: [2]time.Duration{time.Duration(5+r.IntN(20)) * time.Second, time.Duration(25+r.IntN(60)) * time.Second},
	}
	if s.theme == "plain" {
		drawMore(&s)
		drawReuse(&s)
		drawAuto(&s)
		return s
	}
	all := s.theme == "everything"
	draw := func(theme string, into *rates) {
		if all && r.IntN(3) > 0 || s.theme == theme {
			drawRates[theme](r, into)
		}
	}
	for _, theme := range themes[1 : len(themes)-1] {
		draw(theme, &s.rates)
	}
	if all && r.IntN(2) == 0 || s.theme == "rivals" {
		s.musters = 2 + r.IntN(4)
		s.stagger = time.Duration(r.Int64N(int64(s.every)))
		s.rates.interleave = 0.4
	}
	if all && r.IntN(2) == 0 || s.theme == "queues" {
		s.work.foreign, s.work.reserved, s.work.cancelled = float64(r.IntN(6)), 0.1, 0.2
	}
	drawMore(&s)
	drawReuse(&s)
	drawAuto(&s)
	return s
}

// upTo draws a rate, often none.
func upTo(r *rand.Rand, most float64) float64 {
	if r.IntN(3) == 0 {
		return 0
	}
	return most * r.Float64()
}

var drawRates = map[string]func(r *rand.Rand, into *rates){
	"network": func(r *rand.Rand, into *rates) {
		into.unreachable, into.stale, into.refused = upTo(r, 0.1), upTo(r, 0.1), upTo(r, 0.3)
		into.moved, into.swallowed, into.overtaken = upTo(r, 0.5), upTo(r, 0.5), upTo(r, 0.3)
		into.kill = upTo(r, 0.02)
		into.limited, into.broken, into.half, into.hang = upTo(r, 0.02), upTo(r, 0.05), upTo(r, 0.05), upTo(r, 0.01)
		into.drift = time.Duration(r.IntN(3)) * time.Second
	},
	"rivals": func(r *rand.Rand, into *rates) {
		into.moved, into.swallowed, into.kill = upTo(r, 0.2), upTo(r, 0.2), upTo(r, 0.01)
	},
	"people": func(r *rand.Rand, into *rates) {
		into.people, into.policies, into.meddle = upTo(r, 20), upTo(r, 6), upTo(r, 0.01)
	},
	"cluster": func(r *rand.Rand, into *rates) {
		into.noShow, into.crashPod, into.nodes = upTo(r, 0.3), upTo(r, 0.2), r.IntN(2)*(1+r.IntN(10))
		into.drains, into.deletions = upTo(r, 6), upTo(r, 2)
		into.skew = time.Duration(r.IntN(241)-120) * time.Second
		into.outages, into.outage = r.IntN(2), time.Duration(r.Int64N(int64(3*time.Hour)))
		into.brokenImages = r.IntN(2)
		into.startup[1] += time.Duration(r.IntN(2)*r.IntN(600)) * time.Second
	},
	"queues": func(r *rand.Rand, into *rates) {
		into.pauses, into.hidden, into.policies = upTo(r, 2), upTo(r, 0.02), upTo(r, 3)
	},
}

func drawOverlays(r *rand.Rand) []*overlay {
	one := func(name, queue string, tags ...string) *overlay {
		p := policy{
			queue: queue, max: 1 + r.IntN(25), lease: time.Duration(3+r.IntN(13)) * time.Minute,
			idle: time.Duration(1+r.IntN(5)) * time.Minute, upkeepIdle: time.Duration(20+r.IntN(41)) * time.Minute,
		}
		if r.IntN(2) == 0 {
			p.min = r.IntN(p.max/2 + 1)
			p.buffer = r.IntN(4)
		}
		if r.IntN(3) == 0 {
			p.lookahead = 50 * r.IntN(3)
		}
		if r.IntN(5) == 0 {
			p.perHour = 30 + r.IntN(50)
		}
		if r.IntN(5) == 0 {
			c := &p.schedule
			c.from, c.max = 7+r.IntN(4), p.max+r.IntN(10)
			c.min, c.buffer = r.IntN(c.max/2+1), r.IntN(4)
		}
		return &overlay{name: name, tags: tags, spec: p}
	}
	first := one("a", "default")
	switch r.IntN(8) {
	case 0, 1:
		second := one("b", "default")
		second.spec.priority = r.IntN(2)
		return []*overlay{first, second}
	case 2:
		second, third := one("b", "default"), one("c", "default")
		second.spec.priority, third.spec.priority = r.IntN(3), r.IntN(3)
		return []*overlay{first, second, third}
	case 3:
		return []*overlay{first, one("large", "large", "os=linux", "size=large")}
	case 4:
		return []*overlay{first, one("linux", "default", "os=linux")}
	}
	return []*overlay{first}
}

func drawWork(r *rand.Rand) work {
	k := work{
		builds: 4 + 30*r.Float64(), bursts: upTo(r, 2), burst: 5 + r.IntN(40), job: time.Duration(20+r.IntN(600)) * time.Second,
		limited: 0.1, unmatched: 0.05, blocked: 0.05, chained: 0.15, flaky: 0.1,
	}
	if r.IntN(2) == 0 {
		k.cancelled = 0.1
	}
	return k
}

// conclude ends all faults, and asserts that muster recovers.
func (w *scenario) conclude() {
	w.heal()
	w.play(w.since()+1000*time.Hour, func() bool {
		return w.musters[0].ticks%8 == 0 && (len(w.waiting()) == 0 || len(w.stuck()) > 0)
	})
	if w.audit.failed {
		return
	}
	if stuck := w.stuck(); len(stuck) > 0 {
		w.audit.failf("jobs wait for ever: %v", stuck)
		return
	}
	w.every = 90 * time.Second
	w.play(w.since()+75*time.Minute, nil)
	if w.audit.failed {
		return
	}
	w.audit.checkUnused()
	most := w.audit.loose + w.audit.overdue + w.audit.again + w.audit.overdue + w.audit.astray[1] + w.audit.cameBack()
	for _, o := range w.overlays {
		most += o.least*(1+o.edges) + int(o.turns+o.turnsUntil(w.since()))
	}
	if w.audit.idled[1] > most {
		w.audit.failf("%d agents kept for min and buffer left idle, at most %d should", w.audit.idled[1], most)
	}
	w.checkUpkeep()
	t := w.fleet.head().tree
	for _, o := range w.overlays {
		for _, name := range t.below(o.path() + "/dispatches") {
			id, ok := manifestID(o.path() + "/dispatches/" + name)
			x := w.audit.dispatches[id]
			if ok && x != nil && w.server.Now().Sub(x.NotAfter) > plan.Grace+31*time.Minute+2*w.every {
				w.audit.failf("%s holds %s, whose lease ended at %s", o.name, id, x.NotAfter)
			}
		}
	}
}

// stuck lists the jobs that wait for ever: for six hours without any fault they
// could have had an agent, and no other job of their queue was given one either, or
// they have had one all the while. (A queue that is long because max was low, or a
// line in a concurrency group, takes as long as it takes.)
func (w *scenario) stuck() []string {
	last := map[string]time.Time{} // when a job of the queue was started
	queue := func(j fakebuildkite.JobRecord) string { return tagOf(j.Rules, "queue") }
	for _, j := range w.server.Jobs() {
		if j.Started.After(last[queue(j)]) {
			last[queue(j)] = j.Started
		}
	}
	var ids []string
	for _, j := range w.underWay() {
		times := []time.Time{w.healed, j.Runnable, j.Started}
		if j.State != "running" {
			times = append(times, last[queue(j)])
		}
		if since := slices.MaxFunc(times, time.Time.Compare); w.server.Now().Sub(since) > 6*time.Hour {
			ids = append(ids, j.ID+" "+j.State)
		}
	}
	return ids
}

// waiting lists the jobs that wait for an agent and could have one.
func (w *scenario) waiting() []string {
	var ids []string
	for _, j := range w.underWay() {
		ids = append(ids, j.ID+" "+j.State)
	}
	return ids
}

// underWay lists the jobs that wait for an agent or have one, and that an overlay
// could serve.
func (w *scenario) underWay() []fakebuildkite.JobRecord {
	return slices.DeleteFunc(w.server.Jobs(), func(j fakebuildkite.JobRecord) bool {
		return j.State != "scheduled" && j.State != "assigned" && j.State != "running" || w.audit.servable(j) == 0
	})
}

// checkUpkeep asserts min and buffer, after an hour without faults. One that
// has just left is missed for as long as it takes to replace it.
func (w *scenario) checkUpkeep() {
	var short string
	w.play(w.since()+15*time.Minute, func() bool { short = w.short(); return short == "" })
	if short != "" {
		w.audit.fail(short)
	}
}

func (w *scenario) short() string {
	for _, o := range w.overlays {
		p := o.spec
		if p.schedule.max > 0 {
			continue // it may have begun just now
		}
		busy, idle := 0, 0
		for _, a := range w.server.Agents() {
			if a.State == "connected" && o.kube.Pod(a.ID) != nil {
				if a.Job == "" {
					idle++
				} else {
					busy++
				}
			}
		}
		if p.reuse.uptime > 0 && busy+idle+w.audit.coming(o) >= p.max {
			// Agents that stay are replaced before their uptime is over as far as max leaves
			// room: "though still against `max`" (docs/reference/decision.md, "Replaced agents").
			// Without room one is ordered when another has left, and is missed while it is in
			// flight: here all that max allows is there or in flight.
			continue
		}
		if busy+idle < p.min {
			return fmt.Sprintf("%s has %d agents, min is %d", o.name, busy+idle, p.min)
		}
		if idle < min(p.buffer, p.max-busy) {
			return fmt.Sprintf("%s has %d idle agents, the buffer is %d", o.name, idle, p.buffer)
		}
	}
	return ""
}

func (w *scenario) recentlyBroken(o *overlay) bool {
	return w.server.Now().Sub(o.fixed) < 5*time.Minute
}
