package plan

import (
	"cmp"
	"slices"
	"time"
)

// division assigns agents to jobs, and decides which overlay dispatches the missing agents. It is
// one maximum flow. Existing agents are assigned first: the idle ones, then those in flight. They
// serve the pending jobs, the upcoming jobs whose agent another job took (reserved), the buffers, then
// the upcoming jobs that agents were dispatched for before (ordered), and last those that nothing
// was dispatched for (new). Then come the agents that are dispatched now: those for min, and
// then the room below max, by priority and evenly within one priority. They serve the rest of
// pending, reserved, new and buffers, in this order.
//
// An existing agent never leaves its job for new jobs if another overlay would then have to
// dispatch an agent: an overlay that dispatches nothing has no commit in which to remember them.
// So a repeated decision on what was just dispatched finds everything served that can be served,
// and dispatches nothing.
type division struct {
	allocations []*allocation
	jobs        []Demand
	idle        []IdleAgents
	flow        *flow
	// names are the indexes of the allocations by the names of their overlays; takes are by allocation the
	// groups of jobs that the overlay's agents can take, in order, and takenBy by group the allocations.
	names   map[string]int
	takes   [][]int
	takenBy [][]int
	// mayDispatch reports for each allocation whether its overlay may dispatch anything now.
	mayDispatch []bool
}

// source is a node of the flow that agents come from.
type source struct {
	kind  sourceKind
	index int // of the group of idle agents, or of the overlay among the allocations
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
	index int // of the group of jobs, or of the overlay among the allocations
}

type sinkKind int

const (
	toJobs     sinkKind = iota // a group of pending jobs
	toReserved                 // upcoming jobs of an overlay whose agent another job took
	toNew                      // an overlay's share of the upcoming jobs that no agents were dispatched for
	toBuffer                   // the buffer of an overlay
	toOrdered                  // an overlay's share of the upcoming jobs that agents were dispatched for before
	sinkKinds
)

// number returns the index of a source in the flow: groups of idle agents, then the other kinds, each by
// overlay.
func (d *division) number(s source) int {
	if s.kind == fromIdle {
		return s.index
	}
	return len(d.idle) + int(s.kind-fromInFlight)*len(d.allocations) + s.index
}

// source returns the source with an index; it is the inverse of number.
func (d *division) source(i int) source {
	if i < len(d.idle) {
		return source{fromIdle, i}
	}
	i -= len(d.idle)
	return source{fromInFlight + sourceKind(i/len(d.allocations)), i % len(d.allocations)}
}

// sinkNumber returns the index of a sink in the flow: groups of jobs, then the other kinds, each by
// overlay.
func (d *division) sinkNumber(s sink) int {
	if s.kind == toJobs {
		return s.index
	}
	return len(d.jobs) + int(s.kind-toReserved)*len(d.allocations) + s.index
}

// sink returns the sink with an index; it is the inverse of sinkNumber.
func (d *division) sink(j int) sink {
	n := j - len(d.jobs)
	if n < 0 {
		return sink{toJobs, j}
	}
	return sink{toReserved + sinkKind(n/len(d.allocations)), n % len(d.allocations)}
}

// findTakers finds out which agents that are dispatched now can take which jobs.
func (d *division) findTakers() {
	d.names, d.takes, d.takenBy = map[string]int{}, make([][]int, len(d.allocations)), make([][]int, len(d.jobs))
	for i, s := range d.allocations {
		d.names[s.overlay.Name] = i
	}
	for j, group := range d.jobs {
		for _, name := range group.Overlays {
			if i, ok := d.names[name]; ok {
				d.takes[i], d.takenBy[j] = append(d.takes[i], j), append(d.takenBy[j], i)
			}
		}
		slices.Sort(d.takenBy[j])
	}
}

// takers returns, for each of n sinks, the sources that may serve it, in order.
func (d *division) takers(n int) [][]int32 {
	all := make([][]int32, n)
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
	existing := []sinkKind{toReserved, toNew, toBuffer, toOrdered}
	for g, group := range d.idle {
		i, ok := d.names[group.Overlay]
		if !ok || group.Replacing {
			serve(source{fromIdle, g}, group.Jobs.below(len(d.jobs)), 0)
		} else {
			serve(source{fromIdle, g}, group.Jobs.below(len(d.jobs)), i, existing...)
		}
	}
	for i := range d.allocations {
		serve(source{fromInFlight, i}, d.takes[i], i, existing...)
	}
	for _, kind := range []sourceKind{fromMin, fromRoom} {
		for i := range d.allocations {
			serve(source{kind, i}, d.takes[i], i, toReserved, toNew, toBuffer)
		}
	}
	return all
}

