// Package plan has muster's nouns and its one decision: how many agents to
// dispatch and which dispatches to retire.
//
// A tick goes through it once, from left to right:
//
//	Snapshot ──Observe──▶ Observation ──Decide──▶ Decision
//
// A [Snapshot] is what Buildkite said. [Observe] reduces it, with what the
// [Registrations] remembers, to one small [Observation] per queue. [Decide] turns an
// observation and the overlays of one commit into one [Decision] per overlay.
// Everything here is a pure function of its arguments: no I/O, no clock, no
// log, and the order in which Buildkite listed things changes nothing.
package plan

import (
	"cmp"
	"slices"
	"time"
)

// Decide returns the decisions about the overlays that serve the observed queue. tip is the head
// commit, from which the overlays were read. The names of new dispatches are derived from it and
// the time, so that equal input gives equal names and different input gives different names. The
// arithmetic is [Formula].
//
// Jobs that several overlays can serve go to the one with the highest priority first, up to its
// room, and then to the next; equal priorities share evenly. The result has the order of the
// overlays that serve the queue: by priority, then by name.
func Decide(head string, overlays []Overlay, o Observation) []Decision {
	var serving []Overlay
	for i := range overlays {
		if overlays[i].Policy.Queue == o.Queue {
			serving = append(serving, overlays[i])
		}
	}
	slices.SortFunc(serving, inOrder)
	allocations := newAllocations(serving, o)
	divide(allocations, o)
	decisions := make([]Decision, len(allocations))
	for i, s := range allocations {
		decisions[i] = s.decision(head, o)
	}
	return decisions
}

// DecideAll decides on each of the observed queues; see [Decide]. Its cost does not grow
// with the product of queues and overlays.
func DecideAll(head string, overlays []Overlay, observed []Observation) (all []Decision) {
	serving := byQueue(overlays)
	for _, o := range observed {
		all = append(all, Decide(head, serving[o.Queue], o)...)
	}
	return all
}

// allocation is one overlay's part of its queue while it is worked out.
type allocation struct {
	overlay   Overlay
	policy    Policy // as it is now
	schedule  string
	capacity  Capacity
	oldest    time.Time // when the longest pending job that it could take became runnable
	suspended Suspension
	retire    []Retirement
	breaker   Breaker // as it is once they are retired
	figures   Figures
	// startupTimes and lastServed are what is known once they are retired; see learn.
	startupTimes StartupTimes
	lastServed   time.Time
	gaps         Gaps

	nonMatching int        // idle agents and agents in flight that serve nothing of the overlay
	unserved    int        // pending jobs that no agent serves
	spare       int        // idle agents that serve no job, those to be replaced among them
	aheadOf     [][]string // of each group of jobs that it looks ahead to, the overlays that could take them
	newJobs     int        // the policy's share of the upcoming jobs that nothing was dispatched for
	newest      time.Time  // creation of the newest upcoming job
	covered     int        // of the policy's share of those since, agents that were dispatched for some
	lookedAhead time.Time  // creation of the newest, if they are all served and agents are dispatched
	partial     Partial    // what is to be remembered where agents are dispatched for some
	ahead       []ahead    // stages that it looks ahead to
	remembers   []AheadOf  // what is to be remembered of stages
}

// newAllocations returns the allocations of overlays in the observed queue.
func newAllocations(overlays []Overlay, o Observation) []*allocation {
	capacities, oldest := make(map[string]Capacity, len(o.Overlays)), oldestPending(o.Jobs)
	for _, s := range o.Overlays {
		capacities[s.Overlay] = s
	}
	allocations := make([]*allocation, len(overlays))
	for i, v := range overlays {
		s := &allocation{overlay: v, capacity: capacities[v.Name], oldest: oldest[v.Name]}
		s.begin(o)
		allocations[i] = s
	}
	return allocations
}

// oldestPending returns by overlay when the longest pending job that it could take became runnable.
func oldestPending(jobs []Demand) map[string]time.Time {
	oldest := map[string]time.Time{}
	for _, d := range jobs {
		if d.Pending+d.OtherQueues > 0 && d.Oldest != nil {
			for _, name := range d.Overlays {
				oldest[name] = earlier(*d.Oldest, oldest[name])
			}
		}
	}
	return oldest
}

