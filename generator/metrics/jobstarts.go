package metrics

import (
	"time"

	"muster/generator"
	"muster/generator/plan"
)

// starts computes which jobs have started since the last poll. The zero value is the state
// before the first poll.
type starts struct {
	from time.Time            // time of the first poll: earlier starts are not counted
	seen map[string]time.Time // when the last job of an agent started
}

// remembered is the maximum age of the start of a job that is listed for the first time: more than
// the longest poll.
const remembered = time.Hour

// tick adds how long each job that has started since had waited.
func (s *starts) tick(report generator.Report, add func(value float64, dispatch string, labels ...string)) {
	result := report.Result
	snapshot := result.Input.Snapshot
	if snapshot.At.IsZero() {
		return
	}
	if s.from.IsZero() {
		s.from, s.seen = snapshot.At, map[string]time.Time{}
	}
	from := s.from
	if long := snapshot.At.Add(-remembered); long.After(from) {
		from = long
	}
	var owners plan.Owners
	known := false
	for _, g := range snapshot.Sightings {
		if !g.Started.After(from) || s.seen[g.Agent].Equal(g.Started) {
			continue
		}
		s.seen[g.Agent] = g.Started
		if !known {
			owners, known = plan.NewOwners(result.Input.Overlays), true
		}
		if overlay, dispatch := owners.Of(g); overlay != "" {
			add(g.Waited.Seconds(), dispatch, overlay)
		}
	}
	for agent, at := range s.seen {
		if !at.After(from) {
			delete(s.seen, agent)
		}
	}
}