// serves reports whether agents of an overlay can take a group of jobs.
func (d *division) serves(overlay, jobs int) bool {
	_, ok := slices.BinarySearch(d.takes[overlay], jobs)
	return ok
}

// divide runs the flow, and sets the sum of each overlay from it.
func divide(allocations []*allocation, o Observation) {
	d := newDivision(allocations, o.Jobs, o.Idle, o.At)
	d.count()
	for i, s := range allocations {
		d.conclude(i, s, o.orderedAt())
	}
}

// newDivision divides jobs and agents by running the flow.
func newDivision(allocations []*allocation, jobs []Demand, idle []IdleAgents, now time.Time) *division {
	d := &division{allocations: allocations, jobs: jobs, idle: idle}
	d.findTakers()
	n := len(allocations)
	supply := make([]int, d.number(source{fromRoom, n}))
	demand := make([]int, len(d.jobs)+int(sinkKinds-toReserved)*n)
	for g, group := range d.idle {
		supply[g] = group.Agents
	}
	for i, s := range allocations {
		supply[d.number(source{fromInFlight, i})] = s.expected()
	}
	for j, group := range d.jobs {
		demand[j] = group.Pending
	}
	d.lookAhead(now)
	for i, s := range allocations {
		if !s.breaker.Open() { // otherwise it needs no agents
			demand[d.sinkNumber(sink{toReserved, i})] = s.reserved()
			demand[d.sinkNumber(sink{toNew, i})] = s.newJobs - s.reserved()
			demand[d.sinkNumber(sink{toBuffer, i})] = s.figures.Buffer
			demand[d.sinkNumber(sink{toOrdered, i})] = s.figures.Lookahead - s.newJobs
		}
	}
	d.flow = newFlow(supply, demand, d.takers(len(demand)))
	for _, s := range allocations {
		forMin, room := s.mayDispatch(now)
		d.mayDispatch = append(d.mayDispatch, forMin+room > 0)
	}
	d.serveIdle()
	d.serveInFlight()
	d.serveOrdered(now)
	return d
}

// serveIdle assigns idle agents to jobs, in the order of their groups: those that are being replaced,
// those of no buffer, then the others. Unused ones of the others serve reserved look-ahead and buffers.
func (d *division) serveIdle() {
	idle, jobs := len(d.idle), len(d.jobs)
	d.flow.serveAll(0, idle, count(0, jobs)...)
	for g, group := range d.idle {
		i, ok := d.names[group.Overlay]
		if !ok {
			continue
		}
		s := d.allocations[i]
		s.spare += d.flow.free[g]
		if group.Replacing {
			s.figures.Replacing += d.flow.free[g]
		}
	}
	d.serve(0, idle, toReserved)
	d.serve(0, idle, toBuffer)
}

// serve assigns the sources from first to last to the sinks of one kind.
func (d *division) serve(first, last int, kind sinkKind) {
	d.flow.serveAll(first, last, count(d.sinkNumber(sink{kind, 0}), d.sinkNumber(sink{kind + 1, 0}))...)
}

// serveNew assigns the sources before last to new look-ahead, first that of overlays that may
// dispatch: if an agent served the look-ahead of an overlay that may not, another overlay would
// dispatch instead.
func (d *division) serveNew(last int) {
	var sinks []int
	for _, may := range []bool{true, false} {
		for i := range d.allocations {
			if d.mayDispatch[i] == may {
				sinks = append(sinks, d.sinkNumber(sink{toNew, i}))
			}
		}
	}
	d.flow.serveAll(0, last, sinks...)
}

// count returns the numbers from first to last, without last.
func count(first, last int) []int {
	all := make([]int, 0, last-first)
	for n := first; n < last; n++ {
		all = append(all, n)
	}
	return all
}

