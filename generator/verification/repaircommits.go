package verification

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// dispatchFile is the file of a dispatch that a commit writes.
type dispatchFile struct {
	id, commit string
	// path is its path, and blob the identifier of its content; empty if unknown.
	path, blob string
}

// withdrawn reports whether no syncer applies the file.
func (d dispatchFile) withdrawn() bool { return path.Base(path.Dir(d.path)) == "withdrawn" }

// restored collects dispatches that repairs wrote until their orders are found, further back in
// the log, and the repairs that differ from the orders.
type restored struct {
	config Config
	files  Files                     // nil until it is needed
	open   map[string][]dispatchFile // by the dispatch
	by     map[string]Finding        // by the repair's commit
	other  map[string][]string       // by the repair's commit: dispatches that differ from their order
}

// longestPoll is the maximum time from the poll that a commit is dated by until its tick reads the edits:
// a poll may be spread over several ticks, and is reused after a conflict.
const longestPoll = time.Hour

// maxRestored bounds them.
const maxRestored = 10_000

func newRestored(c Config) *restored {
	return &restored{config: c, open: map[string][]dispatchFile{}, by: map[string]Finding{}, other: map[string][]string{}}
}

// note adds one finding.
func (r *restored) note(ctx context.Context, f *Finding) error {
	for _, order := range f.orders {
		for _, d := range r.open[order.id] {
			same, err := r.same(ctx, d, order)
			if err != nil {
				return err
			}
			if !same {
				r.other[d.commit] = append(r.other[d.commit], fmt.Sprintf("%s otherwise than commit %.7s ordered it", d.id, order.commit))
			}
		}
		delete(r.open, order.id)
	}
	for _, d := range f.restores {
		if len(r.open) < maxRestored {
			r.open[d.id] = append(r.open[d.id], d)
			r.by[d.commit] = *f
		}
	}
	return nil
}

// same reports whether a repair writes a dispatch as it was ordered. A file that a syncer applies is
// byte for byte the same. A withdrawn one may have more agents and a later lease, from an edit by hand
// that the cluster may have applied. It then contains how many agents were ordered, and may contain a
// time of its withdrawal that is not long after the repair.
func (r *restored) same(ctx context.Context, repair, order dispatchFile) (bool, error) {
	if order.blob == "" || repair.blob == order.blob {
		return true, nil
	}
	if !repair.withdrawn() {
		return false, nil
	}
	if r.files == nil {
		var err error
		if r.files, err = r.config.Files(ctx); err != nil {
			return false, err
		}
	}
	var texts [2][]byte
	for i, d := range []dispatchFile{repair, order} {
		tree, err := r.files.Tree(ctx, d.commit)
		if err == nil {
			texts[i], err = fs.ReadFile(tree, d.path)
		}
		if unread(err) {
			return true, nil // unknown
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return fleet.Raised(order.path, texts[0], texts[1], r.by[repair.commit].At.Add(longestPoll)), nil
}

func (r *restored) close() {
	if r.files != nil {
		r.files.Close()
	}
}

// illegal returns a finding for each repair that writes a dispatch that was never ordered, or one
// that differs from its order. It replaces the earlier verdict. whole reports whether
// the whole log was read: otherwise an order may be further back.
func (r *restored) illegal(whole bool) []Finding {
	unordered := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		for _, d := range r.open[id] {
			unordered[d.commit] = append(unordered[d.commit], id)
		}
	}
	var all []Finding
	for _, commit := range slices.Sorted(maps.Keys(r.by)) {
		f := r.by[commit]
		f.Verdict, f.restores, f.Why = Differs, nil, nil
		if whole && len(unordered[commit]) > 0 {
			f.Why = append(f.Why, fmt.Sprintf("it writes %s, which no commit before it has ordered", strings.Join(unordered[commit], ", ")))
		}
		for _, what := range r.other[commit] {
			f.Why = append(f.Why, "it writes "+what)
		}
		if len(f.Why) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// written returns the dispatches that a commit writes.
func written(commit, overlay string, changed []branch.Difference) []dispatchFile {
	own := path.Join(overlay, dispatches)
	var all []dispatchFile
	for _, d := range changed {
		name := strings.TrimPrefix(strings.TrimPrefix(d.Path, own+"/"), "withdrawn/")
		if id, is := strings.CutSuffix(name, ".yaml"); is && d.After.ID != "" && name != "kustomization.yaml" && name != "state.yaml" {
			all = append(all, dispatchFile{id: id, commit: commit, path: d.Path, blob: d.After.ID})
		}
	}
	return all
}

// repair verifies that nothing needs a repair after a repair. The dispatches that it writes are
// compared with their orders, which are earlier commits, later.
func (w *worker) repair(ctx context.Context, e *ledger.Operation, changed []branch.Difference, f *Finding) error {
	for _, d := range changed {
		if path.Base(d.Path) == "state.yaml" && d.After.ID != "" {
			f.Verdict, f.Why = Differs, []string{"it writes " + d.Path + ", which a repair only deletes"}
			return nil
		}
	}
	overlays, err := w.replayer(e).Load(ctx, e.ID, []string{f.Overlay})
	if err != nil {
		return err
	}
	f.Verdict = Reproduced
	for _, o := range overlays {
		if faults := o.Faults(); len(faults) > 0 {
			f.Verdict, f.Why = Differs, []string{fmt.Sprintf("it leaves %s in another state than muster does: it %s", faults[0].File, faults[0].Problem)}
		}
	}
	return nil
}
