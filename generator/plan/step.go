package plan

import (
	"cmp"
	"slices"
)

// Step is one line of [Formula] with the figures of a decision: what a figure is the
// sum of, and what bounds it.
type Step struct {
	// Name is the figure, as the formula calls it, and Value what it comes to.
	Name  string `json:"name"`
	Value int    `json:"value"`
	// Terms are added up.
	Terms []Term `json:"terms"`
	// Bounds are what the sum is then held to, one after the other; most have no effect.
	Bounds []Bound `json:"bounds,omitempty"`
	// Late is how many of those that the term replacing counts are late agents in flight;
	// the others are idle.
	Late int `json:"late,omitempty"`
}

// Term is one of the figures that a step adds up. Its Value is below zero where it is
// taken away.
type Term struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
}

// Bound is what a step's value is not below, or not above.
type Bound struct {
	// Name is a figure of the formula; "suspended" or "probe"; or empty: it is zero
	// because a number of agents is not below that.
	Name  string `json:"name,omitempty"`
	Value int    `json:"value"`
	// Least says that the value is not below it, otherwise it is not above.
	Least bool `json:"least,omitempty"`
}

// hold returns n as the bound leaves it.
func (b Bound) hold(n int) int {
	if b.Least {
		return max(n, b.Value)
	}
	return min(n, b.Value)
}

// Sum is what the terms come to before they are bounded.
func (s Step) Sum() int {
	n := 0
	for _, t := range s.Terms {
		n += t.Value
	}
	return n
}

// Bit returns the bounds that changed the value, in their order.
func (s Step) Bit() []Bound {
	var all []Bound
	n := s.Sum()
	for _, b := range s.Bounds {
		if held := b.hold(n); held != n {
			all = append(all, b)
			n = held
		}
	}
	return all
}

// Steps is the decision's arithmetic, in the order of [Formula]. Of each step the
// terms, held to the bounds, come to its value.
func (d Decision) Steps() []Step {
	s := d.Sum
	missing := Step{Name: "missing", Value: s.Missing, Terms: []Term{
		{"pending", s.Pending}, {"elsewhere", -s.Elsewhere}, {"lookahead", s.Lookahead}, {"buffer", s.Buffer},
		{"idle", -s.Idle}, {"replacing", s.Replacing}, {"inFlight", -s.InFlight}, {"unusable", s.Unusable},
	}, Bounds: []Bound{{Least: true}}}
	desired := Step{Name: "desired", Value: s.Desired, Terms: []Term{
		{"current", s.Current}, {"replacing", -s.Replacing}, {"missing", s.Missing},
	}, Bounds: []Bound{{Name: "min", Value: s.Min, Least: true}}}
	room := Step{Name: "room", Value: s.Room, Terms: []Term{
		{"max", s.Max}, {"current", -s.Current}, {"stopping", -s.Stopping},
	}, Bounds: []Bound{{Least: true}}}
	if s.MaxPerHour > 0 {
		room.Bounds = append(room.Bounds, Bound{Name: "leftThisHour", Value: s.LeftThisHour})
	}
	if s.MostAtOnce > 0 {
		room.Bounds = append(room.Bounds, Bound{Name: "mostAtOnce", Value: s.MostAtOnce})
	}
	dispatch := Step{Name: "dispatch", Value: s.Dispatch, Terms: []Term{
		{"desired", s.Desired}, {"current", -s.Current}, {"replacing", s.Replacing},
	}, Bounds: []Bound{{Name: "room", Value: s.Room}}}
	switch {
	case d.Suspended.Active():
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "suspended"})
	case d.Probe:
		dispatch.Bounds = append(dispatch.Bounds, Bound{Name: "probe", Value: 1}, Bound{Name: "probe", Value: 1, Least: true})
	}
	missing.Late, desired.Late, dispatch.Late = s.Late, s.Late, s.Late
	return []Step{missing, desired, room, dispatch}
}

// Limit is what kept a decision from dispatching all that was wanted.
type Limit struct {
	// Name is the policy's field, "max" or "maxPerHour"; "probe"; "commit" where one takes
	// no more; or the code of the suspension.
	Name string `json:"name"`
	// Agents is how many it alone left out.
	Agents int `json:"agents"`
}

// Limits are what kept the decision from dispatching as many agents as it desires to
// have, that which left out most first; empty where nothing did.
func (d Decision) Limits() []Limit {
	s := d.Sum
	wanted := s.Desired - (s.Current - s.Replacing)
	switch {
	case wanted <= s.Dispatch:
		return nil
	case d.Suspended.Active():
		return []Limit{{Name: string(d.Suspended.Code), Agents: wanted}}
	case d.Probe:
		return []Limit{{Name: "probe", Agents: wanted - s.Dispatch}}
	}
	var all []Limit
	add := func(name string, agents int) {
		if agents > 0 {
			all = append(all, Limit{Name: name, Agents: agents})
		}
	}
	if s.MostAtOnce > 0 {
		add("commit", wanted-s.MostAtOnce)
	}
	if s.MaxPerHour > 0 {
		add("maxPerHour", wanted-s.LeftThisHour)
	}
	add("max", wanted-max(0, s.Max-s.Current-s.Stopping))
	slices.SortStableFunc(all, func(a, b Limit) int { return cmp.Compare(b.Agents, a.Agents) })
	return all
}
