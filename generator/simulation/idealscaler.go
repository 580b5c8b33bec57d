package simulation

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// bound returns how long the jobs of a run would have waited under an ideal scaler: one that has
// all information and may only start one agent for each job, at the first tick that sees the job.
// Buildkite assigns its agents in Buildkite's order: of the runnable jobs the one with the highest
// priority, of those the one scheduled first. It has the run's own ticks, polls of the syncer,
// start-up times (the n-th agent's is the n-th pod's), job durations, max and number of nodes, and
// no faults. A scaler that starts no agent before it has seen a job for it cannot be faster on
// average. One that starts more agents than jobs can: an unused agent is waiting when the next job
// arrives.
func (r *run) bound(jobs []fakebuildkite.JobRecord) []time.Duration {
	slices.SortStableFunc(jobs, func(a, b fakebuildkite.JobRecord) int { return a.Runnable.Compare(b.Runnable) })
	fates := r.scenario.fates()
	b := ideal{
		jobs: jobs, applied: r.applied, max: r.scenario.maxAt, nodes: r.scenario.Faults.Nodes,
		startup: func() time.Duration { return fates().Startup }, made: making(r.scenario.Makers),
	}
	for i, j := range jobs {
		b.events = append(b.events, happening{j.Runnable, jobRunnable, i})
	}
	heap.Init(&b.events)
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
	jobs    []fakebuildkite.JobRecord // by when they became runnable
	applied func(tick time.Time) (time.Time, bool)
	max     func(tick time.Time) int // agents at once
	nodes   int                      // pods at once; zero is no limit
	startup func() time.Duration
	made    func(at time.Time) time.Duration // how long it takes to make the next pod

	asked   int                                         // jobs that an agent was ordered for
	alive   int                                         // agents ordered and not gone
	running int                                         // of them, those with a node
	queued  int                                         // of them, those that wait for one
	idle    int                                         // of them, those that wait for a job
	waiting fakebuildkite.Heap[fakebuildkite.JobRecord] // in Buildkite's order
	events  fakebuildkite.Heap[happening]
	waits   []time.Duration
}

// happening is what falls due in the bound; job is the one that becomes runnable.
type happening struct {
	at   time.Time
	kind int
	job  int
}

// Before reports whether it falls due before another: earliest first, then by kind.
func (h happening) Before(other happening) bool {
	return cmp.Or(h.at.Compare(other.at), cmp.Compare(h.kind, other.kind)) < 0
}

const (
	jobRunnable = iota
	podMade
	agentUp
	agentExited
)

// order starts an agent for each job that the tick sees.
func (b *ideal) order(tick time.Time) {
	at, ever := b.applied(tick)
	most := b.max(tick)
	for b.asked < len(b.jobs) && b.alive < most && !b.jobs[b.asked].Runnable.After(tick) {
		b.asked++
		b.alive++
		if ever {
			heap.Push(&b.events, happening{at: at.Add(b.made(at)), kind: podMade})
		}
	}
}

// until lets everything happen up to and including t.
func (b *ideal) until(t time.Time) {
	for len(b.events) > 0 && !b.events[0].at.After(t) {
		e := heap.Pop(&b.events).(happening)
		switch e.kind {
		case jobRunnable:
			heap.Push(&b.waiting, b.jobs[e.job])
		case podMade:
			b.queued++
		case agentUp:
			b.idle++
		case agentExited:
			b.alive--
			b.running--
		}
		for b.queued > 0 && (b.nodes == 0 || b.running < b.nodes) {
			b.queued--
			b.running++
			heap.Push(&b.events, happening{at: e.at.Add(b.startup()), kind: agentUp})
		}
		for b.idle > 0 && len(b.waiting) > 0 {
			b.serve(e.at)
		}
	}
}

// serve gives an agent the job that Buildkite dispatches first.
func (b *ideal) serve(at time.Time) {
	j := heap.Pop(&b.waiting).(fakebuildkite.JobRecord)
	b.idle--
	b.waits = append(b.waits, at.Sub(j.Runnable))
	duration := time.Duration(0)
	if !j.Finished.IsZero() {
		duration = j.Finished.Sub(j.Started)
	}
	heap.Push(&b.events, happening{at: at.Add(duration), kind: agentExited})
}
