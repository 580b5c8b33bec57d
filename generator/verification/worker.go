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
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// worker verifies one job after the other.
type worker struct {
	Config
	files   Files // nil: not yet opened
	loaders map[string]*loaderOf
	uses    int
}

// loaderOf is the loader of one queue's overlays: a loader caches builds only of the overlays that it
// read last.
type loaderOf struct {
	*fleet.Loader
	used int
}

// maxLoaders bounds the loaders of one worker.
const maxLoaders = 16

// loader returns the loader for a queue's overlays.
func (w *worker) loader(queue string) *fleet.Loader {
	l := w.loaders[queue]
	if l == nil {
		if len(w.loaders) >= maxLoaders {
			oldest := func(a, b string) int { return cmp.Compare(w.loaders[a].used, w.loaders[b].used) }
			delete(w.loaders, slices.MinFunc(slices.Collect(maps.Keys(w.loaders)), oldest))
		}
		l = &loaderOf{Loader: w.Loader()}
		w.loaders[queue] = l
	}
	w.uses++
	l.used = w.uses
	return l.Loader
}

// replayer returns the replayer of a commit.
func (w *worker) replayer(e *ledger.Operation) Replayer {
	tree := func(ctx context.Context, commit string, _ []string) (fs.FS, error) { return w.files.Tree(ctx, commit) }
	return Replayer{Overlays: w.Overlays, Loader: w.loader(e.Observation.Queue), Tree: tree}
}

func (w *worker) job(ctx context.Context, j *job) error {
	if w.files == nil {
		files, err := w.Files(ctx)
		if err != nil {
			return err
		}
		w.files = files
	}
	var commits []branch.Commit
	for _, u := range j.units {
		commits = append(commits, u.op.Commit)
	}
	top := path.Clean(w.Overlays)
	if err := w.files.Ahead(ctx, commits, []string{top, path.Join(path.Dir(top), "base")}); err != nil {
		return err
	}
	for _, u := range j.units {
		verify := w.own
		if u.op.Kind == "" || u.op.Damage != nil {
			verify = w.others
		}
		f, err := verify(ctx, u)
		if err != nil {
			return err
		}
		if f.Verdict != "" {
			j.found = append(j.found, f)
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

// finding returns the finding of an operation without its files.
func finding(o *ledger.Operation) Finding {
	f := Finding{Commit: o.ID, Author: o.Author, Email: o.Email, At: o.At}
	if o.Damage == nil {
		f.Overlay, f.Operation, f.Version = o.Overlay, o.Kind, o.Version
	}
	return f
}

// dispatches is the directory of an overlay that muster owns.
const dispatches = "dispatches"

// some returns the first names and the number of further ones.
func some(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
