package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"muster/cmd/muster/output"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/manual"
	"muster/gitops/branch"
)

func (p program) cancelCommand() *cobra.Command {
	m := p.manualFlags()
	c := &cobra.Command{
		Use:   "cancel DISPATCH...",
		Short: "Take orders of agents back",
		Long: `cancel moves the manifests of dispatches to where no syncer applies them, so that
a syncer that prunes removes their Jobs. An agent that works is ended with its
Job. Agents that have not registered count until their lease is over: the cluster
may have started them, and nothing is ordered twice.

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
	}
	m.addTo(c)
	return c
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
	m := p.manualFlags()
	c := &cobra.Command{
		Use:   "close-breaker OVERLAY",
		Short: "Order agents again after orders failed, without waiting for a probe",
		Long: `close-breaker closes the circuit breaker of an overlay, for when what made its
orders fail has gone. What else muster remembers of the overlay stays.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: m.settings.git.completion(1, func(o offered) []string { return o.overlays }),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.onOverlay(cmd.Context(), args[0], func(_ *fleetNow, o *fleet.Overlay) (manual.Edit, error) {
				return manual.CloseBreaker(o)
			})
		},
	}
	m.addTo(c)
	return c
}

func (p program) revertCommand() *cobra.Command {
	m := p.manualFlags()
	c := &cobra.Command{
		Use:   "revert COMMIT",
		Short: "Take a commit back, with commits in between",
		Long: `revert takes back what a commit changed in policies, templates and the base,
line by line, whatever was committed since; what others have changed again it
leaves to you. Of an order of muster's that is what muster cancel does. It says
what it does not undo, as agents that were ordered meanwhile.`,
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
	}
	m.addTo(c)
	return c
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
