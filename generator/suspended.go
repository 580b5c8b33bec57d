package generator

import (
	"fmt"
	"slices"

	"muster/generator/fleet"
	"muster/generator/plan"
)

// Suspended is an overlay for which nothing is dispatched, and why.
type Suspended struct {
	Overlay string
	Why     plan.Suspension
}

// invalid suspends an overlay because of its files.
func invalid(overlay string, err error) Suspended {
	return Suspended{Overlay: overlay, Why: plan.Suspension{Code: plan.Invalid, Finding: err.Error()}}
}

// suspended lists the overlays for which nothing is dispatched: those that are invalid, and
// those that their decision suspends.
func suspended(loaded []fleet.Overlay, decisions []plan.Decision) []Suspended {
	why := map[string]plan.Suspension{}
	for _, d := range decisions {
		why[d.Overlay] = d.Suspended
		if breaker := d.State.Breaker; breaker.Open() && !d.Suspended.Active() { // between trials
			next := breaker.NextTrial()
			why[d.Overlay] = plan.Suspension{Code: plan.BreakerOpen, NextTrial: &next}
		}
	}
	var all []Suspended
	for i := range loaded {
		o := &loaded[i]
		if o.Err() != nil {
			all = append(all, Suspended{Overlay: o.Name, Why: o.Suspended})
		} else if w := why[o.Name]; w.Active() {
			all = append(all, Suspended{Overlay: o.Name, Why: w})
		}
	}
	return all
}

// withShared suspends overlays that share a queue if Buildkite lists no agents: the agents of
// one overlay cannot then be distinguished from those of another.
func withShared(loaded []fleet.Overlay) []fleet.Overlay {
	shared := plan.Sharing(fleet.Decidable(loaded))
	if len(shared) == 0 {
		return loaded
	}
	loaded = slices.Clone(loaded)
	for i := range loaded {
		if other := shared[loaded[i].Name]; other != "" {
			loaded[i].Suspend(SharesQueue(loaded[i].Policy.Queue, other))
		}
	}
	return loaded
}

// SharesQueue returns the reason for which an overlay is suspended that shares its queue with
// another overlay, if no API token lists agents.
func SharesQueue(queue, other string) string {
	return fmt.Sprintf("shares the queue %q with %s: without an API token their agents cannot be distinguished: give one, or give each overlay its own queue", queue, other)
}
