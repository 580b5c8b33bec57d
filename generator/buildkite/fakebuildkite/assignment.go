package fakebuildkite

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

// bucket holds the runnable jobs of a queue that have the same rules.
type bucket struct {
	rules string
	match []string
	jobs  Heap[waitingJob]
}

// satisfies reports whether an agent with these tags may run a job with this
// rule: the tag is there, or the rule is key=* or key= and the key is. A rule
// that is only "*", as in the documentation's samples, asks for nothing (docs
// agent/cli/reference/start.md "Agent targeting").
func satisfies(tags []string, rule string) bool {
	if rule == "*" {
		return true
	}
	key, wild := strings.CutSuffix(strings.TrimSuffix(rule, "*"), "=")
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == rule || wild && strings.HasPrefix(tag, key+"=")
	})
}

// satisfiesAll reports whether every rule is satisfied: Buildkite takes no
// less (docs agent/queues.md, pipelines/configure/defining_steps.md
// "Targeting specific agents").
func satisfiesAll(tags, rules []string) bool {
	return !slices.ContainsFunc(rules, func(rule string) bool { return !satisfies(tags, rule) })
}

// enqueue makes a runnable job visible to dispatch.
func (q *queue) enqueue(j *job) {
	rules := strings.Join(j.match, "\x00")
	i := slices.IndexFunc(q.buckets, func(b *bucket) bool { return b.rules == rules })
	if i < 0 {
		i = len(q.buckets)
		q.buckets = append(q.buckets, &bucket{rules: rules, match: j.match})
	}
	j.stamp++
	heap.Push(&q.buckets[i].jobs, waitingJob{job: j, stamp: j.stamp})
}

// best returns the first job in dispatch order that tags satisfy, or nil.
// Buckets that have become empty are dropped on the way.
func (q *queue) best(tags []string) *job {
	var best *job
	kept := q.buckets[:0]
	for _, b := range q.buckets {
		j := b.head()
		if j == nil {
			continue
		}
		kept = append(kept, b)
		if (best == nil || j.before(best)) && satisfiesAll(tags, b.match) {
			best = j
		}
	}
	clear(q.buckets[len(kept):])
	q.buckets = kept
	return best
}

// head returns the first job that still waits for an agent, or nil.
func (b *bucket) head() *job {
	for len(b.jobs) > 0 {
		if w := b.jobs[0]; w.job.state == stateScheduled && w.job.stamp == w.stamp {
			return w.job
		}
		heap.Pop(&b.jobs)
	}
	return nil
}

// before reports whether j is dispatched before k: higher priority first, then
// the older scheduled_at, then the order of upload (docs
// pipelines/configure/workflows/job_priority.md "Job dispatch precedence").
func (j *job) before(k *job) bool {
	return first(j.step.Priority, k.step.Priority, j.scheduled, k.scheduled, j.seq, k.seq)
}

// first reports whether a job is dispatched before another, by the fields that determine the order.
func first(priority, otherPriority int, scheduled, otherScheduled time.Time, seq, otherSeq uint64) bool {
	return cmp.Or(cmp.Compare(otherPriority, priority), scheduled.Compare(otherScheduled), cmp.Compare(seq, otherSeq)) < 0
}

// waitingJob is a job in a bucket; stale once the job's stamp has moved on.
type waitingJob struct {
	job   *job
	stamp int
}

// Before reports whether the job is dispatched before another.
func (w waitingJob) Before(other waitingJob) bool { return w.job.before(other.job) }

// dispatchJob gives a job that has just become runnable to the best idle
// agent, or leaves it in its queue.
func (s *Server) dispatchJob(j *job) {
	c := j.build.cluster
	queues := []*queue{j.queue}
	if j.queue == c.any {
		queues = c.all
	}
	var best *agent
	for _, q := range queues {
		if q.paused {
			continue
		}
		takes := func(a *agent) bool { return a.mayWork() && satisfiesAll(a.tags, j.match) }
		i := slices.IndexFunc(q.idle, takes) // idle is in order: the first is the best
		if i >= 0 && (best == nil || q.idle[i].compare(best) < 0) {
			best = q.idle[i]
		}
	}
	j.queue.enqueue(j)
	if best != nil {
		s.assign(j, best)
	}
}

// dispatchAgent gives an idle agent the first job it satisfies.
func (s *Server) dispatchAgent(a *agent) {
	if !a.mayWork() {
		return
	}
	var best *job
	open := false
	for _, q := range a.queues {
		if q.paused {
			continue
		}
		open = true
		if j := q.best(a.tags); j != nil && (best == nil || j.before(best)) {
			best = j
		}
	}
	if !open {
		return
	}
	if j := a.cluster.any.best(a.tags); j != nil && (best == nil || j.before(best)) {
		best = j
	}
	if best != nil {
		s.assign(best, a)
	}
}
