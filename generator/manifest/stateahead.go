package manifest

import (
	"time"

	"muster/generator/plan"
)

// aheadState is a [plan.AheadOf].
type aheadState struct {
	Stage  string    `json:"stage"`
	Agents int       `json:"agents"`
	At     time.Time `json:"at"`
}

// readAheadOf reads what was dispatched for stages of upcoming jobs; false where that
// cannot be.
func readAheadOf(all []aheadState) (state []plan.AheadOf, ok bool) {
	for _, a := range all {
		if a.Stage == "" || a.Agents < 1 || a.At.IsZero() {
			return nil, false
		}
		state = append(state, plan.AheadOf{Stage: a.Stage, Agents: a.Agents, At: a.At})
	}
	return state, true
}

// writeAheadOf is the reverse of readAheadOf.
func writeAheadOf(all []plan.AheadOf) (state []aheadState) {
	for _, a := range all {
		state = append(state, aheadState{Stage: a.Stage, Agents: a.Agents, At: a.At})
	}
	return state
}
