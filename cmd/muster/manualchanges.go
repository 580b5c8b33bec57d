package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/manual"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops"
	"muster/gitops/branch"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (p program) cancelCommand() *cobra.Command {
	m := p.manualFlags()
	neverCreated := false
	c := m.addTo(&cobra.Command{
		Use:   "cancel DISPATCH...",
		Short: "Cancel orders of agents",
		Long: `cancel removes the manifests of dispatches, so that no syncer applies them any more,
in a commit for each overlay. Jobs that the cluster has created stay, if their
annotations prevent their deletion as in base/job.yaml. Agents that have not
registered count until their lease expires, because the cluster may have started them:
nothing is ordered twice.

With --never-created they count no longer. Look first: kubectl get jobs -A -l
muster.dev/dispatch=DISPATCH. If a Job exists after all, max may be exceeded.

muster status OVERLAY lists an overlay's dispatches.`,
		Example: `  muster cancel linux-med3brs7 --reason "wrong image"
  muster cancel linux-med3brs7 --never-created --dry-run
  muster cancel --all --reason "stop everything"`,
		Args:              allOr(&m.all, invocation.Arguments(1, invocation.Unlimited)),
		ValidArgsFunction: m.settings.git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Dispatches }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if neverCreated && m.pr {
				return output.Usage(errors.New("--never-created cannot be proposed with --pr: a merged proposal does not say that muster's command made it"))
			}
			for i, rest := 0, args; i == 0 || len(rest) > 0; i++ {
				var left []string
				err := m.run(cmd.Context(), func(_ context.Context, f *fleetState) (manual.Edit, error) {
					var o *fleet.Overlay
					var mine []string
					var err error
					if i == 0 && m.all {
						rest = f.dispatches(neverCreated)
					}
					if o, mine, left, err = f.overlayWith(rest); err != nil || o == nil {
						return manual.Edit{Notes: []string{"There is no dispatch in git to cancel."}}, output.Usage(err)
					}
					e, err := manual.Cancel(o, mine, neverCreated)
					return e, output.Usage(err)
				})
				if rest = left; err != nil || m.declined {
					return err
				}
			}
			return nil
		},
	})
	m.addAll(c, "cancel all dispatches that are in git")
	c.Flags().BoolVar(&neverCreated, "never-created", false, "the cluster has created no Job of them: their agents no longer count")
	return c
}

// dispatches returns the names of the dispatches, without those that are withdrawn if withdrawn is false.
func (f *fleetState) dispatches(withdrawn bool) []string {
	var ids []string
	for i := range f.overlays {
		for _, d := range f.overlays[i].Dispatches {
			if withdrawn || !d.Withdrawn {
				ids = append(ids, d.ID)
			}
		}
	}
	return ids
}

// overlayWith returns the overlay of the first of some dispatches, those of them that are its own, and the others,
// because one commit changes one overlay. Without dispatches the overlay is nil.
func (f *fleetState) overlayWith(ids []string) (found *fleet.Overlay, mine, others []string, err error) {
	var known []string
	of := map[string]*fleet.Overlay{}
	for i := range f.overlays {
		for _, d := range f.overlays[i].Dispatches {
			known, of[d.ID] = append(known, d.ID), &f.overlays[i]
		}
	}
	for _, id := range ids {
		switch o := of[id]; {
		case o == nil:
			slices.Sort(known)
			return nil, nil, nil, fmt.Errorf("there is no dispatch %q in git%s", id, output.Instead(id, slices.Compact(known), "there are"))
		case found == nil || found == o:
			found, mine = o, append(mine, id)
		default:
			others = append(others, id)
		}
	}
	return found, mine, others, nil
}

