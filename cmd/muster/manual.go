package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/cmd/muster/output"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/manual"
	"muster/generator/policy"
	"muster/gitops/branch"

	"github.com/spf13/cobra"
)

func (p program) cancelCommand() *cobra.Command {
	m := p.manualFlags()
	return m.addTo(&cobra.Command{
		Use:   "cancel DISPATCH...",
		Short: "Take orders of agents back",
		Long: `cancel moves the manifests of dispatches to a directory that no syncer applies. Jobs
that the cluster has created stay, if their annotations prevent their deletion as in
base/job.yaml. Agents that have not registered count until their lease expires,
because the cluster may have started them: nothing is ordered twice.

muster status OVERLAY lists an overlay's dispatches.`,
		Example:           `  muster cancel linux-med3brs7 --reason "wrong image"`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: m.settings.git.completion(anyNumber, func(o offered) []string { return o.dispatches }),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.run(cmd.Context(), func(_ context.Context, f *fleetNow) (manual.Edit, error) {
				o, err := f.holder(args)
				if err != nil {
					return manual.Edit{}, output.Usage(err)
				}
				e, err := manual.Cancel(o, args, f.now)
				return e, output.Usage(err)
			})
		},
	})
}

// holder is the overlay that has the dispatches; one commit is about one overlay.
func (f *fleetNow) holder(ids []string) (*fleet.Overlay, error) {
	var found *fleet.Overlay
	var known []string
	for _, id := range ids {
		there := false
		for i := range f.overlays {
			o := &f.overlays[i]
			for _, d := range o.Dispatches {
				if known = append(known, d.ID); d.ID != id {
					continue
				}
				if there = true; found != nil && found != o {
					return nil, errors.New("the dispatches are of several overlays: call it for each")
				}
				found = o
			}
		}
		if !there {
			slices.Sort(known)
			return nil, fmt.Errorf("there is no dispatch %q in git%s", id, output.Instead(id, slices.Compact(known), "there are"))
		}
	}
	return found, nil
}

func (p program) closeBreakerCommand() *cobra.Command {
	return p.overlayCommand(&cobra.Command{
		Use:   "close-breaker OVERLAY",
		Short: "Order agents again after orders failed, without waiting for a probe",
		Long: `close-breaker closes the circuit breaker of an overlay, for when what made its
orders fail has gone. What else muster remembers of the overlay stays.`,
	}, "", func(_ *fleetNow, o *fleet.Overlay, _ time.Time) (manual.Edit, error) { return manual.CloseBreaker(o) })
}

