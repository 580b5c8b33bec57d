package generator

import (
	"slices"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// render turns decisions on a commit into operations; see [Render]. An overlay that cannot be rendered is suspended.
func render(base string, loaded []fleet.Overlay, decisions []plan.Decision) ([]ledger.Draft, []Suspended) {
	var ops []ledger.Draft
	var failed []Suspended
	byName := map[string]*fleet.Overlay{}
	for i := range loaded {
		byName[loaded[i].Name] = &loaded[i]
	}
	for _, d := range decisions {
		o := byName[d.Overlay]
		if o.Err() != nil {
			continue
		}
		rendered, err := Render(base, *o, d)
		if err != nil {
			failed = append(failed, invalid(d.Overlay, err))
			continue
		}
		ops = append(ops, rendered...)
	}
	return ops, failed
}

// repairs returns the repairs of the overlays of a commit. A repair is pushed before anything is decided:
// so each decision is made on files that are in git.
func repairs(base string, loaded []fleet.Overlay, now time.Time) []ledger.Draft {
	var ops []ledger.Draft
	for i := range loaded {
		o := &loaded[i]
		changes := o.Repair()
		if len(changes) == 0 {
			continue
		}
		d := plan.Decision{Overlay: o.Name, Queue: o.Policy.Queue, Observation: plan.Observation{At: now, Queue: o.Policy.Queue}}
		d.State.Identity = o.State.Identity // a new one is not in git yet
		op := ledger.Draft{Kind: ledger.Repair, Path: o.Path, Base: base, Decision: d, Changes: changes}
		for _, f := range o.Faults() {
			op.Faults = append(op.Faults, ledger.Fault(f))
		}
		ops = append(ops, op)
	}
	return ops
}

// Render renders the operations of one overlay: an order, a withdrawal and a retirement, each only if
// it changes something. The decision d must concern overlay o of the commit base. Each operation starts
// from the result of the one before it and leaves a complete overlay, even if no other follows: an
// order contains the state that it needs, and the last operation the whole state after the decision.
// The error contains the reason why o cannot be rendered, for example invalid files.
func Render(base string, o fleet.Overlay, d plan.Decision) ([]ledger.Draft, error) {
	var ops []ledger.Draft
	op := func(kind ledger.Kind, changes []branch.Change) {
		if len(changes) > 0 {
			ops = append(ops, ledger.Draft{Kind: kind, Path: o.Path, Base: base, Decision: d, Changes: changes})
		}
	}
	withdraw, remove := d.Withdrawn(), d.Retired()
	before := o.State
	left := 0 // operations after this one
	for _, n := range []int{len(d.Dispatch), len(withdraw), len(remove)} {
		if n > 0 {
			left++
		}
	}
	next := func() { // an operation that others follow leaves to them what they decide
		if left--; left > 0 {
			o.State = d.Ordered(before)
		} else {
			o.State = d.State
		}
	}
	if len(d.Dispatch) > 0 {
		next()
		after, changes, err := o.Add(d.Dispatch)
		if err != nil {
			return nil, err
		}
		op(ledger.Dispatch, changes)
		for _, x := range d.Dispatch {
			at := slices.IndexFunc(after.Dispatches, func(y plan.Dispatch) bool { return y.ID == x.ID })
			ops[0].Added = append(ops[0].Added, after.Dispatches[at])
		}
		o = after
	}
	for _, x := range []struct {
		kind ledger.Kind
		ids  []string
		do   func(*fleet.Overlay, []string) (fleet.Overlay, []branch.Change, error)
	}{{ledger.Withdraw, withdraw, (*fleet.Overlay).Withdraw}, {ledger.Retire, remove, (*fleet.Overlay).Remove}} {
		if len(x.ids) == 0 {
			continue
		}
		next()
		after, changes, err := x.do(&o, x.ids)
		if err != nil {
			return nil, err
		}
		op(x.kind, changes)
		o = after
	}
	return ops, nil
}
