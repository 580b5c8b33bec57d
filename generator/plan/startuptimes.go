package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// StartupTimes counts agents by their time from order to registration: the time of the syncer, the
// nodes and the pod's start together. The zero value has none. Its text form lists seconds and
// agents, as in "38:4 46:11".
//
// A time is rounded up to a second or a tenth of it; see [StartupTimes.Add]. If Buildkite does not
// report when an agent registered, its time is that of the first poll that showed it: an upper
// bound.
type StartupTimes struct{ counts []startupCount } // by seconds

// startupCount is the number of agents that took at most this number of seconds, and more than the
// count before.
type startupCount struct{ seconds, agents int }

// Limits of start-up times.
const (
	// MinStartupTimes is how many start-up times must be known before decisions depend on them.
	MinStartupTimes = 20
	// maxStartupTimes is how many are kept: above it all counts are halved, so that the
	// latest count most.
	maxStartupTimes = 500
	// longestStartup is the longest time, in seconds, that is counted on its own: the longest
	// lease of a policy.
	longestStartup = 24 * 60 * 60
)

// startupBound returns the seconds by which a start-up time is counted: the first value of 1, 2,
// ... that is not below it. Each value exceeds the one before by at most a tenth, or by a second.
func startupBound(seconds int) int {
	bound := 1
	for bound < min(seconds, longestStartup) {
		bound += max(1, bound/10)
	}
	return min(bound, longestStartup)
}

// Add counts agents that needed a time. A time below a second, for example if clocks differ, counts as
// one second.
func (b *StartupTimes) Add(took time.Duration, agents int) {
	if agents < 1 {
		return
	}
	seconds := startupBound(int(min((took+time.Second-1)/time.Second, longestStartup)))
	i, found := slices.BinarySearchFunc(b.counts, seconds, func(c startupCount, s int) int { return c.seconds - s })
	if !found {
		b.counts = slices.Insert(b.counts, i, startupCount{seconds: seconds})
	}
	b.counts[i].agents += agents
}

// learn returns the start-up times with more added, halved until there are at most
// maxStartupTimes. Halving keeps the sum of every prefix of the list at half, rounded down: rare
// long times are forgotten as fast as the others.
func (b StartupTimes) learn(more StartupTimes) StartupTimes {
	all := StartupTimes{counts: slices.Clone(b.counts)}
	for _, c := range more.counts {
		all.Add(time.Duration(c.seconds)*time.Second, c.agents)
	}
	for all.Agents() > maxStartupTimes {
		sum, kept := 0, 0
		for i, c := range all.counts {
			sum += c.agents
			all.counts[i].agents = sum/2 - kept
			kept = sum / 2
		}
		all.counts = slices.DeleteFunc(all.counts, func(c startupCount) bool { return c.agents == 0 })
	}
	return all
}

// Agents is how many agents are counted.
func (b StartupTimes) Agents() (sum int) {
	for _, c := range b.counts {
		sum += c.agents
	}
	return sum
}

// Within returns the percentile of the start-up times; zero if none is counted.
func (b StartupTimes) Within(percent int) time.Duration {
	need, sum := (b.Agents()*percent+99)/100, 0
	for _, c := range b.counts {
		if sum += c.agents; sum >= need {
			return time.Duration(c.seconds) * time.Second
		}
	}
	return 0
}

// Spread returns a time by which at least half of the agents took longer than the fastest tenth: a lower bound, because
// times are rounded up.
func (b StartupTimes) Spread() time.Duration {
	half, below := int(b.Within(50)/time.Second), 0
	for bound := 1; bound < half; bound = startupBound(bound + 1) {
		below = bound
	}
	return max(0, time.Duration(below)*time.Second-b.Within(10))
}

// within returns how many agents took at most a time.
func (b StartupTimes) within(limit time.Duration) (agents int) {
	for _, c := range b.counts {
		if time.Duration(c.seconds)*time.Second <= limit {
			agents += c.agents
		}
	}
	return agents
}

// Known reports whether enough start-up times are known for decisions.
func (b StartupTimes) Known() bool { return b.Agents() >= MinStartupTimes }

