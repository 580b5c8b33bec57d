package history

import (
	"path"
	"strings"
	"time"

	"muster/generator/plan"
	"muster/gitops/ledger"
)

// Sample is what one commit's observation tells of one overlay. Between two commits
// nothing is known.
type Sample struct {
	// Overlay is the overlay's name, and At when Buildkite was read.
	Overlay string
	At      time.Time
	// Pending jobs could be served by the overlay; Oldest is since when the oldest of
	// them has been, and zero where none is or it is not told.
	Pending int
	Oldest  time.Time
	// Idle agents are part of the overlay or could take one of its jobs. Busy are its
	// own; -1: 0.2.0 did not tell them apart.
	Idle, Busy int
	// InFlight agents had been ordered and were not known to have registered, nor had
	// their dispatch left git; those that the commit itself orders are among them.
	InFlight int
	// Connected agents are the overlay's own: idle, busy and stopping.
	Connected int
	// Came are the agents that are known to have registered since the sample before, and
	// Unasked of a retirement those of which nobody has asked Buildkite.
	Came, Unasked int
}

// Replay makes samples of entries. The zero value, with Overlays set, is ready.
type Replay struct {
	// Overlays is the directory of overlays.
	Overlays string
	// orders are the dispatches in git, by overlay and ID.
	orders map[string]map[string]*order
}

// order is a dispatch in git: its agents, and how many of them have come.
type order struct{ agents, came int }

// Add takes the next entry, the oldest first, and yields a sample of each overlay of
// its queue.
func (r *Replay) Add(e ledger.Entry, yield func(Sample)) {
	own := strings.TrimPrefix(e.Overlay, path.Clean(r.Overlays)+"/")
	if e.Kind == ledger.Dispatch {
		for i, id := range e.Dispatches { // an entry has the sum alone: dispatches of one order are taken to be alike
			r.of(own)[id] = &order{agents: e.Agents*(i+1)/len(e.Dispatches) - e.Agents*i/len(e.Dispatches)}
		}
	}
	for _, s := range e.Observation.Overlays {
		sample := observed(e.Observation, s)
		if e.BusyUnknown {
			sample.Busy = -1
		}
		orders := r.of(s.Overlay)
		for id, seen := range s.Dispatches {
			x := orders[id]
			if x == nil { // ordered before the first entry, or edited
				x = &order{}
				orders[id] = x
			}
			if came := seen.Registered.Below(plan.MaxIndex); came > x.came {
				sample.Came += came - x.came
				x.came = came
			}
		}
		if e.Kind == ledger.Retire && s.Overlay == own {
			for _, id := range e.Dispatches {
				if x := orders[id]; x != nil && unasked(&e) {
					sample.Unasked += max(0, x.agents-x.came)
				}
				delete(orders, id)
			}
		}
		for _, x := range orders {
			sample.InFlight += max(0, x.agents-x.came)
		}
		yield(sample)
	}
}

func (r *Replay) of(overlay string) map[string]*order {
	if r.orders == nil {
		r.orders = map[string]map[string]*order{}
	}
	if r.orders[overlay] == nil {
		r.orders[overlay] = map[string]*order{}
	}
	return r.orders[overlay]
}

// observed is what an observation has of an overlay, but for those in flight.
func observed(o plan.Observation, s plan.Supply) Sample {
	x := Sample{Overlay: s.Overlay, At: o.At, Busy: s.Busy, Connected: s.Own + s.Stopping}
	x.Pending, x.Idle = o.Count(s.Overlay)
	for _, d := range o.Jobs {
		if d.Pending == 0 || d.Oldest == nil || !x.Oldest.IsZero() && !d.Oldest.Before(x.Oldest) {
			continue
		}
		for _, name := range d.Overlays {
			if name == s.Overlay {
				x.Oldest = *d.Oldest
			}
		}
	}
	return x
}
