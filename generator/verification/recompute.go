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
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// entry verifies a commit by muster. It returns an error if the commit cannot be read.
func (w *worker) entry(ctx context.Context, p Push, at int) (Finding, error) {
	r := &p.Records[at]
	f := w.finding(r)
	if len(r.Commit.Parents) == 0 {
		f.Verdict, f.Why = Forged, []string{"it has no parent, so there was nothing to decide on"}
		return f, nil
	}
	changed, err := w.files.Differences(ctx, r.Commit.Parents[0], r.Commit.ID, "")
	switch {
	case errors.Is(err, branch.ErrMalformed):
		f.Verdict, f.Why = Malformed, []string{err.Error()}
		return f, nil
	case err == nil:
		if f.Why = w.outside(r.Entry, changed); len(f.Why) > 0 {
			f.Verdict = Forged
			return f, nil
		}
		if r.Entry.Kind == ledger.Repair {
			f.Verdict = Repair
			if err = w.repair(ctx, r, changed, &f); err == nil && f.Verdict == Repair {
				f.restores = written(r.Commit.ID, r.Entry.Overlay, changed)
			}
			break
		}
		err = w.again(ctx, p, at, changed, &f)
	}
	if unread(err) {
		f.Verdict, f.Why, f.Notes = Unknown, []string{"it cannot be recomputed: " + branch.ErrMissing.Error()}, nil
		f.orders = ordered(r, changed)
		return f, nil
	}
	if f.Verdict.Failed() && r.Entry.Version != w.Version {
		if why := w.claims(r.Entry, changed); len(why) > 0 {
			f.Verdict, f.Why = Forged, why
		} else {
			f.Verdict = OtherVersion
		}
	}
	if !f.Verdict.Failed() && r.Entry.Kind == ledger.Dispatch {
		f.orders = ordered(r, changed)
	}
	return f, err
}

// ordered returns the dispatches that an order writes, even if its changes cannot be read.
func ordered(r *ledger.Record, changed []branch.Difference) []dispatchFile {
	files := written(r.Commit.ID, r.Entry.Overlay, changed)
	var all []dispatchFile
	for _, id := range r.Entry.Dispatches {
		d := dispatchFile{id: id, commit: r.Commit.ID}
		if at := slices.IndexFunc(files, func(x dispatchFile) bool { return x.id == id }); at >= 0 {
			d = files[at]
		}
		all = append(all, d)
	}
	return all
}

// outside describes what a commit changes that no operation of muster changes.
func (w *worker) outside(e *ledger.Entry, changed []branch.Difference) []string {
	if !strings.HasPrefix(e.Overlay, path.Clean(w.Overlays)+"/") && path.Clean(w.Overlays) != "." {
		return []string{fmt.Sprintf("its overlay %s is not below %s", e.Overlay, path.Clean(w.Overlays))}
	}
	own := path.Join(e.Overlay, dispatches) + "/"
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
func (w *worker) claims(e *ledger.Entry, changed []branch.Difference) []string {
	own := path.Join(e.Overlay, dispatches)
	var files []string
	for _, d := range changed {
		name := strings.TrimPrefix(d.Path, own+"/")
		id := strings.TrimSuffix(path.Base(name), ".yaml")
		plain := d.After.ID == "" || d.After.Mode == branch.PlainFile || d.After.Mode == d.Before.Mode
		switch {
		case plain && (name == "kustomization.yaml" || name == "state.yaml"):
		case plain && e.Kind == ledger.Dispatch && d.Before.ID == "" && name == id+".yaml" && slices.Contains(e.Dispatches, id):
		case plain && e.Kind == ledger.Retire && slices.Contains(e.Dispatches, id) && (d.After.ID == "" || name == "withdrawn/"+id+".yaml"):
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

// again replays a commit as part of each tick that it may belong to, until one reproduces it.
func (w *worker) again(ctx context.Context, p Push, at int, changed []branch.Difference, f *Finding) error {
	worth := func(f *Finding) int {
		switch {
		case f.Verdict == Follows && len(f.Notes) == 0:
			return 3
		case f.Verdict == Follows:
			return 2
		case f.Verdict == ByHand:
			return 1
		}
		return 0
	}
	found := false
	for tick, i := range p.Ticks(at) {
		one := *f
		if err := w.againIn(ctx, tick, i, changed, &one); err != nil {
			return err
		}
		if !found || worth(&one) > worth(f) {
			*f, found = one, true
		}
		if worth(f) == 3 {
			break
		}
	}
	return nil
}

// againIn replays a commit as part of a tick, and compares the result.
func (w *worker) againIn(ctx context.Context, tick Push, at int, changed []branch.Difference, f *Finding) error {
	r := &tick.Records[at]
	e := r.Entry
	result, err := w.replayer(e).DecideIn(ctx, tick, at)
	if err != nil {
		return err
	}
	if result.failed != nil && *result.failed != nil {
		return *result.failed
	}
	f.Verdict, f.Why = Forged, result.Differences
	if len(result.Differences) > 0 {
		return nil
	}
	ops, err := generator.Render(*result.Overlay, result.Decision)
	if err != nil {
		if *result.failed != nil {
			return *result.failed
		}
		f.Why = []string{"recomputed, it cannot be written: " + err.Error()}
		return nil
	}
	i := slices.IndexFunc(ops, func(a ledger.Operation) bool { return a.Kind == e.Kind })
	if i < 0 {
		f.Why = []string{fmt.Sprintf("recomputed, the decision has nothing to %s", e.Kind)}
		return nil
	}
	if keys := ledger.Differing(r.Commit.Message, ops[i], e.Version); len(keys) > 0 {
		f.Why = []string{"recomputed, it has other trailers: " + strings.Join(keys, ", ")}
		return nil
	}
	files, err := w.compareEither(ctx, r, result, ops, i, changed)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		f.Verdict, f.Why = ByHand, []string{"its files are not those of its decision: " + some(files)}
		return nil
	}
	f.Verdict = Follows
	if messageOf(e) != strings.TrimSpace(ledger.Text(ops[i])) {
		f.Notes = append(f.Notes, "its reasons have another wording than this version's")
	}
	return nil
}

// compareEither returns the files of a commit that differ from those of operation i of a decision,
// whether all operations were pushed together or separately.
func (w *worker) compareEither(ctx context.Context, r *ledger.Record, result Result, together []ledger.Operation, i int, changed []branch.Difference) ([]string, error) {
	files, err := w.compare(ctx, r, together[i], changed)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	singly, err := generator.RenderOneByOne(*result.Overlay, result.Decision)
	if err != nil {
		return nil, err
	}
	if others, err := w.compare(ctx, r, singly[i], changed); err != nil || len(others) == 0 {
		return nil, err
	}
	return files, nil
}

// compare returns the files of a commit that differ, in any byte, from those of an operation.
func (w *worker) compare(ctx context.Context, r *ledger.Record, a ledger.Operation, changed []branch.Difference) ([]string, error) {
	wanted := map[string][]byte{}
	for _, c := range a.Changes {
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
	tree, err := w.files.Tree(ctx, r.Commit.ID) // the other files must be unchanged
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
