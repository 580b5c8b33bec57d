package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"muster/testdata/bench"
)

// fleetOf makes overlays on ten queues and jobs of a hundred kinds, half of
// them waiting, with an agent for every twentieth job.
func fleetOf(overlays, jobs int) ([]Overlay, Snapshot, *Registrations) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	var loaded []Overlay
	for i := range overlays {
		o := Overlay{Name: fmt.Sprintf("overlay-%02d", i), Policy: Policy{
			Queue: fmt.Sprintf("queue-%d", i%10), Tags: []string{"os=linux", fmt.Sprintf("size=%d", i/10)},
			Min: 5, Max: 2000, Buffer: 10, Lookahead: 0.2, Lease: lease,
			IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour, Priority: i % 3,
		}}
		for k := range 20 {
			o.Dispatches = append(o.Dispatches, Dispatch{ID: fmt.Sprintf("%s-%08d", o.Name, k), Agents: 50, At: at, NotAfter: at.Add(lease)})
		}
		loaded = append(loaded, o)
	}
	s := Snapshot{At: at}
	for i := range jobs {
		state := JobPending
		if i%2 == 1 {
			state = JobUpcoming
		}
		rules := []string{fmt.Sprintf("queue=queue-%d", i%10), "os=linux"}
		if i%7 == 0 {
			rules = append(rules, fmt.Sprintf("size=%d", i%5))
		}
		s.Jobs = append(s.Jobs, Job{ID: fmt.Sprint(i), Rules: rules, State: state, Since: at.Add(-time.Duration(i%600) * time.Second), URL: "https://buildkite.com/acme/app/builds/1"})
		if i%20 == 0 {
			o := loaded[i/20%overlays]
			s.Agents = append(s.Agents, Agent{ID: fmt.Sprint("agent-", i), State: AgentIdle, IdleSince: at,
				Tags: append(o.AgentTags(), fmt.Sprintf("dispatch=%s-%08d", o.Name, i%20), fmt.Sprintf("index=%d", i/20%50))})
		}
	}
	r := &Registrations{}
	r.Note(s)
	r.Reconcile(loaded, at)
	return loaded, s, r
}

// decideAll decides on all queues, and returns how many agents are dispatched.
func decideAll(overlays []Overlay, s Snapshot, r *Registrations) (agents int) {
	for _, d := range DecideAll("c0ffee", overlays, Observe(overlays, s, r)) {
		agents += d.Figures.Dispatch
	}
	return agents
}

// BenchmarkDecide reports the median of the turns.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ overlays, jobs int }{{1, 100}, {10, 10_000}, {50, 100_000}} {
		b.Run(fmt.Sprintf("overlays=%d/jobs=%d", size.overlays, size.jobs), func(b *testing.B) {
			overlays, snapshot, register := fleetOf(size.overlays, size.jobs)
			b.ReportAllocs()
			took := turns(b, func() { decideAll(overlays, snapshot, register) })
			if size.overlays == 50 {
				bench.Row(b, "decision over 100,000 jobs and 50 overlays", took)
				bench.Row(b, "decision over 100,000 jobs and 50 overlays: allocations",
					testing.AllocsPerRun(1, func() { decideAll(overlays, snapshot, register) }))
			}
		})
	}
}

// turns runs f as often as -benchtime asks, and returns the median time in milliseconds.
func turns(b *testing.B, f func()) float64 {
	b.Helper()
	var all []float64
	for b.Loop() {
		begin := time.Now()
		f()
		all = append(all, bench.Milliseconds(time.Since(begin)))
	}
	return bench.Median(all)
}

// TestDecisionAllocatesLittlePerJobAndAgent asserts that a decision on 100,000 jobs, 5,000
// agents and 50 overlays makes fewer allocations than there are agents.
func TestDecisionAllocatesLittlePerJobAndAgent(t *testing.T) {
	overlays, snapshot, register := fleetOf(50, 100_000)
	if n := testing.AllocsPerRun(1, func() { decideAll(overlays, snapshot, register) }); n > 5000 {
		t.Errorf("%.0f allocations, want at most 5,000", n)
	}
}

