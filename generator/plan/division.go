package plan

import (
	"slices"
	"time"
)

// division assigns agents to jobs, and decides which overlay dispatches the missing agents. It is
// one maximum flow. Existing agents are assigned first: the idle ones, then those in flight. They
// serve the pending jobs, the upcoming jobs whose agent another job took (held), the buffers, then
// the upcoming jobs that agents were dispatched for before (again), and last those that nothing
// was dispatched for (fresh). Then come the agents that are dispatched now: those for min, and
// then the room below max, by priority and evenly within one priority. They serve the rest of
// pending, held, fresh and buffers, in this order.
//
// An existing agent never leaves its job for fresh jobs if another overlay would then have to
// dispatch an agent: an overlay that dispatches nothing has no commit in which to remember them.
// So a repeated decision on what was just dispatched finds everything served that can be served,
// and dispatches nothing.
type division struct {
	shares []*share
	jobs   []Demand
	idle   []IdleAgents
	flying []flight
	flow   *flow
	// mayDispatch reports for each share whether its overlay may dispatch anything now.
	mayDispatch []bool
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
	fromMin                        // dispatched now because of min
	fromRoom                       // may be dispatched in addition, up to max
)

// sink is a node of the flow that needs agents.
type sink struct {
	kind  sinkKind
	index int // of the group of jobs, or of the overlay among the shares
}

type sinkKind int

const (
	toJobs   sinkKind = iota // a group of pending jobs
	toHeld                   // upcoming jobs of an overlay whose agent another job took
	toFresh                  // an overlay's share of the upcoming jobs that no agents were dispatched for
	toBuffer                 // the buffer of an overlay
	toAgain                  // an overlay's share of the upcoming jobs that agents were dispatched for before
	sinkKinds
)

// number returns the index of a source in the flow: groups of idle agents, groups in flight, then
// the other kinds, each by overlay.
func (d *division) number(s source) int {
	switch s.kind {
	case fromIdle:
		return s.index
	case fromInFlight:
		return len(d.idle) + s.index
	}
	return len(d.idle) + len(d.flying) + int(s.kind-fromMin)*len(d.shares) + s.index
}

// source returns the source with an index; it is the inverse of number.
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

// sinkNumber returns the index of a sink in the flow: groups of jobs, then the other kinds, each by
// overlay.
func (d *division) sinkNumber(s sink) int {
	if s.kind == toJobs {
		return s.index
	}
	return len(d.jobs) + int(s.kind-toHeld)*len(d.shares) + s.index
}

// sink returns the sink with an index; it is the inverse of sinkNumber.
func (d *division) sink(j int) sink {
	n := j - len(d.jobs)
	if n < 0 {
		return sink{toJobs, j}
	}
	return sink{toHeld + sinkKind(n/len(d.shares)), n % len(d.shares)}
}

// takers returns, for each of n sinks, the sources that may serve it, in order.
func (d *division) takers(n int) [][]int32 {
	all := make([][]int32, n)
	jobs := make([][]int, len(d.shares)) // the groups of jobs that agents of each overlay can take
	of := map[string]int{}
	for i, s := range d.shares {
		of[s.overlay.Name] = i
	}
	for j, group := range d.jobs {
		for _, name := range group.Overlays {
			if i, ok := of[name]; ok {
				jobs[i] = append(jobs[i], j)
			}
		}
	}
	serve := func(from source, groups []int, share int, kinds ...sinkKind) {
		k := int32(d.number(from))
		for _, j := range groups {
			all[j] = append(all[j], k)
		}
		for _, kind := range kinds {
			j := d.sinkNumber(sink{kind, share})
			all[j] = append(all[j], k)
		}
	}
	existing := []sinkKind{toHeld, toFresh, toBuffer, toAgain}
	for g, group := range d.idle {
		i, ok := of[group.Overlay]
		if !ok || group.Replacing {
			serve(source{fromIdle, g}, group.Jobs.below(len(d.jobs)), 0)
		} else {
			serve(source{fromIdle, g}, group.Jobs.below(len(d.jobs)), i, existing...)
		}
	}
	for k, x := range d.flying {
		switch from := (source{fromInFlight, k}); {
		case x.other == nil:
			serve(from, jobs[x.share], x.share, existing...)
		case x.other.Spare:
			serve(from, x.other.Jobs.below(len(d.jobs)), x.share, existing...)
		default:
			serve(from, x.other.Jobs.below(len(d.jobs)), 0)
		}
	}
	for _, kind := range []sourceKind{fromMin, fromRoom} {
		for i := range d.shares {
			serve(source{kind, i}, jobs[i], i, toHeld, toFresh, toBuffer)
		}
	}
	return all
}