func (p program) closeBreakerCommand() *cobra.Command {
	m := p.manualFlags()
	return m.addTo(&cobra.Command{
		Use:   "close-breaker OVERLAY...",
		Short: "Order agents again after failed orders",
		Long: `close-breaker closes the circuit breaker of overlays after the cause of their failed
orders was removed, in a commit for each. The rest of their state stays.`,
		Example: `  muster close-breaker linux --reason "the quota is raised"
  muster close-breaker linux --dry-run`,
		Args:              invocation.Arguments(1, invocation.Unlimited),
		ValidArgsFunction: m.settings.git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays }),
		RunE:              func(cmd *cobra.Command, args []string) error { return m.closeBreakers(cmd.Context(), args) },
	})
}

// closeBreakers closes the circuit breakers of overlays, each in a commit of its own, until one is not confirmed.
func (m *manualFlags) closeBreakers(ctx context.Context, overlays []string) error {
	for _, name := range overlays {
		err := m.onOverlays(ctx, []string{name}, func(_ *fleetState, o *fleet.Overlay) (manual.Edit, error) { return manual.CloseBreaker(o) })
		if err != nil || m.declined {
			return err
		}
	}
	return nil
}

func (p program) revertCommand() *cobra.Command {
	m := p.manualFlags()
	return m.addTo(&cobra.Command{
		Use:   "revert COMMIT",
		Short: "Revert a commit, also if others follow it",
		Long: `revert undoes the changes of a commit to policies, templates and the base, line by
line, also if other commits follow. It fails if one of them changed the same lines.
For an order it does the same as muster cancel. It prints what it does not undo, such
as agents that were ordered meanwhile.`,
		Example: `  muster history --act policy,pause -o wide
  muster revert 952902a --reason "the release is out"`,
		Args:              invocation.Arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !commitRule.MatchString(args[0]) {
				return output.Usage(fmt.Errorf("%q is not a commit: give its identifier, or its first digits, at least 4", args[0]))
			}
			return m.run(cmd.Context(), func(ctx context.Context, f *fleetState) (manual.Edit, error) {
				past, err := m.findCommit(ctx, f, args[0])
				if err != nil {
					return manual.Edit{}, err
				}
				e, err := manual.Revert(f.head.Tree, f.overlays, past)
				return e, output.Usage(err)
			})
		},
	})
}

// commitRule matches the ID of a commit, or a prefix.
var commitRule = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

// maxReverted is the maximum number of commits that are searched for the one to revert.
const maxReverted = 10_000

// findCommit finds a commit in the history of the branch, with muster's later orders.
func (m *manualFlags) findCommit(ctx context.Context, f *fleetState, id string) (manual.Past, error) {
	var p manual.Past
	for r, err := range ledger.Read(m.settings.git.Overlays, f.reader.Commits(ctx, f.head.Commit, branch.Limit{Commits: maxReverted})) {
		if err != nil {
			return p, err
		}
		if len(r.Commit.ID) < len(id) || r.Commit.ID[:len(id)] != id {
			if r.Kind == ledger.Dispatch {
				p.Since = append(p.Since, r.Brief())
			}
			continue
		}
		p.Operation = r
		selection := history.Config{Overlays: m.settings.git.Overlays}.Selection()
		selection.Content = func(string) bool { return true }
		edits, err := f.reader.Edits(ctx, []branch.Commit{r.Commit}, nil, selection)
		if err != nil {
			return p, err
		}
		p.Edits = edits[0]
		return p, nil
	}
	return p, output.Usage(fmt.Errorf("none of the last %d commits of the branch begins with %s", maxReverted, id))
}

// durationFlags limit a change to a time. A flag that is not given is nil.
type durationFlags struct{ until, last *string }

func (w *durationFlags) addTo(c *cobra.Command, what string) {
	c.Flags().Var(optional{&w.until, "string"}, "until", what+" until this time in UTC, such as 18:00, \"tomorrow 09:00\" or 2026-11-21T18:00Z")
	c.Flags().Var(optional{&w.last, "duration"}, "for", what+" for this time, such as 90m or 2d")
}

// optional is a flag without a default. Unlike "" and 0, nil is not a value that can be given.
type optional struct {
	value **string
	kind  string
}

func (o optional) Set(text string) error {
	*o.value = &text
	return nil
}

