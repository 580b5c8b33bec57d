package plan

import (
	"strings"
	"time"
)

// Decision is what to do about one overlay, and why. Everything that muster
// says of it (commit message, log line, metrics, table, JSON) is printed from
// this one value.
type Decision struct {
	// Overlay is the overlay's name.
	Overlay string `json:"overlay"`
	// Queue is the key of the queue it serves.
	Queue string `json:"queue"`
	// Held says why nothing is ordered whatever is needed; empty when nothing
	// stands in the way.
	Held string `json:"held,omitempty"`
	// Schedule names the schedule that is in force; empty when none is.
	Schedule string `json:"schedule,omitempty"`
	// Closes reports whether the breaker was open and no longer is.
	Closes bool `json:"closes,omitempty"`
	// Probe reports whether the breaker is open and the order is a probe.
	Probe bool `json:"probe,omitempty"`
	// Sum is the arithmetic.
	Sum Sum `json:"sum"`
	// Dispatch are the dispatches to write, those for demand first.
	Dispatch []Dispatch `json:"dispatch,omitempty"`
	// Retire are the dispatches that can be taken out of git, by ID. They ride
	// with whatever else is pushed; RetireNow reports that they have waited
	// long enough, or that the breaker must hear of them.
	Retire    []Retirement `json:"retire,omitempty"`
	RetireNow bool         `json:"retireNow,omitempty"`
	// State is what is to be remembered once this was done.
	State State `json:"state,omitzero"`
	// Observation is what was decided on, beside the tip's tree.
	Observation Observation `json:"observation,omitzero"`
}

// Sum is the arithmetic of a decision, in agents and jobs.
type Sum struct {
	// Pending jobs are runnable, have no agent, and could be served here.
	Pending int `json:"pending"`
	// Elsewhere of them are left to other overlays of the queue.
	Elsewhere int `json:"elsewhere,omitempty"`
	// Lookahead is the policy's share of the waiting jobs.
	Lookahead int `json:"lookahead,omitempty"`
	// Idle and Busy agents are connected. Starting agents are ordered here and
	// have not registered, though their lease still runs.
	Idle     int `json:"idle"`
	Busy     int `json:"busy"`
	InFlight int `json:"inFlight"`
	// Current is the overlay's agents, connected and starting. Stopping are further
	// ones that take no more jobs.
	Current  int `json:"current"`
	Stopping int `json:"stopping,omitempty"`
	// Replacing of the idle agents are relieved: they are counted neither for
	// min nor for buffer.
	Replacing int `json:"replacing,omitempty"`
	// MaxPerHour is the policy's limit of agents ordered in an hour, zero when there
	// is none, and Allowance is how many it still allows.
	MaxPerHour   int `json:"maxPerHour,omitempty"`
	LeftThisHour int `json:"leftThisHour,omitempty"`
	// Min, Max and Buffer are the policy's, or the schedule's.
	Min    int `json:"min"`
	Max    int `json:"max"`
	Buffer int `json:"buffer"`
	// Missing is what jobs and buffer ask for, Floor what min asks for, Ceiling
	// what max (and the limit per hour) leave room for.
	Missing  int `json:"missing"`
	BelowMin int `json:"belowMin"`
	Room     int `json:"room"`
	// Dispatch is the number ordered: Demand of them for jobs, Upkeep of them
	// for min and buffer.
	Dispatch int `json:"dispatch"`
	Demand   int `json:"demand"`
	WarmPool int `json:"warmPool"`
}

// Retirement takes one dispatch out of git.
type Retirement struct {
	// ID is the dispatch's, Agents how many it ordered.
	ID     string `json:"id"`
	Agents int    `json:"agents"`
	// Registered is how many of its indexes were seen.
	Registered int `json:"registered"`
	// Reason is why it can go, and Since is since when it could.
	Reason RetireReason `json:"reason"`
	Since  time.Time    `json:"since"`
	// Failure is how it failed; empty when it did not.
	Failure Failure `json:"failure,omitempty"`
}

// retireWait is how long a retirement waits for another push to ride with.
const retireWait = 5 * time.Minute

// RetireReason is why a dispatch leaves git.
type RetireReason string

// The reasons to retire a dispatch.
const (
	// AllRegistered: every index has registered.
	AllRegistered RetireReason = "settled"
	// Expired: the lease is over; indexes that were not seen are lost.
	Expired RetireReason = "expired"
)

// At is the time of the decision.
func (d Decision) At() time.Time { return d.Observation.At }

// Empty reports whether there is nothing to do now.
func (d Decision) Empty() bool { return len(d.Dispatch) == 0 && !d.RetireNow }

// What somebody does on purpose to hold an overlay.
const (
	pausedInGit       = "spec.paused is true"
	pausedInBuildkite = " is paused in Buildkite"
)

// Paused reports whether the overlay is held because somebody wants it to be.
// Whatever else holds one keeps jobs waiting that should not.
func (d Decision) Paused() bool {
	return d.Held == pausedInGit || strings.HasSuffix(d.Held, pausedInBuildkite)
}