func (p program) revertCommand() *cobra.Command {
	m := p.manualFlags()
	return m.addTo(&cobra.Command{
		Use:   "revert COMMIT",
		Short: "Take a commit back, with commits in between",
		Long: `revert undoes what a commit changed in policies, templates and the base, line by
line, whatever was committed since; it leaves lines that others have changed again
to you. For an order it does the same as muster cancel. It prints what it does not
undo, such as agents that were ordered meanwhile.`,
		Example: `  muster history --act policy,pause -o wide
  muster revert 952902a --reason "the release is out"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !commitRule.MatchString(args[0]) {
				return output.Usage(fmt.Errorf("%q is not a commit: give its identifier, or its first digits, at least 4", args[0]))
			}
			return m.run(cmd.Context(), func(ctx context.Context, f *fleetNow) (manual.Edit, error) {
				past, err := m.past(ctx, f, args[0])
				if err != nil {
					return manual.Edit{}, err
				}
				e, err := manual.Revert(f.head.Tree, f.overlays, past, f.now)
				return e, output.Usage(err)
			})
		},
	})
}

// commitRule is what an identifier of a commit looks like, and its beginning.
var commitRule = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

// maxReverted is how many commits are searched for the one to take back.
const maxReverted = 10_000

// past finds a commit in the history of the branch, with muster's orders since.
func (m *manualFlags) past(ctx context.Context, f *fleetNow, id string) (manual.Past, error) {
	var p manual.Past
	for r, err := range ledger.Read(f.reader.Commits(ctx, f.head.Commit, branch.Limit{Commits: maxReverted})) {
		if err != nil {
			return p, err
		}
		if len(r.Commit.ID) < len(id) || r.Commit.ID[:len(id)] != id {
			if r.Entry != nil && r.Entry.Kind == ledger.Dispatch {
				p.Since = append(p.Since, *r.Entry)
			}
			continue
		}
		p.Commit, p.Entry = r.Commit, r.Entry
		look := history.Config{Overlays: m.settings.git.overlays}.Selection()
		look.Content = func(string) bool { return true }
		edits, err := f.reader.Edits(ctx, []branch.Commit{r.Commit}, nil, look)
		if err != nil {
			return p, err
		}
		p.Edits = edits[0]
		return p, nil
	}
	return p, output.Usage(fmt.Errorf("the last %d commits of the branch have none that begins with %s", maxReverted, id))
}

// whileFlags say how long a change lasts.
type whileFlags struct {
	until string
	last  time.Duration
}

func (w *whileFlags) addTo(c *cobra.Command, what string) {
	c.Flags().StringVar(&w.until, "until", "", what+" until this time, such as 2026-11-21T18:00Z")
	c.Flags().DurationVar(&w.last, "for", 0, what+" for this time, such as 2h")
}

// end is when the change ends; zero: it does not.
func (w *whileFlags) end(now time.Time) (time.Time, error) {
	now = now.UTC().Truncate(time.Second)
	switch {
	case w.until != "" && w.last != 0:
		return time.Time{}, output.Usage(errors.New("--until and --for are both given: keep one"))
	case w.last < 0:
		return time.Time{}, output.Usage(fmt.Errorf("--for %s is in the past", w.last))
	case w.last > 0:
		return now.Add(w.last).Truncate(time.Second), nil
	case w.until == "":
		return time.Time{}, nil
	}
	at, ok := readTime(w.until)
	switch {
	case !ok:
		return time.Time{}, output.Usage(fmt.Errorf("--until: %q is not a time, as in 2026-11-21T18:00Z", w.until))
	case !now.Before(at):
		return time.Time{}, output.Usage(fmt.Errorf("--until %s is in the past: it is %s", w.until, now.Format(time.RFC3339)))
	}
	return at, nil
}

func (p program) pauseCommand() *cobra.Command {
	return p.overlayCommand(&cobra.Command{
		Use:   "pause OVERLAY",
		Short: "Order no agents for an overlay, until resumed or until a time",
		Long: `pause writes paused: true into an overlay's scaling.yaml, or, with --until or
--for, an override that ends automatically. Running agents continue.`,
		Example: `  muster pause linux --reason "the registry is down"
  muster pause linux --for 2h --yes`,
	}, "pause", func(f *fleetNow, o *fleet.Overlay, until time.Time) (manual.Edit, error) {
		return manual.Pause(f.head.Tree, o, until, f.now)
	})
}

func (p program) resumeCommand() *cobra.Command {
	return p.overlayCommand(&cobra.Command{
		Use:   "resume OVERLAY",
		Short: "Order agents for a paused overlay again",
		Long: `resume removes what pause wrote into an overlay's scaling.yaml. Resume a queue that
is paused in Buildkite there.`,
	}, "", func(f *fleetNow, o *fleet.Overlay, _ time.Time) (manual.Edit, error) {
		return manual.Resume(f.head.Tree, o, f.now)
	})
}

// overlayCommand completes a command that edits the one overlay that its argument names. during
// is what flags can limit to a time; empty: nothing.
func (p program) overlayCommand(
	c *cobra.Command, during string, edit func(*fleetNow, *fleet.Overlay, time.Time) (manual.Edit, error),
) *cobra.Command {
	m := p.manualFlags()
	var while whileFlags
	c.Args = cobra.ExactArgs(1)
	c.ValidArgsFunction = m.settings.git.completion(1, func(o offered) []string { return o.overlays })
	c.RunE = func(cmd *cobra.Command, args []string) error {
		until, err := while.end(p.clock.Now())
		if err != nil {
			return err
		}
		return m.onOverlay(cmd.Context(), args[0], func(f *fleetNow, o *fleet.Overlay) (manual.Edit, error) {
			return edit(f, o, until)
		})
	}
	if during != "" {
		while.addTo(c, during)
	}
	return m.addTo(c)
}

func (p program) setCommand() *cobra.Command {
	m := p.manualFlags()
	var while whileFlags
	c := m.addTo(&cobra.Command{
		Use:   "set OVERLAY NAME=VALUE...",
		Short: "Change settings of an overlay's policy, for good or for a while",
		Long: `set changes settings in an overlay's scaling.yaml and keeps every other line. With
--for or --until it writes an override of min, max, buffer or maxPerHour, which ends
automatically. reuse is set permanently, as in reuse=idle:1m,uptime:30m, and
reuse=none removes it.`,
		Example: `  muster set linux max=40 --for 2h --reason "release day"
  muster set linux min=2 buffer=5
  muster set linux reuse=idle:1m,uptime:30m`,
		Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return m.settings.git.completion(1, func(o offered) []string { return o.overlays })(cmd, args, begun)
			}
			var names []string
			for _, name := range policy.Settable() {
				names = append(names, name+"=")
			}
			return begins(names, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := while.end(p.clock.Now())
			if err != nil {
				return err
			}
			values := map[string]string{}
			for _, arg := range args[1:] {
				name, value, ok := strings.Cut(arg, "=")
				if !ok || name == "" || value == "" {
					return output.Usage(fmt.Errorf("%q is not NAME=VALUE, as in max=40", arg))
				}
				if _, twice := values[name]; twice {
					return output.Usage(fmt.Errorf("%s is set twice", name))
				}
				values[name] = value
			}
			return m.onOverlay(cmd.Context(), args[0], func(f *fleetNow, o *fleet.Overlay) (manual.Edit, error) {
				return manual.Set(f.head.Tree, o, values, until, f.now)
			})
		},
	})
	while.addTo(c, "in force")
	return c
}

// onOverlay makes an edit of one overlay. What is wrong with it is the user's to fix.
func (m *manualFlags) onOverlay(ctx context.Context, arg string, edit func(*fleetNow, *fleet.Overlay) (manual.Edit, error)) error {
	return m.run(ctx, func(_ context.Context, f *fleetNow) (manual.Edit, error) {
		o, err := f.overlay(arg, m.settings.git.overlays)
		if err != nil {
			return manual.Edit{}, err
		}
		e, err := edit(f, o)
		return e, output.Usage(err)
	})
}