// queuesOf makes queues of a cluster with an overlay, two agents and ten jobs each, and
// two queues that no overlay serves for every ten.
func queuesOf(n int) ([]Overlay, Snapshot) {
	s := Snapshot{At: time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)}
	var loaded []Overlay
	for i := range n + n/5 {
		key := fmt.Sprintf("queue-%05d", i)
		s.Queues = append(s.Queues, Queue{Cluster: "c", ClusterName: "ci", Key: key})
		for range 10 {
			s.Jobs = append(s.Jobs, Job{ID: fmt.Sprint(len(s.Jobs)), Cluster: "c", Rules: []string{"queue=" + key}, State: JobPending, Since: s.At})
		}
		if i >= n {
			continue
		}
		o := Overlay{Name: fmt.Sprintf("overlay-%05d", i), Policy: Policy{Queue: key, Cluster: "ci", Max: 20, Lease: lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour}}
		o.Dispatches = []Dispatch{{ID: o.Name + "-1", Purpose: ForDemand, Agents: 3, At: s.At, NotAfter: s.At.Add(lease)}}
		for k, state := range []AgentState{AgentIdle, AgentBusy} {
			s.Agents = append(s.Agents, Agent{ID: fmt.Sprint(len(s.Agents)), Cluster: "c", State: state, Connected: s.At,
				Tags: append(o.AgentTags(), o.Dispatches[0].PodTags()[0], fmt.Sprintf("index=%d", k))})
		}
		loaded = append(loaded, o)
	}
	return loaded, s
}

// tick makes the calls of a tick of generator.Generator whose cost depends on all queues.
func tick(overlays []Overlay, s Snapshot, r *Registrations) {
	r.Note(s)
	r.Reconcile(overlays, s.At)
	Sharing(overlays)
	FindUnserved(overlays, s)
	decideAll(overlays, s, r)
}

// BenchmarkQueues reports with its largest size the growth exponent of the CPU time: the
// larger of those of its two steps, each to ten times as many queues.
func BenchmarkQueues(b *testing.B) {
	var before, exponent float64
	for _, n := range []int{50, 500, 5000} {
		b.Run(fmt.Sprintf("queues=%d", n), func(b *testing.B) {
			overlays, s := queuesOf(n)
			r := &Registrations{}
			b.ReportAllocs()
			begin := bench.CPUTime()
			wall := turns(b, func() { tick(overlays, s, r) })
			took := float64(bench.CPUTime()-begin) / float64(b.N)
			if before > 0 {
				exponent = max(exponent, math.Log10(took/before))
			}
			if before = took; n == 5000 {
				bench.Row(b, "decision over 5,000 queues and 60,000 jobs", wall)
				bench.Row(b, "growth exponent of CPU time over 50, 500 and 5,000 queues", exponent)
			}
		})
	}
}

