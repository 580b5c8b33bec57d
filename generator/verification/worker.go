package verification

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// worker verifies one job after the other.
type worker struct {
	Config
	files   Files // nil: not yet opened
	loaders map[string]*loaderOf
	uses    int
	fleet   string // that of the last order
}

// loaderOf is the loader of one queue's overlays: a loader caches builds only of the overlays that it
// read last.
type loaderOf struct {
	*fleet.Loader
	used int
}

// maxLoaders bounds the loaders of one worker.
const maxLoaders = 16

// loader returns the loader for a queue's overlays in a fleet of the tag.
func (w *worker) loader(queue, loaded string) *fleet.Loader {
	key := loaded + "\n" + queue
	l := w.loaders[key]
	if l == nil {
		if len(w.loaders) >= maxLoaders {
			oldest := func(a, b string) int { return cmp.Compare(w.loaders[a].used, w.loaders[b].used) }
			delete(w.loaders, slices.MinFunc(slices.Collect(maps.Keys(w.loaders)), oldest))
		}
		l = &loaderOf{Loader: w.Loader().InFleet(loaded)}
		w.loaders[key] = l
	}
	w.uses++
	l.used = w.uses
	return l.Loader
}

// replayer returns the replayer of a commit of a fleet.
func (w *worker) replayer(e *ledger.Entry, fleetTag string) Replayer {
	tree := func(ctx context.Context, commit string, _ []string) (fs.FS, error) { return w.files.Tree(ctx, commit) }
	return Replayer{Overlays: w.Overlays, Loader: w.loader(e.Observation.Queue, fleetTag), Tree: tree}
}

func (w *worker) job(ctx context.Context, j *job) error {
	if w.files == nil {
		var err error
		if w.files, err = w.Files(ctx); err != nil {
			return err
		}
	}
	var commits []branch.Commit
	for _, u := range j.units {
		for _, r := range u.push.Records {
			commits = append(commits, r.Commit)
		}
	}
	top := path.Clean(w.Overlays)
	if err := w.files.Ahead(ctx, commits, []string{top, path.Join(path.Dir(top), "base")}); err != nil {
		return err
	}
	for _, u := range j.units {
		for at := range u.wanted {
			verify := w.entry
			if u.push.Records[at].Entry == nil {
				verify = w.others
			}
			f, err := verify(ctx, u.push, at)
			if err != nil {
				return err
			}
			if f.Verdict != "" {
				j.found = append(j.found, f)
			}
		}
	}
	return w.sign(ctx, j.found)
}

// sign adds the verdicts on signatures, if they are to be verified.
func (w *worker) sign(ctx context.Context, found []Finding) error {
	if w.Signatures == nil || len(found) == 0 {
		return nil
	}
	var commits []string
	for _, f := range found {
		commits = append(commits, f.Commit)
	}
	all, err := w.Signatures(ctx, commits)
	for i := range found {
		found[i].Signature = all[found[i].Commit]
	}
	return err
}

// finding returns the finding of a record without its files.
func (w *worker) finding(r *ledger.Record) Finding {
	f := Finding{Commit: r.Commit.ID, Author: r.Commit.Author, Email: r.Commit.Email, At: r.Commit.At}
	if e := r.Entry; e != nil {
		f.Overlay, f.Operation, f.Version = strings.TrimPrefix(e.Overlay, path.Clean(w.Overlays)+"/"), history.Operation(e.Kind), e.Version
	}
	return f
}

// others checks a commit that muster did not make, or that can no longer be parsed as muster's.
// It returns the zero value if there is nothing to report.
func (w *worker) others(ctx context.Context, p Push, at int) (Finding, error) {
	r := &p.Records[at]
	f, nothing := w.finding(r), Finding{}
	if r.Damage != nil {
		f.Verdict, f.Why = Malformed, []string{"its message cannot be read: " + r.Damage.Error()}
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
	f.Verdict, f.Overlay = People, strings.TrimPrefix(dir, path.Clean(w.Overlays)+"/")
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
func (w *worker) command(ctx context.Context, c *branch.Commit, touched []branch.Difference) (op history.Operation, why string, err error) {
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
	if op, why = history.Command(edits); op != history.Cancel {
		return op, why, nil
	}
	for _, d := range touched { // muster cancel moves files as they are
		if d.Before.ID == "" && moved[path.Base(d.Path)] != d.After.ID {
			return "", "", nil
		}
	}
	if reverted := history.Reverted(c.Message); reverted != "" { // muster revert
		return history.Revert, fmt.Sprintf("reverts %.7s: %s", reverted, why), nil
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

// dispatches is the directory of an overlay that muster owns.
const dispatches = "dispatches"

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

// some returns the first names and the number of further ones.
func some(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// fleetOf returns the fleet tag in the dispatches of a commit, which depends on the repository's
// address at that time. For a retirement, these are the dispatches that it removes.
func (w *worker) fleetOf(ctx context.Context, r *ledger.Record) (string, error) {
	e, from := r.Entry, r.Commit.ID
	if e.Kind != ledger.Dispatch {
		from = r.Commit.Parents[0]
	}
	tree, err := w.files.Tree(ctx, from)
	if err != nil {
		return "", err
	}
	for _, id := range e.Dispatches {
		for _, dir := range []string{dispatches, dispatches + "/withdrawn"} {
			file := path.Join(e.Overlay, dir, id+".yaml")
			text, err := fs.ReadFile(tree, file)
			if unread(err) {
				return "", err
			}
			if err != nil {
				continue
			}
			d, err := fleet.ParseDispatch(file, text)
			if err != nil {
				continue
			}
			tag := ""
			for _, t := range d.Tags {
				if of, is := strings.CutPrefix(t, plan.TagFleet+"="); is {
					tag = of
				}
			}
			return tag, nil
		}
	}
	return w.fleet, nil
}
