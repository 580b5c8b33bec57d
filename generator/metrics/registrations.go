package metrics

import (
	"muster/generator"
	"muster/generator/plan"
)

// registrations computes which agents have registered since the last poll. Agents that
// registered before the first poll are not counted, because their time is unknown. The zero
// value is the state before the first poll.
type registrations struct {
	looked bool
	seen   map[string]int // agents of each dispatch that is in git
}

// tick adds the time of each agent that has registered since.
func (r *registrations) tick(report generator.Report, add func(value float64, dispatch string, labels ...string)) {
	result := report.Result
	at := result.Input.Snapshot.At
	if at.IsZero() {
		return
	}
	supplies := map[string]plan.Capacity{}
	for _, d := range result.Decisions {
		for _, s := range d.Observation.Overlays {
			if s.Overlay == d.Overlay {
				supplies[d.Overlay] = s
			}
		}
	}
	seen := map[string]int{}
	for _, o := range result.Input.Overlays {
		for _, d := range o.Dispatches {
			before := r.seen[d.ID]
			now := max(before, supplies[o.Name].Dispatches[d.ID].Registered.Below(d.Agents))
			if r.looked && now > before {
				for range now - before {
					add(max(0, at.Sub(d.At)).Seconds(), d.ID, o.Name)
				}
			}
			seen[d.ID] = now
		}
	}
	r.looked, r.seen = true, seen
}
