package history

import (
	"cmp"
	"slices"
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
	// Pending jobs could be served by the overlay. Oldest is the time since when the oldest of them
	// has been pending; zero if unknown.
	Pending int
	Oldest  time.Time
	// Idle agents belong to the overlay or can take one of its jobs. Busy agents are its own.
	Idle, Busy int
	// InFlight agents have been ordered, including by the commit itself, and are not known to have
	// registered, and their dispatch is in git.
	InFlight int
	// Connected agents are the overlay's own: idle, busy and stopping.
	Connected int
	// Registered is the number of agents that are known to have registered since the previous
	// sample. Unasked is the number of agents of a retirement that were never looked up in
	// Buildkite.
	Registered, Unasked int
	// Registrations are those of Registered whose times are known: a process polled throughout.
	Registrations []Registration
	// Shared reports whether other overlays could take some of the pending jobs.
	Shared bool
	// Suspended is why Buildkite suspends the overlay; otherwise zero.
	Suspended plan.Suspension
}

// Registration is the period in which some agents of a dispatch registered.
type Registration struct {
	First, Last time.Time
	Agents      int
}

// Sampler makes samples of operations. The zero value is ready to use.
type Sampler struct {
	overlays map[string]*inGit // by name
}

// inGit contains the orders of one overlay that are in git.
type inGit struct {
	orders   map[string]*order // by ID
	inFlight int               // of all orders
	// others is the number of registered agents of dispatches that are in the newest observation but
	// not in orders: they are older than the first operation, edited, or no longer in git.
	others map[string]int
}

// order is a dispatch in git, with the numbers of its agents and of registered ones.
type order struct{ agents, registered int }

func (o *order) inFlight() int {
	if o == nil {
		return 0
	}
	return max(0, o.agents-o.registered)
}

// set replaces an order; nil removes it.
func (g *inGit) set(id string, o *order) {
	g.inFlight += o.inFlight() - g.orders[id].inFlight()
	if o == nil {
		delete(g.orders, id)
		return
	}
	g.orders[id] = o
}

// register updates the numbers of registered agents, and sets those of the sample: how many have
// registered since the previous observation, and when.
func (g *inGit) register(s *Sample, dispatches map[string]plan.Observed) {
	others := map[string]int{}
	for id, seen := range dispatches {
		registered, before := seen.Registered.Below(plan.MaxIndex), g.others[id]
		if x := g.orders[id]; x != nil {
			before = x.registered
			g.set(id, &order{x.agents, max(registered, x.registered)})
		} else {
			others[id] = max(registered, before)
		}
		if registered <= before {
			continue
		}
		s.Registered += registered - before
		if seen.FirstAt == nil { // after a restart, when registeredAt is the time of the order
			continue
		}
		x := Registration{*seen.FirstAt, s.At, registered - before}
		if seen.RegisteredAt != nil {
			x.Last = *seen.RegisteredAt
		}
		s.Registrations = append(s.Registrations, x)
	}
	slices.SortFunc(s.Registrations, func(a, b Registration) int {
		return cmp.Or(a.First.Compare(b.First), a.Last.Compare(b.Last), cmp.Compare(a.Agents, b.Agents))
	})
	g.others = others
}

// Add adds the next operation, oldest first, and yields a sample of each overlay of its queue.
func (r *Sampler) Add(e ledger.Operation, yield func(Sample)) {
	own := e.Overlay
	if e.Kind == ledger.Dispatch {
		for _, x := range e.Orders {
			r.of(own).set(x.ID, &order{agents: x.Agents})
		}
	}
	for _, s := range e.Observation.Overlays {
		sample := observed(e.Observation, s)
		overlay := r.of(s.Overlay)
		overlay.register(&sample, s.Dispatches)
		if e.Kind == ledger.Retire && s.Overlay == own {
			for _, o := range e.Orders {
				id, x := o.ID, overlay.orders[o.ID]
				if o.Stale {
					sample.Unasked += x.inFlight()
				}
				if x != nil {
					overlay.others[id] = x.registered
				}
				overlay.set(id, nil)
			}
		}
		sample.InFlight = overlay.inFlight
		yield(sample)
	}
}

func (r *Sampler) of(overlay string) *inGit {
	if r.overlays == nil {
		r.overlays = map[string]*inGit{}
	}
	if r.overlays[overlay] == nil {
		r.overlays[overlay] = &inGit{orders: map[string]*order{}}
	}
	return r.overlays[overlay]
}

// observed returns the sample of an overlay in an observation, without agents in flight.
func observed(o plan.Observation, s plan.Capacity) Sample {
	x := Sample{Overlay: s.Overlay, At: o.At, Oldest: o.Oldest(s.Overlay), Busy: s.Busy, Connected: s.Own + s.Stopping, Suspended: s.Suspended}
	for _, j := range o.Jobs {
		x.Shared = x.Shared || j.Pending > 0 && len(j.Overlays) > 1 && slices.Contains(j.Overlays, s.Overlay)
	}
	x.Pending, x.Idle = o.Count(s.Overlay)
	return x
}
