package plan

import (
	"cmp"
	"slices"
	"time"
)

// State is what the next decision needs and the dispatches in git do not contain. It is stored in
// the overlay's directory, with the JSON of these types: their tags must not change. The zero value
// is a fleet that has never failed.
type State struct {
	// Breaker stops dispatching what fails.
	Breaker Breaker `json:"breaker,omitzero"`
	// Ordered are the agents ordered in the last hour, oldest first; kept only
	// where the policy limits them.
	Ordered []Ordered `json:"ordered,omitempty"`
	// LookedAhead is when the newest upcoming job was created that agents were
	// dispatched for; zero where the policy does not look ahead.
	LookedAhead time.Time `json:"lookedAhead,omitzero"`
	// Partial is what was dispatched for some of the upcoming jobs that were created
	// since, because there was no room for all; zero: nothing.
	Partial Partial `json:"lookedAheadPartial,omitzero"`
	// StartupTimes are how long the latest agents took from their order to their registration.
	// ServedAt is the order time of the newest retired order with at least half of its agents
	// registered. Both are kept only if the lease depends on them.
	StartupTimes StartupTimes `json:"startupTimes,omitzero"`
	ServedAt     time.Time    `json:"servedAt,omitzero"`
	// AheadOf is what was dispatched for stages of upcoming jobs whose moment was known,
	// for as long as they are upcoming.
	AheadOf []AheadOf `json:"aheadOf,omitempty"`
}

// Partial is how many agents were dispatched for some of the upcoming jobs.
type Partial struct {
	// Until is when the newest of these jobs was created.
	Until time.Time `json:"until"`
	// Agents are those dispatched; at most what the jobs that are left ask for counts.
	Agents int `json:"agents"`
}

// Equal reports whether two states say the same.
func (s State) Equal(other State) bool {
	return s.Breaker.Equal(other.Breaker) && s.StartupTimes.Equal(other.StartupTimes) && s.ServedAt.Equal(other.ServedAt) && s.LookedAhead.Equal(other.LookedAhead) &&
		s.Partial.Until.Equal(other.Partial.Until) && s.Partial.Agents == other.Partial.Agents && slices.EqualFunc(s.Ordered, other.Ordered, func(a, b Ordered) bool {
		return a.At.Equal(b.At) && a.Agents == b.Agents
	}) && slices.EqualFunc(s.AheadOf, other.AheadOf, AheadOf.Equal)
}

// Ordered is a number of agents ordered at one moment.
type Ordered struct {
	At     time.Time `json:"at"`
	Agents int       `json:"agents"`
}

// lastHour returns what was ordered in the hour before now, and the sum.
func (s State) lastHour(now time.Time) (recent []Ordered, agents int) {
	for _, o := range s.Ordered {
		if o.At.After(now.Add(-time.Hour)) {
			recent = append(recent, o)
			agents += o.Agents
		}
	}
	return recent, agents
}

// state is what is to be remembered once the decision is carried out.
func (s *share) state(now time.Time) State {
	next := State{Breaker: s.breaker, StartupTimes: s.startupTimes, ServedAt: s.lastServed}
	if s.policy.MaxPerHour > 0 {
		next.Ordered, _ = s.overlay.State.lastHour(now)
		if s.sum.Dispatch > 0 {
			next.Ordered = append(slices.Clone(next.Ordered), Ordered{At: now, Agents: s.sum.Dispatch})
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

// Ordered is what is to be remembered of the state before once the decision's order is in
// git and its retirements are not: they are judged again.
func (d Decision) Ordered(before State) State {
	next := d.State
	next.Breaker, next.StartupTimes, next.ServedAt = before.Breaker, before.StartupTimes, before.ServedAt
	return next
}
