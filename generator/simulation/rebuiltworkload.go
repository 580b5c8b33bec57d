package simulation

import (
	"errors"
	"math"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// Rebuild returns a workload from observations, in any order, for the named overlay. A commit
// contains the number of pending jobs and the time of the oldest, the number of busy and idle
// agents, and the agents that had registered. So
//
//	arrived = more pending + newly registered − more idle
//
// between two commits, spread evenly from the earlier commit, or from the oldest pending job if
// that arrived later. Events between two commits that leave no trace in the second are not known,
// and neither is the duration of each job: on average the observed number of agents is busy, and
// single jobs follow the exponential distribution, which assumes least among all with that mean.
// Rebuild ignores jobs that were limited, blocked or matched by no agent.
func Rebuild(name, overlay string, observed []plan.Observation) (Workload, error) {
	observed = slices.Clone(observed)
	slices.SortStableFunc(observed, func(a, b plan.Observation) int { return a.At.Compare(b.At) })
	if len(observed) == 0 {
		return Workload{}, errors.New("there is no observation")
	}
	h := history{overlay: overlay, seen: map[string]int{}, start: observed[0].At.Truncate(time.Hour)}
	for _, o := range observed {
		h.add(o)
	}
	if len(h.arrivals) == 0 {
		return Workload{}, errors.New("the observations have no job")
	}
	mean := time.Minute
	if busy := h.busy / time.Duration(len(h.arrivals)); busy > 0 {
		mean = busy
	}
	l := Workload{Name: name, Start: h.start, Length: h.last.Sub(h.start) + time.Minute}
	slices.Sort(h.arrivals)
	for i, at := range h.arrivals {
		l.Arrivals = append(l.Arrivals, Arrival{At: at, Build: fakebuildkite.Build{
			Steps: []fakebuildkite.Step{{Duration: spread(mean, i), Retries: retries}},
		}})
	}
	return l, nil
}

// spread returns the n-th of durations that are spread evenly over the exponential distribution
// with that mean. The fractional parts of multiples of the golden ratio leave no gaps.
func spread(mean time.Duration, n int) time.Duration {
	_, part := math.Modf(float64(n+1) * math.Phi)
	return max(time.Second, time.Duration(-math.Log(1-part)*float64(mean)).Round(time.Second))
}

// history goes through observations in time.
type history struct {
	overlay    string
	start      time.Time
	last       time.Time
	seen       map[string]int // indexes of each dispatch known to have registered
	registered int
	pending    int
	idle       int
	working    int           // busy agents at the last observation
	busy       time.Duration // of all agents together
	owed       int           // arrivals that were less than nothing
	arrivals   []time.Duration
}

func (h *history) add(o plan.Observation) {
	pending, idle := o.Count(h.overlay)
	came, busy := h.registered, 0
	for _, s := range o.Overlays {
		if s.Overlay != h.overlay {
			continue
		}
		busy = s.QueueBusy
		for id, seen := range s.Dispatches {
			n := seen.Registered.Below(plan.MaxIndex)
			came += max(0, n-h.seen[id])
			h.seen[id] = max(h.seen[id], n)
		}
	}
	arrived := pending - h.pending + came - h.registered - (idle - h.idle) - h.owed
	h.owed = max(0, -arrived)
	from := h.last
	switch oldest := o.Oldest(h.overlay); {
	case oldest.After(from):
		from = oldest
	case from.IsZero():
		from = o.At
	}
	for i := range max(0, arrived) {
		at := from.Add(o.At.Sub(from) * time.Duration(i) / time.Duration(arrived))
		h.arrivals = append(h.arrivals, max(0, at.Sub(h.start)))
	}
	if !h.last.IsZero() {
		h.busy += o.At.Sub(h.last) * time.Duration(h.working+busy) / 2
	}
	h.last, h.pending, h.idle, h.registered, h.working = o.At, pending, idle, came, busy
}