func (o optional) String() string {
	if o.value == nil || *o.value == nil {
		return ""
	}
	return **o.value
}

func (o optional) Type() string { return o.kind }

// end returns the end of the change; zero: it is permanent, because neither flag is given.
func (w *durationFlags) end(now time.Time) (time.Time, error) {
	switch {
	case w.until != nil && w.last != nil:
		return time.Time{}, output.Usage(errors.New("--until and --for are both given: keep one"))
	case w.last != nil:
		return invocation.End("for", *w.last, now)
	case w.until != nil:
		return invocation.End("until", *w.until, now)
	}
	return time.Time{}, nil
}

func (p program) pauseCommand() *cobra.Command {
	m := p.manualFlags()
	var while durationFlags
	c := m.addTo(&cobra.Command{
		Use:   "pause OVERLAY...",
		Short: "Order no agents, until resumed or until a time",
		Long: `pause writes paused: true into the scaling.yaml of overlays, or, with --until or
--for, an override that ends automatically. Running agents continue.`,
		Example: `  muster pause linux windows --reason "the registry is down"
  muster pause linux --for 2h --yes
  muster pause --all --until 18:00`,
		Args: allOr(&m.all, invocation.Arguments(1, invocation.Unlimited)),
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := while.end(p.Clock.Now())
			if err != nil {
				return err
			}
			m.until = until
			return m.onOverlays(cmd.Context(), args, func(f *fleetState, o *fleet.Overlay) (manual.Edit, error) {
				return manual.Pause(f.head.Tree, o, until, f.now)
			})
		},
	})
	m.addAll(c, "pause all overlays")
	while.addTo(c, "pause")
	c.ValidArgsFunction = m.settings.git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays })
	return c
}

func (p program) resumeCommand() *cobra.Command {
	m := p.manualFlags()
	c := m.addTo(&cobra.Command{
		Use:   "resume OVERLAY...",
		Short: "Order agents for a paused overlay again",
		Long: `resume removes what pause wrote into the scaling.yaml of overlays, and closes open
circuit breakers, each in a commit of its own, or with --pr all in one. Resume a queue
that is paused in Buildkite there.`,
		Example: `  muster resume linux windows --reason "the registry is up"
  muster resume --all --yes`,
		Args: allOr(&m.all, invocation.Arguments(1, invocation.Unlimited)),
		RunE: func(cmd *cobra.Command, args []string) error {
			open := map[string]bool{}
			err := m.onOverlays(cmd.Context(), args, func(f *fleetState, o *fleet.Overlay) (manual.Edit, error) {
				e, err := manual.Resume(f.head.Tree, o, f.now)
				if err == nil && m.pr && o.State.Breaker.Open() { // one pull request, whose commit states no operation
					return e.With(manual.CloseBreaker(o))
				}
				open[o.Name] = o.State.Breaker.Open()
				return e, err
			})
			if err != nil || m.declined {
				return err
			}
			names := slices.Sorted(maps.Keys(open))
			return m.closeBreakers(cmd.Context(), slices.DeleteFunc(names, func(name string) bool { return !open[name] }))
		},
	})
	m.addAll(c, "resume all overlays")
	c.ValidArgsFunction = m.settings.git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays })
	return c
}

// addAll adds the flag --all.
func (m *manualFlags) addAll(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&m.all, "all", false, usage)
}

// allOr accepts no argument with --all, and what check accepts without it.
func allOr(all *bool, check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case *all && len(args) > 0:
			return fmt.Errorf("--all is given, and %q too: keep one", args[0])
		case *all:
			return nil
		}
		return check(cmd, args)
	}
}

