package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/finding"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/gitops"
	"muster/gitops/branch"

	"github.com/spf13/cobra"
)

// historyFlags contains the flags of muster history.
type historyFlags struct {
	settings     *settings
	since, until string
	operations   []string
	by, output   string
	limit        int
	follow       bool

	filter  history.Filter
	out     output.HistoryOutput
	printer output.HistoryPrinter
	// repository is opened once.
	repository *gitops.Repository
}

func (p program) historyCommand() *cobra.Command {
	h := &historyFlags{settings: &settings{program: p, git: invocation.Repository{Program: p.Program}}}
	git := &h.settings.git
	c := &cobra.Command{
		Use:   "history [OVERLAY...]",
		Short: "Show operations, their reasons and outcomes, from git alone",
		Long: `history prints the audit log, the newest entry first: each commit that muster made
with its reason and, for a dispatch, the outcome of its agents; and what people
changed in between: policies setting by setting, templates, pauses, reverts, and
muster's own files. It reads only commits: it needs no Buildkite token, and no flags
in a clone of the repository. Times are in UTC.

OUTCOME is what later commits record. A retirement records how many agents of the
dispatch have registered, and how many had a job by then; others may run one later.
For a commit by muster that cannot be parsed, for example because its message was
edited, ACT says damaged.

--since and --until take a time, as in 2026-11-21T02:15Z, 2026-11-21, 09:40 (the last
time that it was 09:40) or "yesterday 09:40", or a duration ago, as in 90m or 7d.`,
		Example: `  muster history --since 24h
  muster history default --act policy,pause,resume,revert
  muster history --since 7d --by day
  muster history --follow`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := h.prepare(cmd.Context(), args); err != nil {
				return err
			}
			if h.follow {
				return h.runFollow(cmd.Context())
			}
			return h.run(cmd.Context())
		},
	}
	git.AddReading(c)
	h.settings.git.AddLog(c)
	f := c.Flags()
	f.StringVar(&h.since, "since", "", "omit commits older than this time or age, such as 24h or 7d")
	f.StringVar(&h.until, "until", "", "omit commits at or after this time or age")
	f.StringSliceVar(&h.operations, "act", nil, "operations to show, such as dispatch,retire (default all)")
	f.StringVar(&h.filter.Author, "author", "", "only show commits of this author: part of a name or an address")
	invocation.NumberVar(f, &h.limit, "limit", "n", 0, 0, math.MaxInt, "maximum number of rows; 0 shows all")
	f.StringVar(&h.by, "by", "", "summarize by day, hour or overlay, with -o table, wide or json")
	f.StringVarP(&h.output, "output", "o", "table", "table, wide, json, yaml or csv")
	f.BoolVarP(&h.follow, "follow", "f", false, "show the last rows, oldest first, then new commits as they arrive")
	invocation.OneOf(c, "output", "table", "wide", "json", "yaml", "csv")
	invocation.OneOf(c, "by", string(history.Day), string(history.Hour), string(history.Overlay))
	invocation.OneOf(c, "act", operationNames()...)
	return c
}

func operationNames() []string {
	return invocation.Map(ledger.AllKinds(), func(o ledger.Kind) string { return string(o) })
}

// prepare validates the flags, and opens the repository.
func (h *historyFlags) prepare(ctx context.Context, args []string) error {
	var err error
	if h.filter.Since, err = h.settings.program.Moment("since", h.since); err != nil {
		return err
	}
	if h.filter.Until, err = h.settings.program.Moment("until", h.until); err != nil {
		return err
	}
	for _, name := range h.operations {
		if !slices.Contains(operationNames(), name) {
			return output.Usage(fmt.Errorf("--act: there is no operation %q; %s", name, finding.DidYouMean(name, operationNames(), "there are "+strings.Join(operationNames(), ", "))))
		}
		h.filter.Operations = append(h.filter.Operations, ledger.Kind(name))
	}
	h.filter.Overlays = namesOf(args, h.settings.git.Overlays)
	h.out = output.NewHistoryOutput(h.settings.program.Output(), h.settings.program.DoneOnTerminal)
	h.printer = output.NewHistoryPrinter(h.output, h.by, h.out)
	by := history.By(h.by)
	switch {
	case h.printer == nil && h.by != "":
		return output.Usage(fmt.Errorf("--by with --output %q: use table, wide or json", h.output))
	case h.printer == nil:
		return output.Usage(fmt.Errorf("--output %q: use table, wide, json, yaml or csv", h.output))
	case by != "" && by != history.Day && by != history.Hour && by != history.Overlay:
		return output.Usage(fmt.Errorf("--by %q: use day, hour or overlay", h.by))
	case h.follow && (h.by != "" || h.until != ""):
		return output.Usage(fmt.Errorf("--follow cannot be combined with --by or --until"))
	}
	from := invocation.Nearest
	if h.follow {
		from = invocation.InUpstream
	}
	h.repository, err = h.settings.git.Open(ctx, from)
	return err
}

// namesOf returns the names of overlays; the arguments are names or directories.
func namesOf(args []string, overlays string) []string {
	top := path.Clean(overlays) + "/"
	return invocation.Map(args, func(arg string) string { return strings.TrimPrefix(path.Clean(arg), top) })
}

// rows returns rows for commits, which must be newest first.
func (h *historyFlags) rows(ctx context.Context, commits iter.Seq2[branch.Commit, error], count *history.Count) iter.Seq2[ledger.Operation, error] {
	c := history.Config{Overlays: h.settings.git.Overlays, Now: h.settings.program.Clock.Now(), Since: h.filter.Since, Count: count}
	if h.filter.People() {
		c.Edits = func(commits []branch.Commit, trees map[string]string) ([]branch.Edits, error) {
			return h.repository.Edits(ctx, commits, trees, c.Selection())
		}
	}
	return c.Rows(ledger.Read(c.Overlays, commits))
}

