package plan

import "time"

// Decision is what to do about one overlay, and why. Everything that muster
// says of it (commit message, log line, metrics, table, JSON) is printed from
// this one value.
type Decision struct {
	// Overlay is the overlay's name.
	Overlay string `json:"overlay"`
	// Queue is the key of the queue it serves.
	Queue string `json:"queue"`
	// Suspended says why nothing is dispatched whatever is desired; zero when
	// nothing stands in the way.
	Suspended Suspension `json:"suspended,omitzero"`
	// Schedule names the schedule that is in force; empty when none is.
	Schedule string `json:"schedule,omitempty"`
	// OverriddenUntil is when an override of the policy that is in force ends; nil
	// when none is.
	OverriddenUntil *time.Time `json:"overriddenUntil,omitempty"`
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

// Sum is the arithmetic of a decision, in agents and jobs; see [Formula].
type Sum struct {
	// Pending jobs are runnable, have no agent, and could be served here.
	Pending int `json:"pending"`
	// Elsewhere of them are left to other overlays of the queue.
	Elsewhere int `json:"elsewhere,omitempty"`
	// Lookahead is the policy's share of the upcoming jobs, less those that agents of
	// other overlays are left for.
	Lookahead int `json:"lookahead,omitempty"`
	// Idle agents are connected and could take a job of the overlay, whoever
	// started them. InFlight agents are dispatched here and have not registered,
	// though their lease still runs.
	Idle     int `json:"idle"`
	InFlight int `json:"inFlight"`
	// Unusable of the idle agents and of those in flight serve nothing that is asked of
	// the overlay: they were ordered with other tags, and match nothing or jobs of other
	// overlays alone; or they are not expected because the circuit breaker is open. Zero
	// while nothing is missing.
	Unusable int `json:"unusable,omitempty"`
	// Busy agents of the overlay run a job; QueueBusy are all of the queue that
	// do, whoever started them.
	Busy      int `json:"busy"`
	QueueBusy int `json:"queueBusy"`
	// Current is the overlay's agents, connected and in flight. Stopping are
	// further ones that take no more jobs.
	Current  int `json:"current"`
	Stopping int `json:"stopping,omitempty"`
	// Replacing of the idle agents are close to their idle time-out or uptime, or made
	// from an older template: they count neither for min nor for buffer, so that others
	// are up when they leave.
	Replacing int `json:"replacing,omitempty"`
	// Late of the agents in flight should have registered long ago: they count only
	// against max. LateAfter is from when on agents are late, in seconds
	// after their order; zero where none is.
	Late      int `json:"late,omitempty"`
	LateAfter int `json:"lateAfterSeconds,omitempty"`
	// MaxPerHour is the policy's limit of agents ordered in an hour, zero when
	// there is none, and LeftThisHour is how many it still allows.
	MaxPerHour   int `json:"maxPerHour,omitempty"`
	LeftThisHour int `json:"leftThisHour,omitempty"`
	// MostAtOnce is the maximum number of agents of one commit, if that is less than the other
	// limits allow; otherwise zero.
	MostAtOnce int `json:"mostAtOnce,omitempty"`
	// Min, Max and Buffer are the policy's, or the schedule's. While the circuit
	// breaker is open Buffer is zero: nothing is ordered for it but a probe.
	Min    int `json:"min"`
	Max    int `json:"max"`
	Buffer int `json:"buffer"`
	// Missing is how many agents jobs and buffer ask for beyond those that are
	// idle or in flight. Desired is how many the overlay should have in all.
	// Room is how many more agents max allows.
	Missing int `json:"missing"`
	Desired int `json:"desired"`
	Room    int `json:"room"`
	// Dispatch is the number dispatched: Demand of them for jobs, WarmPool of
	// them for min and buffer.
	Dispatch int `json:"dispatch"`
	Demand   int `json:"demand"`
	WarmPool int `json:"warmPool"`
}

// BelowMin is how many agents min asks for.
func (s Sum) BelowMin() int { return max(0, s.Min-(s.Current-s.Replacing-s.Late)) }

// allowed returns how many agents max, maxPerHour and the limit of one commit allow.
func (s Sum) allowed() int {
	n := s.Room
	if s.MaxPerHour > 0 {
		n = min(n, s.LeftThisHour)
	}
	if s.MostAtOnce > 0 {
		n = min(n, s.MostAtOnce)
	}
	return n
}

// At is the time of the decision.
func (d Decision) At() time.Time { return d.Observation.At }

// Empty reports whether there is nothing to do now.
func (d Decision) Empty() bool { return len(d.Dispatch) == 0 && !d.RetireNow }
