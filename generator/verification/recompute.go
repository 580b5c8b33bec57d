package verification

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/manual"
	"muster/gitops/branch"
)

// own verifies a commit by muster or by one of its commands. It returns an error if the commit cannot be read.
func (w *worker) own(ctx context.Context, u *unit) (Finding, error) {
	e := &u.op
	f := finding(e)
	f.ends = ends(e)
	differs := func(why ...string) (Finding, error) {
		f.Verdict, f.Why = Differs, why
		return f, nil
	}
	if len(e.Parents) == 0 {
		return differs("it has no parent, so there was nothing to decide on")
	}
	changed, err := w.files.Differences(ctx, e.Parents[0], e.ID, "")
	switch {
	case errors.Is(err, branch.ErrMalformed):
		return differs(err.Error())
	case err == nil:
		if why := w.outside(e, changed); len(why) > 0 {
			return differs(why...)
		}
		if !u.inPlace {
			return differs(fmt.Sprintf("it is not where it was pushed: it was decided on commit %.7s, and commits that were not are in between", e.Base))
		}
		switch {
		case e.Kind == ledger.Repair:
			err = w.repair(ctx, e, changed, &f)
		case e.Kind.Command():
			err = w.command(ctx, e, changed, &f)
		default:
			err = w.recompute(ctx, e, changed, &f)
		}
	}
	switch {
	case unread(err):
		f.Verdict, f.Why = Unknown, []string{"it cannot be recomputed: " + branch.ErrMissing.Error()}
		f.orders = ordered(e)
		return f, nil
	case f.Verdict == Differs && e.Version != w.Version:
		if why := w.claims(e, changed); len(why) > 0 {
			return differs(why...)
		}
		f.Verdict, f.Why = Unknown, append([]string{"it was made by " + e.Version + ", and this is " + w.Version}, f.Why...)
	}
	if f.Verdict != Differs {
		f.orders = ordered(e)
	} else {
		f.restores, f.state, f.needs = nil, nil, nil
	}
	return f, err
}

// ordered returns the IDs of the orders that an operation makes.
func ordered(e *ledger.Operation) []string {
	if e.Kind != ledger.Dispatch {
		return nil
	}
	return e.Dispatches()
}

// outside describes what a commit changes that no operation of muster changes.
func (w *worker) outside(e *ledger.Operation, changed []branch.Difference) []string {
	if !strings.HasPrefix(e.Path, path.Clean(w.Overlays)+"/") && path.Clean(w.Overlays) != "." {
		return []string{fmt.Sprintf("its overlay %s is not below %s", e.Path, path.Clean(w.Overlays))}
	}
	own := path.Join(e.Path, dispatches) + "/"
	var files []string
	for _, d := range changed {
		if !strings.HasPrefix(d.Path, own) {
			files = append(files, d.Path)
		}
	}
	return unexpected(files, "outside of "+own)
}

// claims describes changes that no version of muster makes: of dispatches that the commit does not
// name.
func (w *worker) claims(e *ledger.Operation, changed []branch.Difference) []string {
	own := path.Join(e.Path, dispatches)
	var files []string
	for _, d := range changed {
		name := strings.TrimPrefix(d.Path, own+"/")
		id := strings.TrimSuffix(path.Base(name), ".yaml")
		plain := d.After.ID == "" || d.After.Mode == branch.PlainFile || d.After.Mode == d.Before.Mode
		switch {
		case plain && (name == "kustomization.yaml" || name == "state.yaml"):
		case plain && e.Kind == ledger.Dispatch && d.Before.ID == "" && name == id+".yaml" && slices.Contains(e.Dispatches(), id):
		case plain && (e.Kind == ledger.Withdraw || e.Kind == ledger.Retire || e.Kind == ledger.Cancel) && slices.Contains(e.Dispatches(), id) && d.After.ID == "":
		default:
			files = append(files, d.Path)
		}
	}
	return unexpected(files, "which its trailers do not name")
}

// unexpected describes files that a commit should not change; nil without such files.
func unexpected(files []string, why string) []string {
	if len(files) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("it changes %s, %s", some(files), why)}
}

