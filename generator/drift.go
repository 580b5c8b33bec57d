package generator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// withShared suspends the overlays of one queue: where Buildkite lists no agents, those of one
// cannot be told from those of another.
func withShared(fleet []manifest.Overlay) []manifest.Overlay {
	shared := plan.Sharing(manifest.Decidable(fleet))
	if len(shared) == 0 {
		return fleet
	}
	fleet = slices.Clone(fleet)
	for i := range fleet {
		if other := shared[fleet[i].Name]; other != "" {
			fleet[i].Suspend(SharesQueue(fleet[i].Policy.Queue, other))
		}
	}
	return fleet
}

// SharesQueue says why an overlay is suspended that shares its queue with another, where
// nobody lists agents.
func SharesQueue(queue, other string) string {
	return fmt.Sprintf("shares the queue %q with %s: without an API token the agents of one cannot be told from those of the other: give one, or each a queue of its own", queue, other)
}

// unseen has a dispatch count of which others have seen all agents, and that this process
// may never have seen: they may be connected.
func (dr *drift) unseen(ctx context.Context, e *ledger.Entry, id string) {
	overlay := strings.TrimPrefix(strings.TrimPrefix(e.Overlay, dr.dir), "/")
	if dr.scanned == "" || !dr.agents.inferred(overlay) {
		return // what is connected at the first look is nobody's anyway
	}
	file := dispatchFile(e.Overlay, id)
	content, err := dr.past.file(ctx, e.Commit, file)
	if err != nil {
		dr.log.Debug("a dispatch that others have retired cannot be read", "dispatch", id, "err", err)
		return
	}
	if d, err := manifest.Original(file, content); err == nil {
		dr.agents.retired(overlay, d)
	}
}

// Somebody may edit or delete what is on order. Its agents may come all the same:
// the cluster may have made the Job before. So each dispatch that was ever seen
// counts until its lease is over, all its agents have registered, or muster
// retired it, whatever becomes of its file. An edit is noticed by the file's own
// digest, a deletion by what this process remembers, and by the log of what others
// have pushed since it looked, or before it started.

// drift finds dispatches that were edited or deleted by hand, and lets them count.
type drift struct {
	past   *pastLog
	agents agents
	clock  Clock
	log    *slog.Logger
	dir    string // of the overlays
	// ordered are the dispatches that may still come, by ID; those of the log are among
	// them as far as the commit scanned. retired are those that the log says to be, until
	// they are taken out.
	ordered map[string]ordered
	retired map[string]bool
	scanned string
}

// agents is what drift asks of what is known of agents.
type agents interface {
	// registered reports whether all agents of a dispatch have registered.
	registered(d plan.Dispatch) bool
	// inferred reports whether the overlay's agents are counted and not listed. retired notes
	// a dispatch of such an overlay that another muster has retired.
	inferred(overlay string) bool
	retired(overlay string, d plan.Dispatch)
}

// ordered is a dispatch that was in git.
type ordered struct {
	plan.Dispatch
	// overlay and file are where it was, in commit.
	overlay, file, commit string
}

// withEdits is the fleet in which what was edited or deleted by hand counts, and is
// restored by the next repair. Where it is not known what it was, its overlay is
// suspended. The error is that of [drift.readLog], or [branch.ErrMoved] where another
// writer was faster than the log could be read.
func (dr *drift) withEdits(ctx context.Context, tip branch.Tip, fleet []manifest.Overlay) ([]manifest.Overlay, error) {
	now := dr.clock.Now().UTC().Truncate(time.Second) // as what is decided: a lease is over for both or for neither
	fleet = slices.Clone(fleet)
	oldest := now.Add(-logAge)
	for i := range fleet {
		for _, e := range fleet[i].Edits() { // one may have been ordered before muster was stopped for days
			if at := e.At.Add(-time.Hour); e.Readable && at.Before(oldest) {
				oldest = at
			}
		}
	}
	dr.past.begin(oldest)
	defer dr.past.end()
	err := dr.readLog(ctx, tip, fleet, now)
	if err == nil {
		err = dr.findEdits(ctx, tip, fleet, now)
	}
	if err != nil {
		for i := range fleet {
			for _, e := range fleet[i].Edits() {
				dr.noteEdit(e.Dispatch, e.Readable)
			}
		}
		return nil, err
	}
	return fleet, nil
}

// findEdits lets what was edited or deleted count, as withEdits has it.
func (dr *drift) findEdits(ctx context.Context, tip branch.Tip, fleet []manifest.Overlay, now time.Time) error {
	here := map[string]bool{}
	for i := range fleet {
		dr.noteIntact(tip, &fleet[i], here)
	}
	asked := map[string]bool{}
	for i := range fleet {
		o := &fleet[i]
		for _, e := range o.Edits() {
			if !here[e.ID] {
				here[e.ID], asked[e.ID] = true, true
				if err := dr.putBack(ctx, tip, o, &e); err != nil {
					return err
				}
			}
		}
	}
	if err := dr.findDeleted(ctx, tip, fleet, here, asked, now); err != nil {
		return err
	}
	dr.retired = nil
	dr.past.forget(asked)
	return nil
}

// noteIntact remembers the dispatches of an overlay that are as they were written.
// One that was larger before, as before an edit, counts as that.
func (dr *drift) noteIntact(tip branch.Tip, o *manifest.Overlay, here map[string]bool) {
	edited := map[string]bool{}
	for _, e := range o.Edits() {
		edited[e.ID] = true
	}
	for _, d := range o.Dispatches {
		if edited[d.ID] {
			continue
		}
		here[d.ID] = true
		if before, known := dr.ordered[d.ID]; known {
			if more := manifest.Larger(d, before.Dispatch); more.Agents != d.Agents || !more.NotAfter.Equal(d.NotAfter) {
				d = more
				o.Count(d)
			}
		}
		dr.ordered[d.ID] = ordered{Dispatch: d, overlay: o.Path, file: o.FileOf(d), commit: tip.Commit}
	}
}

