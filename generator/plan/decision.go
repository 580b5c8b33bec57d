package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Decision is what to do about one overlay, and why. Commit message, log line, metrics, table and
// JSON are all printed from this one value.
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
	// Trial reports whether the breaker is open and the order is a trial.
	Trial bool `json:"trial,omitempty"`
	// Figures are the arithmetic.
	Figures Figures `json:"sum"`
	// Arrival tells whether the agents that were ordered register.
	Arrival Arrival `json:"arrival,omitzero"`
	// Dispatch are the dispatches to write, those for demand first.
	Dispatch []Dispatch `json:"dispatch,omitempty"`
	// Retire are the dispatches that can be removed from git, by ID. Withdrawals are pushed at once, the
	// others when RetireNow is set.
	Retire    []Retirement `json:"retire,omitempty"`
	RetireNow bool         `json:"retireNow,omitempty"`
	// State is what is to be remembered once this was done.
	State State `json:"state,omitzero"`
	// Observation is the input of the decision, in addition to the tree of the head commit.
	Observation Observation `json:"observation,omitzero"`
}

// Figures are the arithmetic of a decision, in agents and jobs; see [Formula].
type Figures struct {
	// Pending jobs are runnable, have no agent, and could be served here.
	Pending int `json:"pending"`
	// OtherOverlays of them are left to other overlays of the queue.
	OtherOverlays int `json:"otherOverlays,omitempty"`
	// Lookahead is the policy's share of the upcoming jobs, less those that agents of
	// other overlays are left for.
	Lookahead int `json:"lookahead,omitempty"`
	// Idle agents are connected and could take a job of the overlay, regardless of who started
	// them. InFlight agents are dispatched here, have not registered, and their lease has not
	// expired.
	Idle     int `json:"idle"`
	InFlight int `json:"inFlight"`
	// NonMatching of the idle agents and of those in flight serve none of the overlay's jobs: they
	// have other tags, serve other overlays' look-ahead, or are in flight and not expected because the
	// circuit breaker is open. Zero while nothing is missing.
	NonMatching int `json:"nonMatching,omitempty"`
	// Busy agents of the overlay run a job. QueueBusy counts all agents of the queue that run a
	// job, regardless of who started them.
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
	// Overdue of the agents in flight should have registered long ago: they count only against
	// max. OverdueAfter is the number of seconds after their order from which agents are overdue;
	// zero if none is.
	Overdue      int `json:"overdue,omitempty"`
	OverdueAfter int `json:"overdueAfterSeconds,omitempty"`
	// Limits are those besides max.
	Limits []Remaining `json:"limits,omitempty"`
	// Min, Max and Buffer are the policy's, or the schedule's. While the circuit
	// breaker is open Buffer is zero: nothing is ordered for it but a trial.
	Min    int `json:"min"`
	Max    int `json:"max"`
	Buffer int `json:"buffer"`
	// Missing is how many agents jobs and buffer need beyond those that are idle or in flight.
	// Desired is how many agents the overlay should have, within min and max, like
	// desiredReplicas of a HorizontalPodAutoscaler; muster ends no agent that is beyond it. Room
	// is how many more agents max allows.
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
func (s Figures) BelowMin() int { return max(0, s.Min-(s.Current-s.Replacing-s.Overdue)) }

// Wanted returns how many agents jobs, buffer and min need, whatever the limits allow.
func (s Figures) Wanted() int { return max(s.Missing, s.BelowMin()) }

// BeyondMax returns how many of the agents that are needed max does not allow.
func (s Figures) BeyondMax() int { return max(0, s.Wanted()-s.Room) }

// At is the time of the decision.
func (d Decision) At() time.Time { return d.Observation.At }

// Empty reports whether there is nothing to do now.
func (d Decision) Empty() bool { return len(d.Dispatch)+len(d.Withdrawn())+len(d.Retired()) == 0 }

// Withdrawn returns the IDs of the dispatches that are withdrawn now.
func (d Decision) Withdrawn() []string { return d.leaving(true) }

// Retired returns the IDs of the dispatches that are retired now.
func (d Decision) Retired() []string {
	if !d.RetireNow {
		return nil
	}
	return d.leaving(false)
}

func (d Decision) leaving(withdrawn bool) (ids []string) {
	for _, r := range d.Retire {
		if (r.Reason == Withdrawn) == withdrawn {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Step is one line of [Formula] with the figures of a decision: the terms that are added,
// and the bounds that limit their sum. The commit message, explain, plan, the status page
// and the log print steps, and compute nothing.
type Step struct {
	// Name is the name of the figure in the formula, and Value its result.
	Name  string `json:"name"`
	Value int    `json:"value"`
	// Terms are added up.
	Terms []Term `json:"terms"`
	// Bounds are applied to the sum in order. Most have no effect.
	Bounds []Bound `json:"bounds,omitempty"`
}

// Term is one of the figures that a step adds up. Its Value is negative if the formula
// subtracts it.
type Term struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
}

// Bound is a lower or an upper limit of a step.
type Bound struct {
	// Name is a figure of the formula; "suspended" or "trial"; or empty for zero, the
	// least number of agents.
	Name  string `json:"name,omitempty"`
	Value int    `json:"value"`
	// IsMin reports whether Value is a lower limit; otherwise it is an upper one.
	IsMin bool `json:"isMin,omitempty"`
}

// apply returns n within the bound.
func (b Bound) apply(n int) int {
	if b.IsMin {
		return max(n, b.Value)
	}
	return min(n, b.Value)
}

// String returns the bound in words, as in "max allows 4 more".
func (b Bound) String() string {
	switch b.Name {
	case "room":
		return fmt.Sprintf("max allows %d more", b.Value)
	case "suspended":
		return "none while it is suspended"
	case "min":
		return fmt.Sprintf("min requires %d", b.Value)
	case "trial":
		return "one as a trial"
	case "":
		return "not below zero"
	}
	return fmt.Sprintf(row(b.Name).why, b.Value)
}

// Sum returns the sum of the terms before the bounds are applied.
func (s Step) Sum() int {
	n := 0
	for _, t := range s.Terms {
		n += t.Value
	}
	return n
}

// ActiveBounds returns the bounds that changed the value, in order of application.
func (s Step) ActiveBounds() []Bound {
	var all []Bound
	n := s.Sum()
	for _, b := range s.Bounds {
		if bounded := b.apply(n); bounded != n {
			all, n = append(all, b), bounded
		}
	}
	return all
}

// String returns the sum in words, as in "7 jobs pending - 1 agent idle - 0 agents in
// flight". It omits terms that are zero, except those that every decision has.
func (s Step) String() string {
	return s.words("pending", "idle", "inFlight", "current", "missing", "max")
}

// words returns the sum in words. It omits terms that are zero, except the named ones.
func (s Step) words(zero ...string) string {
	var b strings.Builder
	for i, t := range s.Terms {
		sign, n := " + ", t.Value
		if n < 0 || s.subtracts(t.Name) {
			sign, n = " - ", -n
		}
		switch {
		case n == 0 && !slices.Contains(zero, t.Name):
			continue
		case i > 0:
			b.WriteString(sign)
		}
		fmt.Fprintf(&b, "%d %s", n, noun(t.Name, n))
	}
	return b.String()
}

// subtracts reports whether the step always subtracts a term, even if it is zero.
func (s Step) subtracts(term string) bool {
	return (s.Name == "missing" || s.Name == "desired") && (term == "idle" || term == "inFlight") || s.Name == "room" && term == "current"
}

// nouns are the words for the units of a term. One unit is without (s).
var nouns = map[string]string{
	"pending":       "job(s) pending",
	"otherOverlays": "assigned to other overlays",
	"lookahead":     "upcoming job(s) by lookahead",
	"buffer":        "for the buffer",
	"idle":          "agent(s) idle",
	"replacing":     "idle agent(s) about to exit",
	"inFlight":      "agent(s) in flight",
	"overdue":       "overdue in flight",
	"nonMatching":   "agent(s) with non-matching tags",
	"current":       "current agent(s)",
}

// noun returns the words for n units of a term.
func noun(term string, n int) string {
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return strings.ReplaceAll(cmp.Or(nouns[term], term), "(s)", plural)
}

// Indexes into the result of [Decision.Steps].
const (
	StepMissing = iota
	StepDesired
	StepRoom
	StepDispatch
)

// Steps returns the arithmetic of the decision in the order of [Formula]. The value of
// each step is the sum of its terms within its bounds.
func (d Decision) Steps() []Step {
	s := d.Figures
	missing := Step{Name: "missing", Value: s.Missing, Terms: []Term{
		{"pending", s.Pending}, {"otherOverlays", -s.OtherOverlays}, {"lookahead", s.Lookahead}, {"buffer", s.Buffer},
		{"idle", -s.Idle}, {"replacing", s.Replacing}, {"inFlight", -s.InFlight}, {"overdue", s.Overdue}, {"nonMatching", s.NonMatching},
	}, Bounds: []Bound{{IsMin: true}}}
	desired := Step{Name: "desired", Value: s.Desired, Terms: []Term{
		{"current", s.Current}, {"idle", -s.Idle}, {"inFlight", -s.InFlight},
		{"pending", s.Pending}, {"otherOverlays", -s.OtherOverlays}, {"lookahead", s.Lookahead}, {"buffer", s.Buffer}, {"nonMatching", s.NonMatching},
	}, Bounds: []Bound{{Name: "min", Value: s.Min, IsMin: true}, {Name: "max", Value: s.Max}}}
	room := Step{Name: "room", Value: s.Room, Terms: []Term{
		{"max", s.Max}, {"current", -s.Current}, {"stopping", -s.Stopping},
	}, Bounds: []Bound{{IsMin: true}}}
	dispatch := Step{Name: "dispatch", Value: s.Dispatch, Terms: []Term{{"missing", s.Missing}},
		Bounds: append([]Bound{{Name: "min", Value: s.BelowMin(), IsMin: true}}, s.bounds()...)}
	switch {
	case d.Suspended.Active():
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "suspended"})
	case d.Trial:
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "trial", Value: 1}, Bound{Name: "trial", Value: 1, IsMin: true})
	}
	return []Step{missing, desired, room, dispatch}
}

