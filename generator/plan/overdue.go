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
	// Agents is the number of agents of overdue orders, and Registered how many of them have
	// registered. An order is overdue if fewer than half of its agents have registered in the
	// time that agents of the overlay need (see [StartupTimes.OverdueAfter]), or within
	// OverdueUnlearned if that is unknown, and no newer order has been served.
	Agents     int `json:"agents,omitempty"`
	Registered int `json:"registered,omitempty"`
	// Ordered is the time of the oldest overdue order; zero without one.
	Ordered time.Time `json:"ordered,omitzero"`
	// FailedOrders is the number of orders that have failed in a row; zero once an agent of a
	// later order has registered.
	FailedOrders int `json:"failedOrders,omitempty"`
}

// arrival returns whether the agents of the overlay's orders register. It is zero while the
// circuit breaker is open, which [Breaker] describes.
func (s *share) arrival(now time.Time) (a Arrival) {
	if s.breaker.Open() {
		return Arrival{}
	}
	after := cmp.Or(s.startupTimes.OverdueAfter(), OverdueUnlearned)
	// The order that failed was made a lease before that was known, or earlier. An order that is
	// newer and was served shows that its cause is gone, or was of a single agent.
	served, servedAt := s.served(), s.servedAt()
	arrived := servedAt.After(s.breaker.At.Add(-s.lease() - Grace))
	for _, d := range s.overlay.Dispatches {
		registered := s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
		arrived = arrived || registered > 0 && d.At.After(s.breaker.At)
		if served[d.At.Unix()] || d.At.Before(servedAt) || now.Sub(d.At) < after || d.Expired(now) || d.Withdrawn || s.overlay.otherQueue(d) {
			continue
		}
		a.Agents, a.Registered = a.Agents+d.Agents, a.Registered+registered
		a.Ordered = earlier(d.At.UTC(), a.Ordered)
	}
	if s.breaker.Failures > 0 && !(arrived && s.breaker.Cause == NeverRegistered) {
		a.FailedOrders = s.breaker.Failures
	}
	return a
}

// FirstAgents is how many agents of an overlay may be in flight until one has registered. Fewer
// lengthen the waits of a healthy first hour, because the fastest of them starts later. More
// shorten these waits by a few seconds, and a broken template wastes all of them.
const FirstAgents = 10

// limitFirstAgents limits what may be ordered until an agent of the overlay has registered, so that
// a broken template wastes few agents: FirstAgents in flight, and one at a time once an order is
// overdue or has failed. Jobs beyond those wait for one agent to start.
//
// With a fixed lease git does not record that agents have registered, so nothing is limited.
func (s *share) limitFirstAgents(now time.Time) {
	if !s.policy.LeaseAuto || s.breaker.Open() || s.hasRegistered() {
		return
	}
	most, inFlight := FirstAgents, s.sum.InFlight
	overdue := s.overdueOrders(now, OverdueUnlearned)
	for _, o := range overdue {
		inFlight -= o.agents
	}
	if len(overdue) > 0 || s.breaker.Failures > 0 {
		most = 1
	}
	s.sum.MaxAtFirst, s.sum.LeftAtFirst = most, max(0, most-inFlight)
}

// withoutUnusedLimit returns the sum without the limit of the first agents if other limits allow no
// more, or no more are needed.
func (s Sum) withoutUnusedLimit() Sum {
	without := s
	without.MaxAtFirst, without.LeftAtFirst = 0, 0
	if min(s.Wanted(), without.allowed()) <= s.LeftAtFirst {
		return without
	}
	return s
}

// hasRegistered reports whether an agent of the overlay has ever registered, by what git and the
// observation contain. It uses the state after the retirements of the decision, so that the next
// decision on the same observation has the same result.
func (s *share) hasRegistered() bool {
	if !s.startupTimes.IsZero() || !s.lastServed.IsZero() || s.supply.Own+s.supply.Stopping > 0 {
		return true
	}
	for _, seen := range s.supply.Dispatches {
		if !seen.Registered.IsZero() {
			return true
		}
	}
	return false
}

// overdueOrder is the overdue part of what was ordered at one time.
type overdueOrder struct {
	at         time.Time
	dispatches []flight
	agents     int // overdue ones of all of them
}

// overdueOrders returns the orders of at least an age with their agents in flight, oldest first. It
// omits dispatches for a queue or cluster that the policy no longer names: they do not count.
func (s *share) overdueOrders(now time.Time, after time.Duration) (all []overdueOrder) {
	for _, d := range s.overlay.Dispatches {
		n := d.Agents - s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
		if n == 0 || now.Sub(d.At) < after || d.Expired(now) || s.overlay.otherQueue(d) {
			continue
		}
		i := slices.IndexFunc(all, func(o overdueOrder) bool { return o.at.Equal(d.At) })
		if i < 0 {
			i = len(all)
			all = append(all, overdueOrder{at: d.At})
		}
		all[i].dispatches = append(all[i].dispatches, flight{dispatch: d.ID, agents: n})
		all[i].agents += n
	}
	slices.SortStableFunc(all, func(a, b overdueOrder) int { return a.at.Compare(b.at) })
	return all
}

// OverdueAfter returns how long after its order an agent is overdue: twice the time that 99 of 100
// agents took, at least a minute; zero if too little is known. After one and a half times that,
// all overdue agents are presumed lost.
func (b StartupTimes) OverdueAfter() time.Duration {
	if !b.Known() {
		return 0
	}
	return max(time.Minute, 2*b.Within(99))
}

// giveUp computes how many agents in flight are presumed lost, by dispatch: they are overdue, and
// others are dispatched to replace them. They count against max until their lease expires, because
// they may still register.
//
// An order may be overdue because of the syncer or full nodes; then its replacement would be
// overdue too. So if at least half of an order of the same age or newer has registered, half of
// the overdue agents are presumed lost, and all of them later. Otherwise one agent at a time is.
func (s *share) giveUp(now time.Time) {
	after := s.startupTimes.OverdueAfter()
	if after == 0 || s.breaker.Open() {
		return
	}
	s.overdue = map[string]int{}
	served, one := s.servedAt(), 1
	for _, o := range s.overdueOrders(now, after) {
		n := o.agents
		if now.Sub(o.at) < after*3/2 {
			n = (n + 1) / 2
		}
		if served.Before(o.at) {
			n = min(n, one)
			one -= n
		}
		for _, d := range o.dispatches {
			take := min(n, d.agents)
			n -= take
			s.overdue[d.dispatch] = take
			s.sum.Overdue += take
		}
	}
	if s.sum.Overdue > 0 {
		s.sum.OverdueAfter = int(after / time.Second)
	}
}

// served returns the orders in git with at least half of their agents registered, by their time in
// seconds.
func (s *share) served() map[int64]bool {
	ordered, registered := map[int64]int{}, map[int64]int{}
	for _, d := range s.overlay.Dispatches {
		ordered[d.At.Unix()] += d.Agents
		registered[d.At.Unix()] += s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
	}
	all := map[int64]bool{}
	for at, n := range registered {
		all[at] = 2*n >= ordered[at]
	}
	return all
}

// servedAt returns the time of the newest order with at least half of its agents registered, in
// git or retired.
func (s *share) servedAt() time.Time {
	newest, served := s.overlay.State.ServedAt, s.served()
	for _, d := range s.overlay.Dispatches {
		if served[d.At.Unix()] {
			newest = later(d.At, newest)
		}
	}
	return newest
}
