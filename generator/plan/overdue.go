package plan

import (
	"cmp"
	"slices"
	"time"
)

// OverdueUnlearned is the age at which an order is overdue while the start-up times of the
// overlay's agents are unknown.
const OverdueUnlearned = 4 * time.Minute

// Arrival tells whether the agents of an overlay's orders register with Buildkite. muster cannot
// see pods: a missing Secret, an image that cannot be pulled, a full quota and a suspended syncer
// all look the same. The zero value is an overlay without a problem.
type Arrival struct {
	// Agents is the number of agents of dispatches with overdue ones, and Registered how many of
	// them have registered: the others are overdue. An agent is overdue if it has not registered
	// in the time that agents of the overlay need (see [StartupTimes.OverdueAfter]), or within
	// OverdueUnlearned if that is unknown, until it registers or its lease expires.
	Agents     int `json:"agents,omitempty"`
	Registered int `json:"registered,omitempty"`
	// Ordered is the time of the oldest order with overdue agents; zero without one.
	Ordered time.Time `json:"ordered,omitzero"`
	// FailedOrders is the number of orders that have failed in a row; zero once an agent of a
	// later order has registered.
	FailedOrders int `json:"failedOrders,omitempty"`
	// NewTemplate reports that the overdue orders are of the overlay's template, and that agents of another
	// template have registered, but none of this one.
	NewTemplate bool `json:"newTemplate,omitempty"`
}

// arrival returns whether the agents of the overlay's orders register. It is zero while the
// circuit breaker is open, which [Breaker] describes.
func (s *allocation) arrival(now time.Time) (a Arrival) {
	if s.breaker.Open() {
		return Arrival{}
	}
	after := cmp.Or(s.startupTimes.OverdueAfter(), OverdueUnlearned)
	// The order that failed was made a lease before that was known, or earlier. An order that is
	// newer and was served shows that its cause is gone, or was of a single agent.
	arrived := s.servedAt(now).After(s.breaker.At.Add(-s.lease() - Grace))
	registers := map[string]bool{} // templates whose agents have registered
	present := true                // all overdue orders are of the overlay's template
	for _, d := range s.overlay.Dispatches {
		registered := s.capacity.Dispatches[d.ID].Registered.Below(d.Agents)
		if registered > 0 {
			registers[d.Template] = true
		}
		arrived = arrived || registered > 0 && d.At.After(s.breaker.At)
		if registered == d.Agents || now.Sub(d.At) < after || d.Expired(now) || d.Withdrawn || s.overlay.otherQueue(d) {
			continue
		}
		a.Agents, a.Registered = a.Agents+d.Agents, a.Registered+registered
		a.Ordered = earlier(d.At.UTC(), a.Ordered)
		present = present && d.Template == s.overlay.Template
	}
	delete(registers, "") // unknown
	a.NewTemplate = a.Agents > 0 && present && len(registers) > 0 && s.overlay.Template != "" && !registers[s.overlay.Template]
	if s.breaker.Failures > 0 && !(arrived && s.breaker.Cause == NeverRegistered) {
		a.FailedOrders = s.breaker.Failures
	}
	return a
}

// FirstAgents is how many agents of an overlay may be in flight until one has registered. Fewer
// lengthen the waits of a healthy first hour, because the fastest of them starts later. More
// shorten these waits by a few seconds, and a broken template wastes all of them.
const FirstAgents = 10

// leftAtFirst limits what may be ordered until an agent of the overlay has registered, so that
// a broken template wastes few agents: FirstAgents in flight, and one at a time once an order is
// overdue or has failed. Jobs beyond those wait for one agent to start.
//
// With a fixed lease git does not record that agents have registered, so nothing is limited.
func (s *allocation) leftAtFirst(o Observation) (most, left int) {
	if !s.policy.LeaseAuto || s.breaker.Open() || s.hasRegistered() {
		return 0, 0
	}
	inFlight := s.figures.InFlight
	overdue := s.overdueOrders(o.At, OverdueUnlearned)
	for _, late := range overdue {
		inFlight -= late.agents
	}
	most = FirstAgents
	if len(overdue) > 0 || s.breaker.Failures > 0 {
		most = 1
	}
	return most, max(0, most-inFlight)
}

// hasRegistered reports whether an agent of the overlay has ever registered, by what git and the
// observation contain. It uses the state after the retirements of the decision, so that the next
// decision on the same observation has the same result.
func (s *allocation) hasRegistered() bool {
	if !s.startupTimes.IsZero() || !s.lastServed.IsZero() || s.capacity.Own+s.capacity.Stopping > 0 {
		return true
	}
	return slices.ContainsFunc(s.overlay.Dispatches, func(d Dispatch) bool {
		return s.capacity.Dispatches[d.ID].Registered.Below(d.Agents) > 0
	})
}