// overlaysOf makes overlays of one queue, with 10,000 jobs and three agents for each: one that runs
// a job, one that waits, and one that nobody ordered. The number of rule sets grows with the
// overlays. If they are alike, each overlay can serve all of them; otherwise it can serve two. If they
// are combined, they and the rule sets have 12 and three of 24 tags.
func overlaysOf(n int, kind string) ([]Overlay, Snapshot) {
	s := Snapshot{At: time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)}
	var loaded []Overlay
	features := []string{"os=linux"}
	for i := range 11 {
		features = append(features, fmt.Sprintf("feature%d=yes", i))
	}
	alike, random := kind == "alike", rand.New(rand.NewPCG(1, 2))
	some := func(tags int) (all []string) {
		for _, k := range random.Perm(24)[:tags] {
			all = append(all, fmt.Sprintf("tag%d=yes", k))
		}
		return all
	}
	ruleSets := make([][]string, n)
	for i := range ruleSets {
		if ruleSets[i] = []string{fmt.Sprintf("size=%04d", i)}; kind == "combined" {
			ruleSets[i] = some(3)
		}
	}
	rules := func(i int) (all []string) {
		switch {
		case !alike && i%5 == 0:
			return features[:1]
		case !alike:
			return ruleSets[i%n]
		}
		for k, f := range features {
			if (i%n)>>k&1 == 1 {
				all = append(all, f)
			}
		}
		return all
	}
	for i := range n {
		o := Overlay{Name: fmt.Sprintf("overlay-%04d", i), Policy: Policy{
			Queue: "default", Tags: features, Min: 1, Max: 20, Buffer: 2, Lookahead: 0.5, Priority: i % 2, Lease: lease,
			IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour,
		}}
		if !alike {
			o.Policy.Tags = append(features[:1:1], ruleSets[i]...)
		}
		if kind == "combined" {
			o.Policy.Tags = append(features[:1:1], some(12)...)
		}
		id := o.Name + "-1"
		o.Dispatches = []Dispatch{{ID: id, Purpose: ForDemand, Agents: 3, At: s.At, NotAfter: s.At.Add(lease)}}
		loaded = append(loaded, o)
		for k, state := range []AgentState{AgentIdle, AgentBusy} {
			s.Agents = append(s.Agents, Agent{ID: fmt.Sprint(id, k), State: state, Connected: s.At, Tags: append(o.AgentTags(), "dispatch="+id, fmt.Sprintf("index=%d", k))})
		}
		s.Agents = append(s.Agents, Agent{ID: id, State: AgentIdle, Tags: append([]string{"queue=default", fmt.Sprintf("host=%d", i)}, o.Policy.Tags[1:]...)})
	}
	for i := range 10_000 {
		state := JobPending
		if i%7 == 0 {
			state = JobUpcoming
		}
		s.Jobs = append(s.Jobs, Job{ID: fmt.Sprint(i), Rules: append([]string{"queue=default"}, rules(i)...), State: state, Since: s.At, Created: s.At})
	}
	return loaded, s
}

// overlayKinds are those of [overlaysOf]. In the last one the number of pairs of an overlay and a rule
// set that it satisfies grows with the square of the overlays.
var overlayKinds = []string{"different", "alike", "combined"}

// BenchmarkOverlays reports the growth exponent of the CPU time, as [BenchmarkQueues] does.
func BenchmarkOverlays(b *testing.B) {
	exponent := 0.0
	for _, kind := range overlayKinds {
		before := 0.0
		for _, n := range []int{20, 200, 2000} {
			b.Run(fmt.Sprintf("%s/overlays=%d", kind, n), func(b *testing.B) {
				overlays, s := overlaysOf(n, kind)
				r := &Registrations{}
				begin := bench.CPUTime()
				turns(b, func() { tick(overlays, s, r) })
				took := float64(bench.CPUTime()-begin) / float64(b.N)
				if before > 0 && kind != "combined" {
					exponent = max(exponent, math.Log10(took/before))
				}
				switch before = took; {
				case n < 2000:
				case kind == "alike":
					bench.Row(b, "growth exponent of CPU time over 20 to 2,000 overlays", exponent)
				case kind == "combined":
					bench.Row(b, "decision over 2,000 overlays, 2,000 combinations of tags", took/1e9)
				}
			})
		}
	}
}

// TestTickAllocatesInProportionToQueues asserts that with ten times as many queues a tick
// allocates at most 10^1.3 times as much, even if a job may run in any of them.
func TestTickAllocatesInProportionToQueues(t *testing.T) {
	for _, anyQueue := range []int{0, 1} {
		allocated := func(queues int) float64 {
			overlays, s := queuesOf(queues)
			for range anyQueue {
				s.Jobs = append(s.Jobs, Job{ID: "any", Cluster: "c", Rules: []string{"queue=*"}, State: JobPending, Since: s.At})
			}
			return allocatedByTick(overlays, s)
		}
		few, many := allocated(50), allocated(500)
		if exponent := math.Log10(many / few); exponent > 1.3 {
			t.Errorf("%d jobs of any queue: 50 queues allocate %.0f bytes, and 500 queues %.0f: growth exponent %.2f, want at most 1.3", anyQueue, few, many, exponent)
		}
	}
}