func (p program) setCommand() *cobra.Command {
	m := p.manualFlags()
	var while durationFlags
	c := m.addTo(&cobra.Command{
		Use:   "set OVERLAY... NAME=VALUE...",
		Short: "Change a policy, permanently or until a time",
		Long: `set changes settings in the scaling.yaml of overlays and keeps every other line. With
--for or --until it writes an override of min, max, buffer or maxPerHour, which ends
automatically. reuse is set permanently, as in reuse=idle:1m,uptime:30m, and
reuse=none removes it. The settings are ` + strings.Join(policy.Settable(), ", ") + "; docs/reference/policy.md explains them.",
		Example: `  muster set linux max=40 --for 2h --reason "release day"
  muster set linux min=2 buffer=5
  muster set linux reuse=idle:1m,uptime:30m`,
		Args: func(cmd *cobra.Command, args []string) error {
			if m.all {
				return invocation.Arguments(1, invocation.Unlimited)(cmd, args)
			}
			return invocation.Arguments(2, invocation.Unlimited)(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return m.settings.git.Completion(1, func(o invocation.CloneNames) []string { return o.Overlays })(cmd, args, begun)
			}
			var names []string
			for _, name := range policy.Settable() {
				names = append(names, name+"=")
			}
			return invocation.WithPrefix(names, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := while.end(p.Clock.Now())
			if err != nil {
				return err
			}
			m.until = until
			values := map[string]string{}
			overlays := args[:max(0, slices.IndexFunc(args, func(arg string) bool { return strings.Contains(arg, "=") }))]
			switch {
			case m.all && len(overlays) > 0:
				return output.Usage(fmt.Errorf("--all is given, and %q too: keep one", overlays[0]))
			case !m.all && len(overlays) == 0:
				overlays = args[:1]
			}
			for _, arg := range args[len(overlays):] {
				name, value, ok := strings.Cut(arg, "=")
				if !ok || name == "" || value == "" {
					return output.Usage(fmt.Errorf("%q is not NAME=VALUE, as in max=40", arg))
				}
				if _, twice := values[name]; twice {
					return output.Usage(fmt.Errorf("%s is set twice", name))
				}
				values[name] = value
			}
			return m.onOverlays(cmd.Context(), overlays, func(f *fleetState, o *fleet.Overlay) (manual.Edit, error) {
				return manual.Set(f.head.Tree, o, values, until, f.now)
			})
		},
	})
	m.addAll(c, "change all overlays")
	while.addTo(c, "in force")
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var missing *pflag.NotExistError
		if errors.As(err, &missing) && slices.Contains(policy.Settable(), missing.GetSpecifiedName()) {
			return output.Usage(fmt.Errorf("%w; muster %s", err, settingsAsArguments(p.Args)))
		}
		return cmd.Parent().FlagErrorFunc()(cmd, err)
	})
	return c
}

// settingsAsArguments writes flags with the names of settings, such as --max 5 or --max=5, as max=5 after the others.
func settingsAsArguments(args []string) string {
	var words, changed []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		setting := strings.TrimPrefix(name, "--")
		switch {
		case setting != name && slices.Contains(policy.Settable(), setting):
			if name = setting; !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
				i++
				value = args[i]
			}
			changed = append(changed, name+"="+invocation.ShellWord(cmp.Or(value, "VALUE")))
		case joined:
			words = append(words, name+"="+invocation.ShellWord(value))
		default:
			words = append(words, invocation.ShellWord(name))
		}
	}
	return strings.Join(append(words, changed...), " ")
}

// onOverlays runs an edit of overlays, in one commit: of those that the arguments name, or without arguments of all,
// without those that cannot be edited. The edit's error is a usage error.
func (m *manualFlags) onOverlays(ctx context.Context, args []string, edit func(*fleetState, *fleet.Overlay) (manual.Edit, error)) error {
	return m.run(ctx, func(_ context.Context, f *fleetState) (manual.Edit, error) {
		known := invocation.OverlayNames(f.overlays)
		names, err := output.ChooseOverlays(args, known, m.settings.git.Overlays)
		if err != nil {
			return manual.Edit{}, err
		}
		var edits []manual.Edit
		for _, name := range names {
			e, err := edit(f, &f.overlays[slices.Index(known, name)])
			switch {
			case err != nil && len(args) > 0:
				return e, output.Usage(err)
			case err != nil:
				e = manual.Edit{Notes: []string{"It is not changed: " + err.Error()}}
			}
			edits = append(edits, e)
		}
		return manual.Join(names, edits), nil
	})
}

