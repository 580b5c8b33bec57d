package verification

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// others checks a commit that muster did not make, or that can no longer be parsed as muster's.
// It returns the zero value if there is nothing to report.
func (w *worker) others(ctx context.Context, u *unit) (Finding, error) {
	r := &u.op
	f, nothing := finding(r), Finding{}
	if r.Damage != nil {
		f.Verdict, f.Why = Differs, []string{"its message cannot be read: " + r.Damage.Error()}
		return f, nil
	}
	var touched []branch.Difference
	for i, parent := range r.Commit.Parents {
		files, added, err := w.touches(ctx, parent, r.Commit.ID)
		if unread(err) {
			return nothing, nil // a shallow clone ends here
		}
		if err != nil {
			return nothing, err
		}
		if i == 0 {
			touched = files
		} else { // of a merge, files that differ from all parents
			touched = slices.DeleteFunc(touched, func(d branch.Difference) bool {
				return !slices.ContainsFunc(files, func(x branch.Difference) bool { return x.Path == d.Path })
			})
		}
		if len(touched) == 0 || added && len(r.Commit.Parents) == 1 {
			return nothing, nil
		}
	}
	if len(touched) == 0 {
		return nothing, nil
	}
	dir, _, _ := strings.Cut(touched[0].Path, "/"+dispatches+"/")
	f.Verdict, f.Overlay = NotMuster, strings.TrimPrefix(dir, path.Clean(w.Overlays)+"/")
	var names []string
	for _, d := range touched {
		names = append(names, d.Path)
	}
	f.Why = []string{"changes " + some(names)}
	op, why, err := w.command(ctx, &r.Commit, touched)
	if op != "" {
		f.Operation, f.Why = op, []string{why}
	}
	return f, err
}

// command returns which command of muster makes the changes of a commit by people, and what it did;
// empty if none does, or if the files cannot be read.
func (w *worker) command(ctx context.Context, c *branch.Commit, touched []branch.Difference) (op ledger.Kind, why string, err error) {
	if len(c.Parents) != 1 {
		return "", "", nil
	}
	overlay, _, _ := strings.Cut(touched[0].Path, "/"+dispatches+"/")
	var edits []branch.Edit
	moved := map[string]string{} // contents that leave the list, by the dispatch's file
	for _, d := range touched {
		if !strings.HasPrefix(d.Path, overlay+"/"+dispatches+"/") {
			return "", "", nil
		}
		e := branch.Edit{Path: d.Path, Added: d.Before.ID == "", Removed: d.After.ID == ""}
		if path.Base(d.Path) == "state.yaml" {
			if e.Before, e.After, err = w.contents(ctx, c, d); unread(err) {
				return "", "", nil
			} else if err != nil {
				return "", "", err
			}
		}
		if e.Removed {
			moved[path.Base(d.Path)] = d.Before.ID
		}
		edits = append(edits, e)
	}
	if op, why = history.Command(edits); op != ledger.Cancel {
		return op, why, nil
	}
	for _, d := range touched { // muster cancel moves files as they are
		if d.Before.ID == "" && moved[path.Base(d.Path)] != d.After.ID {
			return "", "", nil
		}
	}
	if reverted := history.Reverted(c.Message); reverted != "" { // muster revert
		return ledger.Revert, fmt.Sprintf("reverts %.7s: %s", reverted, why), nil
	}
	return op, why, nil
}

// contents returns a file before and after a commit; nil if it did not exist.
func (w *worker) contents(ctx context.Context, c *branch.Commit, d branch.Difference) (before, after []byte, err error) {
	read := func(commit string, blob branch.Blob) ([]byte, error) {
		if blob.ID == "" {
			return nil, nil
		}
		tree, err := w.files.Tree(ctx, commit)
		if err != nil {
			return nil, err
		}
		return fs.ReadFile(tree, d.Path)
	}
	if before, err = read(c.Parents[0], d.Before); err != nil {
		return nil, nil, err
	}
	after, err = read(c.ID, d.After)
	return before, after, err
}

// touches returns the files owned by muster that differ from those of an earlier commit. added reports
// whether all of them are lists of dispatches in new overlays.
func (w *worker) touches(ctx context.Context, before, after string) (files []branch.Difference, added bool, err error) {
	all, err := w.files.Differences(ctx, before, after, path.Clean(w.Overlays))
	added = true
	for _, d := range all {
		dir, name, inside := strings.Cut(d.Path, "/"+dispatches+"/")
		if !inside {
			continue
		}
		files = append(files, d)
		policy := slices.ContainsFunc(all, func(x branch.Difference) bool { return x.Path == dir+"/scaling.yaml" && x.Before.ID == "" })
		added = added && policy && name == "kustomization.yaml" && d.Before.ID == ""
	}
	return files, added, err
}
