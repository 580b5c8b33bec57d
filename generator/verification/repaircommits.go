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

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// restoredOrder is an order that a repair writes into state.yaml.
type restoredOrder struct {
	plan.Dispatch
	commit string // of the repair
}

// restored collects orders that repairs wrote until the commits that made them are found, further back in
// the log, and the repairs that differ from them.
type restored struct {
	config Config
	files  Files                      // nil until it is needed
	open   map[string][]restoredOrder // by the order
	by     map[string]Finding         // by the repair's commit
	other  map[string][]string        // by the repair's commit: orders that differ
}

// maxRestored bounds them.
const maxRestored = 10_000

func newRestored(c Config) *restored {
	return &restored{config: c, open: map[string][]restoredOrder{}, by: map[string]Finding{}, other: map[string][]string{}}
}

// note adds one finding.
func (r *restored) note(ctx context.Context, f *Finding) error {
	for _, id := range f.orders {
		for _, d := range r.open[id] {
			same, err := r.same(ctx, f, d)
			if err != nil {
				return err
			}
			if !same {
				r.other[d.commit] = append(r.other[d.commit], fmt.Sprintf("%s otherwise than commit %.7s ordered it", id, f.Commit))
			}
		}
		delete(r.open, id)
	}
	for _, d := range f.restores {
		if len(r.open) < maxRestored {
			r.open[d.ID] = append(r.open[d.ID], d)
			r.by[d.commit] = *f
		}
	}
	return nil
}

// same reports whether a repair writes an order as the commit that made it. Only that it is withdrawn, or
// was put back, may be new.
func (r *restored) same(ctx context.Context, order *Finding, d restoredOrder) (bool, error) {
	if r.files == nil {
		var err error
		if r.files, err = r.config.Files(ctx); err != nil {
			return false, err
		}
	}
	text, err := stateOf(ctx, r.files, order.Commit, path.Join(r.config.Overlays, order.Overlay))
	if unread(err) {
		return true, nil // unknown
	}
	if err != nil {
		return false, err
	}
	x, found := fleet.ReadOrder(text, d.ID)
	return found && fleet.SameOrder(x, d.Dispatch), nil
}

// stateOf returns the state.yaml of the overlay in a directory as of a commit; nil if it has none.
func stateOf(ctx context.Context, files Files, commit, overlay string) ([]byte, error) {
	tree, err := files.Tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(tree, fleet.StateFile(overlay))
	if errors.Is(err, fs.ErrNotExist) && !unread(err) {
		return nil, nil
	}
	return text, err
}

func (r *restored) close() {
	if r.files != nil {
		r.files.Close()
	}
}

// illegal returns a finding for each repair that writes an order that was never made, or one that differs
// from it. It is unknown whether a withdrawn order was made, because the commit may have been lost. The
// finding replaces the earlier verdict. whole reports whether the whole log was read: otherwise the order
// may be further back.
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
		live := slices.ContainsFunc(f.restores, func(d restoredOrder) bool { return !d.Withdrawn && slices.Contains(unordered[commit], d.ID) })
		f.Verdict, f.restores, f.Why = Differs, nil, nil
		if whole && len(unordered[commit]) > 0 {
			f.Why = append(f.Why, fmt.Sprintf("it writes %s, which no commit before it has ordered", strings.Join(unordered[commit], ", ")))
			if !live && len(r.other[commit]) == 0 { // which orders no agents
				f.Verdict, f.Why[0] = Unknown, f.Why[0]+": was the branch set back?"
			}
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

// repair verifies that a repair only removes manifests, cancels no order and changes no memory that was
// valid, and that nothing needs a repair after it. The orders that it writes are compared later with the
// commits that made them.
func (w *worker) repair(ctx context.Context, e *ledger.Operation, changed []branch.Difference, f *Finding) error {
	own := path.Join(e.Path, dispatches)
	for _, d := range changed {
		if name := path.Base(d.Path); d.After.ID != "" && d.Path != own+"/kustomization.yaml" && d.Path != own+"/state.yaml" {
			f.Verdict, f.Why = Differs, []string{"it writes " + name + ", which a repair only deletes"}
			return nil
		}
	}
	overlays, err := w.replayer(e).Load(ctx, e.ID, []string{f.Overlay})
	if err != nil {
		return err
	}
	before, err := stateOf(ctx, w.files, e.Parents[0], e.Path)
	if err != nil {
		return err
	}
	after, err := stateOf(ctx, w.files, e.ID, e.Path)
	if err != nil {
		return err
	}
	var why string
	if f.restores, why = restores(e.ID, before, after); why != "" {
		f.Verdict, f.Why = Differs, []string{why}
		return nil
	}
	f.Verdict = Reproduced
	for _, o := range overlays {
		if faults := o.Faults(); len(faults) > 0 {
			f.Verdict, f.Why = Differs, []string{fmt.Sprintf("it leaves %s in another state than muster does: it %s", faults[0].File, faults[0].Problem)}
		}
	}
	return nil
}

// restores returns the orders that a repair adds to a state.yaml or whose values it changes, or why it is
// not the change of a repair.
func restores(commit string, before, after []byte) (all []restoredOrder, why string) {
	if was := fleet.ReadState(before); !was.Equal(plan.State{}) && !was.Equal(fleet.ReadState(after)) {
		return nil, "it changes the first document of state.yaml, which was valid"
	}
	had := map[string]plan.Dispatch{}
	for _, d := range fleet.ReadOrders(before) {
		had[d.ID] = d
	}
	for _, d := range fleet.ReadOrders(after) {
		was, found := had[d.ID]
		delete(had, d.ID)
		if !found || !fleet.SameOrder(was, d) {
			all = append(all, restoredOrder{d, commit})
		} else if was.Withdrawn && !d.Withdrawn || was.PutBack && !d.PutBack {
			return nil, "it makes " + d.ID + " count as an order that is not withdrawn"
		}
	}
	if len(had) > 0 {
		return nil, "it cancels " + some(slices.Sorted(maps.Keys(had)))
	}
	return all, ""
}
