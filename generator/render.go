package generator

import (
	"slices"
	"strings"

	"muster/generator/ledger"
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// suspended lists the overlays for which nothing is dispatched: those that are
// invalid, and those whose decision says so.
func suspended(loaded []manifest.Overlay, decisions []plan.Decision) []Suspended {
	why := map[string]plan.Suspension{}
	for _, d := range decisions {
		why[d.Overlay] = d.Suspended
		if breaker := d.State.Breaker; breaker.Open() && !d.Suspended.Active() { // between probes
			next := breaker.NextProbe()
			why[d.Overlay] = plan.Suspension{Code: plan.BackingOff, NextProbe: &next}
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

// warnings lists the overlays whose state.yaml is ignored.
func warnings(loaded []manifest.Overlay) []Warning {
	var all []Warning
	for i := range loaded {
		o := &loaded[i]
		if err := o.InvalidState(); err != nil {
			all = append(all, Warning{Overlay: o.Name, Err: err})
		}
	}
	return all
}

// render turns decisions into acts: for each overlay a repair, an order and a
// retirement, as far as there is something to do. Retirements that can wait are
// left out where nothing else is pushed. An overlay that cannot be rendered is
// suspended. singly says that they are pushed one by one.
func render(loaded []manifest.Overlay, decisions []plan.Decision, singly bool) ([]ledger.Act, []Suspended) {
	var acts []ledger.Act
	var failed []Suspended
	byName := map[string]*manifest.Overlay{}
	for i := range loaded {
		byName[loaded[i].Name] = &loaded[i]
	}
	now := false
	for _, d := range decisions {
		o := byName[d.Overlay]
		if o.Err() != nil {
			continue
		}
		rendered, err := renderOne(*o, d, singly)
		if err != nil {
			failed = append(failed, invalid(d.Overlay, err))
			continue
		}
		acts = append(acts, rendered...)
		for _, a := range rendered {
			now = now || a.Kind != ledger.Retire || d.RetireNow
		}
	}
	if !now {
		return nil, failed
	}
	return acts, failed
}

// Render renders the acts of one overlay, each starting from what the one before it
// leaves: a repair, an order and a retirement, as far as there is something to do. The
// decision is one about the overlay. The error says why it cannot be rendered, as where the
// overlay's files are not valid. They are pushed together: the last has what is to be
// remembered.
func Render(o manifest.Overlay, d plan.Decision) ([]ledger.Act, error) {
	return renderOne(o, d, false)
}

// RenderSingly is Render for acts that are pushed one by one: each of them leaves what is
// right where no other follows. An order has what is to be remembered of it, and the
// retirement after it the rest.
func RenderSingly(o manifest.Overlay, d plan.Decision) ([]ledger.Act, error) {
	return renderOne(o, d, true)
}

func renderOne(o manifest.Overlay, d plan.Decision, singly bool) ([]ledger.Act, error) {
	var acts []ledger.Act
	act := func(kind ledger.Kind, changes []branch.Change) {
		if len(changes) > 0 {
			acts = append(acts, ledger.Act{Kind: kind, Path: o.Path, Decision: d, Changes: changes})
		}
	}
	faults := o.Faults()
	o, changes := o.Repair()
	act(ledger.Repair, changes)
	for _, f := range faults {
		acts[0].Faults = append(acts[0].Faults, ledger.Fault(f))
	}
	o, changes, err := o.Add(d.Dispatch)
	if err != nil {
		return nil, err
	}
	act(ledger.Dispatch, changes)
	if singly && len(changes) > 0 && len(d.Retire) > 0 {
		last := &acts[len(acts)-1]
		state := d.Ordered(o.State)
		last.Changes = append(last.Changes, o.WriteState(state)...)
		o.State = state
	}
	o, changes, err = retire(o, d.Retire)
	if err != nil {
		return nil, err
	}
	act(ledger.Retire, changes)
	if last := len(acts) - 1; last >= 0 {
		acts[last].Changes = append(acts[last].Changes, o.WriteState(d.State)...)
	}
	return acts, nil
}

// retire removes and withdraws dispatches. Where both change a file, the later
// change stands.
func retire(o manifest.Overlay, all []plan.Retirement) (manifest.Overlay, []branch.Change, error) {
	var remove, withdraw []string
	for _, r := range all {
		if r.Reason == plan.Withdrawn {
			withdraw = append(withdraw, r.ID)
		} else {
			remove = append(remove, r.ID)
		}
	}
	o, removed, err := o.Remove(remove)
	if err != nil {
		return o, nil, err
	}
	o, changes, err := o.Withdraw(withdraw)
	if err != nil {
		return o, nil, err
	}
	for _, c := range removed {
		if !slices.ContainsFunc(changes, func(x branch.Change) bool { return x.Path == c.Path }) {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b branch.Change) int { return strings.Compare(a.Path, b.Path) })
	return o, changes, nil
}
