package generator

import (
	"slices"
	"strings"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// render turns decisions into operations: for each overlay a repair, an order and a retirement,
// each only if it changes something. It leaves out retirements that can wait if nothing else is
// pushed. An overlay that cannot be rendered is suspended. oneByOne reports that the operations
// are pushed one by one.
func render(loaded []fleet.Overlay, decisions []plan.Decision, oneByOne bool) ([]ledger.Operation, []Suspended) {
	var ops []ledger.Operation
	var failed []Suspended
	byName := map[string]*fleet.Overlay{}
	for i := range loaded {
		byName[loaded[i].Name] = &loaded[i]
	}
	now := false
	for _, d := range decisions {
		o := byName[d.Overlay]
		if o.Err() != nil {
			continue
		}
		rendered, err := renderOne(*o, d, oneByOne)
		if err != nil {
			failed = append(failed, invalid(d.Overlay, err))
			continue
		}
		ops = append(ops, rendered...)
		for _, a := range rendered {
			now = now || a.Kind != ledger.Retire || d.RetireNow
		}
	}
	if !now {
		return nil, failed
	}
	return ops, failed
}

// Render renders the operations of one overlay: a repair, an order and a retirement, each only
// if it changes something. Each operation starts from the result of the one before it. The
// decision d must concern overlay o. The error contains the reason why o cannot be rendered,
// for example invalid files. The operations are pushed together: the last contains the state to
// be remembered.
func Render(o fleet.Overlay, d plan.Decision) ([]ledger.Operation, error) {
	return renderOne(o, d, false)
}

// RenderOneByOne is Render for operations that are pushed one by one: each leaves a valid overlay
// even if no other follows. An order contains the state that it needs, and the retirement after it
// the rest.
func RenderOneByOne(o fleet.Overlay, d plan.Decision) ([]ledger.Operation, error) {
	return renderOne(o, d, true)
}

func renderOne(o fleet.Overlay, d plan.Decision, oneByOne bool) ([]ledger.Operation, error) {
	var ops []ledger.Operation
	op := func(kind ledger.Kind, changes []branch.Change) {
		if len(changes) > 0 {
			ops = append(ops, ledger.Operation{Kind: kind, Path: o.Path, Decision: d, Changes: changes})
		}
	}
	faults := o.Faults()
	o, changes := o.Repair()
	op(ledger.Repair, changes)
	for _, f := range faults {
		ops[0].Faults = append(ops[0].Faults, ledger.Fault(f))
	}
	o, changes, err := o.Add(d.Dispatch)
	if err != nil {
		return nil, err
	}
	op(ledger.Dispatch, changes)
	if oneByOne && len(changes) > 0 && len(d.Retire) > 0 {
		state := d.Ordered(o.State)
		last := &ops[len(ops)-1]
		last.Changes = append(last.Changes, o.WriteState(state)...)
		o.State = state
	}
	o, changes, err = retire(o, d.Retire)
	if err != nil {
		return nil, err
	}
	op(ledger.Retire, changes)
	if last := len(ops) - 1; last >= 0 && ops[last].Kind != ledger.Repair { // which is not recomputed
		ops[last].Changes = append(ops[last].Changes, o.WriteState(d.State)...)
	}
	return ops, nil
}

// retire removes and withdraws dispatches. If both change a file, the later change applies.
func retire(o fleet.Overlay, all []plan.Retirement) (fleet.Overlay, []branch.Change, error) {
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