// Why returns the arithmetic in a sentence, as in "7 jobs pending - 1 agent idle: 6
// missing; only 4 to dispatch: max allows 4 more." If the dispatches are committed, they are
// "dispatched".
func (d Decision) Why(committed bool) string {
	done := "to dispatch"
	if committed {
		done = "dispatched"
	}
	steps := d.Steps()
	missing, dispatch := steps[StepMissing], steps[StepDispatch]
	text := fmt.Sprintf("%s: %d missing", missing.words("pending"), missing.Value)
	bounds := dispatch.ActiveBounds()
	if len(bounds) > 0 && bounds[0].IsMin {
		text += fmt.Sprintf(", but %s", bounds[0])
		bounds = bounds[1:]
	}
	switch {
	case len(bounds) > 0 && dispatch.Value < d.Figures.Wanted():
		only := "none"
		if dispatch.Value > 0 {
			only = fmt.Sprint("only ", dispatch.Value)
		}
		text += fmt.Sprintf("; %s %s: %s", only, done, bounds[len(bounds)-1])
	case dispatch.Value > 0:
		text += fmt.Sprintf("; %d %s", dispatch.Value, done)
	}
	return text + "."
}

// Limit is a reason why a decision dispatches less than it wants.
type Limit struct {
	// Name is the policy's field, "max" or "maxPerHour"; "firstAgents" until an agent has
	// registered; "trial"; "commit" for the size of one commit; or the code of the suspension.
	Name string `json:"name"`
	// Agents is how many agents this limit alone leaves out.
	Agents int `json:"agents"`
	// Why is the limit in words, as in "max allows 4 more".
	Why string `json:"why"`
}

// Limits returns the bounds that made the decision dispatch fewer agents than it wants, the
// strictest first; empty if no bound did.
func (d Decision) Limits() []Limit {
	s := d.Steps()[StepDispatch]
	names := map[string]string{"room": "max", "suspended": string(d.Suspended.Code)}
	var all []Limit
	for _, b := range s.Bounds {
		l := Limit{Name: cmp.Or(names[b.Name], row(b.Name).name), Agents: d.Figures.Wanted() - b.Value, Why: b.String()}
		switch {
		case l.Agents <= 0 || b.IsMin:
			continue
		case b.Name == "suspended":
			return []Limit{{l.Name, l.Agents, "suspended: " + d.Suspended.String()}}
		case b.Name == "trial":
			return []Limit{l}
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b Limit) int { return cmp.Compare(b.Agents, a.Agents) })
	return all
}