// overdueOrder is the part of what was ordered at one time that has not registered.
type overdueOrder struct {
	at     time.Time
	agents int
}

// overdueOrders returns the orders of at least an age with their agents in flight, oldest first. It
// omits dispatches for a queue or cluster that the policy no longer names: they do not count.
func (s *allocation) overdueOrders(now time.Time, after time.Duration) (all []overdueOrder) {
	for _, d := range s.overlay.Dispatches {
		n := d.Agents - s.capacity.Dispatches[d.ID].Registered.Below(d.Agents)
		if n == 0 || now.Sub(d.At) < after || d.Expired(now) || s.overlay.otherQueue(d) {
			continue
		}
		i := slices.IndexFunc(all, func(o overdueOrder) bool { return o.at.Equal(d.At) })
		if i < 0 {
			i = len(all)
			all = append(all, overdueOrder{at: d.At})
		}
		all[i].agents += n
	}
	slices.SortStableFunc(all, func(a, b overdueOrder) int { return a.at.Compare(b.at) })
	return all
}

// OverdueAfter returns how long after its order an agent is overdue: twice the time that 99 of 100
// agents took, from a minute to FirstLease; zero if too little is known.
func (b StartupTimes) OverdueAfter() time.Duration {
	if !b.Known() {
		return 0
	}
	return min(max(time.Minute, 2*b.Within(99)), FirstLease)
}

// comparedAfter returns how long after its order the agents of an older order are compared with
// those of this one: one and a half times the time that 99 of 100 agents took; zero if too little
// is known.
func (b StartupTimes) comparedAfter() time.Duration {
	if !b.Known() {
		return 0
	}
	return b.Within(99) * 3 / 2
}

// giveUp computes how many agents in flight are presumed lost: they are overdue, and
// others are dispatched to replace them. They count against max until their lease expires, because
// they may still register.
//
// If a pod waits for a node, its replacement would only wait for one too. Kubernetes schedules pods in
// the order of their creation. So an agent is presumed lost only if a newer order was served
// without a delay, and its agents would have registered by now even if they had got their nodes at
// the same time. If no newer order shows this, the agent counts until its lease expires.
func (s *allocation) giveUp(now time.Time) {
	after := s.startupTimes.OverdueAfter()
	if !s.policy.LeaseAuto || after == 0 || s.breaker.Open() {
		return
	}
	served := s.servedAt(now.Add(-s.startupTimes.comparedAfter()))
	for _, o := range s.overdueOrders(now, after) {
		if o.at.Before(served) {
			s.figures.Overdue += o.agents
		}
	}
	if s.figures.Overdue > 0 {
		s.figures.OverdueAfter = int(after / time.Second)
	}
}

// comparedFrom returns the time after whose orders dispatches stay in git although all their agents
// have registered, so that agents of older orders can be compared with them: that of the oldest
// order with agents in flight. The zero time is none.
func (s *allocation) comparedFrom(now time.Time) (from time.Time) {
	if !s.policy.LeaseAuto || s.overlay.State.Breaker.Open() {
		return from
	}
	for _, d := range s.overlay.Dispatches {
		if !d.Expired(now) && !s.overlay.otherQueue(d) && s.capacity.Dispatches[d.ID].Registered.Below(d.Agents) < d.Agents {
			from = earlier(d.At, from)
		}
	}
	return from
}

// served returns the orders in git with at least half of their agents registered without a delay,
// by their time in seconds: within the time that 99 of 100 agents took, if that is known.
func (s *allocation) served() map[int64]bool {
	ordered, registered := map[int64]int{}, map[int64]int{}
	for _, d := range s.overlay.Dispatches {
		seen := s.capacity.Dispatches[d.ID]
		n := seen.Registered.Below(d.Agents)
		if s.startupTimes.Known() {
			n = seen.StartupTimes.within(s.startupTimes.Within(99))
		}
		ordered[d.At.Unix()] += d.Agents
		registered[d.At.Unix()] += n
	}
	all := map[int64]bool{}
	for at, n := range registered {
		all[at] = 2*n >= ordered[at]
	}
	return all
}

// servedAt returns the time of the newest order that was served: in git and not younger than a
// time, or retired.
func (s *allocation) servedAt(until time.Time) time.Time {
	newest, served := s.lastServed, s.served()
	for _, d := range s.overlay.Dispatches {
		if served[d.At.Unix()] && !d.At.After(until) {
			newest = later(d.At, newest)
		}
	}
	return newest
}
