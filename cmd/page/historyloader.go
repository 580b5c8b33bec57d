package page

import (
	"context"
	"errors"
	"iter"
	"time"

	"muster/generator"
	audit "muster/generator/history"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Commits is a branch's history; [muster/generator.History] has it.
type Commits interface {
	Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error]
}

const (
	// maxCommits is the maximum number of commits that are read, and maxEntries that of their
	// operations in the timeline.
	maxCommits = 2000
	maxEntries = 2000
	// againAfter is the time from a failed read to its retry.
	againAfter = time.Minute
)

// loader reads git's history into the page's: after the first successful tick, and again when
// another writer has pushed. It reads in its own goroutine, one at a time, so that no tick
// waits for it.
type loader struct {
	commits  Commits
	history  *history
	ctx      context.Context //nolint:containedctx // of the page's life: reads outlive their tick
	onChange func()
	busy     chan struct{} // holds a value during a read

	head string // the branch's after the last tick

	// The holder of busy owns the following fields.
	scanned string    // head of the history that was read; empty: nothing was read
	failed  time.Time // the last failed read
}

// tick starts a read if necessary.
func (l *loader) tick(r generator.Report) {
	head := r.Result.Head.Commit
	if l.commits == nil || r.Err != nil || head == "" {
		return
	}
	before := l.head
	l.head = head
	select {
	case l.busy <- struct{}{}:
	default:
		return // a read is in progress
	}
	own := len(r.Result.Operations) == 1 && r.Result.Conflicts == 0 && l.scanned == before && !r.DryRun
	if own && l.scanned != "" { // no other writer has pushed, and [history.addTick] has the commit
		l.scanned = head
	}
	if head == l.scanned || r.Ended.Sub(l.failed) < againAfter {
		<-l.busy
		return
	}
	go l.read(head, r.Ended)
}

// read reads from a commit back to the start of the previous read.
func (l *loader) read(head string, now time.Time) {
	defer func() { <-l.busy }()
	var operations, old []ledger.Operation
	var oldest, from time.Time
	first, since := l.scanned == "", now.Add(-keptFor)
	limit := branch.Limit{Commits: maxCommits, Known: l.scanned}
	stop := ledger.Stop{Since: since, Known: l.scanned}
	if first {
		stop.Since = now.Add(-audit.LimitedPeriod)
	}
	for r, err := range stop.Apply(ledger.Read(l.history.overlays, l.commits.Commits(l.ctx, head, limit))) {
		if errors.Is(err, ledger.ErrCut) {
			from = oldest
			break
		}
		if err != nil {
			l.failed = now
			l.history.mu.Lock()
			l.history.problem = err.Error()
			l.history.mu.Unlock()
			return
		}
		oldest = r.At
		if first && r.ByMuster() && r.At.Before(since) && r.Decided.Before(since) {
			if !r.Decided.Before(stop.Since) {
				old = append(old, ledger.Operation{Kind: r.Kind, Overlay: r.Overlay, Decided: r.Decided, Limit: r.Limit, Orders: r.Orders})
			}
			continue
		}
		if r.ByMuster() && len(operations) < maxEntries {
			if r.Message = ""; len(operations) >= maxPast {
				r.Text = ""
			}
			operations = append(operations, r)
		}
	}
	if first {
		l.history.addOld(old, from)
	}
	l.history.addCommits(operations, first)
	l.scanned = head
	l.onChange()
}

// wait returns when no read is in progress, and prevents further ones.
func (l *loader) wait() { l.busy <- struct{}{} }
