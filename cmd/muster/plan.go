package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

func (p program) planCommand() *cobra.Command {
	var s *settings
	var format string
	var w watch
	c := &cobra.Command{
		Use:   "plan [OVERLAY...]",
		Short: "Show what the next tick would do, and why",
		Long: `plan polls Buildkite and reads the fleet repository once, and prints the jobs and
agents of each queue, the arithmetic of each overlay, and the diff that the next tick
would commit. With names of overlays it prints only these; all are decided, because
they share their queues. It writes nothing. The exit code is 0 if there is nothing to
do, and 1 otherwise.`,
		Example: `  muster plan
  muster plan default linux/large -o wide
  muster plan --watch`,
		RunE: func(cmd *cobra.Command, args []string) error {
			show, ok := planPrinters()[format]
			if !ok {
				return output.Usage(fmt.Errorf("--output %q: use table, wide, json or yaml", format))
			}
			s.progress = p.progress
			g, err := s.generator(true, 0, nil)
			if err != nil {
				return err
			}
			defer s.leave(cmd.Context())
			return w.run(cmd.Context(), p, p.output(), func(ctx context.Context, out output.Output) error {
				result, err := g.Whole(ctx)
				p.progress.Done()
				if err == nil {
					result, err = only(result, args, s.git.overlays)
				}
				if err != nil {
					return err
				}
				if err := show(out, withoutTop(result, s.git.overlays)); err != nil {
					return err
				}
				if err := invalidOverlays(result.Suspended); err != nil && !w.on {
					return err
				}
				if len(result.Operations) > 0 {
					return errChanges
				}
				return nil
			})
		},
	}
	s = newSettings(p, c)
	s.agent.addTo(c)
	w.addTo(c)
	c.Flags().StringVarP(&format, "output", "o", "table", "table, wide, json or yaml")
	oneOf(c, "output", "table", "wide", "json", "yaml")
	c.ValidArgsFunction = s.git.completion(unlimited, func(o cloneNames) []string { return o.overlays })
	return c
}

// planPrinters are the values of plan's --output.
func planPrinters() map[string]func(output.Output, generator.Result) error {
	return map[string]func(output.Output, generator.Result) error{
		"table": func(out output.Output, r generator.Result) error { return printTable(out, r, false) },
		"wide":  func(out output.Output, r generator.Result) error { return printTable(out, r, true) },
		"json":  func(out output.Output, r generator.Result) error { return output.PrintJSON(out.Text, r) },
		"yaml":  func(out output.Output, r generator.Result) error { return output.PrintYAML(out.Text, r) },
	}
}

// withoutTop removes findings that treat the directory of overlays as an overlay, if it contains
// no overlays.
func withoutTop(r generator.Result, dir string) generator.Result {
	r.Suspended = slices.DeleteFunc(slices.Clone(r.Suspended), func(s generator.Suspended) bool {
		return len(r.Decisions) == 0 && (s.Overlay == "." || s.Overlay == path.Clean(dir))
	})
	return r
}

// only leaves out of a result what is not about the named overlays.
func only(r generator.Result, names []string, dir string) (generator.Result, error) {
	if len(names) == 0 {
		return r, nil
	}
	var known []string
	for _, d := range r.Decisions {
		known = append(known, d.Overlay)
	}
	for _, s := range r.Suspended {
		known = append(known, s.Overlay)
	}
	slices.Sort(known)
	chosen, err := output.ChooseOverlays(names, slices.Compact(known), dir)
	if err != nil {
		return r, err
	}
	other := func(overlay string) bool { return !slices.Contains(chosen, overlay) }
	r.Decisions = slices.DeleteFunc(slices.Clone(r.Decisions), func(d plan.Decision) bool { return other(d.Overlay) })
	r.Suspended = slices.DeleteFunc(slices.Clone(r.Suspended), func(s generator.Suspended) bool { return other(s.Overlay) })
	r.Warnings = slices.DeleteFunc(slices.Clone(r.Warnings), func(w generator.Warning) bool { return other(w.Overlay) })
	r.Operations = slices.DeleteFunc(slices.Clone(r.Operations), func(a ledger.Operation) bool { return other(a.Decision.Overlay) })
	r.Unserved = nil
	return r, nil
}

