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

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// drift finds dispatches that a person edited or deleted, and counts them. Their agents may
// register anyway, because the cluster may have created the Job before. So each dispatch that
// was ever seen counts until its lease has expired, all its agents have registered, or muster
// retired it, even if its file changes or disappears. The file's own digest reveals an edit. A
// deletion is found in what this process remembers, and in the log of what others have pushed
// since the last tick or before this process started.
type drift struct {
	past  *pastLog
	poll  *poller // knows who has registered, and the overlays whose agents are counted and not listed
	clock Clock
	log   *slog.Logger
	dir   string // of the overlays
	// ordered are the dispatches whose agents may still register, by ID, including those in the
	// log up to the commit scanned. retired are the overlays that have retired a dispatch, according to
	// the log that was read last, by its ID.
	ordered map[string]ordered
	retired map[string][]string
	scanned string
	read    time.Time // when the head was the scanned commit
	// rewritten is the last time that the branch was set back or replaced; nil if it was not.
	rewritten *Rewritten
	// commits are muster's last commits to each overlay in the log that was read, the newest first, by
	// the overlay's directory.
	commits map[string][]string
}

func newDrift(cfg Config, poll *poller) *drift {
	return &drift{
		past: newPastLog(cfg), poll: poll, clock: cfg.Clock, log: cfg.Log, dir: cfg.Overlays,
		ordered: map[string]ordered{}, retired: map[string][]string{}, commits: map[string][]string{},
	}
}

// rewrittenFor is how long a rewritten branch is a condition.
const rewrittenFor = 15 * time.Minute

// recentRewrite returns the last time that the branch was rewritten; nil if that is not recent.
func (dr *drift) recentRewrite() *Rewritten {
	if r := dr.rewritten; r != nil && dr.clock.Now().Sub(r.At) < rewrittenFor {
		return r
	}
	return nil
}

// wrote returns muster's last commits to an overlay, without repairs, in the log that was read, the newest
// first.
func (dr *drift) wrote(overlay string) []string { return dr.commits[overlay] }

// ordered is a dispatch that was in git.
type ordered struct {
	plan.Dispatch
	// overlay and file are where it was, in commit.
	overlay, file, commit string
}

// withEdits returns the overlays with edited and deleted dispatches counted; the next repair
// restores them. An overlay is suspended if the original of a dispatch cannot be read. The error is
// that of [drift.readLog], or [branch.ErrMoved] if the head changed while the log was read.
func (dr *drift) withEdits(ctx context.Context, head branch.Head, loaded []fleet.Overlay) ([]fleet.Overlay, error) {
	now := dr.clock.Now().UTC().Truncate(time.Second) // as what is decided: a lease is over for both or for neither
	loaded = slices.Clone(loaded)
	oldest := now.Add(-logAge)
	for i := range loaded {
		for _, e := range loaded[i].Edits() { // one may have been ordered before muster was stopped for days
			if at := e.At.Add(-time.Hour); e.Readable && at.Before(oldest) {
				oldest = at
			}
		}
	}
	dr.past.begin(oldest)
	defer dr.past.end()
	err := dr.readLog(ctx, head, loaded, now)
	if err == nil {
		err = dr.findEdits(ctx, head, loaded, now)
	}
	if err != nil {
		for i := range loaded {
			for _, e := range loaded[i].Edits() {
				dr.noteEdit(e.Dispatch, e.Readable)
			}
		}
		return nil, err
	}
	return loaded, nil
}

// findEdits counts what was edited or deleted, for withEdits.
func (dr *drift) findEdits(ctx context.Context, head branch.Head, loaded []fleet.Overlay, now time.Time) error {
	here := map[string]bool{}
	for i := range loaded {
		dr.noteIntact(head, &loaded[i], here)
	}
	asked := map[string]bool{}
	for i := range loaded {
		o := &loaded[i]
		for _, e := range o.Edits() {
			if !here[e.ID] {
				here[e.ID], asked[e.ID] = true, true
				if err := dr.restore(ctx, head, o, &e, now); err != nil {
					return err
				}
			}
		}
	}
	if err := dr.findDeleted(ctx, head, loaded, here, asked, now); err != nil {
		return err
	}
	dr.retired = map[string][]string{}
	dr.past.forget(asked)
	return nil
}

// noteIntact stores the dispatches of an overlay that are not edited. A dispatch that was larger
// before counts with the larger numbers.
func (dr *drift) noteIntact(head branch.Head, o *fleet.Overlay, here map[string]bool) {
	edited := map[string]bool{}
	for _, e := range o.Edits() {
		edited[e.ID] = true
	}
	for _, d := range o.Dispatches {
		if edited[d.ID] || isCopy(o, d) { // the identifier of a copy is not known yet: see [identities.complete]
			continue
		}
		here[d.ID] = true
		if before, known := dr.ordered[d.ID]; known {
			if more := fleet.Larger(d, before.Dispatch); more.Agents != d.Agents || !more.NotAfter.Equal(d.NotAfter) {
				d = more
				o.Count(d)
			}
		}
		dr.ordered[d.ID] = ordered{Dispatch: d, overlay: o.Path, file: o.FileOf(d), commit: head.Commit}
	}
}

