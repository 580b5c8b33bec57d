package history

import (
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// Sample is the state of one overlay by one commit's observation. The state between two commits is
// not known.
type Sample struct {
	// Overlay is the overlay's name, and At when Buildkite was read.
	Overlay string
	At      time.Time
	// Pending jobs could be served by the overlay; Oldest is since when the oldest of
	// them has been, and zero where none is or it is not told.
	Pending int
	Oldest  time.Time
	// Idle agents are part of the overlay or could take one of its jobs. Busy are its
	// own.
	Idle, Busy int
	// InFlight agents had been ordered and were not known to have registered, nor had
	// their dispatch left git; those that the commit itself orders are among them.
	InFlight int
	// Connected agents are the overlay's own: idle, busy and stopping.
	Connected int
	// Registered is the number of agents that are known to have registered since the previous
	// sample. Unasked is the number of agents of a retirement that were never looked up in
	// Buildkite.
	Registered, Unasked int
}

// Replay makes samples of entries. The zero value, with Overlays set, is ready.
type Replay struct {
	// Overlays is the directory of overlays.
	Overlays string
	overlays map[string]*inGit // by name
}

// inGit is what is in git of one overlay's orders.
type inGit struct {
	orders   map[string]*order // by ID
	inFlight int               // of all orders
	// met is how many agents have registered for dispatches that are in the newest observation but
	// not in git as an entry ordered them: they are older than the first entry, edited, or have
	// left git.
	met map[string]int
}

// order is a dispatch in git: its agents, and how many of them have come.
type order struct{ agents, registered int }

func (o *order) inFlight() int {
	if o == nil {
		return 0
	}
	return max(0, o.agents-o.registered)
}

// set lets an order count as it is now; nil: it has left git.
func (g *inGit) set(id string, o *order) {
	g.inFlight += o.inFlight() - g.orders[id].inFlight()
	if o == nil {
		delete(g.orders, id)
		return
	}
	g.orders[id] = o
}

// come takes up how many agents of each dispatch have come, and returns how many have
// since the observation before.
func (g *inGit) come(dispatches map[string]plan.Seen) (since int) {
	met := map[string]int{}
	for id, seen := range dispatches {
		came := seen.Registered.Below(plan.MaxIndex)
		if x := g.orders[id]; x != nil {
			since += max(0, came-x.registered)
			g.set(id, &order{x.agents, max(came, x.registered)})
			continue
		}
		met[id] = max(came, g.met[id])
		since += met[id] - g.met[id]
	}
	g.met = met
	return since
}

// Add takes the next entry, the oldest first, and yields a sample of each overlay of
// its queue.
func (r *Replay) Add(e ledger.Entry, yield func(Sample)) {
	own := strings.TrimPrefix(e.Overlay, path.Clean(r.Overlays)+"/")
	if e.Kind == ledger.Dispatch {
		for i, id := range e.Dispatches { // an entry has the sum alone: dispatches of one order are taken to be alike
			r.of(own).set(id, &order{agents: e.Agents*(i+1)/len(e.Dispatches) - e.Agents*i/len(e.Dispatches)})
		}
	}
	for _, s := range e.Observation.Overlays {
		sample := observed(e.Observation, s)
		overlay := r.of(s.Overlay)
		sample.Registered = overlay.come(s.Dispatches)
		if e.Kind == ledger.Retire && s.Overlay == own {
			for _, id := range e.Dispatches {
				x := overlay.orders[id]
				if unasked(&e) {
					sample.Unasked += x.inFlight()
				}
				if x != nil {
					overlay.met[id] = x.registered
				}
				overlay.set(id, nil)
			}
		}
		sample.InFlight = overlay.inFlight
		yield(sample)
	}
}

func (r *Replay) of(overlay string) *inGit {
	if r.overlays == nil {
		r.overlays = map[string]*inGit{}
	}
	if r.overlays[overlay] == nil {
		r.overlays[overlay] = &inGit{orders: map[string]*order{}}
	}
	return r.overlays[overlay]
}

// observed is what an observation has of an overlay, but for those in flight.
func observed(o plan.Observation, s plan.Supply) Sample {
	x := Sample{Overlay: s.Overlay, At: o.At, Busy: s.Busy, Connected: s.Own + s.Stopping}
	x.Pending, x.Idle = o.Count(s.Overlay)
	for _, d := range o.Jobs {
		if d.Pending == 0 || d.Oldest == nil || !slices.Contains(d.Overlays, s.Overlay) {
			continue
		}
		if x.Oldest.IsZero() || d.Oldest.Before(x.Oldest) {
			x.Oldest = *d.Oldest
		}
	}
	return x
}
