package plan

import (
	"slices"
	"time"
)

// State is what the next decision must remember and the dispatches in git do
// not say. It travels in the overlay's directory. The zero value is a fleet
// that has never failed.
type State struct {
	// Breaker stops dispatching what fails.
	Breaker Breaker `json:"breaker,omitzero"`
	// Ordered are the agents ordered in the last hour, oldest first; kept only
	// where the policy limits them.
	Ordered []Ordered `json:"ordered,omitempty"`
	// LookedAhead is when the newest upcoming job was created that agents were
	// dispatched for; zero where the policy does not look ahead.
	LookedAhead time.Time `json:"lookedAhead,omitzero"`
}

// Equal reports whether two states say the same.
func (s State) Equal(other State) bool {
	return s.Breaker.Equal(other.Breaker) && s.LookedAhead.Equal(other.LookedAhead) && slices.EqualFunc(s.Ordered, other.Ordered, func(a, b Ordered) bool {
		return a.At.Equal(b.At) && a.Agents == b.Agents
	})
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
	next := State{Breaker: s.breaker}
	if s.policy.MaxPerHour > 0 {
		next.Ordered, _ = s.overlay.State.lastHour(now)
		if s.sum.Dispatch > 0 {
			next.Ordered = append(slices.Clone(next.Ordered), Ordered{At: now, Agents: s.sum.Dispatch})
		}
	}
	if s.policy.Lookahead > 0 {
		next.LookedAhead = s.overlay.State.LookedAhead
		if s.lookedAhead.After(next.LookedAhead) {
			next.LookedAhead = s.lookedAhead
		}
	}
	return next
}