// serveInFlight assigns agents in flight to jobs, and then all unused existing agents to look-ahead
// and buffers.
func (d *division) serveInFlight() {
	idle, there := len(d.idle), d.number(source{fromMin, 0})
	d.flow.serveAll(idle, there, count(0, len(d.jobs))...)
	d.serve(idle, there, toReserved)
	d.serve(idle, there, toBuffer)
	d.serve(0, there, toOrdered)
	d.serveNew(there)
	d.substitute(there)
	// Other new jobs have agents dispatched for them. No existing agent leaves its job to serve them.
	for i := range d.allocations {
		takers := &d.flow.takers[d.sinkNumber(sink{toNew, i})]
		*takers = slices.DeleteFunc(*takers, func(k int32) bool { return int(k) < there })
	}
}

// serveOrdered assigns the agents that are dispatched now: those for min, then the room below max,
// by priority and evenly within one priority.
func (d *division) serveOrdered(now time.Time) {
	n := len(d.allocations)
	for i, s := range d.allocations {
		d.flow.free[d.number(source{fromMin, i})], d.flow.free[d.number(source{fromRoom, i})] = s.mayDispatch(now)
	}
	has := make([]int, n)
	for i, s := range d.allocations {
		has[i] = s.figures.Current + d.flow.free[d.number(source{fromMin, i})]
	}
	end := d.sinkNumber(sink{toOrdered, 0})
	d.flow.serveAll(d.number(source{fromMin, 0}), d.number(source{fromMin, n}), count(0, end)...)
	group := make([]int, n) // of one queue and one priority
	for i := 1; i < n; i++ {
		group[i] = group[i-1]
		if p, q := d.allocations[i].policy, d.allocations[i-1].policy; p.Queue != q.Queue || p.Priority != q.Priority {
			group[i]++
		}
	}
	d.flow.serveEvenly(d.number(source{fromRoom, 0}), end, group, has)
}

// lookAhead assigns the stages of each group of upcoming jobs, and its jobs at an unknown time, to the first overlay that
// can serve them and looks ahead to them.
func (d *division) lookAhead(now time.Time) {
	names := map[string]bool{}
	for j, group := range d.jobs {
		for _, stage := range group.Stages {
			names[stage.Name] = true
		}
		stages, unknown := group.Stages, group.Upcoming-group.known()
		for _, i := range d.takenBy[j] {
			s := d.allocations[i]
			takes := len(stages) > 0 || unknown > 0 && s.policy.aheadOfUnknown()
			if !takes || !s.looksAhead() {
				continue
			}
			s.lookAheadTo(stages, now)
			jobs := Demand{Stages: stages}.known()
			if stages = nil; s.policy.aheadOfUnknown() {
				s.figures.Lookahead += unknown
				s.newJobs += group.New
				s.covered += group.Partial[s.overlay.Name]
				if group.Newest != nil {
					s.newest = later(*group.Newest, s.newest)
				}
				jobs, unknown = jobs+unknown, 0
			}
			if jobs > 0 {
				s.aheadOf = append(s.aheadOf, group.Overlays)
			}
		}
	}
	for _, s := range d.allocations {
		s.keepStages(names)
		share := func(n int) int { return int(s.policy.Lookahead*float64(n) + 1e-9) }
		s.figures.Lookahead, s.covered = share(s.figures.Lookahead), min(share(s.covered), s.overlay.State.Partial.Agents)
		s.newJobs = share(s.newJobs) - s.covered
		for _, a := range s.ahead {
			s.figures.Lookahead, s.newJobs = s.figures.Lookahead+a.share, s.newJobs+a.wants
		}
	}
}

// substitute assigns unused agents of other overlays to look-ahead; see canSubstitute. They were
// dispatched for jobs that agents of the overlay that looks ahead then took. The upcoming jobs that
// they serve are excluded from its look-ahead.
func (d *division) substitute(there int) {
	f := d.flow
	of := map[string][]int32{} // sources by overlay
	for k := range there {
		if name := d.substitutes(k); name != "" {
			of[name] = append(of[name], int32(k))
		}
	}
	for i, s := range d.allocations {
		var sources []int32
		for _, name := range s.allAheadOf() {
			if name != s.overlay.Name {
				sources = append(sources, of[name]...)
			}
		}
		if len(sources) == 0 {
			continue
		}
		slices.Sort(sources)
		if f.more == nil {
			f.more = make([][]int32, len(f.takers))
		}
		f.more[d.sinkNumber(sink{toReserved, i})], f.more[d.sinkNumber(sink{toNew, i})] = sources, sources
	}
	if f.more == nil {
		return
	}
	f.divideParts()
	f.serveAll(0, there, count(len(d.jobs), d.sinkNumber(sink{toOrdered, 0}))...)
	f.more = nil
}