// IsZero reports whether none is counted.
func (b StartupTimes) IsZero() bool { return len(b.counts) == 0 }

// Equal reports whether two values are equal.
func (b StartupTimes) Equal(other StartupTimes) bool { return slices.Equal(b.counts, other.counts) }

// String lists seconds and agents; none is "".
func (b StartupTimes) String() string {
	var all []string
	for _, c := range b.counts {
		all = append(all, fmt.Sprintf("%d:%d", c.seconds, c.agents))
	}
	return strings.Join(all, " ")
}

// MarshalText returns [StartupTimes.String].
func (b StartupTimes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText parses the format of [StartupTimes.String], with at most [MaxIndex] agents.
func (b *StartupTimes) UnmarshalText(text []byte) error {
	*b = StartupTimes{}
	sum := 0
	for part := range strings.FieldsSeq(string(text)) {
		took, count, _ := strings.Cut(part, ":")
		seconds, err := strconv.Atoi(took)
		agents, wrong := strconv.Atoi(count)
		last := 0
		if n := len(b.counts); n > 0 {
			last = b.counts[n-1].seconds
		}
		if err != nil || wrong != nil || seconds <= last || startupBound(seconds) != seconds || agents < 1 || agents > MaxIndex-sum {
			return fmt.Errorf("startupTimes %.80q: %.40q is not seconds above those before it and a number of agents", text, part)
		}
		sum += agents
		b.counts = append(b.counts, startupCount{seconds, agents})
	}
	return nil
}

// learn updates the gaps, the start-up times after the retirements, and the time of the newest served order.
// Each dispatch contributes once, when it leaves git, with those of its agents that registered. If
// the breaker opens because no agent of several orders registered, learn discards the known
// start-up times: a lease derived from them could prevent every agent from starting. The decision
// itself uses the updated values, so that the next decision on the same observation uses the same.
func (s *allocation) learn() {
	before := s.overlay.State
	if s.policy.Reuse.Auto {
		s.gaps = before.Gaps.learn(s.capacity.Gaps)
	}
	if !s.policy.learnsStartupTimes() {
		return
	}
	s.startupTimes, s.lastServed = before.StartupTimes, before.ServedAt
	if s.breaker.Open() && s.breaker.Cause == NeverRegistered && !before.Breaker.Open() {
		s.startupTimes = StartupTimes{}
	}
	served := s.served()
	for _, r := range s.retire {
		if r.Reason == Withdrawn || s.dispatch(r.ID).PutBack {
			continue
		}
		s.startupTimes = s.startupTimes.learn(s.capacity.Dispatches[r.ID].StartupTimes)
		if d := s.dispatch(r.ID); served[d.At.Unix()] {
			s.lastServed = later(d.At.UTC(), s.lastServed)
		}
	}
}

// The lease of a policy with "lease: auto".
const (
	// FirstLease is its length until enough start-up times are known, and its minimum: how long
	// agents took lately does not tell how long a pod may wait for a node.
	FirstLease = 15 * time.Minute
	// MaxAutoLease is its maximum.
	MaxAutoLease = 30 * time.Minute
)

// AutoLease returns four times the 99th percentile, in whole minutes from [FirstLease] to
// [MaxAutoLease]; [FirstLease] if too few start-up times are known.
func (b StartupTimes) AutoLease() time.Duration {
	if !b.Known() {
		return FirstLease
	}
	lease := (4*b.Within(99) + time.Minute - 1).Truncate(time.Minute)
	return min(max(lease, FirstLease), MaxAutoLease)
}

// demandIdle returns how long agents that are ordered now for a job stay idle.
func (s *allocation) demandIdle() time.Duration {
	if s.policy.Reuse.Auto && s.startupTimes.Known() && s.gaps.Len() >= MinGaps {
		return s.gaps.idle(s.startupTimes.Within(50), s.policy.Reuse.Uptime)
	}
	return s.policy.DemandIdleTimeout()
}

// lease returns the lease of new dispatches.
func (s *allocation) lease() time.Duration {
	if s.policy.LeaseAuto {
		return s.startupTimes.AutoLease()
	}
	return s.policy.Lease
}