// manualFlags are the shared flags of the commands that change the fleet repository: pause,
// resume, set, cancel, close-breaker and revert.
type manualFlags struct {
	settings    *settings
	reason      string
	yes, dryRun bool
	pr, all     bool
	declined    bool                        // the person did not confirm a change
	until       time.Time                   // the end of the change; zero if it is permanent
	pending     branch.Pending[manual.Edit] // the pushes whose results are unknown
}

func (p program) manualFlags() *manualFlags {
	return &manualFlags{settings: &settings{program: p, git: invocation.Repository{Program: p.Program}}}
}

// addTo adds the flags to a command, and returns it.
func (m *manualFlags) addTo(c *cobra.Command) *cobra.Command {
	git := &m.settings.git
	git.AddReading(c)
	m.settings.git.AddLog(c)
	m.settings.addNotify(c)
	f := c.Flags()
	invocation.AuthorVar(f, &git.Author, invocation.Person{}, "author and committer of the commit, as \"Name <address>\" (default git's user.name and user.email)")
	git.AddSigning(c)
	f.StringVarP(&m.reason, "reason", "m", "", "reason for the change, recorded in the commit")
	f.BoolVar(&m.pr, "pr", false, "push to a new branch and open a pull request: on GitHub with the App, GH_TOKEN or GITHUB_TOKEN")
	f.BoolVarP(&m.yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&m.dryRun, "dry-run", false, "show the commit and exit")
	return c
}

// fleetState is the state of the fleet at the head.
type fleetState struct {
	head     branch.Head
	overlays []fleet.Overlay
	now      time.Time
	reader   *gitops.Repository
}

// run computes an edit of the fleet, shows it, and pushes it after confirmation.
func (m *manualFlags) run(ctx context.Context, edit func(context.Context, *fleetState) (manual.Edit, error)) error {
	repository, err := m.open()
	if err != nil {
		return err
	}
	defer m.settings.startNotifier(ctx)()
	err = m.change(ctx, repository, edit)
	switch {
	case err == nil || m.pr:
		return err
	case m.pending.Len() == 0:
		return withRemedy(err)
	case ctx.Err() != nil:
		return invocation.Interruption{Err: fmt.Errorf("interrupted during the push, which may have succeeded: muster history shows it (%w)", err)}
	}
	return fmt.Errorf("%w (the change may be in the branch: check muster history before you run the command again)", err)
}

