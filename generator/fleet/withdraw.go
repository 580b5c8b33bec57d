package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/gitops/branch"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// A withdrawn dispatch is in dispatches/withdrawn, byte for byte as it was. No list names it, so
// that no syncer applies it; muster counts its agents until its lease expires.

// oneOf resolves the conflict if the withdrawn dispatch number i, in file, is also among the
// others, for example because a person reverted their own deletion: the version that may run
// more agents, or run longer, stays.
func (o *Overlay) oneOf(i int, file string) {
	w := o.Dispatches[i]
	at := slices.IndexFunc(o.Dispatches[:i], func(d plan.Dispatch) bool { return d.ID == w.ID })
	if at < 0 {
		return
	}
	d := o.Dispatches[at]
	r := restored{id: w.ID, file: path.Join(withdrawnDir, w.ID+manifestType), problem: "was in " + dispatchDir + " too"}
	switch {
	case covers(d, w):
		o.Dispatches = o.Dispatches[:i]
	case covers(w, d):
		r.file, r.moved, r.problem = w.ID+manifestType, true, "was in "+path.Join(dispatchDir, withdrawnDir)+" too, with more agents or a later lease"
		file = o.file(r.file)
		o.Dispatches = slices.Delete(o.Dispatches, at, at+1)
	default:
		o.Dispatches = o.Dispatches[:i]
		o.reject(finding.Finding{File: file, Problem: "is in " + dispatchDir + " too, and one of the two was edited", Remedy: "delete the one in " + path.Dir(file)})
		return
	}
	r.changes = []branch.Change{{Path: file}}
	o.edits = slices.DeleteFunc(o.edits, func(e Edit) bool { return e.File == file })
	o.restored = append(o.restored, r)
}

// listed returns the dispatches that the syncer applies.
func (o *Overlay) listed() []plan.Dispatch {
	return slices.DeleteFunc(slices.Clone(o.Dispatches), func(d plan.Dispatch) bool { return d.Withdrawn })
}

// loadWithdrawn reads dispatches/withdrawn. An unreadable file suspends the overlay, as in
// dispatches/.
func (l *Loader) loadWithdrawn(tree fs.FS, o *Overlay) {
	dir := o.file(withdrawnDir)
	entries, err := fs.ReadDir(tree, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		o.reject(finding.Finding{File: dir, Problem: "cannot be read: " + finding.OneLine(err)})
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

// Withdraw returns the changes that move dispatches to where no syncer applies them, and the
// resulting overlay. It returns an error for a suspended overlay or an unknown ID.
func (o *Overlay) Withdraw(ids []string) (Overlay, []branch.Change, error) {
	if err := o.Err(); err != nil {
		return *o, nil, fmt.Errorf("withdrawing from %s: %w", o.Path, err)
	}
	return o.withdraw(ids)
}

// Cancel is Withdraw for a person: it also works if the policy or the template is invalid, which
// may be the reason to cancel. It returns an error if a file in dispatches/ cannot be read.
func (o *Overlay) Cancel(ids []string) (Overlay, []branch.Change, error) {
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
			return *o, nil, fmt.Errorf("withdrawing from %s: there is no dispatch %s", o.Path, finding.Quote(id))
		}
		from := o.FileOf(next.Dispatches[at])
		data, err := fs.ReadFile(o.tree, from)
		if err != nil {
			return *o, nil, fmt.Errorf("withdrawing from %s: %w", o.Path, err)
		}
		next.Dispatches[at].Withdrawn = true
		changes = append(changes, branch.Change{Path: from}, branch.Change{Path: o.FileOf(next.Dispatches[at]), Content: data})
	}
	changes = next.relist(changes)
	return next, changes, nil
}

// KeepsJob reports whether annotations of a dispatch prevent Argo CD and Flux from deleting its Job
// when its manifest leaves git. It is false if either annotation is missing or the file cannot be
// read. Sources: argo-cd "Sync Options" (Prune=false) and Flux "Kustomization"
// (kustomize.toolkit.fluxcd.io/prune).
func (o *Overlay) KeepsJob(d plan.Dispatch) bool {
	file := o.FileOf(d)
	text, err := fs.ReadFile(o.tree, file)
	if err != nil {
		return false
	}
	return textKeepsJob(file, text)
}

// textKeepsJob is [Overlay.KeepsJob] of the text of a file.
func textKeepsJob(file string, text []byte) bool {
	manifest, wrong := finding.ParseOne(file, text)
	return wrong == nil && keepsJob(manifest)
}

// keepsJob is [Overlay.KeepsJob] of a Job.
func keepsJob(manifest *yaml.Node) bool {
	annotation := func(name string) string { return finding.Scalar(manifest, "metadata", "annotations", name) }
	options := strings.Split(annotation("argocd.argoproj.io/sync-options"), ",")
	return annotation("kustomize.toolkit.fluxcd.io/prune") == "disabled" && slices.Contains(options, "Prune=false")
}
