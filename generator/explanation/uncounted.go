package explanation

import (
	"fmt"
	"slices"
	"strings"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// Uncounted are jobs or agents that are not in the arithmetic, and why.
type Uncounted struct {
	Count int    `json:"count"`
	Why   string `json:"why"`
}

// uncounted returns the jobs and agents that are not in the arithmetic of an overlay.
func uncounted(d plan.Decision, p plan.Policy) []Uncounted {
	var all []Uncounted
	say := func(n int, format string, args ...any) {
		if n > 0 {
			all = append(all, Uncounted{Count: n, Why: fmt.Sprintf(format, args...)})
		}
	}
	var limited, blocked, upcoming, foreign int
	for _, j := range d.Observation.Jobs {
		if !slices.Contains(j.Overlays, d.Overlay) {
			foreign += j.Pending
			continue
		}
		limited, blocked, upcoming = limited+j.Limited, blocked+j.Blocked, upcoming+j.Upcoming
	}
	say(limited, "%s limited: a concurrency group, a plan's limit or a reservation. No agent would help", ledger.Pick(limited, "job is", "jobs are"))
	say(blocked, "%s blocked: behind a block step that nobody has released", ledger.Pick(blocked, "job is", "jobs are"))
	why := fmt.Sprintf(", and not in the lookahead of %v", p.Lookahead)
	switch {
	case p.Lookahead == 0:
		why = ": behind a wait step or a dependency, or not uploaded yet, and the policy has no lookahead"
	case p.Reuse.On():
		why += ": when they can run is unknown, or agents of earlier jobs of their build are free by then"
	}
	upcoming -= d.Figures.Lookahead
	say(upcoming, "%s upcoming%s", ledger.Pick(upcoming, "job is", "jobs are"), why)
	for _, j := range d.Observation.Jobs {
		if j.Later > 0 && slices.Contains(j.Overlays, d.Overlay) {
			say(j.Later, "%s", laterWhy(j))
		}
	}
	say(foreign, "%s pending that only other overlays' agents can take", ledger.Pick(foreign, "job is", "jobs are"))
	for _, u := range d.Observation.Unmatched {
		why := fmt.Sprintf("no overlay has all of the rules %s; the nearest lacks %s", quoted(u.Rules), quoted(u.Missing))
		if u.Unclustered {
			why = fmt.Sprintf("with the rules %s, they are in no cluster, and the queue is in one", quoted(u.Rules))
		}
		if u.Example != "" {
			why += ", as " + u.Example
		}
		say(u.Jobs, "%s unmatched: %s", ledger.Pick(u.Jobs, "job is", "jobs are"), why)
	}
	s := d.Observation.Capacity(d.Overlay)
	say(s.OtherQueue, "%s in another queue or cluster than the policy says, as after an edit: they count against max until they leave", ledger.Pick(s.OtherQueue, "agent is", "agents are"))
	say(s.WrongTags, "%s registered without tags that the order told them to carry", ledger.Pick(s.WrongTags, "agent has", "agents have"))
	say(s.OtherFleets, "%s another muster's that serves the queue too", ledger.Pick(s.OtherFleets, "agent is", "agents are"))
	return all
}

// laterWhy returns why upcoming jobs that are due later than agents need to register do not count.
func laterWhy(j plan.Demand) string {
	text := ledger.Pick(j.Later, "upcoming job is", "upcoming jobs are")
	text += fmt.Sprintf(" due later than %ds from now, by how long their builds' steps took lately", j.Within)
	if j.Earliest != nil {
		text += ": the first at " + j.Earliest.Format("15:04:05")
	}
	return text
}

func quoted(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(q, " ")
}
