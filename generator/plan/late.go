package plan

import (
	"slices"
	"time"
)

// The lease of a policy that says "auto".
const (
	// FirstLease is its length until enough boots are known.
	FirstLease = 15 * time.Minute
	// LeastAutoLease is its least from then on.
	LeastAutoLease = 5 * time.Minute
	// MostAutoLease is its most.
	MostAutoLease = 30 * time.Minute
)

// AutoLease is four times what 99 of 100 agents took, in whole minutes from
// [LeastAutoLease] to [MostAutoLease]; [FirstLease] where too little is known.
func (b Boots) AutoLease() time.Duration {
	if !b.Known() {
		return FirstLease
	}
	lease := (4*b.Within(99) + time.Minute - 1).Truncate(time.Minute)
	return min(max(lease, LeastAutoLease), MostAutoLease)
}

// LateAfter is how long after its order an agent is late: twice what 99 of 100 took, a
// minute at least; zero where too little is known. From one and a half times that it is
// not counted on at all.
func (b Boots) LateAfter() time.Duration {
	if !b.Known() {
		return 0
	}
	return max(time.Minute, 2*b.Within(99))
}

// lease is that of what is dispatched now.
func (s *share) lease() time.Duration {
	if s.policy.LeaseAuto {
		return s.boots.AutoLease()
	}
	return s.policy.Lease
}

// lateOrder is what is late of what was ordered at one moment.
type lateOrder struct {
	at         time.Time
	dispatches []lateDispatch
	agents     int // late ones of all of them
}

type lateDispatch struct {
	id     string
	agents int
}

// giveUp settles how many agents in flight are no longer counted on, by dispatch: they are
// late, and others are dispatched in their stead. They count against max until their
// lease is over, for they may come after all.
//
// That an order is late may be the syncer's doing, or full nodes: then what is ordered in
// its stead would be late too. So late agents are given up where an order that is no older
// has come, its own or another, by half or more; beyond those one at a time.
func (s *share) giveUp(now time.Time) {
	after := s.boots.LateAfter()
	if after == 0 || s.breaker.Open() {
		return
	}
	served, one := s.servedAt(), 1
	for _, o := range s.lateOrders(now, after) {
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
			if take > 0 {
				if s.late == nil {
					s.late = map[string]int{}
				}
				s.late[d.id] = take
				s.sum.Late += take
			}
		}
	}
	if s.sum.Late > 0 {
		s.sum.LateAfter = int(after / time.Second)
	}
}

// lateOrders lists the orders that are so old with their agents in flight, the oldest
// first. Those that will serve a cluster which the policy no longer names count for
// nothing in any case.
func (s *share) lateOrders(now time.Time, after time.Duration) (all []lateOrder) {
	for _, d := range s.overlay.Dispatches {
		n := d.Agents - s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
		if n == 0 || now.Sub(d.At) < after || d.Expired(now) || s.overlay.strayed(d) {
			continue
		}
		i := slices.IndexFunc(all, func(o lateOrder) bool { return o.at.Equal(d.At) })
		if i < 0 {
			i = len(all)
			all = append(all, lateOrder{at: d.At})
		}
		all[i].dispatches = append(all[i].dispatches, lateDispatch{d.ID, n})
		all[i].agents += n
	}
	slices.SortStableFunc(all, func(a, b lateOrder) int { return a.at.Compare(b.at) })
	return all
}

// served are the orders in git of which at least half of the agents have registered, by
// their time in seconds.
func (s *share) served() map[int64]bool {
	ordered, came := map[int64]int{}, map[int64]int{}
	for _, d := range s.overlay.Dispatches {
		ordered[d.At.Unix()] += d.Agents
		came[d.At.Unix()] += s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
	}
	all := map[int64]bool{}
	for at, n := range came {
		all[at] = 2*n >= ordered[at]
	}
	return all
}

// servedAt is the time of the newest order of which at least half of the agents have
// registered: of those in git, or of one that was retired.
func (s *share) servedAt() time.Time {
	newest, served := s.overlay.State.ServedAt, s.served()
	for _, d := range s.overlay.Dispatches {
		if served[d.At.Unix()] && d.At.After(newest) {
			newest = d.At
		}
	}
	return newest
}

// learn settles what is known of boots once the dispatches are retired, and the newest of
// these orders that has come. Each dispatch is learned from once, when it leaves git, and by
// those of its agents that came. Where nobody has come of so many orders that the breaker
// opens, what was known no longer holds: a lease made of it could keep every agent from
// starting. The decision itself goes by what it has learned, so that the next one on the
// same observation goes by the same.
func (s *share) learn() {
	if !s.policy.LeaseAuto {
		return
	}
	before := s.overlay.State
	s.boots, s.lastServed = before.Boots, before.ServedAt
	if s.breaker.Open() && s.breaker.Cause == NeverRegistered && !before.Breaker.Open() {
		s.boots = Boots{}
	}
	served := s.served()
	for _, r := range s.retire {
		if r.Reason == Withdrawn {
			continue
		}
		s.boots = s.boots.learn(s.supply.Dispatches[r.ID].Boots)
		if d := s.dispatch(r.ID); served[d.At.Unix()] && d.At.After(s.lastServed) {
			s.lastServed = d.At.UTC()
		}
	}
}