// run prints the history once.
func (h *historyFlags) run(ctx context.Context) error {
	p := h.settings.program
	p.Progress.Doing("reading the history")
	defer p.Progress.Done()
	var count history.Count
	printed := 0
	known := map[string]bool{}
	for row, err := range h.rows(ctx, invocation.ReadingAhead{Repository: h.repository}.Commits(ctx, "", branch.Limit{}), &count) {
		if err != nil {
			return err
		}
		if len(h.filter.Overlays) > 0 && len(known) < maxKnown {
			known[row.Overlay] = true
		}
		if count.Commits%1000 == 0 {
			p.Progress.Doing("reading the history: " + commits(count.Commits))
		}
		if !h.filter.Wants(row) {
			continue
		}
		if err := h.printer.Row(row); err != nil {
			return err
		}
		if printed++; printed == h.limit {
			break
		}
	}
	p.Progress.Done()
	if printed == 0 || printed != h.limit { // else there may be more that was not read
		delete(known, "")
		if err := overlaysWithin(h.filter.Overlays, slices.Sorted(maps.Keys(known))); err != nil {
			return err
		}
	}
	if err := h.printer.End(count); err != nil {
		return err
	}
	if err := h.out.Flush(); err != nil {
		return err
	}
	h.report(count, printed)
	return nil
}

// maxKnown is the maximum number of names for suggestions.
const maxKnown = 10_000

// overlaysWithin returns a usage error for the first name that is not among those of a history.
func overlaysWithin(names, known []string) error {
	for _, name := range names {
		if !slices.Contains(known, name) {
			return output.Usage(fmt.Errorf("the history that was read has no overlay %q%s", name, output.Instead(name, known, "it has")))
		}
	}
	return nil
}

// report prints notes about the history on standard error.
func (h *historyFlags) report(count history.Count, printed int) {
	say := h.settings.program.PrintMessage
	if printed == 0 && h.by == "" {
		say("nothing to show in %s", commits(count.Commits))
	}
	if count.Malformed > 0 {
		say("%s by muster cannot be read: muster history --act damaged", commits(count.Malformed))
	}
	if count.Unknown > 0 {
		say("%s cannot be compared with the parent: muster history --act unknown", commits(count.Unknown))
	}
	h.settings.program.printShallow(count.Cut)
}

// printShallow prints that the history ends at a commit, unless it is empty.
func (p program) printShallow(commit string) {
	if commit != "" {
		p.PrintMessage("the history ends at %.12s, whose parents this repository does not have: it is a shallow clone (git fetch --unshallow)", commit)
	}
}

// commits returns a number of commits in words.
func commits(n int) string {
	if n == 1 {
		return "1 commit"
	}
	return fmt.Sprintf("%d commits", n)
}

// followedFirst is the number of rows that --follow begins with.
const followedFirst = 10

// follower prints new commits.
type follower struct {
	*historyFlags
	seen   map[string]bool // the commits of earlier polls
	head   string
	oldest time.Time // older commits are not shown
}

// runFollow shows the last rows and then new commits, until the context ends. An error of the
// first poll ends it; later errors are printed, and the next poll retries.
func (h *historyFlags) runFollow(ctx context.Context) error {
	p := h.settings.program
	f := &follower{historyFlags: h, seen: map[string]bool{}}
	for {
		err := f.printNew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && f.head == "":
			return err
		case err != nil:
			p.PrintMessage("%v", err)
		}
		if p.Clock.Sleep(ctx, pollInterval) != nil {
			return nil
		}
	}
}

// printNew prints the rows since the previous poll.
func (f *follower) printNew(ctx context.Context) error {
	f.settings.program.Progress.Doing("reading the history")
	defer f.settings.program.Progress.Done()
	rows, commits, err := f.newRows(ctx)
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
	for _, id := range commits {
		f.seen[id] = true
	}
	for _, row := range slices.Backward(rows) {
		if err := f.printer.Row(row); err != nil {
			return err
		}
	}
	if p, ok := f.printer.(output.Flusher); ok {
		if err := p.Flush(); err != nil {
			return err
		}
	}
	return f.out.Flush()
}

// newRows returns the rows and the commits since the previous poll, newest first.
func (f *follower) newRows(ctx context.Context) (rows []ledger.Operation, commits []string, err error) {
	if f.head != "" {
		for c, err := range f.repository.Commits(ctx, "", branch.Limit{Commits: 1}) {
			if err != nil || c.ID == f.head {
				return nil, nil, err
			}
		}
	}
	var count history.Count
	all := invocation.ReadingAhead{Repository: f.repository}.Commits(ctx, "", branch.Limit{})
	for row, err := range f.rows(ctx, f.newCommits(all, &commits), &count) {
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

// newCommits yields the commits that no earlier poll has read, and adds their IDs to ids after
// that of the head.
func (f *follower) newCommits(all iter.Seq2[branch.Commit, error], ids *[]string) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		open, met := map[string]bool{}, f.head == ""
		for c, err := range all {
			if err != nil {
				yield(c, err)
				return
			}
			delete(open, c.ID)
			old := f.seen[c.ID] || c.At.Before(f.oldest)
			if !old || len(*ids) == 0 {
				*ids = append(*ids, c.ID)
			}
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
			f.settings.program.PrintMessage("the branch was rewritten: commit %.12s is no longer in it", f.head)
		}
	}
}