// TestTickAllocatesInProportionToOverlays asserts the same of overlays of one queue.
func TestTickAllocatesInProportionToOverlays(t *testing.T) {
	for _, kind := range overlayKinds[:2] {
		few, many := allocatedByTick(overlaysOf(100, kind)), allocatedByTick(overlaysOf(1000, kind))
		if exponent := math.Log10(many / few); exponent > 1.3 {
			t.Errorf("%s: 100 overlays allocate %.0f bytes, and 1,000 overlays %.0f: growth exponent %.2f, want at most 1.3", kind, few, many, exponent)
		}
	}
}

// allocatedByTick returns the bytes that a second tick allocates.
func allocatedByTick(overlays []Overlay, s Snapshot) float64 {
	r := &Registrations{}
	tick(overlays, s, r)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tick(overlays, s, r)
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// chainOf makes rule sets that overlap like the links of a chain: an idle agent
// can take the jobs of its own rule set and of the next, so that a job which is
// left over can be handed on along the whole chain.
func chainOf(ruleSets, idle int) ([]Overlay, Snapshot) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	s := Snapshot{At: at}
	all := Overlay{Name: "all", Policy: Policy{Queue: "default", Max: 10_000, Lease: lease, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour}}
	for i := range ruleSets {
		all.Policy.Tags = append(all.Policy.Tags, fmt.Sprintf("k%04d=v", i))
		for range 2 {
			s.Jobs = append(s.Jobs, Job{Rules: []string{"queue=default", fmt.Sprintf("k%04d=v", i)}, State: JobPending, Since: at})
		}
	}
	for i := range idle {
		s.Agents = append(s.Agents, Agent{ID: fmt.Sprint(i), State: AgentIdle, Tags: []string{
			"queue=default", fmt.Sprintf("k%04d=v", i%ruleSets), fmt.Sprintf("k%04d=v", (i+1)%ruleSets),
		}})
	}
	return []Overlay{all}, s
}

// crossOf makes overlays of which each serves other rule sets, and several serve
// each.
func crossOf(overlays, ruleSets, most int) ([]Overlay, Snapshot) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	s := Snapshot{At: at}
	var loaded []Overlay
	for i := range overlays {
		o := Overlay{Name: fmt.Sprintf("overlay-%02d", i), Policy: Policy{Queue: "default", Max: most, Lease: lease, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour}}
		for r := range ruleSets {
			if (r*7+i*i+r/overlays)%3 != 0 {
				o.Policy.Tags = append(o.Policy.Tags, fmt.Sprintf("k%04d=v", r))
			}
		}
		loaded = append(loaded, o)
	}
	for r := range ruleSets {
		for range overlays {
			s.Jobs = append(s.Jobs, Job{Rules: []string{"queue=default", fmt.Sprintf("k%04d=v", r)}, State: JobPending, Since: at})
		}
	}
	return loaded, s
}

// BenchmarkGrowth has what grew with the fourth power: each step doubles the
// size, so that the ratio of two steps is the power.
func BenchmarkGrowth(b *testing.B) {
	figures := map[string]string{
		"chain/ruleSets=300":  "decision over 300 rule sets and 450 idle agents",
		"cross/ruleSets=1000": "decision over 20 overlays of max 1,000, 1,000 rule sets",
	}
	run := func(name string, overlays []Overlay, s Snapshot) {
		b.Run(name, func(b *testing.B) {
			took := turns(b, func() { decideAll(overlays, s, &Registrations{}) })
			if figure := figures[name]; figure != "" {
				bench.Row(b, figure, took)
			}
		})
	}
	for _, n := range []int{75, 150, 300} {
		overlays, s := chainOf(n, n*3/2)
		run(fmt.Sprintf("chain/ruleSets=%d", n), overlays, s)
	}
	for _, n := range []int{250, 500, 1000} {
		overlays, s := crossOf(20, n, 1000)
		run(fmt.Sprintf("cross/ruleSets=%d", n), overlays, s)
	}
}