// serves reports whether agents of an overlay can take a group of jobs.
func (d *division) serves(overlay, jobs int) bool {
	return slices.Contains(d.jobs[jobs].Overlays, d.shares[overlay].overlay.Name)
}

// divide runs the flow, and sets the sum of each overlay from it.
func divide(shares []*share, o Observation) {
	d := newDivision(shares, o.Jobs, o.Idle, flights(shares), o.At)
	for i, s := range shares {
		d.conclude(i, s, o.orderedAt())
	}
}

// newDivision divides jobs and agents by running the flow.
func newDivision(shares []*share, jobs []Demand, idle []IdleAgents, flying []flight, now time.Time) *division {
	d := &division{shares: shares, jobs: jobs, idle: idle, flying: flying}
	n := len(shares)
	supply := make([]int, len(d.idle)+len(d.flying)+2*n)
	demand := make([]int, len(d.jobs)+int(sinkKinds-toHeld)*n)
	for g, group := range d.idle {
		supply[g] = group.Agents
	}
	for k, x := range d.flying {
		supply[d.number(source{fromInFlight, k})] = x.agents
	}
	for j, group := range d.jobs {
		demand[j] = group.Pending
	}
	d.lookAhead(now)
	for i, s := range shares {
		if !s.breaker.Open() { // otherwise it needs no agents
			demand[d.sinkNumber(sink{toHeld, i})] = s.held()
			demand[d.sinkNumber(sink{toFresh, i})] = s.fresh - s.held()
			demand[d.sinkNumber(sink{toBuffer, i})] = s.sum.Buffer
			demand[d.sinkNumber(sink{toAgain, i})] = s.sum.Lookahead - s.fresh
		}
	}
	d.flow = newFlow(supply, demand, d.takers(len(demand)))
	for _, s := range shares {
		forMin, room := s.mayDispatch(now)
		d.mayDispatch = append(d.mayDispatch, forMin+room > 0)
	}
	d.serveIdle()
	d.serveInFlight()
	d.serveOrdered(now)
	return d
}

// serveIdle assigns idle agents to jobs, in the order of their groups: those that are being replaced,
// those of no buffer, then the others. Unused ones of the others serve held look-ahead and buffers.
func (d *division) serveIdle() {
	idle, jobs := len(d.idle), len(d.jobs)
	d.flow.serveAll(0, idle, 0, jobs)
	for g, group := range d.idle {
		i := slices.IndexFunc(d.shares, func(s *share) bool { return s.overlay.Name == group.Overlay })
		if i < 0 {
			continue
		}
		s := d.shares[i]
		s.spare += d.flow.free[g]
		if group.Replacing {
			s.sum.Replacing += d.flow.free[g]
		}
	}
	d.serve(0, idle, toHeld)
	d.serve(0, idle, toBuffer)
}

// serve assigns the sources from first to last to the sinks of one kind.
func (d *division) serve(first, last int, kind sinkKind) {
	d.flow.serveAll(first, last, d.sinkNumber(sink{kind, 0}), d.sinkNumber(sink{kind + 1, 0}))
}

// serveFresh assigns the sources before last to fresh look-ahead, first that of overlays that may
// dispatch: if an agent served the look-ahead of an overlay that may not, another overlay would
// dispatch instead.
func (d *division) serveFresh(last int) {
	for _, may := range []bool{true, false} {
		for i := range d.shares {
			if d.mayDispatch[i] == may {
				j := d.sinkNumber(sink{toFresh, i})
				d.flow.serveAll(0, last, j, j+1)
			}
		}
	}
}