// printTable prints what the queues have, the arithmetic of the overlays, and then
// the difference of the files.
func printTable(out output.Output, r generator.Result, all bool) error {
	if len(r.Decisions)+len(r.Suspended) == 0 {
		return nil
	}
	if err := printSums(out, r, all); err != nil {
		return err
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(out.Text, w.Err)
	}
	for _, d := range r.Decisions {
		if d.OverriddenUntil != nil {
			fmt.Fprintf(out.Text, "%s: an override is in force until %s\n", d.Overlay, d.OverriddenUntil.Format(time.RFC3339))
		}
		if d.Schedule != "" {
			fmt.Fprintf(out.Text, "%s: schedule %q is in force\n", d.Overlay, d.Schedule)
		}
		if orders := d.Arrival.Describe(d.At()); orders != "" {
			fmt.Fprintf(out.Text, "%s: %s\n", d.Overlay, orders)
		}
	}
	invalid := map[string]bool{}
	for _, s := range r.Suspended {
		if s.Why.Code == plan.Invalid { // those are printed as errors
			invalid[s.Overlay] = true
		} else {
			fmt.Fprintf(out.Text, "%s: suspended: %s\n", s.Overlay, s.Why)
		}
	}
	printOtherOverlays(out.Text, r)
	printUnmatched(out.Text, r)
	if unread := r.Looked.Snapshot.Unread; unread != "" {
		fmt.Fprintln(out.Text, unread)
	}
	valid := slices.ContainsFunc(r.Decisions, func(d plan.Decision) bool { return !invalid[d.Overlay] })
	switch {
	case len(r.Operations) > 0 || len(invalid) > 0 && !valid:
	case len(invalid) > 0:
		fmt.Fprintln(out.Text, "\nNothing to do for the overlays that are valid.")
	default:
		fmt.Fprintln(out.Text, "\nNothing to do.")
	}
	for _, a := range r.Operations {
		fmt.Fprintf(out.Text, "\n# %s: %s\n", a.Path, a.Kind)
		if err := printDiff(out.Text, r.Head.Tree, a.Changes); err != nil {
			return err
		}
	}
	return nil
}

// printSums prints the tables, and the arithmetic of each overlay with pending jobs or missing agents.
func printSums(out output.Output, r generator.Result, all bool) error {
	if len(r.Decisions) > 0 {
		if err := output.QueueTable(r.Decisions).Write(out); err != nil {
			return err
		}
		fmt.Fprintln(out.Text)
	}
	if err := output.OverlayTable(r, all).Write(out); err != nil {
		return err
	}
	for _, d := range r.Decisions {
		if d.Sum.Pending > 0 || d.Steps()[plan.StepDispatch].Sum() > 0 {
			fmt.Fprintln(out.Text)
			output.PrintSteps(out.Text, d)
		}
	}
	return nil
}

// printOtherOverlays prints, for each overlay, the number of agents with its tag that it cannot
// use: those in another queue or cluster than its policy's, and those of another fleet.
func printOtherOverlays(out io.Writer, r generator.Result) {
	for _, d := range r.Decisions {
		for _, s := range d.Observation.Overlays {
			if s.Overlay != d.Overlay {
				continue
			}
			if s.OtherQueue > 0 {
				fmt.Fprintf(out, "%s: %d agents are in another queue or cluster than the policy says; they count against max until they leave\n", s.Overlay, s.OtherQueue)
			}
			if s.OtherFleets > 0 {
				fmt.Fprintf(out, "%s: another fleet repository has an overlay of this name; its %d agents are not counted, and commits of both are easily confused\n", s.Overlay, s.OtherFleets)
			}
		}
	}
}

// printUnmatched names the jobs that no overlay serves, once for each queue.
func printUnmatched(out io.Writer, r generator.Result) {
	said := map[string]bool{}
	for _, d := range r.Decisions {
		if said[d.Queue] {
			continue
		}
		said[d.Queue] = true
		for _, u := range d.Observation.Unmatched {
			fmt.Fprintf(out, "queue %s: no overlay serves %d jobs with the rules %q: %s, as %q\n", d.Queue, u.Jobs, u.Rules, u.Why(), u.Example)
		}
	}
	for _, u := range r.Unserved {
		fmt.Fprintf(out, "queue %s%s: %d jobs are pending and no overlay serves the queue, as %q\n", u.Queue, u.Where(), u.Jobs, u.Example)
	}
}

func printDiff(out io.Writer, tree fs.FS, changes []branch.Change) error {
	for _, c := range changes {
		before, err := fs.ReadFile(tree, c.Path)
		from, to := "a/"+c.Path, "b/"+c.Path
		switch {
		case errors.Is(err, fs.ErrNotExist):
			from = "/dev/null"
		case err != nil:
			return err
		}
		if c.Content == nil {
			to = "/dev/null"
		}
		if _, err := out.Write(diff.Diff(from, before, to, c.Content)); err != nil {
			return err
		}
	}
	return nil
}
