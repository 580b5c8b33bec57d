package simulation

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// Rebuild makes a workload of what was observed, in any order, for the named
// overlay. A commit says how many jobs were pending and since when the oldest
// was, how many agents were busy or to spare, and which had registered. So
//
//	arrived = more pending + newly registered − more idle
//
// between two commits, spread evenly from the earlier commit, or from the
// oldest pending job when that came after it. What happened between two
// commits without a trace in the second is not known; neither is how long a job
// ran: all get the same time, such that as many agents are busy on average as
// were. Jobs that were limited, blocked or matched by no agent are left out.
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
		return Workload{}, errors.New("in what was observed no job ever came")
	}
	duration := time.Minute
	if mean := h.busy / time.Duration(len(h.arrivals)); mean > 0 {
		duration = mean.Round(time.Second)
	}
	l := Workload{Name: name, Start: h.start, Length: h.last.Sub(h.start) + time.Minute}
	for _, at := range h.arrivals {
		l.Arrivals = append(l.Arrivals, Arrival{At: at, Build: fakebuildkite.Build{
			Steps: []fakebuildkite.Step{{Duration: duration, Retries: retries}},
		}})
	}
	slices.SortStableFunc(l.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return l, nil
}

// history goes through observations in time.
type history struct {
	overlay  string
	start    time.Time
	last     time.Time
	seen     map[string]int // indexes of each dispatch known to have registered
	came     int
	pending  int
	idle     int
	working  int           // busy agents at the last observation
	busy     time.Duration // of all agents together
	owed     int           // arrivals that were less than nothing
	arrivals []time.Duration
}

func (h *history) add(o plan.Observation) {
	pending, idle := o.Count(h.overlay)
	var oldest *time.Time
	for _, d := range o.Jobs {
		if d.Pending > 0 && slices.Contains(d.Overlays, h.overlay) && d.Oldest != nil && (oldest == nil || d.Oldest.Before(*oldest)) {
			oldest = d.Oldest
		}
	}
	came, busy := h.came, 0
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
	arrived := pending - h.pending + came - h.came - (idle - h.idle) - h.owed
	h.owed = max(0, -arrived)
	from := h.last
	if from.IsZero() || oldest != nil && oldest.After(from) {
		from = o.At
		if oldest != nil {
			from = *oldest
		}
	}
	for i := range max(0, arrived) {
		at := from.Add(o.At.Sub(from) * time.Duration(i) / time.Duration(arrived))
		h.arrivals = append(h.arrivals, max(0, at.Sub(h.start)))
	}
	if !h.last.IsZero() {
		h.busy += o.At.Sub(h.last) * time.Duration(h.working+busy) / 2
	}
	h.last, h.pending, h.idle, h.came, h.working = o.At, pending, idle, came, busy
}
