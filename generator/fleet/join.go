package fleet

import (
	"maps"
	"slices"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
)

// Join completes the orders of an overlay by those that its files lack although their agents may still
// register. It is the whole rule for edits of muster's files; docs/reference/decision.md, "Drift", has it
// as a table. known are the orders that muster remembers or that the log contains and that are not
// retired, and retired reports those that are. An order never changes: its known values replace those in
// the file. The next Repair writes the result.
func (o *Overlay) Join(known []plan.Dispatch, retired func(id string) bool, now time.Time) {
	all := map[string]plan.Dispatch{}
	for _, d := range o.recorded {
		if !o.Copied(d) && retired(d.ID) {
			d.Withdrawn, d.PutBack = true, true // its retirement was reverted
		}
		all[d.ID] = d
	}
	over := map[string]bool{}
	for _, d := range known {
		was, found := all[d.ID]
		switch {
		case found && o.Copied(was):
			continue
		case found:
			d.Withdrawn, d.PutBack = d.Withdrawn || was.Withdrawn, d.PutBack || was.PutBack
		case d.Expired(now):
			over[d.ID] = true
			continue
		}
		all[d.ID] = d
	}
	o.Dispatches, o.lost, o.unexplained, o.over, o.others = nil, map[string]bool{}, nil, nil, nil
	for _, id := range slices.Sorted(maps.Keys(all)) {
		d := all[id]
		was := d.Withdrawn
		o.fit(&d)
		o.lost[id] = d.Withdrawn && !was
		o.Dispatches = append(o.Dispatches, d)
	}
	for _, id := range slices.Sorted(maps.Keys(o.manifests)) {
		switch _, ordered := all[id]; {
		case ordered:
		case (over[id] || retired(id)) && o.removable(id):
			o.over = append(o.over, id)
		default:
			o.unexplained = append(o.unexplained, id)
		}
	}
	o.rejectOthers()
	if o.policyKey == (key{}) && len(o.Dispatches) > 0 { // its orders must still count for their queue
		o.Policy = policyOf(o.Dispatches[0])
	}
	o.suspendInvalid()
}

// removable reports whether no agent ends if a manifest leaves git: its Job is kept, or it is not a Job that a
// syncer can have applied.
func (o *Overlay) removable(id string) bool {
	_, isJob, err := o.reprint(id)
	return err == nil && (!isJob || o.KeepsJob(plan.Dispatch{ID: id}))
}

// joined sets the orders to those of state.yaml, without any other knowledge.
func (o *Overlay) joined() {
	o.Join(nil, func(string) bool { return false }, time.Time{})
}

// unexplainedFindings are the manifests that no order explains. If the orders in state.yaml cannot be read,
// they may explain them: then nobody must delete a manifest.
func (o *Overlay) unexplainedFindings() (all []finding.Finding) {
	file := o.file(stateFile)
	unread := slices.ContainsFunc(o.findings, func(f finding.Finding) bool { return f.File == file })
	switch {
	case len(o.unexplained) == 0 || unread:
		return nil
	case o.ordersProblem != "":
		var quoted []string
		for _, id := range o.unexplained {
			quoted = append(quoted, finding.Quote(id))
		}
		return []finding.Finding{{
			File: file, Problem: "has orders that cannot be read (" + o.ordersProblem + "), and nothing else explains the manifests of " + someIDs(quoted),
			Remedy: "restore it from git",
		}}
	}
	for _, id := range o.unexplained {
		all = append(all, finding.Finding{
			File: o.file(id + manifestType), Problem: "is the manifest of no order: neither " + stateFile + " nor the log of the branch explains it",
			Remedy: "delete it, or move it out of " + dispatchDir + "/",
		})
	}
	return all
}

// unclear reports whether dispatches/ was not read, or contains what muster cannot explain or read.
func (o *Overlay) unclear() bool {
	return !o.loaded || len(o.unexplained)+len(o.others) > 0 || o.filesUnread()
}

// filesUnread reports whether a file in dispatches/ could not be read.
func (o *Overlay) filesUnread() bool {
	return slices.ContainsFunc(o.findings, func(f finding.Finding) bool {
		return f.File == o.Path+"/"+dispatchDir || strings.HasPrefix(f.File, o.Path+"/"+dispatchDir+"/")
	})
}

// RestoreState replaces a lost or invalid state by what muster wrote last.
func (o *Overlay) RestoreState(s plan.State) {
	if o.LostState() {
		o.State = s
	}
}
