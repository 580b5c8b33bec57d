package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"muster/generator/history"
	"muster/gitops/branch"
)

const (
	// followedFirst are the rows that --follow begins with.
	followedFirst = 10
	// mostFollowed bounds the commits of a branch that are remembered, to know where the
	// last look ended.
	mostFollowed = 5000
)

// follower shows what is committed, as it comes.
type follower struct {
	*historyFlags
	out     historyOutput
	printer historyPrinter
	seen    map[string]bool
	order   []string // of seen, the oldest first
	head    string
	oldest  time.Time // what is older belongs to the past, and is not shown
}

// runFollow shows the last rows and then what is committed, until the context ends.
// What fails after the first look is reported, and the next look may go well.
func (h *historyFlags) runFollow(ctx context.Context) error {
	p := h.settings.program
	f := &follower{historyFlags: h, out: newHistoryOutput(p.output(), p.doneOnTerminal), seen: map[string]bool{}}
	f.printer = h.printer(f.out)
	for {
		err := f.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && f.head == "":
			return err
		case err != nil:
			fmt.Fprintln(p.stderr, "muster: "+err.Error())
		}
		if p.clock.Sleep(ctx, h.interval) != nil {
			return nil
		}
	}
}

// look prints what has come since the last one.
func (f *follower) look(ctx context.Context) error {
	f.settings.program.progress.Doing("reading the history")
	defer f.settings.program.progress.Done()
	rows, commits, err := f.news(ctx)
	if err != nil {
		return err
	}
	first := f.head == ""
	if first && len(rows) > 0 {
		f.oldest = rows[len(rows)-1].At
	}
	if len(commits) > 0 {
		f.head = commits[0]
	}
	for _, id := range slices.Backward(commits) {
		f.remember(id)
	}
	if first && f.filter.Since.IsZero() {
		rows = rows[:min(len(rows), max(followedFirst, f.limit))]
	}
	for _, row := range slices.Backward(rows) {
		if err := f.printer.row(row); err != nil {
			return err
		}
	}
	if err := f.printer.pause(); err != nil {
		return err
	}
	return f.out.flush()
}

// news reads what was not read before, and returns the rows and the commits, the
// newest first.
func (f *follower) news(ctx context.Context) (rows []history.Row, commits []string, err error) {
	if f.head != "" {
		for c, err := range f.repository.Commits(ctx, "", branch.Limit{Commits: 1}) {
			if err != nil || c.ID == f.head {
				return nil, nil, err
			}
		}
	}
	var count history.Count
	reading, stop := context.WithCancel(ctx)
	defer stop()
	for row, err := range f.rows(ctx, f.fresh(readAhead(f.repository.Commits(reading, "", branch.Limit{}), stop), &commits), &count) {
		if err != nil {
			return nil, nil, err
		}
		if f.filter.Wants(row) {
			rows = append(rows, row)
		}
		if f.head == "" && f.filter.Since.IsZero() && len(rows) >= max(followedFirst, f.limit) {
			break
		}
	}
	return rows, commits, nil
}

// fresh leaves out the commits that were seen before, and all that come before them.
// Of those that are new it notes the identifiers, the head first.
func (f *follower) fresh(all iter.Seq2[branch.Commit, error], ids *[]string) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		open, met, first := map[string]bool{}, f.head == "", true
		for c, err := range all {
			if err != nil {
				yield(c, err)
				return
			}
			delete(open, c.ID)
			old := f.seen[c.ID] || c.At.Before(f.oldest)
			if !old || first {
				*ids = append(*ids, c.ID)
			}
			met = met || c.ID == f.head
			if first && old {
				break // the branch was set back
			}
			first = false
			if !old {
				for _, p := range c.Parents {
					met = met || p == f.head
					if !f.seen[p] {
						open[p] = true
					}
				}
				if !yield(c, nil) {
					return
				}
			}
			if len(open) == 0 {
				break
			}
		}
		if !met {
			fmt.Fprintf(f.settings.program.stderr, "muster: the branch was rewritten: commit %.12s is no longer in it\n", f.head)
		}
	}
}

func (f *follower) remember(id string) {
	if f.seen[id] {
		return
	}
	f.seen[id] = true
	if f.order = append(f.order, id); len(f.order) > mostFollowed {
		delete(f.seen, f.order[0])
		f.order = f.order[1:]
	}
}
