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
