package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"muster/generator/history"
)

// Waits are the waits of jobs until an agent took them.
type Waits []wait

// wait contains the bounds of the wait of some jobs, and an estimate.
type wait struct {
	least, about, most time.Duration
	jobs               int
}

// Quantile returns the bounds of a quantile, in seconds; false if there are no jobs. The bounds of the
// quantile are the quantiles of the bounds.
func (w Waits) Quantile(q float64) (Range, bool) {
	jobs := 0
	for _, x := range w {
		jobs += x.jobs
	}
	quantile := func(of func(wait) time.Duration) float64 {
		sorted := slices.SortedFunc(slices.Values(w), func(a, b wait) int { return cmp.Compare(of(a), of(b)) })
		rest := int(math.Ceil(q * float64(jobs)))
		for _, x := range sorted {
			if rest -= x.jobs; rest <= 0 {
				return of(x).Seconds()
			}
		}
		return 0
	}
	return Range{
		Min:   quantile(func(x wait) time.Duration { return x.least }),
		About: quantile(func(x wait) time.Duration { return x.about }),
		Max:   quantile(func(x wait) time.Duration { return x.most }),
	}, jobs > 0
}

// queue is the queue of an overlay's pending jobs. The oldest job gets the next agent.
type queue struct {
	last    history.Sample
	begun   bool
	pending []arrival // oldest first
}

// arrival is the period in which some jobs became pending. The oldest jobs may have left.
type arrival struct {
	from, to  time.Time
	all, jobs int
}

// poll is the default time between two polls: agents registered at most that long before a poll showed them.
const poll = 15 * time.Second

// maxParts is the number of estimates for the jobs of an arrival that left together.
const maxParts = 16

// add adds a sample, and passes the waits of the jobs that started since the last one. The result contains
// the bounds of their number.
func (q *queue) add(s history.Sample, started func(wait)) Range {
	last := q.last
	if q.begun && s.At.Before(last.At) {
		return Range{} // a clock that was set back
	}
	defer func() { q.last, q.begun = s, true }()
	oldest := s.Oldest
	if oldest.IsZero() || oldest.After(s.At) {
		oldest = last.At
	}
	if !q.begun {
		q.pending = []arrival{{oldest, s.At, s.Pending, s.Pending}}
		return Range{}
	}
	// Agents took a job if they registered and are not idle. All jobs that were pending have left if there are
	// none now, or if the oldest is newer.
	taken := max(0, s.Registered-(s.Idle-last.Idle))
	left := last.Pending
	if s.Pending > 0 && !oldest.After(last.At) {
		left = min(left, max(taken, left-s.Pending))
	}
	counted := left
	if last.Shared || s.Shared { // agents of other overlays took the rest
		counted = min(left, taken)
	}
	rest, restCounted := left, counted
	for _, x := range s.Registrations {
		n, c := min(rest, x.Agents), min(restCounted, x.Agents)
		from, to := later(last.At, x.First.Add(-poll)), s.At
		if x.Last.Before(to) && x.Last.After(from) {
			to = x.Last
		}
		q.leave(n, c, from, to, started)
		rest, restCounted = rest-n, restCounted-c
	}
	q.leave(rest, restCounted, last.At, s.At, started)
	// Other jobs came and went between the samples. They found idle agents, or those in flight.
	unseen := max(0, taken-left)
	if found := min(unseen, last.Idle); found > 0 {
		started(wait{jobs: found})
	}
	if rest := unseen - last.Idle; rest > 0 {
		started(wait{most: s.At.Sub(last.At), jobs: rest})
	}
	if n := s.Pending - (last.Pending - left); n > 0 {
		if oldest.Before(last.At) {
			oldest = last.At
		}
		q.pending = append(q.pending, arrival{oldest, s.At, n, n})
	}
	return between(counted, counted+unseen)
}

// leave removes the n oldest jobs, which left between two times, and passes the waits of the first counted.
func (q *queue) leave(n, counted int, from, to time.Time, started func(wait)) {
	for done := 0; done < n && len(q.pending) > 0; {
		first := &q.pending[0]
		k := min(n-done, first.jobs)
		part := (k + maxParts - 1) / maxParts
		for i := 0; i < k; i += part {
			jobs := min(part, k-i, counted-done-i)
			if jobs <= 0 {
				break
			}
			middle := float64(i) + float64(jobs)/2
			arrived := at(first.from, first.to, (float64(first.all-first.jobs)+middle)/float64(first.all))
			left := at(from, to, (float64(done)+middle)/float64(n))
			least, most := max(0, from.Sub(first.to)), max(0, to.Sub(first.from))
			started(wait{least, min(max(least, left.Sub(arrived)), most), most, jobs})
		}
		done += k
		if first.jobs -= k; first.jobs == 0 {
			q.pending = q.pending[1:]
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// at returns the time at a share of a period.
func at(from, to time.Time, share float64) time.Time {
	return from.Add(time.Duration(float64(to.Sub(from)) * share))
}