// change pushes an edit after confirmation. After a conflict it computes the edit again.
func (m *manualFlags) change(
	ctx context.Context, repository *gitops.Repository, edit func(context.Context, *fleetState) (manual.Edit, error),
) error {
	p := m.settings.program
	var confirmed manual.Edit
	const tries = 16 // a continuous writer causes several conflicts
	for try := 1; ; try++ {
		if err := generator.BackOff(ctx, p.Clock, try-1); err != nil {
			return err
		}
		at := &fleetState{now: p.Clock.Now(), reader: repository}
		e, landed, err := m.prepare(ctx, at, edit)
		if err != nil {
			return err
		}
		switch {
		case landed != nil:
			return m.pushed(ctx, landed.Before, landed.After, landed.Value)
		case try > 1 && !e.Same(confirmed):
			return fmt.Errorf("another writer pushed, and the change would be a different one now: run the command again (%w)", branch.ErrMoved)
		case try == 1:
			if proceed, err := m.confirm(ctx, at, e); !proceed {
				return err
			}
			if now := p.Clock.Now(); !m.until.IsZero() && !now.Before(m.until) { // the confirmation took long
				return output.Usage(fmt.Errorf("nothing was pushed: the change would have ended at %s, and it is %s", m.until.Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
			}
			if confirmed = e; m.pr {
				return m.propose(ctx, at, e)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		message := e.Message(at.head.Commit, p.Build.String(), m.reason)
		next, err := repository.Push(ctx, at.head, []branch.Draft{{Message: message, At: at.now, Changes: e.Changes}})
		if err == nil {
			return m.pushed(ctx, at.head.Commit, next.Commit, e)
		}
		again := errors.Is(err, branch.ErrMoved)
		if u := (*branch.Unsettled)(nil); errors.As(err, &u) {
			again = again || m.pending.Len() == 0 // the next try finds it, or pushes the same
			m.pending.Add(u, e)
		}
		if !again || try == tries || ctx.Err() != nil && m.pending.Len() > 0 {
			return err
		}
	}
}

// pushed reports a push that has landed. It returns an interruption if a signal arrived meanwhile.
func (m *manualFlags) pushed(ctx context.Context, before, after string, e manual.Edit) error {
	m.pending = branch.Pending[manual.Edit]{}
	m.settings.landed(before, after, e.Changes)
	if ctx.Err() != nil {
		return invocation.Interruption{Err: fmt.Errorf("interrupted, but the change is in the branch: pushed %.7s to %s", after, m.settings.git.Branch)}
	}
	fmt.Fprintf(m.settings.program.Stdout, "pushed %.7s to %s\n", after, m.settings.git.Branch)
	return nil
}

// prepare reads the head and computes the edit. It returns a pending push instead if the branch contains it.
func (m *manualFlags) prepare(
	ctx context.Context, at *fleetState, edit func(context.Context, *fleetState) (manual.Edit, error),
) (e manual.Edit, landed *branch.PendingPush[manual.Edit], err error) {
	m.settings.program.Progress.Doing("reading " + at.reader.String())
	defer m.settings.program.Progress.Done()
	if at.head, err = at.reader.Head(ctx); err != nil {
		return e, nil, err
	}
	pushes, err := m.pending.Settle(ctx, at.reader, at.head.Commit)
	switch {
	case len(pushes) > 0:
		return e, &pushes[0], nil
	case err != nil:
		return e, nil, err
	}
	if at.overlays, err = m.settings.git.Load(ctx, at.head.Tree); err != nil {
		return e, nil, err
	}
	e, err = edit(ctx, at)
	return e, nil, err
}

// confirm shows an edit, and prompts for confirmation on a terminal. It returns false if the edit is
// not pushed.
func (m *manualFlags) confirm(ctx context.Context, at *fleetState, e manual.Edit) (bool, error) {
	p := m.settings.program
	if len(e.Changes) == 0 {
		for _, note := range e.Notes {
			fmt.Fprintln(p.Stdout, note)
		}
		fmt.Fprintln(p.Stdout, "nothing to do")
		return false, nil
	}
	fmt.Fprintln(p.Stdout, e.Subject)
	for _, line := range e.Says {
		fmt.Fprintln(p.Stdout, "  "+line)
	}
	fmt.Fprintln(p.Stdout)
	for _, c := range e.Changes {
		before, err := fs.ReadFile(at.head.Tree, c.Path)
		from, to := "a/"+c.Path, "b/"+c.Path
		if err != nil {
			from = "/dev/null"
		}
		if c.Content == nil {
			to = "/dev/null"
		}
		if c.Content == nil && path.Base(path.Dir(c.Path)) == "dispatches" { // a whole manifest
			fmt.Fprintf(p.Stdout, "diff %s %s\n", from, to)
			continue
		}
		_, _ = p.Stdout.Write(diff.Diff(from, before, to, c.Content))
	}
	for i, note := range e.Notes {
		if i == 0 {
			fmt.Fprintln(p.Stdout)
		}
		fmt.Fprintln(p.Stdout, note)
	}
	if m.dryRun || m.yes {
		return m.yes && !m.dryRun, nil
	}
	if !p.Terminal {
		return false, output.Usage(errors.New("no terminal to confirm in: give --yes to push it, or --dry-run to show it"))
	}
	git := &m.settings.git
	to := git.Branch
	if m.pr {
		to = "a new branch, for a pull request into " + git.Branch + ","
	}
	fmt.Fprintf(p.Stdout, "\nPush this to %s of %s as %s? [y/N] ", to, at.reader, git.Author)
	answer, _, err := p.ReadLine(ctx)
	if err != nil {
		return false, err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		fmt.Fprintln(p.Stdout, "not pushed")
		m.declined = true
		return false, nil
	}
	return true, nil
}

// open opens the repository, with the author of git's configuration.
func (m *manualFlags) open() (*gitops.Repository, error) {
	git := &m.settings.git
	log, err := m.settings.git.Logger()
	if err != nil {
		return nil, err
	}
	top := ""
	if git.Repo == "" {
		var up invocation.Upstream
		if top, up, err = m.settings.program.UpstreamOf(git.BranchName()); err != nil {
			return nil, err
		}
		if git.Repo = up.Push; git.Repo == "" {
			return nil, output.Usage(fmt.Errorf("which repository? %s has no remote that the branch follows: give --repo", top))
		}
	}
	if git.Author == (invocation.Person{}) {
		ident, _ := m.settings.program.DiscoverOutput(top, "-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT")
		author := identRule.FindStringSubmatch(ident)
		if author == nil {
			return nil, output.Usage(errors.New("which author? set git's user.name and user.email, or give --commit-author \"Name <address>\""))
		}
		git.Author = invocation.Person{Name: author[1], Email: author[2]}
	}
	app, err := git.GitHubApp()
	if err != nil {
		return nil, err
	}
	repository, err := git.Repository(log, app, git.Signer())
	if err != nil {
		return nil, err
	}
	return repository, m.settings.makeNotifier(log, false)
}

// identRule matches GIT_AUTHOR_IDENT of git-var(1).
var identRule = regexp.MustCompile(`^(.+) <([^<>]+)> [0-9]+ [+-][0-9]+$`)

// propose pushes a commit to a new branch, and opens a pull request if the repository is on
// GitHub.
func (m *manualFlags) propose(ctx context.Context, at *fleetState, e manual.Edit) error {
	p := m.settings.program
	git := &m.settings.git
	proposed := e.ProposedMessage(m.reason)
	sum := sha256.Sum256([]byte(proposed + at.head.Commit + at.now.String()))
	name := fmt.Sprintf("muster/%s-%x", strings.Trim(plan.Slug(e.Subject), "-"), sum[:4])
	commit, message, err := at.reader.Propose(ctx, at.head, []branch.Draft{{Message: proposed, At: at.now, Changes: e.Changes}}, name)
	if err != nil && ctx.Err() != nil {
		return invocation.Interruption{Err: fmt.Errorf("interrupted during the push to %s, which may have succeeded: delete that branch before you run it again (%w)", name, err)}
	}
	if err != nil {
		return err
	}
	missing := invocation.Interruption{Err: fmt.Errorf("interrupted: the commit is in the branch %s, and its pull request may be missing: open one into %s there", name, git.Branch)}
	if ctx.Err() != nil {
		return missing
	}
	fmt.Fprintf(p.Stdout, "pushed %.7s to %s\n", commit, name)
	if message != "" {
		fmt.Fprintln(p.Stdout, message)
	}
	pulls, err := git.Pulls()
	switch {
	case err != nil:
		return err
	case pulls == nil:
		fmt.Fprintf(p.Stdout, "open a pull request of %s into %s there (on GitHub muster does, with GITHUB_TOKEN or the App)\n", name, git.Branch)
		return nil
	}
	title, text := e.Proposal(m.reason)
	pull, err := pulls.Open(ctx, name, git.Branch, title, text)
	if err != nil && ctx.Err() != nil {
		return missing
	}
	if err != nil {
		return fmt.Errorf("%w (the commit is in the branch %s)", err, name)
	}
	fmt.Fprintln(p.Stdout, pull.URL)
	return nil
}

// withRemedy adds the remedy to a refused push.
func withRemedy(err error) error {
	var refused *branch.Refused
	if errors.As(err, &refused) {
		return fmt.Errorf("%w (if the branch does not accept your pushes: --pr pushes a branch and opens a pull request)", err)
	}
	return err
}