// putBack lets a dispatch that was edited be restored.
func (dr *drift) putBack(ctx context.Context, tip branch.Tip, o *manifest.Overlay, e *manifest.Edit) error {
	before, known := dr.ordered[e.ID]
	a := dr.past.original(ctx, tip, e.ID, dr.ordered)
	if errors.Is(a.err, branch.ErrMoved) {
		return a.err
	}
	counted := e.Dispatch
	switch {
	case a.err == nil:
		counted = manifest.Larger(a.dispatch, counted)
		if known {
			counted = manifest.Larger(counted, before.Dispatch)
		}
	case known:
		counted = manifest.Larger(before.Dispatch, counted)
	case !e.Readable:
		counted = plan.Dispatch{} // nothing is known of it
	}
	counted.Withdrawn = e.Withdrawn || known && before.Withdrawn
	if counted.Agents > 0 && !counted.NotAfter.IsZero() {
		o.Count(counted)
	}
	if a.err == nil {
		dr.ordered[e.ID] = ordered{Dispatch: counted, overlay: o.Path, file: a.file, commit: a.commit}
	} else {
		dr.noteEdit(e.Dispatch, e.Readable)
	}
	if !e.Readable {
		return nil // the overlay is suspended already
	}
	if a.err == nil {
		a.err = o.Restore(a.content, counted, e)
	}
	if a.err != nil {
		o.Suspend(fmt.Sprintf("%s was edited, and cannot be restored from the log: %v. Restore the file as it was in the commit that added it; without that commit, delete it when its agents have left", e.File, a.err))
	}
	return nil
}

// noteEdit lets an edit of what this process knows count when it is undone to the letter
// before the log can be read: a syncer may have made the larger Job.
func (dr *drift) noteEdit(d plan.Dispatch, readable bool) {
	if x, known := dr.ordered[d.ID]; known && readable {
		x.Dispatch = manifest.Larger(x.Dispatch, d)
		dr.ordered[d.ID] = x
	}
}

// findDeleted lets dispatches count that are gone without muster having retired
// them. What was withdrawn and is deleted is given up: somebody says that its
// agents do not come.
func (dr *drift) findDeleted(ctx context.Context, tip branch.Tip, fleet []manifest.Overlay, here, asked map[string]bool, now time.Time) error {
	var gone []ordered
	for id, x := range dr.ordered {
		switch {
		case here[id]:
		case x.Withdrawn, x.Expired(now), dr.agents.registered(x.Dispatch), owner(fleet, x) == nil:
			delete(dr.ordered, id)
		default:
			gone = append(gone, x)
		}
	}
	slices.SortFunc(gone, func(a, b ordered) int { return a.At.Compare(b.At) })
	for _, x := range gone {
		o := owner(fleet, x)
		if dr.retired[x.ID] {
			delete(dr.ordered, x.ID)
			dr.agents.retired(o.Name, x.Dispatch)
			continue
		}
		asked[x.ID] = true
		a := dr.past.original(ctx, tip, x.ID, dr.ordered)
		failed := a.err
		if errors.Is(failed, branch.ErrMoved) {
			return failed
		}
		if failed == nil {
			failed = o.Restore(a.content, manifest.Larger(a.dispatch, x.Dispatch), nil)
		}
		if failed != nil {
			o.Count(x.Dispatch)
			o.Suspend(fmt.Sprintf("%s is gone, and it cannot be found out why: %v. Its agents may still come until %s: restore the file, or wait until then",
				x.file, failed, x.NotAfter.Add(plan.Grace).UTC().Format(time.RFC3339)))
		}
	}
	return nil
}

// owner is the overlay that a dispatch belongs to; nil: it is no more.
func owner(fleet []manifest.Overlay, x ordered) *manifest.Overlay {
	for i := range fleet {
		if fleet[i].Path == x.overlay {
			return &fleet[i]
		}
	}
	for i := range fleet {
		if fleet[i].Carries(x.Dispatch) {
			return &fleet[i]
		}
	}
	return nil
}

// noteActs remembers what was ordered, and forgets what was retired. If it is not known
// whether a push landed, the log of the next head shows it.
func (dr *drift) noteActs(tip, next branch.Tip, done []ledger.Act) {
	for _, a := range done {
		for _, d := range a.Decision.Dispatch {
			if a.Kind == ledger.Dispatch {
				dr.ordered[d.ID] = ordered{Dispatch: d, overlay: a.Path, file: dispatchFile(a.Path, d.ID), commit: next.Commit}
			}
		}
		if a.Kind == ledger.Repair {
			dr.noteWithdrawn(a)
		}
		for _, r := range a.Decision.Retire {
			if a.Kind == ledger.Retire {
				delete(dr.ordered, r.ID)
			}
		}
	}
	if dr.scanned == tip.Commit && len(done) > 0 {
		dr.scanned = next.Commit
	}
}

// noteWithdrawn notes what a repair has withdrawn.
func (dr *drift) noteWithdrawn(a ledger.Act) {
	for id, x := range dr.ordered {
		x.Withdrawn = true
		if slices.ContainsFunc(a.Changes, func(c branch.Change) bool { return c.Content != nil && c.Path == withdrawnFile(a.Path, id) }) {
			dr.ordered[id] = x
		}
	}
}

func withdrawnFile(overlay, id string) string {
	return path.Join(overlay, "dispatches", "withdrawn", id+".yaml")
}

func dispatchFile(overlay, id string) string {
	return path.Join(overlay, "dispatches", id+".yaml")
}
