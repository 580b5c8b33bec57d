package verification

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// Replayer replays past decisions from git: the files of the commit that was decided on, and
// the observation in the trailers. [plan.Decide] makes the decision, as it did originally. All fields
// are required.
type Replayer struct {
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Loader reads the overlays.
	Loader *fleet.Loader
	// Tree returns the files of a past commit. The directories dirs will be read.
	Tree func(ctx context.Context, commit string, dirs []string) (fs.FS, error)
}

// Result is a replayed decision.
type Result struct {
	// Overlay is the overlay at that time; nil if the commit that was decided on does not contain it.
	// Then there is no decision.
	Overlay *fleet.Overlay
	// Decision is the decision for the commit's overlay.
	Decision plan.Decision
	// Differences describe how the commit differs from the decision, one clause each; empty if the
	// commit follows from git.
	Differences []string
	// failed is [files.failed]; nil if no files were read.
	failed *error
}

// Decide replays the decision of an operation. An error concerns reading only.
func (c Replayer) Decide(ctx context.Context, e *ledger.Operation) (Result, error) {
	var r Result
	overlays, failed, err := c.load(ctx, e.Base, c.serving(e))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else there is no directory of overlays
		return r, err
	}
	r.failed = failed
	name := e.Overlay
	i := slices.IndexFunc(overlays, func(o fleet.Overlay) bool { return o.Name == name })
	if i < 0 {
		r.Differences = []string{fmt.Sprintf("commit %.7s, which it was decided on, has no overlay %q", e.Base, name)}
		return r, nil
	}
	r.Overlay = &overlays[i]
	for _, d := range plan.Decide(e.Base, fleet.Decidable(overlays), e.Observation) {
		if d.Overlay == name {
			r.Decision, r.Differences = d, differences(e, d)
			return r, nil
		}
	}
	r.Differences = []string{fmt.Sprintf("its observation is of the queue %q, and the policy it was decided by serves %q", e.Observation.Queue, r.Overlay.Policy.Queue)}
	return r, nil
}

// Load returns the named overlays as they were at a commit; all overlays without a name.
func (c Replayer) Load(ctx context.Context, commit string, names []string) ([]fleet.Overlay, error) {
	overlays, _, err := c.load(ctx, commit, names)
	return overlays, err
}

// load is Load that also returns [files.failed], which may be set later: an overlay reads some files
// when it is rendered.
func (c Replayer) load(ctx context.Context, commit string, names []string) (overlays []fleet.Overlay, failed *error, err error) {
	var dirs []string
	for _, name := range names {
		dirs = append(dirs, path.Join(c.Overlays, name))
	}
	ahead := append(slices.Clone(dirs), c.base())
	if len(names) == 0 {
		ahead = append(ahead, path.Clean(c.Overlays))
	}
	failed = new(error)
	tree, err := c.Tree(ctx, commit, ahead)
	if err != nil {
		return nil, failed, err
	}
	if len(names) > 0 {
		tree = files{tree: tree, top: path.Clean(c.Overlays), dirs: dirs, failed: failed}
	}
	overlays, err = c.Loader.LoadContext(ctx, tree)
	return overlays, failed, err
}

func (c Replayer) base() string { return path.Join(path.Dir(path.Clean(c.Overlays)), "base") }

// serving returns the names of the overlays of an operation: its own, and those that serve the queue
// according to its observation.
func (c Replayer) serving(e *ledger.Operation) []string {
	names := []string{e.Overlay}
	for _, s := range e.Observation.Overlays {
		if clean := path.Clean(s.Overlay); clean == s.Overlay && clean != "." && !path.IsAbs(clean) && !strings.HasPrefix(clean, "..") {
			names = append(names, clean)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// differences returns the differences between an operation and a decision.
func differences(e *ledger.Operation, d plan.Decision) []string {
	op := ledger.Draft{Kind: e.Kind, Path: e.Path, Base: e.Base, Decision: d}
	again := op.Operation(e.Version)
	ids, wanted := slices.Sorted(slices.Values(e.Dispatches())), slices.Sorted(slices.Values(again.Dispatches()))
	switch {
	case e.Kind == ledger.Repair: // it concerns files, which no decision contains
		return nil
	case e.Kind == ledger.Dispatch && again.Agents() != e.Agents():
		return []string{fmt.Sprintf("it orders %s, but the recomputed decision orders %d", ledger.Count(e.Agents(), "agent"), again.Agents())}
	case !slices.Equal(ids, wanted):
		return []string{fmt.Sprintf("it is about %s, but the recomputed decision is about %s", someOf(ids), someOf(wanted))}
	}
	return nil
}

// someOf returns the names of the first dispatches.
func someOf(ids []string) string { return cmp.Or(some(ids), "no dispatch") }