// recompute replays the decision of a commit, renders it, and compares trailers and files.
func (w *worker) recompute(ctx context.Context, e *ledger.Operation, changed []branch.Difference, f *Finding) error {
	result, err := w.replayer(e).Decide(ctx, e)
	if err != nil {
		return err
	}
	if *result.failed != nil {
		return *result.failed
	}
	f.Verdict, f.Why = Differs, result.Differences
	if len(result.Differences) > 0 {
		return nil
	}
	ops, err := generator.Render(e.Base, *result.Overlay, result.Decision)
	if err != nil {
		if *result.failed != nil {
			return *result.failed
		}
		f.Why = []string{"recomputed, it cannot be written: " + err.Error()}
		return nil
	}
	i := slices.IndexFunc(ops, func(a ledger.Draft) bool { return a.Kind == e.Kind })
	if i < 0 {
		f.Why = []string{fmt.Sprintf("recomputed, the decision has nothing to %s", e.Kind)}
		return nil
	}
	return w.compare(ctx, e, ops[i].Operation(e.Version), ops[i].Changes, changed, f)
}

// command runs the command of a commit again on the files that it names, and compares trailers and files.
func (w *worker) command(ctx context.Context, e *ledger.Operation, changed []branch.Difference, f *Finding) error {
	overlays, failed, err := w.replayer(e).load(ctx, e.Base, []string{e.Overlay})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else there is no directory of overlays
		return err
	}
	f.Verdict = Differs
	i := slices.IndexFunc(overlays, func(o fleet.Overlay) bool { return o.Path == e.Path })
	if i < 0 {
		f.Why = []string{fmt.Sprintf("commit %.7s, which it was made on, has no overlay %q", e.Base, e.Overlay)}
		return nil
	}
	var edit manual.Edit
	if e.Kind == ledger.Cancel {
		edit, err = manual.Cancel(&overlays[i], e.Dispatches(), e.NeverCreated())
	} else {
		edit, err = manual.CloseBreaker(&overlays[i])
	}
	switch {
	case *failed != nil:
		return *failed
	case err != nil:
		f.Why = []string{"repeated, the command fails: " + err.Error()}
		return nil
	case len(edit.Changes) == 0:
		f.Why = []string{"repeated, the command changes nothing"}
		return nil
	}
	again := edit.Operation
	again.Base, again.Version = e.Base, e.Version
	return w.compare(ctx, e, again, edit.Changes, changed, f)
}

// compare compares the trailers and the files of a commit with those of a recomputed operation.
func (w *worker) compare(
	ctx context.Context, e *ledger.Operation, again ledger.Operation, changes []branch.Change, changed []branch.Difference, f *Finding,
) error {
	if keys := ledger.Differing(e.Message, again); len(keys) > 0 {
		f.Verdict, f.Why = Differs, []string{"recomputed, it has other trailers: " + strings.Join(keys, ", ")}
		return nil
	}
	files, err := w.differing(ctx, e, changes, changed)
	if err != nil {
		return err
	}
	if f.Verdict = Reproduced; len(files) > 0 {
		f.Verdict, f.Why = Differs, []string{"its files are not those of its decision: " + some(files)}
	}
	return nil
}

// differing returns the files of a commit that differ, in any byte, from those of changes.
func (w *worker) differing(ctx context.Context, e *ledger.Operation, changes []branch.Change, changed []branch.Difference) ([]string, error) {
	wanted := map[string][]byte{}
	for _, c := range changes {
		wanted[c.Path] = c.Content
	}
	var files []string
	for _, d := range changed {
		content, known := wanted[d.Path]
		delete(wanted, d.Path)
		is := branch.Blob{}
		if content != nil {
			is = branch.Blob{ID: w.files.ID(content), Mode: branch.PlainFile}
			if d.Before.ID != "" {
				is.Mode = d.Before.Mode
			}
		}
		if !known || is != d.After {
			files = append(files, d.Path)
		}
	}
	if len(wanted) == 0 {
		return files, nil
	}
	tree, err := w.files.Tree(ctx, e.ID) // the other files must be unchanged
	if err != nil {
		return nil, err
	}
	for name, content := range wanted {
		text, err := fs.ReadFile(tree, name)
		if unread(err) {
			return nil, err
		}
		if (err == nil) != (content != nil) || !bytes.Equal(text, content) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files, nil
}
