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
// the observation in the trailers.
//
//	log ──Push.Add──▶ Push: the commits of one tick ──Replayer.Decide──▶ Result
//
// [plan.Decide] makes the decision, as it did originally. Inputs that git does not contain show as
// differences: see [Result.Differences]. All fields are required.
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
	// Base is the commit that the decision was based on.
	Base string
	// Overlay is the overlay at that time; nil if Base does not contain it. Then there is no
	// decision.
	Overlay *fleet.Overlay
	// Decision is the decision for the commit's overlay.
	Decision plan.Decision
	// Differences describe how the commit differs from the decision, one clause each; empty if the
	// commit follows from git.
	Differences []string
	// Doubtful reports that the commit follows, but not all figures are confirmed: the reasons in the
	// message differ from those that this muster writes, or the tick ordered another number of
	// agents. Another version decided, or an input is not in git. The reasons of a repair are not
	// compared.
	Doubtful bool
	// failed is [files.failed]; nil if no files were read.
	failed *error
}

// Decide replays the decision of one commit of a push, for each of its [Push.Ticks] until
// the decision reproduces the commit. An error concerns reading only.
func (c Replayer) Decide(ctx context.Context, p Push, commit int) (Result, error) {
	var best Result
	tried := false
	for tick, at := range p.Ticks(commit) {
		r, err := c.DecideIn(ctx, tick, at)
		if err != nil || len(r.Differences) == 0 && !r.Doubtful {
			return r, err
		}
		if !tried || len(r.Differences) < len(best.Differences) {
			best, tried = r, true
		}
	}
	return best, nil
}

// DecideIn replays the decision of one commit as part of a tick that pushed exactly these
// commits.
func (c Replayer) DecideIn(ctx context.Context, tick Push, commit int) (Result, error) {
	push, e := tick.Records, tick.Records[commit].Entry
	if len(push[len(push)-1].Commit.Parents) == 0 {
		return Result{Differences: []string{"it has no parent, so there was no overlay to decide on"}}, nil
	}
	r := Result{Base: push[len(push)-1].Commit.Parents[0]}
	names := c.serving(e)
	// Files that were edited by hand counted in their repaired form.
	repairs := map[string]string{}
	for _, x := range push {
		if x.Entry.Kind == ledger.Repair && slices.Contains(names, c.Name(x.Entry.Overlay)) {
			repairs[x.Entry.Overlay] = x.Commit.ID
		}
	}
	overlays, failed, err := c.load(ctx, r.Base, names, repairs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else there is no directory of overlays
		return r, err
	}
	r.failed = failed
	name := c.Name(e.Overlay)
	i := slices.IndexFunc(overlays, func(o fleet.Overlay) bool { return o.Name == name })
	if i < 0 {
		r.Differences = []string{fmt.Sprintf("commit %.7s, which it was decided on, has no overlay %q", r.Base, name)}
		return r, nil
	}
	r.Overlay = &overlays[i]
	for _, d := range plan.Decide(r.Base, fleet.Decidable(overlays), e.Observation) {
		if d.Overlay == name {
			r.Decision = d
			r.Differences = differences(e, d)
			r.Doubtful = orderedOf(push, e.Overlay) != d.Figures.Dispatch || e.Kind != ledger.Repair && messageOf(e) != text(e, d)
			return r, nil
		}
	}
	r.Differences = []string{fmt.Sprintf("its observation is of the queue %q, and the policy it was decided by serves %q", e.Observation.Queue, r.Overlay.Policy.Queue)}
	return r, nil
}

// orderedOf returns how many agents a push orders for an overlay.
func orderedOf(push []ledger.Record, overlay string) int {
	n := 0
	for _, x := range push {
		if x.Entry.Overlay == overlay && x.Entry.Kind == ledger.Dispatch {
			n += x.Entry.Agents
		}
	}
	return n
}

// messageOf returns the message of a commit without trailers; text returns the message that this
// version of muster writes for a decision.
func messageOf(e *ledger.Entry) string { return strings.TrimSpace(e.Subject + "\n\n" + e.Prose) }

func text(e *ledger.Entry, d plan.Decision) string {
	return strings.TrimSpace(ledger.Text(ledger.Operation{Kind: e.Kind, Path: e.Overlay, Decision: d}))
}

// Load returns the named overlays as they were at a commit; all overlays without a name.
func (c Replayer) Load(ctx context.Context, commit string, names []string) ([]fleet.Overlay, error) {
	overlays, _, err := c.load(ctx, commit, names, nil)
	return overlays, err
}

// load is Load with some overlays, by their directories, from other commits. It also returns
// [files.failed], which may be set later: an overlay reads some files when it is rendered.
func (c Replayer) load(ctx context.Context, commit string, names []string, instead map[string]string) (overlays []fleet.Overlay, failed *error, err error) {
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
		f := files{tree: tree, top: path.Clean(c.Overlays), dirs: dirs, instead: map[string]fs.FS{}, failed: failed}
		for dir, commit := range instead {
			if f.instead[dir], err = c.Tree(ctx, commit, []string{dir}); err != nil {
				return nil, failed, err
			}
		}
		tree = f
	}
	overlays, err = c.Loader.LoadContext(ctx, tree)
	return overlays, failed, err
}

func (c Replayer) base() string { return path.Join(path.Dir(path.Clean(c.Overlays)), "base") }

// Name returns the name of the overlay in a directory.
func (c Replayer) Name(dir string) string { return strings.TrimPrefix(dir, path.Clean(c.Overlays)+"/") }

// serving returns the names of the overlays of an entry: its own, and those that serve the queue
// according to its observation.
func (c Replayer) serving(e *ledger.Entry) []string {
	names := []string{c.Name(e.Overlay)}
	for _, s := range e.Observation.Overlays {
		if clean := path.Clean(s.Overlay); clean == s.Overlay && clean != "." && !path.IsAbs(clean) && !strings.HasPrefix(clean, "..") {
			names = append(names, clean)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// differences returns the differences between a commit and a decision.
func differences(e *ledger.Entry, d plan.Decision) []string {
	again, agents := ledger.Operation{Kind: e.Kind, Decision: d}.Dispatches()
	slices.Sort(again)
	switch ids := slices.Sorted(slices.Values(e.Dispatches)); {
	case e.Kind == ledger.Repair: // it concerns files, which no decision contains
		return nil
	case e.Kind == ledger.Dispatch && agents != e.Agents:
		return []string{fmt.Sprintf("it orders %d agents, but the recomputed decision orders %d", e.Agents, agents)}
	case !slices.Equal(ids, again):
		return []string{fmt.Sprintf("it is about %s, but the recomputed decision is about %s", someOf(ids), someOf(again))}
	case agents != e.Agents:
		return []string{fmt.Sprintf("its dispatches have %d agents, but its trailer has %d", agents, e.Agents)}
	}
	return nil
}

// someOf returns the names of the first dispatches.
func someOf(ids []string) string { return cmp.Or(some(ids), "no dispatch") }