// serveInFlight assigns agents in flight to jobs, and then all unused existing agents to look-ahead
// and buffers.
func (d *division) serveInFlight() {
	idle, there := len(d.idle), len(d.idle)+len(d.flying)
	d.flow.serveAll(idle, there, 0, len(d.jobs))
	d.serve(idle, there, toHeld)
	d.serve(idle, there, toBuffer)
	d.serve(0, there, toAgain)
	d.serveFresh(there)
	d.substitute(there)
	// Other fresh jobs have agents dispatched for them. No existing agent leaves its job to serve them.
	for i := range d.shares {
		takers := &d.flow.takers[d.sinkNumber(sink{toFresh, i})]
		*takers = slices.DeleteFunc(*takers, func(k int32) bool { return int(k) < there })
	}
}

// serveOrdered assigns the agents that are dispatched now: those for min, then the room below max,
// by priority and evenly within one priority.
func (d *division) serveOrdered(now time.Time) {
	n := len(d.shares)
	for i, s := range d.shares {
		d.flow.free[d.number(source{fromMin, i})], d.flow.free[d.number(source{fromRoom, i})] = s.mayDispatch(now)
	}
	has := make([]int, n)
	for i, s := range d.shares {
		has[i] = s.sum.Current + d.flow.free[d.number(source{fromMin, i})]
	}
	end := d.sinkNumber(sink{toAgain, 0})
	d.flow.serveAll(d.number(source{fromMin, 0}), d.number(source{fromMin, n}), 0, end)
	group := make([]int, n) // of one queue and one priority
	for i := 1; i < n; i++ {
		group[i] = group[i-1]
		if p, q := d.shares[i].policy, d.shares[i-1].policy; p.Queue != q.Queue || p.Priority != q.Priority {
			group[i]++
		}
	}
	d.flow.serveEvenly(d.number(source{fromRoom, 0}), end, group, has)
}

// lookAhead assigns each group of upcoming jobs to the first overlay that can serve it and looks
// ahead.
func (d *division) lookAhead(now time.Time) {
	for _, group := range d.jobs {
		if group.Upcoming == 0 && len(group.Stages) == 0 {
			continue
		}
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
			s.covered += group.Partial[s.overlay.Name]
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
		s.sum.Lookahead, s.covered = share(s.sum.Lookahead), min(share(s.covered), s.overlay.State.Partial.Agents)
		s.fresh = share(s.fresh) - s.covered
		for _, a := range s.ahead {
			s.sum.Lookahead, s.fresh = s.sum.Lookahead+a.share, s.fresh+a.wants
		}
	}
}

// substitute assigns unused agents of other overlays to look-ahead; see canSubstitute. They were
// dispatched for jobs that agents of the overlay that looks ahead then took. The upcoming jobs that
// they serve are excluded from its look-ahead.
func (d *division) substitute(there int) {
	f := d.flow
	type taken struct{ sink, own int }
	var all []taken
	for i, s := range d.shares {
		for _, kind := range []sinkKind{toHeld, toFresh} {
			j := d.sinkNumber(sink{kind, i})
			all = append(all, taken{j, len(f.takers[j])})
			for k := 0; k < there && len(s.aheadOf) > 0; k++ {
				if d.canSubstitute(k, s) {
					f.takers[j] = append(f.takers[j], int32(k))
				}
			}
		}
	}
	if !slices.ContainsFunc(all, func(t taken) bool { return len(f.takers[t.sink]) > t.own }) {
		return
	}
	f.serveAll(0, there, len(d.jobs), d.sinkNumber(sink{toAgain, 0}))
	for _, t := range all {
		f.takers[t.sink] = f.takers[t.sink][:t.own]
	}
}

// canSubstitute reports whether the agents of a source belong to another overlay and can take
// all jobs that an overlay looks ahead to.
func (d *division) canSubstitute(i int, s *share) bool {
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
	return of != "" && of != s.overlay.Name &&
		!slices.ContainsFunc(s.aheadOf, func(overlays []string) bool { return !slices.Contains(overlays, of) })
}

