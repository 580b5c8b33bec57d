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
