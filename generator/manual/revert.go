package manual

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// Past is a commit to be reverted.
type Past struct {
	ledger.Operation
	// Edits are its changes, with the content before and after.
	Edits branch.Edits
	// Since are muster's later orders, newest first.
	Since []ledger.Operation
}

// Revert reverts a commit, whether or not there are later commits. It cancels an order as [Cancel] does.
// A retirement and a repair cannot be reverted, and neither can changes that conflict with later ones:
// the error contains the reason.
func Revert(tree fs.FS, loaded []fleet.Overlay, p Past) (Edit, error) {
	if p.ByMuster() {
		return revertOwn(loaded, p)
	}
	if len(p.Parents) != 1 {
		return Edit{}, fmt.Errorf("%.7s is a merge or the first commit: revert one of the commits that it brought in", p.ID)
	}
	if p.Edits.Unknown != nil {
		return Edit{}, fmt.Errorf("the changes of %.7s cannot be read: %w", p.ID, p.Edits.Unknown)
	}
	if p.Edits.More {
		return Edit{}, fmt.Errorf("%.7s changes too many files: use git revert", p.ID)
	}
	if len(p.Edits.Files) == 0 {
		return Edit{}, fmt.Errorf("%.7s changes nothing that muster reads: use git revert", p.ID)
	}
	e := Edit{Subject: fmt.Sprintf("Revert %q", subject(p.Message)), Says: []string{"This reverts commit " + p.ID + "."}}
	for _, f := range p.Edits.Files {
		c, err := back(tree, f)
		if err != nil {
			return Edit{}, err
		}
		if c == nil {
			e.Notes = append(e.Notes, f.Path+" is reverted already.")
			continue
		}
		e.Changes = append(e.Changes, *c)
	}
	if len(e.Changes) == 0 {
		return Edit{Notes: e.Notes}, nil
	}
	e.Notes = append(e.Notes, notUndone(loaded, p)...)
	return e, nil
}

// subject returns the first line of a message.
func subject(message string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(message, "\n"), "\n")
	return strings.TrimSpace(line)
}

// revertOwn reverts a commit by muster.
func revertOwn(loaded []fleet.Overlay, p Past) (Edit, error) {
	at := slices.IndexFunc(loaded, func(o fleet.Overlay) bool { return o.Path == p.Path })
	switch {
	case p.Kind == ledger.Retire:
		return Edit{}, fmt.Errorf("%.7s is a retirement: with its manifests in git, the syncer would run completed orders again. muster orders agents for pending jobs automatically", p.ID)
	case p.Kind == ledger.Withdraw:
		return Edit{}, fmt.Errorf("%.7s is a withdrawal: the syncer would apply a Job of an earlier template. muster orders agents for pending jobs automatically", p.ID)
	case p.Kind == ledger.Repair:
		return Edit{}, fmt.Errorf("%.7s is a repair of muster's own files, and the next tick would repeat it. If the agents of a withdrawn order will not start: muster cancel --never-created", p.ID)
	case at < 0:
		return Edit{}, fmt.Errorf("%.7s was for %s, which no longer exists", p.ID, p.Path)
	}
	o := &loaded[at]
	var left []string
	var notes []string
	for _, id := range p.Dispatches() {
		if slices.ContainsFunc(o.Dispatches, func(d plan.Dispatch) bool { return d.ID == id }) {
			left = append(left, id)
		} else {
			notes = append(notes, id+" was retired: muster history has its outcome.")
		}
	}
	if len(left) == 0 {
		return Edit{Notes: notes}, nil
	}
	e, err := Cancel(o, left, false)
	if err != nil {
		return Edit{}, err
	}
	e.Operation = ledger.Operation{} // the commit is a person's revert
	e.Notes = append(notes, e.Notes...)
	if len(e.Changes) > 0 {
		e.Says = append(e.Says, "This reverts commit "+p.ID+".")
	}
	return e, nil
}

// back returns the change that reverts an edit of one file and keeps later edits; nil if it is
// reverted already.
func back(tree fs.FS, f branch.Edit) (*branch.Change, error) {
	if path.Base(path.Dir(f.Path)) == "dispatches" {
		return nil, fmt.Errorf("%s is a file of muster's, which repairs it automatically: see muster history, muster cancel and muster close-breaker", f.Path)
	}
	now, err := fs.ReadFile(tree, f.Path)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return nil, err
	}
	switch {
	case f.Added && gone, f.Removed && !gone && string(now) == string(f.Before):
		return nil, nil
	case f.Removed && gone:
		return &branch.Change{Path: f.Path, Content: f.Before}, nil
	case f.Added && string(now) == string(f.After):
		return &branch.Change{Path: f.Path}, nil
	case f.Added, f.Removed, gone:
		return nil, fmt.Errorf("%s was changed again since: resolve the conflict with git revert", f.Path)
	}
	if f.Before == nil || f.After == nil {
		return nil, fmt.Errorf("%s is too large: use git revert", f.Path)
	}
	merged, ok := merge(string(f.After), string(now), string(f.Before))
	switch {
	case !ok:
		return nil, fmt.Errorf("the same lines of %s were changed again since: resolve the conflict with git revert", f.Path)
	case merged == string(now):
		return nil, nil
	}
	if path.Base(f.Path) == policyFile {
		if _, err := policy.Parse(f.Path, []byte(merged)); err != nil {
			return nil, fmt.Errorf("after the revert the policy would be invalid: %w", err)
		}
	}
	return &branch.Change{Path: f.Path, Content: []byte(merged)}, nil
}

// notUndone describes what a revert does not undo: the agents that were ordered meanwhile.
func notUndone(loaded []fleet.Overlay, p Past) []string {
	concerns := func(overlay string) bool {
		return slices.ContainsFunc(p.Edits.Files, func(f branch.Edit) bool {
			return strings.HasPrefix(f.Path, overlay+"/") || !slices.ContainsFunc(loaded, func(o fleet.Overlay) bool { return strings.HasPrefix(f.Path, o.Path+"/") })
		})
	}
	agents := 0
	var live []string
	for _, e := range p.Since {
		if e.Kind != ledger.Dispatch || !concerns(e.Path) {
			continue
		}
		for i := range loaded {
			for _, d := range loaded[i].Dispatches {
				if slices.Contains(e.Dispatches(), d.ID) && !d.Withdrawn {
					agents, live = agents+d.Agents, append(live, d.ID)
				}
			}
		}
	}
	if len(live) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Not undone: %s that %s ordered since, in %s. muster cancel withdraws an order.", ledger.Count(agents, "agent"), ledger.Pick(agents, "was", "were"), strings.Join(live, ", "))}
}