// conclude sets the sum of overlay i from the flow. Each term counts used or unused agents, or unmet
// demand.
func (d *division) conclude(i int, s *share, now time.Time) {
	m, f := &s.sum, d.flow
	forMin, room := d.number(source{fromMin, i}), d.number(source{fromRoom, i})
	held, fresh := d.sinkNumber(sink{toHeld, i}), d.sinkNumber(sink{toFresh, i})
	unserved := f.want[held] + f.want[fresh] + f.want[d.sinkNumber(sink{toBuffer, i})]
	for j, group := range d.jobs {
		if d.serves(i, j) {
			m.Pending += group.Pending
			unserved += f.want[j]
		}
	}
	nonMatching := 0
	m.Idle, m.Lookahead = m.Replacing, f.want[held]+f.want[fresh]
	for k, sinks := range f.serves {
		from := d.source(k)
		own, idle, ordered := d.owns(i, from), from.kind == fromIdle, from.kind >= fromMin
		if own && !ordered {
			nonMatching += f.free[k]
		}
		if own && idle {
			m.Idle += f.free[k]
		}
		for _, j := range sinks {
			n, to := f.moved[k][int(j)], d.sink(int(j))
			jobs := to.kind == toJobs
			here := !jobs && to.index == i || jobs && d.serves(i, to.index)
			if idle && (jobs && here || !jobs && own) {
				m.Idle += n
			}
			switch {
			case own && !here && !(idle && jobs): // jobs by other tags, or other overlays' look-ahead
				nonMatching += n
			case own && here && !jobs && to.kind != toBuffer:
				m.Lookahead += n
			case !own && here && jobs && !idle:
				m.OtherOverlays += n
			}
			switch {
			case !own || !ordered:
			case to.kind == toBuffer:
				m.WarmPool += n
			default:
				m.Demand += n
			}
		}
	}
	m.Missing = m.Demand + m.WarmPool + unserved
	m.WarmPool += f.free[forMin]
	if s.breaker.Open() {
		m.Buffer = 0
		nonMatching += m.InFlight
	}
	if m.Missing > 0 {
		m.NonMatching = nonMatching
	}
	m.Dispatch = m.Demand + m.WarmPool
	m.Desired = min(m.Max, max(m.Min, m.Current-m.Idle-m.InFlight+m.Pending-m.OtherOverlays+m.Lookahead+m.Buffer+m.NonMatching))
	ahead := s.rememberStages(f.moved[forMin][fresh]+f.moved[room][fresh], now)
	switch {
	case s.fresh > 0 && m.Dispatch > 0 && f.want[held]+f.want[fresh] == 0:
		s.lookedAhead = s.newest
	case ahead > 0:
		s.partial = Partial{Until: s.newest, Agents: s.covered + ahead}
	}
}

// owns reports whether agents belong to overlay i: idle agents that are not being
// replaced, agents in flight, and agents that it dispatches now.
func (d *division) owns(i int, from source) bool {
	switch from.kind {
	case fromIdle:
		g := d.idle[from.index]
		return !g.Replacing && g.Overlay == d.shares[i].overlay.Name
	case fromInFlight:
		return d.flying[from.index].share == i
	}
	return from.index == i
}

// flow assigns groups of agents (sources) to groups of demand (sinks). It finds a maximum flow by
// augmenting paths. A sink that is served stays served, by the same source or another, whatever is
// assigned later. So the order of the requests is their priority.
//
// Its cost depends on the number of groups and hardly on their sizes: one search for each sink and
// phase, and one more for each group that is exhausted.
type flow struct {
	free   []int         // unused agents of each source
	want   []int         // agents that each sink still needs
	moved  []map[int]int // agents of a source that serve a sink
	takers [][]int32     // the sources that may serve a sink, in order
	serves [][]int32     // the sinks that a source serves, or has served
	search search
}

// newFlow returns a flow without assignments. takers lists the sources that may serve each
// sink, in order.
func newFlow(supply, demand []int, takers [][]int32) *flow {
	return &flow{
		free: supply, want: demand,
		moved: make([]map[int]int, len(supply)), takers: takers, serves: make([][]int32, len(supply)),
		search: search{seen: make([]int, len(demand)), from: make([]step, len(demand)), reached: make([]int, len(supply)), at: make([]int32, len(supply))},
	}
}

// search is the result of searching all sources that can serve one sink: a tree of sinks. Each
// sink in it would be served by the source that serves the next sink now. The tree stays valid
// while agents are assigned along it, because that creates no new path from the same sink.
type search struct {
	root    int
	round   int
	seen    []int   // by sink: the round in which it was found
	from    []step  // by sink: how
	reached []int   // by source: the round in which it was found
	at      []int32 // by source: the sink that it would serve
	queue   []int32
	sources []int32 // that were found, in order
}

