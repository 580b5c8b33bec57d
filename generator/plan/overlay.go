package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// Overlay is one directory of the fleet repository: the policy for one queue
// on one Kubernetes cluster, and the dispatches that have not been retired.
type Overlay struct {
	// Name is the overlay's path below the overlays directory, as in
	// "default" or "linux/large".
	Name string
	// Identity determines which agents are the overlay's own. If it is unknown, these are all agents
	// with the tag of the overlay's name.
	Identity Identity
	// Fleet has the identifiers of the branch: true for those of its overlays, false for former ones
	// of their dispatches. Agents with another one are those of another muster. Nil: unknown.
	Fleet map[string]bool
	// Orders are the IDs of all orders that the branch contains, or contained since the log was read; nil:
	// the log was not read.
	Orders map[string]bool
	// Policy is its scaling policy.
	Policy Policy
	// Dispatches are the manifests in git, ordered by ID.
	Dispatches []Dispatch
	// Template is a hash of the template from which dispatches are stamped now; empty if it is
	// unknown.
	Template string
	// JobTTL is how long a finished Job of the template exists; zero if that is unknown.
	JobTTL time.Duration
	// State is the result of earlier decisions that the next one needs.
	State State
	// Suspended is why muster does not change the overlay: its template does not build, or a
	// dispatch cannot be read. Zero if its files are valid.
	Suspended Suspension
	// Refused is set if nothing is dispatched because the Kubernetes API server would reject the
	// Job.
	Refused Suspension
}

// Slug returns the overlay's name as in the agents' tag "overlay=" and the names of dispatches: at
// most 40 lower case letters, digits and dashes. If that differs from the name, it ends in six digits
// of the name's hash, so that no two overlays have the same slug.
func (o Overlay) Slug() string { return Slug(o.Name) }

// Slug returns the slug of an overlay's name; see [Overlay.Slug].
func Slug(name string) string {
	const longest = 40
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	clean = strings.Trim(clean, "-")
	if clean == name && len(clean) <= longest {
		return clean
	}
	sum := sha256.Sum256([]byte(name))
	suffix := hex.EncodeToString(sum[:3])
	if len(clean) > longest-7 {
		clean = strings.TrimRight(clean[:longest-7], "-")
	}
	if clean == "" {
		return suffix
	}
	return clean + "-" + suffix
}

// State is what the next decision needs and the dispatches in git do not contain. It is stored in
// the overlay's directory, with the JSON of these types: their tags must not change. The zero value
// is a fleet that has never failed.
type State struct {
	// Identity is the overlay's as of the commit that wrote it.
	Identity Identity `json:"identity,omitzero"`
	// Breaker stops dispatching what fails.
	Breaker Breaker `json:"breaker,omitzero"`
	// Ordered are the agents ordered in the last hour, oldest first; kept only
	// where the policy limits them.
	Ordered []Ordered `json:"ordered,omitempty"`
	// LookedAhead is the creation time of the newest upcoming job that agents were dispatched for;
	// zero if the policy does not look ahead.
	LookedAhead time.Time `json:"lookedAhead,omitzero"`
	// Partial are the agents that were dispatched for some of the upcoming jobs created since,
	// because there was no room for all.
	Partial Partial `json:"lookedAheadPartial,omitzero"`
	// StartupTimes are how long the latest agents took from their order to their registration.
	// ServedAt is when the newest retired order was made whose agents registered without a delay, or
	// at least half of them did. Both are kept only if the lease
	// or the idle time depends on them.
	StartupTimes StartupTimes `json:"startupTimes,omitzero"`
	ServedAt     time.Time    `json:"servedAt,omitzero"`
	// Gaps are the latest gaps between jobs, up to GapsUntil; kept only if the idle time depends on them.
	Gaps      Gaps      `json:"gaps,omitzero"`
	GapsUntil time.Time `json:"gapsUntil,omitzero"`
	// AheadOf are the agents that were dispatched for stages of upcoming jobs, while these jobs are
	// upcoming.
	AheadOf []AheadOf `json:"aheadOf,omitempty"`
}

// Partial is the number of agents that were dispatched for some of the upcoming jobs.
type Partial struct {
	// Until is when the newest of these jobs was created.
	Until time.Time `json:"until"`
	// Agents is the number dispatched. At most as many count as there are such jobs left.
	Agents int `json:"agents"`
}

// Equal reports whether two states are equal.
func (s State) Equal(other State) bool {
	return s.Identity == other.Identity && s.Breaker.Equal(other.Breaker) && s.StartupTimes.Equal(other.StartupTimes) && s.ServedAt.Equal(other.ServedAt) && s.Gaps.Equal(other.Gaps) && s.GapsUntil.Equal(other.GapsUntil) && s.LookedAhead.Equal(other.LookedAhead) &&
		s.Partial.Until.Equal(other.Partial.Until) && s.Partial.Agents == other.Partial.Agents && slices.EqualFunc(s.Ordered, other.Ordered, func(a, b Ordered) bool {
		return a.At.Equal(b.At) && a.Agents == b.Agents
	}) && slices.EqualFunc(s.AheadOf, other.AheadOf, AheadOf.Equal)
}

// Ordered is a number of agents ordered at one moment.
type Ordered struct {
	At     time.Time `json:"at"`
	Agents int       `json:"agents"`
}

// lastHour returns the orders of the hour before now, and the sum of their agents.
func (s State) lastHour(now time.Time) (recent []Ordered, agents int) {
	for _, o := range s.Ordered {
		if o.At.After(now.Add(-time.Hour)) {
			recent = append(recent, o)
			agents += o.Agents
		}
	}
	return recent, agents
}

// leftThisHour returns maxPerHour, and how many agents it still allows.
func (s *allocation) leftThisHour(o Observation) (most, left int) {
	_, ordered := s.overlay.State.lastHour(o.orderedAt())
	return s.policy.MaxPerHour, max(0, s.policy.MaxPerHour-ordered)
}

// state returns the state after the decision on an observation.
func (s *allocation) state(o Observation) State {
	now := o.orderedAt()
	next := State{Identity: s.overlay.kept(), Breaker: s.breaker, StartupTimes: s.startupTimes, ServedAt: s.lastServed}
	if !s.gaps.IsZero() {
		next.Gaps, next.GapsUntil = s.gaps, o.At
	}
	if s.policy.MaxPerHour > 0 {
		next.Ordered, _ = s.overlay.State.lastHour(now)
		if s.figures.Dispatch > 0 {
			next.Ordered = append(slices.Clone(next.Ordered), Ordered{At: now, Agents: s.figures.Dispatch})
		}
	}
	if s.policy.Lookahead > 0 {
		next.LookedAhead, next.Partial = s.overlay.State.LookedAhead, s.overlay.State.Partial
		if s.partial.Agents > 0 {
			next.Partial = s.partial
		}
		next.LookedAhead = later(s.lookedAhead, next.LookedAhead)
		if !next.Partial.Until.After(next.LookedAhead) {
			next.Partial = Partial{}
		}
		next.AheadOf = s.remembers
		slices.SortFunc(next.AheadOf, func(a, b AheadOf) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Stage, b.Stage)) })
	}
	return next
}

// Ordered returns the state if the decision's order is in git and its retirements are not: the next
// decision judges these again.
func (d Decision) Ordered(before State) State {
	next := d.State
	next.Breaker, next.StartupTimes, next.ServedAt = before.Breaker, before.StartupTimes, before.ServedAt
	return next
}
