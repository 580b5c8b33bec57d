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
	"muster/generator/plan"
	"muster/gitops/branch"
)

// restoredOrder is an order that a repair writes into state.yaml.
type restoredOrder struct {
	plan.Dispatch
	commit string // of the repair
}

// restoredState is a first document of state.yaml that a repair writes.
type restoredState struct {
	plan.State
	commit string // of the repair
}

// ending is the withdrawal of an order, or its retirement.
type ending struct {
	id      string
	retired bool
}

func (x ending) String() string {
	if x.retired {
		return x.id + " as put back, which no commit before it has retired"
	}
	return x.id + " as withdrawn, which neither its manifest nor a commit before it explains"
}

// ends returns the endings of an operation.
func ends(e *ledger.Operation) (all []ending) {
	for _, x := range e.Orders {
		if retired := e.Kind == ledger.Retire || x.NeverCreated; !x.Copied && (retired || e.Kind == ledger.Withdraw || e.Kind == ledger.Cancel) {
			all = append(all, ending{x.ID, retired})
		}
	}
	return all
}

// restored collects what repairs wrote until the commits that explain it are found, further back in the
// log, and the repairs that differ from them.
type restored struct {
	config Config
	files  Files                      // nil until it is needed
	open   map[string][]restoredOrder // by the order
	by     map[string]Finding         // by the repair's commit
	other  map[string][]string        // by the repair's commit: orders that differ
	// endings are the commits of repairs that need one in an earlier commit, and states the first documents
	// that they write, by the overlay. unexplained is what no earlier commit explains, by the repair's commit.
	endings     map[ending][]string
	states      map[string][]restoredState
	unexplained map[string][]string
}

// maxRestored bounds them.
const maxRestored = 10_000

func newRestored(c Config) *restored {
	return &restored{
		config: c, open: map[string][]restoredOrder{}, by: map[string]Finding{}, other: map[string][]string{},
		endings: map[ending][]string{}, states: map[string][]restoredState{}, unexplained: map[string][]string{},
	}
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
	for _, x := range f.ends {
		delete(r.endings, x)
	}
	for _, id := range f.orders {
		for _, x := range []ending{{id, false}, {id, true}} {
			for _, commit := range r.endings[x] {
				r.unexplained[commit] = append(r.unexplained[commit], x.String())
			}
			delete(r.endings, x)
		}
	}
	if err := r.noteState(ctx, f); err != nil || len(r.by) >= maxRestored {
		return err
	}
	for _, d := range f.restores {
		r.open[d.ID] = append(r.open[d.ID], d)
		r.by[f.Commit] = *f
	}
	for _, x := range f.needs {
		r.endings[x] = append(r.endings[x], f.Commit)
		r.by[f.Commit] = *f
	}
	if f.state != nil {
		r.states[f.Overlay] = append(r.states[f.Overlay], restoredState{*f.state, f.Commit})
		r.by[f.Commit] = *f
	}
	return nil
}

// noteState compares the first documents that later repairs of an overlay wrote with the one that a commit
// contains.
func (r *restored) noteState(ctx context.Context, f *Finding) error {
	open := r.states[f.Overlay]
	if len(open) == 0 || f.Operation == "" {
		return nil
	}
	text, err := r.stateOf(ctx, f)
	if err != nil && !unread(err) {
		return err
	}
	was := fleet.ReadState(text)
	if err == nil && was.Equal(plan.State{}) {
		return nil // nor has this one
	}
	for _, s := range open {
		if err == nil && !was.Equal(s.State) {
			r.unexplained[s.commit] = append(r.unexplained[s.commit], fmt.Sprintf("another first document of state.yaml than commit %.7s", f.Commit))
		}
	}
	delete(r.states, f.Overlay)
	return nil
}

// same reports whether a repair writes an order as the commit that made it. Only that it is withdrawn, or
// was put back, may be new.
func (r *restored) same(ctx context.Context, order *Finding, d restoredOrder) (bool, error) {
	text, err := r.stateOf(ctx, order)
	if unread(err) {
		return true, nil // unknown
	}
	if err != nil {
		return false, err
	}
	x, found := fleet.ReadOrder(text, d.ID)
	return found && fleet.SameOrder(x, d.Dispatch), nil
}

