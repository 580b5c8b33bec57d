package plan

import (
	"slices"
	"time"
)

// division settles which overlay dispatches agents for which jobs. It is one
// maximum flow. What is asked for, in this order: the pending jobs, then each
// overlay's look-ahead, then each overlay's buffer. Who serves it, in this
// order: the agents in flight, those that min asks for in any case, and then
// the room that is left below max, by priority and evenly within one.
//
// Because it is a maximum flow in a fixed order, deciding again on what was
// just dispatched finds everything served that can be served, and dispatches
// nothing.
type division struct {
	shares []*share
	jobs   []Demand
	flow   *flow
}

// source is a node of the flow that agents come from.
type source struct {
	kind    sourceKind
	overlay int // index among the shares
}

type sourceKind int

const (
	fromInFlight sourceKind = iota // dispatched before, not registered
	fromMin                        // dispatched now in any case, because min asks for them
	fromRoom                       // what may be dispatched beyond, up to max
	sourceKinds
)

// sink is a node of the flow that asks for agents.
type sink struct {
	kind  sinkKind
	index int // of the group of jobs, or of the overlay among the shares
}

type sinkKind int

const (
	toJobs      sinkKind = iota // a group of pending jobs
	toLookahead                 // an overlay's share of the upcoming jobs
	toBuffer                    // an overlay's buffer
)

// number returns the flow's number of a source: by kind, then by overlay.
func (d *division) number(s source) int { return int(s.kind)*len(d.shares) + s.overlay }

// source is the reverse of number.
func (d *division) source(i int) source {
	return source{sourceKind(i / len(d.shares)), i % len(d.shares)}
}

// sinkNumber returns the flow's number of a sink: the groups of jobs, then
// look-ahead by overlay, then buffers by overlay.
func (d *division) sinkNumber(s sink) int {
	switch s.kind {
	case toLookahead:
		return len(d.jobs) + s.index
	case toBuffer:
		return len(d.jobs) + len(d.shares) + s.index
	}
	return s.index
}

// sink is the reverse of sinkNumber.
func (d *division) sink(j int) sink {
	switch n := j - len(d.jobs); {
	case n < 0:
		return sink{toJobs, j}
	case n < len(d.shares):
		return sink{toLookahead, n}
	default:
		return sink{toBuffer, n - len(d.shares)}
	}
}

// can reports whether agents of source i may serve sink j.
func (d *division) can(i, j int) bool {
	from, to := d.source(i), d.sink(j)
	if to.kind == toJobs {
		return slices.Contains(d.jobs[to.index].Overlays, d.shares[from.overlay].overlay.Name)
	}
	return from.overlay == to.index
}

// divide runs the flow, and writes each overlay's part of it into its sum.
func divide(shares []*share, jobs []Demand, now time.Time) {
	d := &division{shares: shares, jobs: jobs}
	supply := make([]int, int(sourceKinds)*len(shares))
	demand := make([]int, len(jobs)+2*len(shares))
	for j, group := range jobs {
		demand[j] = group.Pending - group.Idle
	}
	upcoming := upcomingJobs(shares, jobs)
	for i, s := range shares {
		s.sum.Lookahead = int(s.policy.Lookahead*float64(upcoming[i]) + 1e-9)
		if s.breaker.Open() {
			if !s.suspended.Active() && s.mayProbe(now) {
				supply[d.number(source{fromRoom, i})] = min(1, s.sum.Room) // its turn: one job is left to the probe
			}
			continue // nothing else is expected of it, and nothing asked
		}
		demand[d.sinkNumber(sink{toLookahead, i})] = max(0, s.sum.Lookahead-s.spare())
		supply[d.number(source{fromInFlight, i})] = s.sum.InFlight
		demand[d.sinkNumber(sink{toBuffer, i})] = max(0, s.sum.Buffer-max(0, s.spare()-s.sum.Lookahead))
		if !s.suspended.Active() {
			forMin := min(s.sum.BelowMin(), s.sum.Room)
			supply[d.number(source{fromMin, i})] = forMin
			supply[d.number(source{fromRoom, i})] = s.sum.Room - forMin
		}
	}
	d.flow = newFlow(supply, demand, d.can)
	d.run()
	for i, s := range shares {
		d.conclude(i, s)
	}
}

// run serves from one kind of source after the other; room goes by priority,
// and evenly where that is equal.
func (d *division) run() {
	n := len(d.shares)
	for _, kind := range []sourceKind{fromInFlight, fromMin} {
		d.flow.serveAll(d.number(source{kind, 0}), d.number(source{kind, n}))
	}
	current := func(i int) int { return d.shares[d.source(i).overlay].sum.Current }
	for first := 0; first < n; {
		last := first + 1
		for last < n && d.shares[last].policy.Priority == d.shares[first].policy.Priority {
			last++
		}
		d.flow.serveEvenly(d.number(source{fromRoom, first}), d.number(source{fromRoom, last}), current)
		first = last
	}
}

// upcomingJobs gives the upcoming jobs to the overlays that look ahead to them,
// the first of those that could serve them.
func upcomingJobs(shares []*share, jobs []Demand) []int {
	upcoming := make([]int, len(shares))
	for _, group := range jobs {
		for i, s := range shares {
			if !s.suspended.Active() && !s.breaker.Open() && s.policy.Lookahead > 0 && slices.Contains(group.Overlays, s.overlay.Name) {
				upcoming[i] += group.Upcoming
				break
			}
		}
	}
	return upcoming
}

// conclude reads overlay i's sum off the flow.
func (d *division) conclude(i int, s *share) {
	m, f := &s.sum, d.flow
	inFlight, forMin, room := d.number(source{fromInFlight, i}), d.number(source{fromMin, i}), d.number(source{fromRoom, i})
	lookahead, buffer := d.sinkNumber(sink{toLookahead, i}), d.sinkNumber(sink{toBuffer, i})
	m.Idle = s.supply.Spare
	unserved, served, dispatched := 0, 0, 0
	for j, group := range d.jobs {
		if !d.can(inFlight, j) {
			continue
		}
		m.Pending += group.Pending
		m.Idle += group.Idle
		m.Elsewhere += group.Pending - group.Idle
		unserved += f.want[j]
		served += f.moved[inFlight][j]
		dispatched += f.moved[forMin][j] + f.moved[room][j]
	}
	m.Elsewhere -= unserved + served + dispatched
	m.Demand = dispatched + f.moved[forMin][lookahead] + f.moved[room][lookahead]
	m.WarmPool = f.moved[forMin][buffer] + f.moved[room][buffer]
	m.Missing = m.Demand + m.WarmPool + unserved + f.want[lookahead] + f.want[buffer]
	m.WarmPool += f.free[forMin]
	m.Dispatch = m.Demand + m.WarmPool
	m.Desired = max(m.Min, m.Current-m.Replacing+m.Missing)
}
