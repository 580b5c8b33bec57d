package plan

import (
	"fmt"
	"slices"
	"strings"
)

// limit is an upper limit of the agents that one decision orders, a row of limits. The decision, [Formula], the
// steps, the columns of muster plan, commit messages and explanations are derived from the rows.
type limit struct {
	// term is the name in the formula of what the limit still allows. name is that in [Limit]: a field of the
	// policy, or what else limits.
	term, name string
	// left returns the limit and how many more agents it allows; a limit of zero is none.
	left func(s *allocation, o Observation) (most, left int)
	// quiet omits the limit from decisions that it does not limit.
	quiet bool
	// brief is the limit in a commit's subject, with the limit; why is the limit in words, with what it allows;
	// and sentence that of a commit message.
	brief, why string
	sentence   func(l Remaining) string
	// used explains why nothing was ordered if nothing is left. certain reports that this does not depend on
	// what has happened since the poll.
	used    func(l Remaining) string
	certain bool
}

// limits returns the limits besides max, in the order of the formula.
func limits() []limit {
	return []limit{
		{
			term: "leftAtFirst", name: "firstAgents", left: (*allocation).leftAtFirst, quiet: true,
			brief: "%d until one registers", why: "%d more until an agent registers",
			sentence: func(l Remaining) string {
				if l.Most == 1 {
					return fmt.Sprintf("No agent of this overlay has registered yet, and the last order is overdue or has failed: one agent at a time is dispatched until one registers, %d now.", l.Left)
				}
				return fmt.Sprintf("No agent of this overlay has registered yet: at most %d may be in flight until one does, %d more now.", l.Most, l.Left)
			},
			used: func(Remaining) string {
				return fmt.Sprintf("No agent of it had registered by the last poll. Until one does, at most %d are in flight, and one at a time once an order is overdue or has failed.", FirstAgents)
			},
		},
		{
			term: "leftThisHour", name: "maxPerHour", left: (*allocation).leftThisHour,
			brief: "maxPerHour %d", why: "maxPerHour leaves %d in this hour",
			sentence: func(l Remaining) string {
				return fmt.Sprintf("At most %d %s may be dispatched in an hour: %d of them %s left.", l.Most, noun("agent(s)", l.Most), l.Left, was(l.Left))
			},
			used: func(l Remaining) string {
				return fmt.Sprintf("No more agents were allowed: maxPerHour was %d, and as many had been ordered in the hour before.", l.Most)
			},
			certain: true,
		},
		{
			term: "maxAtOnce", name: "commit", left: (*allocation).maxAtOnce, quiet: true,
			brief: "%d in one commit", why: "one commit orders at most %d",
			sentence: func(l Remaining) string {
				return fmt.Sprintf("One commit orders at most %d %s, because the git host accepts no more files in one commit: the next tick decides about the rest.", l.Most, noun("agent(s)", l.Most))
			},
		},
	}
}

// was is the verb for n agents.
func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// LimitTerms returns the names of what limits besides max allow, in the order of [Formula].
func LimitTerms() []string {
	var all []string
	for _, l := range limits() {
		all = append(all, l.term)
	}
	return all
}

// row returns the row of a limit by its term.
func row(term string) limit {
	all := limits()
	if i := slices.IndexFunc(all, func(l limit) bool { return l.term == term }); i >= 0 {
		return all[i]
	}
	return limit{term: term, name: term, brief: term + " %d", why: term + " is %d"}
}

// Remaining is a limit of a decision, besides max, and how many more agents it allows.
type Remaining struct {
	// Term is its name in [Formula].
	Term string `json:"term"`
	Most int    `json:"most"`
	Left int    `json:"left"`
}

// Sentence describes the limit in a commit message.
func (l Remaining) Sentence() string { return row(l.Term).sentence(l) }

// Binding returns the limit that keeps the decision from ordering more, as in "max 50"; empty if none does.
func (s Figures) Binding() string {
	if s.Wanted() <= s.Dispatch || s.allowed() > s.Dispatch {
		return ""
	}
	least, text := s.Room, fmt.Sprintf("max %d", s.Max)
	for _, l := range s.Limits {
		if l.Left < least {
			least, text = l.Left, fmt.Sprintf(row(l.Term).brief, l.Most)
		}
	}
	return text
}

// Left returns what a limit allows, by its term; false if it does not limit the decision.
func (s Figures) Left(term string) (agents int, limited bool) {
	i := slices.IndexFunc(s.Limits, func(l Remaining) bool { return l.Term == term })
	if i < 0 {
		return 0, false
	}
	return s.Limits[i].Left, true
}

// Used explains why nothing is ordered if a limit besides max allows nothing more; empty otherwise. certain
// reports whether that does not depend on what has happened since the poll.
func (s Figures) Used() (why string, certain bool) {
	for _, l := range s.Limits {
		if r := row(l.Term); l.Left == 0 && r.used != nil {
			return r.used(l), r.certain
		}
	}
	return "", false
}

// limit adds the limits besides max.
func (s *allocation) limit(o Observation) {
	for _, l := range limits() {
		if most, left := l.left(s, o); most > 0 {
			s.figures.Limits = append(s.figures.Limits, Remaining{Term: l.term, Most: most, Left: left})
		}
	}
}

// withoutUnusedLimits returns the figures without quiet limits if the others allow no more, or no more
// agents are needed.
func (s Figures) withoutUnusedLimits() Figures {
	for _, l := range s.Limits {
		without := s
		without.Limits = slices.DeleteFunc(slices.Clone(s.Limits), func(other Remaining) bool { return other == l })
		if row(l.Term).quiet && min(s.Wanted(), without.allowed()) <= l.Left {
			s = without
		}
	}
	return s
}

// bounds returns max and the other limits as the bounds of a dispatch.
func (s Figures) bounds() []Bound {
	all := []Bound{{Name: "room", Value: s.Room}}
	for _, l := range s.Limits {
		all = append(all, Bound{Name: l.Term, Value: l.Left})
	}
	return all
}

// allowed returns how many agents the limits allow.
func (s Figures) allowed() int {
	n := s.Room
	for _, b := range s.bounds() {
		n = b.apply(n)
	}
	return n
}

// Formula is the arithmetic of a decision, in the names of [Figures]. Each term is counted in
// the flow that divides jobs among agents (see divide), or read from the policy.
// Limits besides room are left out if there is no such limit.
var Formula = fmt.Sprintf(`missing  = max(0, pending - otherOverlays + lookahead + buffer - (idle - replacing) - (inFlight - overdue) + nonMatching)
desired  = min(max, max(min, current - idle - inFlight + pending - otherOverlays + lookahead + buffer + nonMatching))
room     = max(0, max - current - stopping)
dispatch = min(max(missing, min - (current - replacing - overdue)), room, %s), 0 while suspended, 1 for a trial
`, strings.Join(LimitTerms(), ", "))
