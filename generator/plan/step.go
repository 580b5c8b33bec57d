package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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
	// Name is a figure of the formula; "suspended" or "probe"; or empty for zero, the
	// least number of agents.
	Name  string `json:"name,omitempty"`
	Value int    `json:"value"`
	// Least reports whether Value is a lower limit; otherwise it is an upper one.
	Least bool `json:"least,omitempty"`
}

// apply returns n within the bound.
func (b Bound) apply(n int) int {
	if b.Least {
		return max(n, b.Value)
	}
	return min(n, b.Value)
}

// String returns the bound in words, as in "max leaves room for 4".
func (b Bound) String() string {
	switch b.Name {
	case "room":
		return fmt.Sprintf("max leaves room for %d", b.Value)
	case "leftThisHour":
		return fmt.Sprintf("maxPerHour leaves %d in this hour", b.Value)
	case "mostAtOnce":
		return fmt.Sprintf("one commit orders at most %d", b.Value)
	case "suspended":
		return "none while it is suspended"
	case "probe":
		return "one as a probe"
	case "":
		return "not below zero"
	}
	return fmt.Sprintf("%s is %d", b.Name, b.Value)
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
	return s.words("pending", "idle", "inFlight", "current", "missing", "max", "desired")
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
		fmt.Fprintf(&b, "%d %s", n, s.noun(t.Name, n))
	}
	return b.String()
}

// subtracts reports whether the step always subtracts a term, even if it is zero.
func (s Step) subtracts(term string) bool {
	return s.Name == "missing" && (term == "idle" || term == "inFlight") || s.Name != "desired" && term == "current"
}

// noun returns the words for n units of a term.
func (s Step) noun(term string, n int) string {
	plural := func(noun string) string {
		if n == 1 {
			return noun
		}
		return noun + "s"
	}
	switch term {
	case "pending":
		return plural("job") + " pending"
	case "elsewhere":
		return "assigned to other overlays"
	case "lookahead":
		return "upcoming " + plural("job") + " by lookahead"
	case "buffer":
		return "for the buffer"
	case "idle":
		return plural("agent") + " idle"
	case "replacing":
		return "idle " + plural("agent") + " about to exit"
	case "inFlight":
		return plural("agent") + " in flight"
	case "late":
		return "overdue in flight"
	case "unusable":
		return plural("agent") + " with non-matching tags"
	case "current":
		return "current " + plural("agent")
	}
	return term
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
	s := d.Sum
	missing := Step{Name: "missing", Value: s.Missing, Terms: []Term{
		{"pending", s.Pending}, {"elsewhere", -s.Elsewhere}, {"lookahead", s.Lookahead}, {"buffer", s.Buffer},
		{"idle", -s.Idle}, {"replacing", s.Replacing}, {"inFlight", -s.InFlight}, {"late", s.Late}, {"unusable", s.Unusable},
	}, Bounds: []Bound{{Least: true}}}
	desired := Step{Name: "desired", Value: s.Desired, Terms: []Term{
		{"current", s.Current}, {"replacing", -s.Replacing}, {"late", -s.Late}, {"missing", s.Missing},
	}, Bounds: []Bound{{Name: "min", Value: s.Min, Least: true}}}
	room := Step{Name: "room", Value: s.Room, Terms: []Term{
		{"max", s.Max}, {"current", -s.Current}, {"stopping", -s.Stopping},
	}, Bounds: []Bound{{Least: true}}}
	dispatch := Step{Name: "dispatch", Value: s.Dispatch, Terms: []Term{
		{"desired", s.Desired}, {"current", -s.Current}, {"replacing", s.Replacing}, {"late", s.Late},
	}, Bounds: []Bound{{Name: "room", Value: s.Room}}}
	if s.MaxPerHour > 0 {
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "leftThisHour", Value: s.LeftThisHour})
	}
	if s.MostAtOnce > 0 {
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "mostAtOnce", Value: s.MostAtOnce})
	}
	switch {
	case d.Suspended.Active():
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "suspended"})
	case d.Probe:
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "probe", Value: 1}, Bound{Name: "probe", Value: 1, Least: true})
	}
	return []Step{missing, desired, room, dispatch}
}

// Why returns the arithmetic in a sentence, as in "7 jobs pending - 1 agent idle: 6
// missing; only 4 dispatched: max leaves room for 4."
func (d Decision) Why() string {
	steps := d.Steps()
	missing, dispatch := steps[StepMissing], steps[StepDispatch]
	text := fmt.Sprintf("%s: %d missing", missing.words("pending"), missing.Value)
	for _, b := range steps[StepDesired].ActiveBounds() {
		text += fmt.Sprintf(", but %s", b)
	}
	switch bounds := dispatch.ActiveBounds(); {
	case len(bounds) > 0 && dispatch.Value < dispatch.Sum():
		only := "none"
		if dispatch.Value > 0 {
			only = fmt.Sprint("only ", dispatch.Value)
		}
		text += fmt.Sprintf("; %s dispatched: %s", only, bounds[len(bounds)-1])
	case dispatch.Value > 0:
		text += fmt.Sprintf("; %d dispatched", dispatch.Value)
	}
	return text + "."
}

// Limit is a reason why a decision dispatches less than it wants.
type Limit struct {
	// Name is the policy's field, "max" or "maxPerHour"; "probe"; "commit" for the size of
	// one commit; or the code of the suspension.
	Name string `json:"name"`
	// Agents is how many agents this limit alone leaves out.
	Agents int `json:"agents"`
	// Why is the limit in words, as in "max leaves room for 4".
	Why string `json:"why"`
}

// Limits returns the bounds that made the decision dispatch fewer agents than it wants,
// the strictest first; empty if there is none.
func (d Decision) Limits() []Limit {
	s := d.Steps()[StepDispatch]
	names := map[string]string{"room": "max", "leftThisHour": "maxPerHour", "mostAtOnce": "commit", "probe": "probe", "suspended": string(d.Suspended.Code)}
	var all []Limit
	for _, b := range s.Bounds {
		l := Limit{Name: names[b.Name], Agents: s.Sum() - b.Value, Why: b.String()}
		switch {
		case l.Agents <= 0 || b.Least:
			continue
		case b.Name == "suspended":
			return []Limit{{l.Name, l.Agents, "suspended: " + d.Suspended.String()}}
		case b.Name == "probe":
			return []Limit{l}
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b Limit) int { return cmp.Compare(b.Agents, a.Agents) })
	return all
}