// stateOf returns the state.yaml of a finding's overlay and commit; nil if it has no such file.
func (r *restored) stateOf(ctx context.Context, f *Finding) ([]byte, error) {
	if r.files == nil {
		var err error
		if r.files, err = r.config.Files(ctx); err != nil {
			return nil, err
		}
	}
	return stateOf(ctx, r.files, f.Commit, path.Join(r.config.Overlays, f.Overlay))
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

// illegal returns a finding for each repair that writes what no earlier commit explains: an order that was
// never made, or differs from it; an order as withdrawn, without a withdrawal or a lost manifest; another
// first document of state.yaml than the last commit. Only a live order that was never made and other values
// differ from all that muster does: the rest is unknown, because the commit may have been lost. The finding
// replaces the earlier verdict. whole reports whether the whole log was read: otherwise the explanation may
// be further back.
func (r *restored) illegal(whole bool) []Finding {
	unordered := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		for _, d := range r.open[id] {
			unordered[d.commit] = append(unordered[d.commit], id)
		}
	}
	var all []Finding
	for _, commit := range slices.Sorted(maps.Keys(r.by)) {
		f, ids := r.by[commit], unordered[commit]
		live := slices.ContainsFunc(f.restores, func(d restoredOrder) bool { return !d.Withdrawn && slices.Contains(ids, d.ID) })
		f.Verdict, f.restores, f.Why = Unknown, nil, nil
		if whole && len(ids) > 0 {
			f.Why = append(f.Why, fmt.Sprintf("it writes %s, which no commit before it has ordered", strings.Join(ids, ", ")))
		}
		for _, what := range r.unexplained[commit] {
			f.Why = append(f.Why, "it writes "+what)
		}
		for _, what := range r.other[commit] {
			f.Why = append(f.Why, "it writes "+what)
		}
		switch {
		case len(f.Why) == 0:
			continue
		case whole && live || len(r.other[commit]) > 0:
			f.Verdict = Differs
		default:
			f.Why[len(f.Why)-1] += ": was the branch set back?"
		}
		all = append(all, f)
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
	if state := fleet.ReadState(after); fleet.ReadState(before).Equal(plan.State{}) && !state.Equal(plan.State{}) {
		f.state = &state
	}
	if err := w.endings(ctx, e, before, after, f); err != nil {
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

// endings finds the orders that are withdrawn, or put back after their retirement, for the first time after a
// repair. It needs an earlier commit for each that the files before the repair do not explain.
func (w *worker) endings(ctx context.Context, e *ledger.Operation, before, after []byte, f *Finding) error {
	var fresh, withdrawn []plan.Dispatch
	had := byID(fleet.ReadOrders(before))
	for _, d := range fleet.ReadOrders(after) {
		switch was := had[d.ID]; {
		case d.PutBack && !was.PutBack:
			f.needs = append(f.needs, ending{d.ID, true})
		case d.Withdrawn && !was.Withdrawn:
			fresh = append(fresh, d)
			d.Withdrawn = false
			withdrawn = append(withdrawn, d)
		}
	}
	f.ends = slices.Clone(f.needs)
	for _, d := range fresh {
		f.ends = append(f.ends, ending{d.ID, false})
	}
	if len(fresh) == 0 {
		return nil
	}
	overlays, err := w.replayer(e).Load(ctx, e.Parents[0], []string{f.Overlay})
	if err != nil {
		return err
	}
	for i := range overlays {
		overlays[i].Join(withdrawn, func(string) bool { return false }, time.Time{})
		explained := byID(overlays[i].Dispatches)
		fresh = slices.DeleteFunc(fresh, func(d plan.Dispatch) bool { return explained[d.ID].Withdrawn })
	}
	for _, d := range fresh {
		f.needs = append(f.needs, ending{d.ID, false})
	}
	return nil
}

func byID(orders []plan.Dispatch) map[string]plan.Dispatch {
	all := map[string]plan.Dispatch{}
	for _, d := range orders {
		all[d.ID] = d
	}
	return all
}

// restores returns the orders that a repair adds to a state.yaml or whose values it changes, or why it is
// not the change of a repair.
func restores(commit string, before, after []byte) (all []restoredOrder, why string) {
	if was := fleet.ReadState(before); !was.Equal(plan.State{}) && !was.Equal(fleet.ReadState(after)) {
		return nil, "it changes the first document of state.yaml, which was valid"
	}
	had := byID(fleet.ReadOrders(before))
	for _, d := range fleet.ReadOrders(after) {
		was, found := had[d.ID]
		delete(had, d.ID)
		switch {
		case was.Withdrawn && !d.Withdrawn || was.PutBack && !d.PutBack:
			return nil, "it makes " + d.ID + " count as an order that is not withdrawn"
		case !found || !fleet.SameOrder(was, d):
			all = append(all, restoredOrder{d, commit})
		}
	}
	if len(had) > 0 {
		return nil, "it cancels " + some(slices.Sorted(maps.Keys(had)))
	}
	return all, ""
}
