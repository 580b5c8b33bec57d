package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Boots counts agents by how long they took from their order to their registration:
// what the syncer, the nodes and the pod's start take together. The zero value has none.
// Its text form lists seconds and agents, as in "38:4 46:11".
//
// A time is exact to a tenth or a second, rounded up; see [Boots.Add]. Where Buildkite does
// not tell when an agent came, it is that of the look which first showed it: an upper bound.
type Boots struct{ counts []bootCount } // by seconds

// bootCount is how many agents took so many seconds at most, and more than those before.
type bootCount struct{ seconds, agents int }

// What is known of boots.
const (
	// LeastBoots is how many must be known before anything is decided by them.
	LeastBoots = 20
	// mostBoots is how many are kept: above it all counts are halved, so that the
	// latest count most.
	mostBoots = 500
	// longestBoot is the longest that is told apart: the longest lease of a policy.
	longestBoot = 24 * 60 * 60
)

// bootBound returns the seconds by which a boot is counted: the first of 1, 2, ... that is
// not below, each at most a tenth above the one before or a second.
func bootBound(seconds int) int {
	bound := 1
	for bound < min(seconds, longestBoot) {
		bound += max(1, bound/10)
	}
	return min(bound, longestBoot)
}

// Add counts agents that took so long. A time below a second, as where clocks differ, is
// one second.
func (b *Boots) Add(took time.Duration, agents int) {
	if agents < 1 {
		return
	}
	seconds := bootBound(int(min((took+time.Second-1)/time.Second, longestBoot)))
	i, found := slices.BinarySearchFunc(b.counts, seconds, func(c bootCount, s int) int { return c.seconds - s })
	if !found {
		b.counts = slices.Insert(b.counts, i, bootCount{seconds: seconds})
	}
	b.counts[i].agents += agents
}

// learn returns the boots with further ones, halved until they are no more than mostBoots.
// Halving keeps the sum of every head of the list at half, rounded down: the rare long ones
// are forgotten as fast as the others.
func (b Boots) learn(more Boots) Boots {
	all := Boots{counts: slices.Clone(b.counts)}
	for _, c := range more.counts {
		all.Add(time.Duration(c.seconds)*time.Second, c.agents)
	}
	for all.Agents() > mostBoots {
		sum, kept := 0, 0
		for i, c := range all.counts {
			sum += c.agents
			all.counts[i].agents = sum/2 - kept
			kept = sum / 2
		}
		all.counts = slices.DeleteFunc(all.counts, func(c bootCount) bool { return c.agents == 0 })
	}
	return all
}

// Agents is how many agents are counted.
func (b Boots) Agents() (sum int) {
	for _, c := range b.counts {
		sum += c.agents
	}
	return sum
}

// Within is how long that share of the agents took at most, in percent; zero where none
// is counted.
func (b Boots) Within(percent int) time.Duration {
	need, sum := (b.Agents()*percent+99)/100, 0
	for _, c := range b.counts {
		if sum += c.agents; sum >= need {
			return time.Duration(c.seconds) * time.Second
		}
	}
	return 0
}

// Known reports whether enough is known to decide by.
func (b Boots) Known() bool { return b.Agents() >= LeastBoots }

// IsZero reports whether none is counted.
func (b Boots) IsZero() bool { return len(b.counts) == 0 }

// Equal reports whether two count the same.
func (b Boots) Equal(other Boots) bool { return slices.Equal(b.counts, other.counts) }

// String lists seconds and agents; none is "".
func (b Boots) String() string {
	var all []string
	for _, c := range b.counts {
		all = append(all, fmt.Sprintf("%d:%d", c.seconds, c.agents))
	}
	return strings.Join(all, " ")
}

// MarshalText is [Boots.String].
func (b Boots) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what [Boots.String] writes, of [MaxIndex] agents at most.
func (b *Boots) UnmarshalText(text []byte) error {
	*b = Boots{}
	sum := 0
	for part := range strings.FieldsSeq(string(text)) {
		took, count, _ := strings.Cut(part, ":")
		seconds, err := strconv.Atoi(took)
		agents, wrong := strconv.Atoi(count)
		last := 0
		if n := len(b.counts); n > 0 {
			last = b.counts[n-1].seconds
		}
		if err != nil || wrong != nil || seconds <= last || bootBound(seconds) != seconds || agents < 1 || agents > MaxIndex-sum {
			return fmt.Errorf("boots %.80q: %.40q is not seconds above those before it and a number of agents", text, part)
		}
		sum += agents
		b.counts = append(b.counts, bootCount{seconds, agents})
	}
	return nil
}

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

// The lease is what makes the accounting exact. Every dispatch is given a time,
// NotAfter, and an agent that starts later exits at once. So each index of a
// dispatch is in exactly one of three states: registered (Buildkite has seen
// its agent, now or before), in flight (it may still register), or lost (the
// lease and the grace are over). Only registered agents that are connected, and
// agents in flight, are counted on.

// ClocksApart is how far muster's clock may be off Buildkite's: what is further off
// decides nothing. Kubernetes' nodes are taken to be as exact.
const ClocksApart = time.Minute

// Grace is how long after its lease an index that was not seen is presumed
// lost: a minute for clocks that differ, and one for what follows the agent's
// last look at the lease.
//
// An agent looks at its lease when it starts and, once it is registered, again
// before it connects (base/job.yaml). Connecting is then tried for up to 45 s
// (buildkite-agent 3.138.2, ten times every five seconds).
const Grace = ClocksApart + time.Minute

// Expired reports whether no agent of the dispatch can start any more.
func (d Dispatch) Expired(now time.Time) bool {
	return now.After(d.NotAfter.Add(Grace))
}

// Withdrawable reports whether the dispatch has had the time to become a Job, if
// it can at all: a third of its lease, and five minutes at most, which is as long
// as Argo CD takes to look at git without a webhook.
func (d Dispatch) Withdrawable(now time.Time) bool {
	return !now.Before(d.At.Add(min(d.NotAfter.Sub(d.At)/3, 5*time.Minute)))
}

// Stale reports whether the dispatch's lease ended so long ago that Buildkite is
// not asked any more what became of it: muster was away. It is retired without
// an outcome.
func (d Dispatch) Stale(now time.Time) bool {
	return now.After(d.NotAfter.Add(time.Hour))
}

// inFlight counts the overlay's agents that are dispatched, have not registered,
// and may still do so. Those that will serve a cluster which the policy no longer
// names are counted apart: they are of no use, but they will run.
func (s *share) inFlight(now time.Time) (agents, strayed int) {
	for _, d := range s.overlay.Dispatches {
		if d.Expired(now) {
			continue
		}
		n := d.Agents - s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
		if s.overlay.strayed(d) {
			strayed += n
		} else {
			agents += n
		}
	}
	return agents, strayed
}
