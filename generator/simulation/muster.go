package simulation

import (
	"slices"
	"time"

	"muster/generator/plan"
)

// Muster is muster itself: plan.Observe and plan.Decide, called as
// generator.Generator calls them, on what the world's repository and Buildkite
// say. The zero value is ready.
type Muster struct {
	register  plan.Registrations
	lookback  plan.Lookback
	inference plan.Inference // where the world's client lists no agents
}

// Tick implements [Algorithm].
func (m *Muster) Tick(v View) Operation {
	overlays := []plan.Overlay{v.Overlay}
	now := v.At.UTC().Truncate(time.Second)
	snapshot, err := v.Poll(m.lookback.Since(now, overlays, &m.register))
	if err != nil {
		return Operation{Err: err}
	}
	snapshot = m.inference.Infer(overlays, snapshot)
	m.lookback.Observed(snapshot.At, overlays)
	m.register.Note(snapshot)
	m.register.Reconcile(overlays, snapshot.At)
	for _, o := range plan.Observe(overlays, snapshot, &m.register) {
		for _, d := range plan.Decide(v.Head, overlays, o) {
			m.register.NoteDemand(overlays, []plan.Decision{d})
			op := operationOf(d)
			op.Within, op.Missing = plan.PollWithin(overlays, []plan.Decision{d}), plan.AgentsMissing([]plan.Decision{d})
			return op
		}
	}
	return Operation{}
}

// operationOf is what generator.render makes of a decision: an order and a retirement
// are a commit each.
func operationOf(d plan.Decision) Operation {
	if d.Empty() {
		return Operation{State: d.State}
	}
	a := Operation{State: d.State, Decision: &d, Order: d.Dispatch}
	if len(d.Dispatch) > 0 {
		a.Commits++
	}
	a.Retire = slices.Concat(d.Withdrawn(), d.Retired())
	if len(a.Retire) > 0 {
		a.Commits++
	}
	return a
}
