package simulation

import (
	"time"

	"muster/generator/plan"
)

// Muster is muster itself: plan.Observe and plan.Decide, called as
// generator.Generator calls them, on what the world's repository and Buildkite
// say. The zero value is ready.
type Muster struct {
	// Buffer, when it is not zero, replaces the policy's.
	Buffer int

	register plan.Registrations
	last     time.Time
	known    map[string]bool
}

// Tick implements [Algorithm].
func (m *Muster) Tick(v View) Act {
	if m.Buffer > 0 {
		v.Overlay.Policy.Buffer = m.Buffer
	}
	overlays := []plan.Overlay{v.Overlay}
	now := v.At.UTC().Truncate(time.Second)
	snapshot := v.Snapshot(m.since(v.Overlay))
	snapshot.At = now
	m.observed(now, v.Overlay)
	m.register.Note(snapshot)
	m.register.Reconcile(overlays, now)
	for _, o := range plan.Observe(overlays, snapshot, &m.register) {
		for _, d := range plan.Decide(v.Tip, overlays, o) {
			return act(d)
		}
	}
	return Act{}
}

// act is what generator.render makes of a decision: an order and a retirement
// are a commit each, and a retirement alone waits until it must go.
func act(d plan.Decision) Act {
	a := Act{State: d.State, Decision: &d}
	if d.Empty() {
		return Act{State: d.State}
	}
	if len(d.Dispatch) > 0 {
		a.Order = d.Dispatch
		a.Commits++
	}
	if len(d.Retire) > 0 {
		a.Commits++
	}
	for _, r := range d.Retire {
		a.Retire = append(a.Retire, r.ID)
	}
	return a
}

// slack is how far one reading of finished builds overlaps the last.
const slack = 2 * time.Minute

// since and observed do what generator.window does: ask only for builds that
// finished since the last reading.
func (m *Muster) since(o plan.Overlay) time.Time {
	var oldest time.Time
	for _, d := range o.Dispatches {
		if !m.register.Missing(d) {
			continue
		}
		from := d.At
		if m.known[d.ID] && m.last.Add(-slack).After(from) {
			from = m.last.Add(-slack)
		}
		if oldest.IsZero() || from.Before(oldest) {
			oldest = from
		}
	}
	return oldest
}

func (m *Muster) observed(now time.Time, o plan.Overlay) {
	m.last, m.known = now, map[string]bool{}
	for _, d := range o.Dispatches {
		m.known[d.ID] = true
	}
}
