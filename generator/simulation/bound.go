package simulation

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// bound returns how long the jobs of a run would have waited under a scaler
// that knows everything and may do one thing only: start one agent for each job,
// at the first tick that hears of it, in the order in which jobs became
// runnable. It has the run's own ticks, looks of the syncer, boot times (the
// n-th agent's is the n-th pod's), job durations, max and number of nodes, and
// nothing of its goes wrong. A scaler that starts no agent before it has heard
// of a job for it cannot be faster. One that starts more agents than jobs can:
// what it started in vain is waiting when the next job comes.
func (r *run) bound(jobs []fakebuildkite.JobRecord) []time.Duration {
	slices.SortStableFunc(jobs, func(a, b fakebuildkite.JobRecord) int { return a.Runnable.Compare(b.Runnable) })
	fates := r.world.fates()
	b := ideal{
		jobs: jobs, syncs: r.synced, most: r.world.Policy.Max, nodes: r.world.Trouble.Nodes,
		boot: func() time.Duration { return fates().Boot },
	}
	for _, tick := range r.looked {
		b.until(tick)
		b.order(tick)
	}
	b.until(endOfTime)
	return b.waits
}

var endOfTime = time.Unix(1<<40, 0)

// ideal is the scaler of the bound at work.
type ideal struct {
	jobs  []fakebuildkite.JobRecord // by when they became runnable
	syncs []time.Time
	most  int // agents at once
	nodes int // pods at once; zero is no limit
	boot  func() time.Duration

	asked   int // jobs that an agent was ordered for
	served  int // jobs that have an agent
	alive   int // agents ordered and not gone
	running int // of them, those with a node
	queued  int // of them, those that wait for one
	idle    []time.Time
	events  happenings
	waits   []time.Duration
}

type happening struct {
	at   time.Time
	kind int
}

const (
	podMade = iota
	agentUp
	agentGone
)

// order starts an agent for each job that the tick hears of. The syncer sees it at its
// next look: one at the moment of the tick came first; see [Play].
func (b *ideal) order(tick time.Time) {
	for b.asked < len(b.jobs) && b.alive < b.most && !b.jobs[b.asked].Runnable.After(tick) {
		b.asked++
		b.alive++
		i := sort.Search(len(b.syncs), func(i int) bool { return b.syncs[i].After(tick) })
		if i < len(b.syncs) {
			heap.Push(&b.events, happening{b.syncs[i], podMade})
		}
	}
}

// until lets everything happen up to and including t.
func (b *ideal) until(t time.Time) {
	for len(b.events) > 0 && !b.events[0].at.After(t) {
		e := heap.Pop(&b.events).(happening)
		switch e.kind {
		case podMade:
			b.queued++
		case agentUp:
			b.idle = append(b.idle, e.at)
		case agentGone:
			b.alive--
			b.running--
		}
		for b.queued > 0 && (b.nodes == 0 || b.running < b.nodes) {
			b.queued--
			b.running++
			heap.Push(&b.events, happening{e.at.Add(b.boot()), agentUp})
		}
		for len(b.idle) > 0 && b.served < len(b.jobs) {
			b.serve()
		}
	}
}

// serve gives the next job to the agent that has been up longest.
func (b *ideal) serve() {
	j := b.jobs[b.served]
	start := b.idle[0]
	if j.Runnable.After(start) {
		start = j.Runnable
	}
	b.idle = b.idle[1:]
	b.served++
	b.waits = append(b.waits, start.Sub(j.Runnable))
	duration := time.Duration(0)
	if !j.Finished.IsZero() {
		duration = j.Finished.Sub(j.Started)
	}
	heap.Push(&b.events, happening{start.Add(duration), agentGone})
}

// happenings is a heap: earliest first, then pods made, agents up, agents gone.
type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return cmp.Less(h[i].kind, h[j].kind)
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
