package generator

import (
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/ledger"
)

// sound tells apart the overlays that can be decided on. One whose policy can
// be read takes part even when something else of it is broken, because its
// agents and its place in the queue count; it is only left alone.
func sound(loaded []manifest.Overlay) ([]plan.Overlay, []Problem) {
	var overlays []plan.Overlay
	var problems []Problem
	for _, o := range loaded {
		if o.Err != nil {
			problems = append(problems, Problem{Overlay: o.Name, Err: o.Err})
			if o.Policy.Queue == "" {
				continue
			}
		}
		overlays = append(overlays, o.Overlay)
	}
	return overlays, problems
}

// forgotten lists the overlays whose memory made no sense.
func forgotten(loaded []manifest.Overlay) []Problem {
	var all []Problem
	for _, o := range loaded {
		if err := o.Amnesia(); err != nil {
			all = append(all, Problem{Overlay: o.Name, Err: err})
		}
	}
	return all
}

// render turns decisions into acts: for each overlay a repair, an order and a
// retirement, as far as there is something to do. Retirements that can wait are
// left out where nothing else is pushed. An overlay that cannot be rendered
// becomes a problem of its own.
func render(loaded []manifest.Overlay, decisions []plan.Decision) ([]ledger.Act, []Problem) {
	var acts []ledger.Act
	var problems []Problem
	byName := map[string]manifest.Overlay{}
	for _, o := range loaded {
		byName[o.Name] = o
	}
	now := false
	for _, d := range decisions {
		o := byName[d.Overlay]
		if o.Err != nil {
			continue
		}
		rendered, err := renderOne(o, d)
		if err != nil {
			problems = append(problems, Problem{Overlay: d.Overlay, Err: err})
			continue
		}
		acts = append(acts, rendered...)
		for _, a := range rendered {
			now = now || a.Kind != ledger.Retire || d.RetireNow
		}
	}
	if !now {
		return nil, problems
	}
	return acts, problems
}

// renderOne renders the acts of one overlay, each starting from what the one
// before it leaves.
func renderOne(o manifest.Overlay, d plan.Decision) ([]ledger.Act, error) {
	var acts []ledger.Act
	act := func(kind ledger.Kind, changes []branch.Change) {
		if len(changes) > 0 {
			acts = append(acts, ledger.Act{Kind: kind, Path: o.Path, Decision: d, Changes: changes})
		}
	}
	o, changes := o.Repair()
	act(ledger.Repair, changes)
	o, changes, err := o.Add(d.Dispatch)
	if err != nil {
		return nil, err
	}
	act(ledger.Dispatch, changes)
	var ids []string
	for _, r := range d.Retire {
		ids = append(ids, r.ID)
	}
	o, changes, err = o.Remove(ids)
	if err != nil {
		return nil, err
	}
	act(ledger.Retire, changes)
	if last := len(acts) - 1; last >= 0 && !d.State.Equal(o.State) {
		acts[last].Changes = append(acts[last].Changes, o.WriteState(d.State)...)
	}
	return acts, nil
}
