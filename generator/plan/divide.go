package plan

import (
	"slices"
	"time"
)

// division settles which agents serve which jobs, and which overlay dispatches
// the agents that are missing. It is one maximum flow. What is asked for, in this
// order: the pending jobs, then each overlay's look-ahead, then each overlay's
// buffer. Who serves it, in this order: the idle agents, those in flight, those
// that min asks for in any case, and then the room that is left below max, by
// priority and evenly within one.
//
// Because it is a maximum flow in a fixed order, deciding again on what was
// just dispatched finds everything served that can be served, and dispatches
// nothing.
type division struct {
	shares []*share
	jobs   []Demand
	idle   []IdleAgents
	flying []flight
	flow   *flow
}

// source is a node of the flow that agents come from.
type source struct {
	kind  sourceKind
	index int // of the group of idle agents or of those in flight, or of the overlay among the shares
}

type sourceKind int

const (
	fromIdle     sourceKind = iota // connected, waiting for a job
	fromInFlight                   // dispatched before, not registered
	fromMin                        // dispatched now in any case, because min asks for them
	fromRoom                       // what may be dispatched beyond, up to max
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

// number returns the flow's number of a source: the groups of idle agents, those in
// flight, then the other kinds, each by overlay.
func (d *division) number(s source) int {
	switch s.kind {
	case fromIdle:
		return s.index
	case fromInFlight:
		return len(d.idle) + s.index
	}
	return len(d.idle) + len(d.flying) + int(s.kind-fromMin)*len(d.shares) + s.index
}

// source is the reverse of number.
func (d *division) source(i int) source {
	if i < len(d.idle) {
		return source{fromIdle, i}
	}
	if i -= len(d.idle); i < len(d.flying) {
		return source{fromInFlight, i}
	}
	i -= len(d.flying)
	return source{fromMin + sourceKind(i/len(d.shares)), i % len(d.shares)}
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
	switch {
	case from.kind == fromIdle && to.kind == toJobs:
		return d.idle[from.index].Jobs.Has(to.index)
	case from.kind == fromIdle:
		g := d.idle[from.index]
		return !g.Replacing && g.Overlay == d.shares[to.index].overlay.Name
	}
	share := from.index
	if from.kind == fromInFlight {
		x := d.flying[from.index]
		share = x.share
		switch {
		case x.other != nil && to.kind == toJobs:
			return x.other.Jobs.Has(to.index)
		case x.other != nil && !x.other.Spare:
			return false
		}
	}
	if to.kind == toJobs {
		return d.serves(share, to.index)
	}
	return share == to.index
}

// serves reports whether agents of an overlay can take a group of jobs.
func (d *division) serves(overlay, jobs int) bool {
	return slices.Contains(d.jobs[jobs].Overlays, d.shares[overlay].overlay.Name)
}

// divide runs the flow, and writes each overlay's part of it into its sum.
func divide(shares []*share, o Observation) {
	d := &division{shares: shares, jobs: o.Jobs, idle: o.Idle, flying: flights(shares)}
	n := len(shares)
	supply := make([]int, len(d.idle)+len(d.flying)+2*n)
	demand := make([]int, len(d.jobs)+2*n)
	for g, group := range d.idle {
		supply[g] = group.Agents
	}
	for j, group := range d.jobs {
		demand[j] = group.Pending
	}
	d.lookAhead(o.At)
	for i, s := range shares {
		if !s.breaker.Open() { // else nothing is expected of it, and nothing asked
			demand[d.sinkNumber(sink{toLookahead, i})] = s.sum.Lookahead - s.fresh
			demand[d.sinkNumber(sink{toBuffer, i})] = s.sum.Buffer
		}
	}
	for k, x := range d.flying {
		supply[d.number(source{fromInFlight, k})] = x.agents
	}
	again, byOthers := d.lookAheadAgain(supply, demand)
	for i, s := range shares {
		s.sum.Lookahead = s.fresh + again[i] - byOthers[i]
		demand[d.sinkNumber(sink{toLookahead, i})] = s.sum.Lookahead
	}
	d.flow = newFlow(supply, demand, d.can)
	d.serveIdle()
	d.flow.serveAll(len(d.idle), len(d.idle)+len(d.flying), 0, len(demand))
	d.serveOrdered(o.At)
	for i, s := range shares {
		d.conclude(i, s, o.orderedAt())
	}
}

// serveIdle lets the idle agents serve: those that are being replaced first, then
// those of no buffer, then the others, which look-ahead and buffers get what is
// left of. The groups are in this order.
func (d *division) serveIdle() {
	idle, jobs := len(d.idle), len(d.jobs)
	d.flow.serveAll(0, idle, 0, jobs)
	d.flow.serveAll(0, idle, jobs, len(d.flow.want))
	for g, group := range d.idle {
		i := slices.IndexFunc(d.shares, func(s *share) bool { return s.overlay.Name == group.Overlay })
		if i < 0 {
			continue
		}
		s := d.shares[i]
		spare := d.flow.free[g]
		for j := jobs; j < len(d.flow.want); j++ {
			spare += d.flow.moved[g][j]
		}
		s.spare += spare
		if group.Replacing {
			s.sum.Replacing += spare
		}
	}
}

// spared is how many idle agents of the overlay's own serve its look-ahead and its
// buffer, or nothing, once everything is served: one that was to take a job may
// have left it to an agent that is in flight. Those that are replaced are not
// among them.
func (d *division) spared(s *share) int {
	n := 0
	for g, group := range d.idle {
		if group.Replacing || group.Overlay != s.overlay.Name {
			continue
		}
		n += d.flow.free[g]
		for j := len(d.jobs); j < len(d.flow.want); j++ {
			n += d.flow.moved[g][j]
		}
	}
	return n
}

// serveOrdered lets what is dispatched now serve: what min asks for, then room by
// priority, and evenly where that is equal.
func (d *division) serveOrdered(now time.Time) {
	n := len(d.shares)
	for i, s := range d.shares {
		d.flow.free[d.number(source{fromMin, i})], d.flow.free[d.number(source{fromRoom, i})] = s.mayDispatch(now)
	}
	has := make([]int, n)
	for i, s := range d.shares {
		has[i] = s.sum.Current + d.flow.free[d.number(source{fromMin, i})]
	}
	d.flow.serveAll(d.number(source{fromMin, 0}), d.number(source{fromMin, n}), 0, len(d.flow.want))
	for first := 0; first < n; {
		last := first + 1
		for last < n && d.shares[last].policy.Priority == d.shares[first].policy.Priority {
			last++
		}
		d.flow.serveEvenly(d.number(source{fromRoom, first}), d.number(source{fromRoom, last}), func(i int) int { return has[d.source(i).index] })
		first = last
	}
}

// lookAhead gives the upcoming jobs to the overlays that look ahead to them, the
// first of those that could serve them.
func (d *division) lookAhead(now time.Time) {
	for _, group := range d.jobs {
		for _, s := range d.shares {
			s.keepStages(group)
		}
		for _, s := range d.shares {
			if !s.looksAhead() || !slices.Contains(group.Overlays, s.overlay.Name) {
				continue
			}
			s.lookAheadTo(group, now)
			s.sum.Lookahead += group.Upcoming - group.known()
			s.fresh += group.Fresh
			s.covered += group.InPart[s.overlay.Name]
			if group.Upcoming > 0 {
				s.aheadOf = append(s.aheadOf, group.Overlays)
			}
			if group.Newest != nil && group.Newest.After(s.newest) {
				s.newest = *group.Newest
			}
			break
		}
	}
	for _, s := range d.shares {
		share := func(n int) int { return int(s.policy.Lookahead*float64(n) + 1e-9) }
		s.sum.Lookahead, s.covered = share(s.sum.Lookahead), min(share(s.covered), s.overlay.State.InPart.Agents)
		s.fresh = share(s.fresh) - s.covered
		jobs, wants := s.stageSums()
		s.sum.Lookahead, s.fresh = s.sum.Lookahead+jobs, s.fresh+wants
	}
}

// lookAheadAgain returns, by overlay, how many agents serve the upcoming jobs for
// which agents were dispatched before: of those that are idle or in flight, what
// jobs and buffers leave. So nothing is dispatched for these jobs again, nor for
// a buffer in their stead.
//
// Of the other upcoming jobs, byOthers are those for which agents of other overlays
// are left that could take any of them. Such agents came to be left when they were
// dispatched for jobs that agents of this overlay took.
func (d *division) lookAheadAgain(supply, demand []int) (again, byOthers []int) {
	n := len(d.shares)
	again, byOthers = make([]int, n), make([]int, n)
	jobs, buffers, end := len(d.jobs), d.sinkNumber(sink{toBuffer, 0}), len(demand)
	copy(again, demand[jobs:buffers])
	if !slices.ContainsFunc(d.shares, func(s *share) bool { return s.sum.Lookahead > 0 }) {
		return again, byOthers
	}
	f := newFlow(slices.Clone(supply), slices.Clone(demand), d.can)
	for i, s := range d.shares {
		f.want[jobs+i] = s.held()
	}
	f.serveAll(0, len(supply), 0, buffers)
	f.serveAll(0, len(supply), buffers, end)
	left := d.leftToOthers(f, jobs, buffers)
	copy(f.want[jobs:buffers], again)
	f.serveAll(0, len(supply), jobs, buffers)
	for i, s := range d.shares {
		again[i] -= f.want[jobs+i]
		f.want[jobs+i] = s.fresh - s.held() + left[i]
	}
	f.serveAll(0, len(supply), jobs, buffers)
	copy(byOthers, f.want[jobs:buffers])
	d.letStandIn(f, jobs)
	f.serveAll(0, len(supply), jobs, buffers)
	for i := range byOthers {
		byOthers[i] -= f.want[jobs+i]
	}
	return again, byOthers
}

// leftToOthers is how many agents look-ahead asks for again, by overlay, that its own do
// not serve: there are none, or their buffer needs them, and those of another overlay
// stand in. So what was dispatched for a buffer is there for it at the next look.
func (d *division) leftToOthers(served *flow, jobs, buffers int) []int {
	left := slices.Clone(served.want[jobs:buffers])
	if !slices.ContainsFunc(served.want[buffers:], func(n int) bool { return n > 0 }) {
		return left
	}
	f := served.clone()
	d.letStandIn(f, jobs)
	f.serveAll(0, len(f.free), buffers, len(f.want))
	for i, s := range d.shares {
		for k := range f.free {
			if f.moved[k][jobs+i] > 0 && d.standsIn(k, s) {
				left[i] += f.moved[k][jobs+i]
			}
		}
	}
	return left
}

// letStandIn lets agents of other overlays serve look-ahead; see standsIn.
func (d *division) letStandIn(f *flow, jobs int) {
	for i, s := range d.shares {
		for k := range f.free {
			if d.standsIn(k, s) {
				f.takers[jobs+i] = append(f.takers[jobs+i], int32(k))
			}
		}
	}
}

// standsIn reports whether agents of a source are another overlay's, and could take
// any of the jobs that an overlay looks ahead to.
func (d *division) standsIn(i int, s *share) bool {
	from, of := d.source(i), ""
	switch {
	case from.kind == fromInFlight:
		if x := d.flying[from.index]; x.other == nil || x.other.Spare {
			of = d.shares[x.share].overlay.Name
		}
	case from.kind != fromIdle:
		of = d.shares[from.index].overlay.Name
	case !d.idle[from.index].Replacing:
		of = d.idle[from.index].Overlay
	}
	return of != "" && of != s.overlay.Name && len(s.aheadOf) > 0 &&
		!slices.ContainsFunc(s.aheadOf, func(overlays []string) bool { return !slices.Contains(overlays, of) })
}

// conclude reads overlay i's sum off the flow.
func (d *division) conclude(i int, s *share, now time.Time) {
	m, f := &s.sum, d.flow
	forMin, room := d.number(source{fromMin, i}), d.number(source{fromRoom, i})
	lookahead, buffer := d.sinkNumber(sink{toLookahead, i}), d.sinkNumber(sink{toBuffer, i})
	m.Idle = m.Replacing - m.Late + d.spared(s)
	unserved, served, dispatched := 0, 0, 0
	for j, group := range d.jobs {
		if !d.serves(i, j) {
			continue
		}
		idle := 0
		for g := range d.idle {
			idle += f.moved[g][j]
		}
		m.Pending += group.Pending
		m.Idle += idle
		m.Elsewhere += group.Pending - idle
		unserved += f.want[j]
		for k, x := range d.flying {
			if x.share == i {
				served += f.moved[d.number(source{fromInFlight, k})][j]
			}
		}
		dispatched += f.moved[forMin][j] + f.moved[room][j]
	}
	m.Elsewhere -= unserved + served + dispatched
	ahead := f.moved[forMin][lookahead] + f.moved[room][lookahead]
	m.Demand = dispatched + ahead
	m.WarmPool = f.moved[forMin][buffer] + f.moved[room][buffer]
	m.Missing = m.Demand + m.WarmPool + unserved + f.want[lookahead] + f.want[buffer]
	m.WarmPool += f.free[forMin]
	if s.breaker.Open() {
		m.Buffer = 0
	}
	if m.Missing > 0 {
		m.Unusable = m.Missing - (m.Pending - m.Elsewhere + m.Lookahead + m.Buffer - (m.Idle - m.Replacing) - m.InFlight)
	}
	m.Dispatch = m.Demand + m.WarmPool
	m.Desired = max(m.Min, m.Current-m.Replacing+m.Missing)
	ahead = s.rememberStages(ahead, now)
	switch {
	case s.fresh > 0 && m.Dispatch > 0 && f.want[lookahead] == 0:
		s.lookedAhead = s.newest
	case ahead > 0:
		s.inPart = InPart{Until: s.newest, Agents: s.covered + ahead}
	}
}