// substitutes returns the overlay whose agents a source consists of, if they can substitute those
// of others; otherwise "".
func (d *division) substitutes(i int) string {
	switch from := d.source(i); {
	case from.kind == fromInFlight:
		return d.allocations[from.index].overlay.Name
	case !d.idle[from.index].Replacing:
		return d.idle[from.index].Overlay
	}
	return ""
}

// allAheadOf returns the overlays whose agents can take all jobs that the overlay looks ahead to.
func (s *allocation) allAheadOf() []string {
	if len(s.aheadOf) == 0 {
		return nil
	}
	fewest := slices.MinFunc(s.aheadOf, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
	return slices.DeleteFunc(slices.Clone(fewest), func(name string) bool {
		return slices.ContainsFunc(s.aheadOf, func(overlays []string) bool {
			_, ok := slices.BinarySearch(overlays, name)
			return !ok
		})
	})
}

// count counts in the sums which agents serve what. Each term counts used or unused agents.
func (d *division) count() {
	f := d.flow
	idle, others := make([]int, len(d.jobs)), make([]int, len(d.jobs)) // by group: agents that serve it
	for i, s := range d.allocations {
		s.figures.Idle, s.figures.Lookahead = s.figures.Replacing, f.want[d.sinkNumber(sink{toReserved, i})]+f.want[d.sinkNumber(sink{toNew, i})]
	}
	for k, edges := range f.serves {
		from := d.source(k)
		isIdle, ordered, owner := from.kind == fromIdle, from.kind >= fromMin, d.owner(from)
		var own *allocation
		if owner >= 0 {
			own = d.allocations[owner]
			if !ordered {
				own.nonMatching += f.free[k]
			}
			if isIdle {
				own.figures.Idle += f.free[k]
			}
		}
		for _, e := range edges {
			n, to := e.agents, d.sink(int(e.sink))
			jobs := to.kind == toJobs
			switch {
			case jobs && isIdle:
				idle[to.index] += n
			case jobs:
				others[to.index] += n
			}
			if own == nil {
				continue
			}
			here := !jobs && to.index == owner || jobs && d.serves(owner, to.index)
			if isIdle && !jobs {
				own.figures.Idle += n
			}
			switch {
			case !here && !(isIdle && jobs): // jobs by other tags, or other overlays' look-ahead
				own.nonMatching += n
			case here && !jobs && to.kind != toBuffer:
				own.figures.Lookahead += n
			case here && jobs && !isIdle:
				own.figures.OtherOverlays -= n // it is among the others below
			}
			switch {
			case !ordered:
			case to.kind == toBuffer:
				own.figures.WarmPool += n
			default:
				own.figures.Demand += n
			}
		}
	}
	for j, allocations := range d.takenBy {
		for _, i := range allocations {
			m := &d.allocations[i].figures
			m.Pending += d.jobs[j].Pending
			m.Idle += idle[j]
			m.OtherOverlays += others[j]
			d.allocations[i].unserved += f.want[j]
		}
	}
}

// owner returns the overlay to which agents belong: idle agents that are not being replaced, agents
// in flight, and agents that it dispatches now; -1 if they belong to no overlay.
func (d *division) owner(from source) int {
	if from.kind == fromIdle {
		g := d.idle[from.index]
		if i, ok := d.names[g.Overlay]; ok && !g.Replacing {
			return i
		}
		return -1
	}
	return from.index
}

// conclude completes the sum of overlay i.
func (d *division) conclude(i int, s *allocation, now time.Time) {
	m, f := &s.figures, d.flow
	forMin, room := d.number(source{fromMin, i}), d.number(source{fromRoom, i})
	reserved, newJobs := d.sinkNumber(sink{toReserved, i}), d.sinkNumber(sink{toNew, i})
	unserved := s.unserved + f.want[reserved] + f.want[newJobs] + f.want[d.sinkNumber(sink{toBuffer, i})]
	nonMatching := s.nonMatching
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
	ahead := s.rememberStages(f.serving(forMin, newJobs)+f.serving(room, newJobs), now)
	switch {
	case s.newJobs > 0 && m.Dispatch > 0 && f.want[reserved]+f.want[newJobs] == 0:
		s.lookedAhead = s.newest
	case ahead > 0:
		s.partial = Partial{Until: s.newest, Agents: s.covered + ahead}
	}
}