// begin counts what does not depend on the other allocations.
func (s *allocation) begin(o Observation) {
	if id := s.capacity.Identity; id != nil {
		s.overlay.Identity = *id
	}
	v := s.overlay
	s.policy, s.schedule = v.Policy.During(o.At)
	p := s.policy
	s.suspended = cmp.Or(v.Suspended, v.Refused, v.Policy.Suspension(o.At), s.capacity.Suspended)
	if !s.suspended.Active() {
		s.suspended = cmp.Or(s.drift(o.At), s.unknownOrders())
	}
	if !s.suspended.Active() && s.capacity.WrongTags > 0 {
		s.suspended = Suspension{Code: AgentsCannotWork}
	}
	if !v.Suspended.Active() { // else nothing is retired, and so nothing judged
		s.retire = s.inOneCommit(s.retirements(o))
	}
	s.breaker = v.State.Breaker.after(s.outcomes(o.At), o.At)
	s.learn()
	s.figures = Figures{
		Min: p.Min, Max: p.Max, Buffer: p.Buffer,
		Busy: s.capacity.Busy, QueueBusy: s.capacity.QueueBusy,
		Stopping: s.capacity.Stopping,
	}
	var otherQueue int
	s.figures.InFlight, otherQueue = s.inFlight(o.At)
	s.figures.Stopping += otherQueue
	s.giveUp(o.At)
	s.figures.Current = s.capacity.Own + s.figures.InFlight
	s.figures.Room = max(0, p.Max-s.figures.Current-s.figures.Stopping)
	s.limit(o)
}

func (s *allocation) decision(head string, o Observation) Decision {
	d := Decision{Overlay: s.overlay.Name, Queue: o.Queue, Suspended: s.suspended, Schedule: s.schedule, OverriddenUntil: s.overlay.Policy.OverriddenUntil(o.At), Observation: o}
	s.figures = s.figures.withoutUnusedLimits()
	if s.overlay.Suspended.Active() {
		d.Figures = s.figures
		return d
	}
	d.Retire = s.retire
	d.RetireNow = s.retireNow(o)
	d.Closes = s.overlay.State.Breaker.Open() && !s.breaker.Open()
	if s.breaker.Open() && !s.suspended.Active() {
		d.Suspended, d.Trial = s.trial(o.At)
	}
	d.Figures, d.Arrival = s.figures, s.arrival(o.At)
	d.Dispatch = s.order(head, o.orderedAt())
	if d.State = s.state(o); !d.RetireNow { // what waits is judged again
		d.State = d.Ordered(s.overlay.State)
	}
	return d
}

// mayDispatch is how many agents an overlay may dispatch now: those that min asks for
// in any case, and those beyond, up to max.
func (s *allocation) mayDispatch(now time.Time) (forMin, room int) {
	switch {
	case s.suspended.Active():
	case s.breaker.Open():
		if s.mayTrial(now) { // its turn: one job is left to the trial
			room = min(1, s.figures.allowed())
		}
	default:
		forMin = min(s.figures.BelowMin(), s.figures.allowed())
		room = s.figures.allowed() - forMin
	}
	return forMin, room
}

// expected is how many agents in flight are counted on: none while the breaker is open,
// and not all that are late.
func (s *allocation) expected() int {
	if s.breaker.Open() {
		return 0
	}
	return s.figures.InFlight - s.figures.Overdue
}

// looksAhead reports whether agents may be dispatched for upcoming jobs.
func (s *allocation) looksAhead() bool {
	return s.policy.Lookahead > 0 && !s.suspended.Active() && !s.breaker.Open()
}

// Some git hosts take no commit of many files, and one act is one commit: what one cannot
// have is decided again after it. See [Capacity.MaxJobs].

// maxAtOnce returns how many agents one commit orders at most, as a limit and what it allows.
func (s *allocation) maxAtOnce(Observation) (most, left int) {
	if s.capacity.MaxJobs == 0 {
		return 0, 0
	}
	// Those for jobs, and those for min and buffer are Jobs of their own, of which the last
	// of each may have fewer agents than JobAgents.
	const unfilled = 1
	most = max(1, s.capacity.MaxJobs-unfilled) * JobAgents
	return most, most
}

// inOneCommit are those of the retirements that one commit takes. What was ordered
// together is judged as one, and goes together where it fits; the oldest order first.
func (s *allocation) inOneCommit(all []Retirement) []Retirement {
	left := s.capacity.MaxJobs
	if left == 0 || len(all) <= left {
		return all
	}
	at := func(r Retirement) int64 { return s.dispatch(r.ID).At.Unix() }
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Retirement) int { return cmp.Compare(at(a), at(b)) })
	var some []Retirement
	for len(all) > 0 {
		end := 1
		for end < len(all) && at(all[end]) == at(all[0]) {
			end++
		}
		if end > left && len(some) > 0 {
			break
		}
		for end > 1 && end > left { // an order of more than one commit takes
			end--
		}
		some, left, all = append(some, all[:end]...), left-end, all[end:]
	}
	slices.SortFunc(some, func(a, b Retirement) int { return cmp.Compare(a.ID, b.ID) })
	return some
}
