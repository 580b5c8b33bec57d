package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/plan"
	"muster/gitops/branch"
)

// A dispatch that is withdrawn lies in dispatches/withdrawn, byte for byte as it
// was. No list names it, so that no syncer applies it; muster counts its agents
// until its lease is over.

// listed are the dispatches that the syncer applies.
func (o *Overlay) listed() []plan.Dispatch {
	return slices.DeleteFunc(slices.Clone(o.Dispatches), func(d plan.Dispatch) bool { return d.Withdrawn })
}

// fileOf is where a dispatch lies.
func (o *Overlay) fileOf(d plan.Dispatch) string {
	if d.Withdrawn {
		return o.file(path.Join(withdrawnDir, d.ID+manifestType))
	}
	return o.file(d.ID + manifestType)
}

// loadWithdrawn reads dispatches/withdrawn. What cannot be read suspends the
// overlay, as in dispatches/.
func (l *Loader) loadWithdrawn(tree fs.FS, o *Overlay) {
	dir := o.file(withdrawnDir)
	entries, err := fs.ReadDir(tree, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		o.reject(Finding{File: dir, Problem: "cannot be read: " + oneLine(err)})
		return
	}
	for _, e := range entries {
		if path.Ext(e.Name()) != manifestType {
			continue
		}
		file := path.Join(dir, e.Name())
		before := len(o.Dispatches)
		l.loadDispatch(tree, o, file, e)
		if len(o.Dispatches) > before {
			o.oneOf(before, file)
		}
	}
}

// Withdraw returns the changes that move dispatches to where no syncer applies
// them, and the overlay that follows. It refuses a suspended overlay and an ID
// that is not there.
func (o *Overlay) Withdraw(ids []string) (Overlay, []branch.Change, error) {
	if err := o.Err(); err != nil {
		return *o, nil, fmt.Errorf("withdrawing from %s: %w", o.Path, err)
	}
	return o.withdraw(ids)
}

// TakeBack is Withdraw for a person: it goes too where the policy or the template is
// invalid, which may be why somebody wants an order back. It refuses where a file in
// dispatches/ cannot be read.
func (o *Overlay) TakeBack(ids []string) (Overlay, []branch.Change, error) {
	for _, f := range o.findings {
		if strings.HasPrefix(f.File, path.Join(o.Path, dispatchDir)+"/") {
			return *o, nil, fmt.Errorf("withdrawing from %s: %w", o.Path, f)
		}
	}
	return o.withdraw(ids)
}

func (o *Overlay) withdraw(ids []string) (Overlay, []branch.Change, error) {
	if len(ids) == 0 {
		return *o, nil, nil
	}
	next := *o
	next.Dispatches = slices.Clone(o.Dispatches)
	var changes []branch.Change
	for _, id := range ids {
		at := slices.IndexFunc(next.Dispatches, func(d plan.Dispatch) bool { return d.ID == id && !d.Withdrawn })
		if at < 0 {
			return *o, nil, fmt.Errorf("withdrawing from %s: there is no dispatch %s", o.Path, quote(id))
		}
		from := o.fileOf(next.Dispatches[at])
		data, err := o.content(from)
		if err != nil {
			return *o, nil, fmt.Errorf("withdrawing from %s: %w", o.Path, err)
		}
		next.Dispatches[at].Withdrawn = true
		changes = append(changes, branch.Change{Path: from}, branch.Change{Path: o.fileOf(next.Dispatches[at]), Content: data})
	}
	changes = next.relist(changes)
	return next, changes, nil
}