// step says that a source which serves this sink could serve another instead.
type step struct{ sink, source int32 }

// explore finds every source that could serve the sink: directly, or by replacing agents of other
// sources, which then serve the sink.
func (f *flow) explore(sink int) {
	s := &f.search
	s.root = sink
	s.round++
	s.seen[sink] = s.round
	s.queue, s.sources = append(s.queue[:0], int32(sink)), s.sources[:0]
	for n := 0; n < len(s.queue); n++ {
		j := s.queue[n]
		for _, i := range f.takers[j] {
			if s.reached[i] == s.round {
				continue
			}
			s.reached[i], s.at[i] = s.round, j
			s.sources = append(s.sources, i)
			for _, k := range f.serves[i] {
				if s.seen[k] != s.round && f.moved[i][int(k)] > 0 {
					s.seen[k] = s.round
					s.from[k] = step{sink: j, source: i}
					s.queue = append(s.queue, k)
				}
			}
		}
	}
	slices.Sort(s.sources)
}

// found returns, in order, those sources from first to last that the last search found.
func (f *flow) found(first, last int) []int32 {
	all := f.search.sources
	from, _ := slices.BinarySearch(all, int32(first))
	to, _ := slices.BinarySearch(all, int32(last))
	return all[from:to]
}

// serve assigns up to n agents of a source that was found to the sink of the last search, and returns
// their number; zero means that the path is exhausted.
func (f *flow) serve(i, n int) int {
	s := &f.search
	n = min(n, f.free[i], f.want[s.root])
	for k := int(s.at[i]); k != s.root; k = int(s.from[k].sink) {
		n = min(n, f.moved[s.from[k].source][k])
	}
	if n <= 0 {
		return 0
	}
	k := int(s.at[i])
	f.move(i, k, n)
	for k != s.root {
		from := s.from[k]
		f.moved[from.source][k] -= n
		f.move(int(from.source), int(from.sink), n)
		k = int(from.sink)
	}
	f.free[i] -= n
	f.want[s.root] -= n
	return n
}

func (f *flow) move(i, j, n int) {
	if f.moved[i] == nil {
		f.moved[i] = map[int]int{}
	}
	if _, ok := f.moved[i][j]; !ok {
		f.serves[i] = append(f.serves[i], int32(j))
	}
	f.moved[i][j] += n
}

// serveAll assigns the sources from first to last to the sinks from one to another, both in order.
func (f *flow) serveAll(first, last, from, to int) {
	for j := from; j < to; j++ {
		for f.want[j] > 0 {
			f.explore(j)
			served := 0
			for _, i := range f.found(first, last) {
				if f.free[i] > 0 && f.want[j] > 0 {
					served += f.serve(int(i), f.want[j])
				}
			}
			if served == 0 {
				break
			}
		}
	}
}

// serveEvenly assigns the sources from first on to the sinks before end, in order. group and level
// are those of the sources. Lower groups serve first. Within a group, each agent comes from the
// source with the lowest level, counting the agents it has given, so that the levels become as
// equal as possible.
func (f *flow) serveEvenly(first, end int, group, level []int) {
	for j := range end {
		if f.want[j] > 0 {
			f.explore(j)
		}
		for f.want[j] > 0 {
			least, next := f.min(first, group, level)
			if least < 0 {
				break
			}
			n := f.want[j]
			if next >= 0 {
				n = max(1, level[next]-level[least])
			}
			n = f.serve(first+least, n)
			if n == 0 { // the path is exhausted: search for another
				f.explore(j)
				continue
			}
			level[least] += n
		}
	}
}

// min returns the sources with the lowest and the second lowest level in the first group of the
// sources that were found, counted from first, the first of equals; -1 if there is no such source.
func (f *flow) min(first int, group, level []int) (least, next int) {
	least, next = -1, -1
	for _, k := range f.found(first, first+len(level)) {
		i := int(k) - first
		switch {
		case f.free[k] == 0:
		case least >= 0 && group[i] != group[least]: // groups are in order
			return least, next
		case least < 0 || level[i] < level[least]:
			least, next = i, least
		case next < 0 || level[i] < level[next]:
			next = i
		}
	}
	return least, next
}