// restore makes the next repair restore an edited dispatch.
func (dr *drift) restore(ctx context.Context, head branch.Head, o *fleet.Overlay, e *fleet.Edit, now time.Time) error {
	before, known := dr.ordered[e.ID]
	a := dr.past.original(ctx, head, e.ID, dr.ordered)
	if errors.Is(a.err, branch.ErrMoved) {
		return a.err
	}
	bound := e.Dispatch
	switch {
	case a.err == nil:
		bound = fleet.Larger(a.dispatch, bound)
		if known {
			bound = fleet.Larger(bound, before.Dispatch)
		}
	case known:
		bound = fleet.Larger(before.Dispatch, bound)
	case !e.Readable:
		bound = plan.Dispatch{} // nothing is known of it
	}
	bound.Withdrawn = e.Withdrawn || known && before.Withdrawn
	if bound.Agents > 0 && !bound.NotAfter.IsZero() {
		o.Count(bound)
	}
	if a.err == nil {
		dr.ordered[e.ID] = ordered{Dispatch: bound, overlay: o.Path, file: a.file, commit: a.commit}
	} else {
		dr.noteEdit(e.Dispatch, e.Readable)
	}
	if !e.Readable {
		return nil // the overlay is suspended already
	}
	if !known { // the log says that it was withdrawn before, or nothing
		now = time.Time{}
	}
	if a.err == nil {
		a.err = o.Restore(a.content, bound, e, now)
	}
	if a.err != nil {
		o.Suspend(fmt.Sprintf("%s was edited, and cannot be restored from the log: %v. Restore the file as it was in the commit that added it; without that commit, delete it when its agents have exited", e.File, a.err))
	}
	return nil
}

// noteEdit counts an edit of a known dispatch even if it is undone before the log can be read: a
// syncer may have created the larger Job.
func (dr *drift) noteEdit(d plan.Dispatch, readable bool) {
	if x, known := dr.ordered[d.ID]; known && readable {
		x.Dispatch = fleet.Larger(x.Dispatch, d)
		dr.ordered[d.ID] = x
	}
}

// findDeleted counts dispatches that are missing from git although muster has not retired them. A
// withdrawn dispatch that a person deletes no longer counts.
func (dr *drift) findDeleted(ctx context.Context, head branch.Head, loaded []fleet.Overlay, here, asked map[string]bool, now time.Time) error {
	var gone []ordered
	for id, x := range dr.ordered {
		switch {
		case here[id]:
		case x.Withdrawn, x.Expired(now), dr.poll.register.All(x.Dispatch):
			delete(dr.ordered, id)
		case owner(loaded, x) == nil: // the overlay was removed, and may be written again
			if len(dr.retired[id]) > 0 {
				delete(dr.ordered, id)
			}
		default:
			gone = append(gone, x)
		}
	}
	slices.SortFunc(gone, func(a, b ordered) int { return a.At.Compare(b.At) })
	for _, x := range gone {
		o := owner(loaded, x)
		if retiredBy(loaded, x, dr.retired[x.ID]) {
			delete(dr.ordered, x.ID)
			dr.poll.inference.Retired(o.Name, x.Dispatch)
			continue
		}
		asked[x.ID] = true
		a := dr.past.original(ctx, head, x.ID, dr.ordered)
		failed := a.err
		if errors.Is(failed, branch.ErrMoved) {
			return failed
		}
		if failed == nil {
			failed = o.Restore(a.content, fleet.Larger(a.dispatch, x.Dispatch), nil, now)
		}
		if failed != nil {
			o.Count(x.Dispatch)
			o.Suspend(fmt.Sprintf("%s is missing, and the reason cannot be determined: %v. Its agents may still start until %s: restore the file, or wait until then",
				x.file, failed, x.NotAfter.Add(plan.Grace).UTC().Format(time.RFC3339)))
		}
	}
	return nil
}

// owner returns the overlay that a dispatch belongs to; nil if the overlay was removed.
func owner(loaded []fleet.Overlay, x ordered) *fleet.Overlay {
	for i := range loaded {
		if loaded[i].Path == x.overlay {
			return &loaded[i]
		}
	}
	for i := range loaded {
		if loaded[i].Carries(x.Dispatch) {
			return &loaded[i]
		}
	}
	return nil
}

// noteOperations remembers what was ordered, and forgets what was retired. If it is not known
// whether a push landed, the log of the next head shows it.
func (dr *drift) noteOperations(head, next branch.Head, done []ledger.Draft) {
	for _, a := range done {
		switch a.Kind {
		case ledger.Dispatch:
			for _, d := range a.Decision.Dispatch {
				dr.ordered[d.ID] = ordered{Dispatch: d, overlay: a.Path, file: dispatchFile(a.Path, d.ID), commit: next.Commit}
			}
		case ledger.Repair:
			dr.noteWithdrawn(a)
			subject, _, _ := strings.Cut(ledger.Text(a), "\n")
			dr.past.noteRepair(a.Path, Repair{At: a.Decision.At(), Subject: subject})
		case ledger.Withdraw, ledger.Retire: // a withdrawn one counts while its file is in git
			for _, r := range a.Retirements() {
				if dr.ordered[r.ID].overlay == a.Path { // not a copy of it
					delete(dr.ordered, r.ID)
				}
			}
		}
	}
	if dr.scanned == head.Commit && len(done) > 0 {
		dr.scanned = next.Commit
	}
}

// noteWithdrawn stores which dispatches a repair has withdrawn.
func (dr *drift) noteWithdrawn(a ledger.Draft) {
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
