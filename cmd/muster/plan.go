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

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

func (p program) planCommand() *cobra.Command {
	var s *settings
	var format string
	var diffs bool
	var w watch
	c := &cobra.Command{
		Use:   "plan [OVERLAY...]",
		Short: "Show what the next tick would do, and why",
		Long: `plan polls Buildkite and reads the fleet repository once, and prints for each overlay
what the next tick would commit, or why nothing, then the most important figures.
-o wide adds each queue and the arithmetic, --diff the manifests. With names of
overlays it prints only these, but still computes all, because several can share a
queue. It writes nothing. muster status --live prints what the running muster decided
last. Exit code 0: nothing to do; 1: something to do; 2 or 3: an error.`,
		Example: `  muster plan
  muster plan default linux/large -o wide
  muster plan --diff`,
		RunE: func(cmd *cobra.Command, args []string) error {
			show, ok := planPrinters(diffs)[format]
			if !ok {
				return output.Usage(fmt.Errorf("--output %q: use table, wide, json or yaml", format))
			}
			s.progress = p.Progress
			if s.git.Repo == "" {
				if _, err := s.git.Open(cmd.Context(), invocation.InUpstream); err != nil {
					return err
				}
			}
			g, err := s.generator(true, 0, nil)
			if err != nil {
				return err
			}
			defer s.leave(cmd.Context())
			return w.run(cmd.Context(), p, p.Output(), func(ctx context.Context, out output.Output) error {
				result, err := g.Whole(ctx)
				p.Progress.Done()
				if err == nil {
					result, err = only(result, args, s.git.Overlays)
				}
				if err != nil {
					return err
				}
				if err := show(out, withoutTop(result, s.git.Overlays)); err != nil {
					return err
				}
				if result.Unverified {
					p.PrintMessage("unverified: the repository is shallow, so that orders which state.yaml lacks are not counted (git fetch --unshallow)")
				}
				if err := invalidOverlays(result.Suspended); err != nil && !w {
					return err
				}
				if len(result.Operations) > 0 {
					return invocation.ErrChanges
				}
				return nil
			})
		},
	}
	s = newSettings(p, c)
	s.git.AddReading(c)
	s.agent.addTo(c)
	w.addTo(c)
	c.Flags().BoolVar(&diffs, "diff", false, "also print the files that the next tick would commit")
	c.Flags().StringVarP(&format, "output", "o", "table", "table, wide, json or yaml")
	invocation.OneOf(c, "output", "table", "wide", "json", "yaml")
	c.ValidArgsFunction = s.git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays })
	return c
}

// planPrinters are the values of plan's --output.
func planPrinters(diffs bool) map[string]func(output.Output, generator.Result) error {
	return map[string]func(output.Output, generator.Result) error{
		"table": func(out output.Output, r generator.Result) error { return printTable(out, r, false, diffs) },
		"wide":  func(out output.Output, r generator.Result) error { return printTable(out, r, true, diffs) },
		"json": func(out output.Output, r generator.Result) error {
			return output.WriteJSON(out.Text, output.NewPlanDocument(r))
		},
		"yaml": func(out output.Output, r generator.Result) error {
			return output.WriteYAML(out.Text, output.NewPlanDocument(r))
		},
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
	r.Operations = slices.DeleteFunc(slices.Clone(r.Operations), func(a ledger.Draft) bool { return other(a.Decision.Overlay) })
	r.Unserved = slices.DeleteFunc(slices.Clone(r.Unserved), func(u plan.Unserved) bool {
		return !slices.ContainsFunc(r.Input.Overlays, func(o plan.Overlay) bool { return !other(o.Name) && condition.Similar(u, o) })
	})
	return r, nil
}

// printTable prints a sentence for each overlay, the figures, the problems, and then, if diffs is true, the
// difference of the files. all selects the arithmetic.
func printTable(out output.Output, r generator.Result, all, diffs bool) error {
	if len(r.Decisions)+len(r.Suspended) == 0 {
		return nil
	}
	conditions := r.Conditions(r.Input.Snapshot.At)
	printAnswer(out, r, conditions)
	table := printSums
	if !all {
		table = func(out output.Output, r generator.Result, conditions []condition.Condition) error {
			return output.BriefTable(r, conditions).Write(out)
		}
	}
	if err := table(out, r, conditions); err != nil {
		return err
	}
	for _, d := range r.Decisions {
		if d.OverriddenUntil != nil {
			fmt.Fprintf(out.Text, "%s: an override is in force until %s\n", d.Overlay, d.OverriddenUntil.Format(time.RFC3339))
		}
		if d.Schedule != "" {
			fmt.Fprintf(out.Text, "%s: schedule %q is in force\n", d.Overlay, d.Schedule)
		}
		since := d.Observation.Oldest(d.Overlay)
		if s := d.Figures; s.Dispatch > 0 && s.InFlight == 0 && !since.IsZero() && d.At().Sub(since) >= plan.OverdueUnlearned {
			fmt.Fprintf(out.Text, "%s: a job has waited for %s and nothing is in flight: if muster runs, its log or muster status --live URL has the reason\n", d.Overlay, output.ShortAge(d.At().Sub(since)))
		}
	}
	gap := "\n"
	for _, c := range condition.Problems(conditions) {
		if c.Type == condition.Suspended && c.Reason == string(plan.Invalid) { // printed as an error
			continue
		}
		fmt.Fprint(out.Text, gap)
		output.PrintCondition(out.Text, c)
		gap = ""
	}
	if !diffs {
		return nil
	}
	for _, a := range r.Operations {
		fmt.Fprintf(out.Text, "\n# %s: %s\n", a.Path, a.Kind)
		if err := printDiff(out.Text, r.Head.Tree, a.Changes); err != nil {
			return err
		}
	}
	return nil
}

// printAnswer prints how many commits the next tick makes, and a sentence for each overlay.
func printAnswer(out output.Output, r generator.Result, conditions []condition.Condition) {
	invalid := map[string]bool{}
	for _, c := range conditions {
		if c.Type == condition.Suspended && c.Reason == string(plan.Invalid) {
			invalid[c.Overlay] = true
		}
	}
	valid := slices.ContainsFunc(r.Decisions, func(d plan.Decision) bool { return !invalid[d.Overlay] })
	switch {
	case len(r.Operations) > 0:
		fmt.Fprintf(out.Text, "The next tick makes %s.\n", ledger.Count(len(r.Operations), "commit"))
	case len(invalid) == 0:
		fmt.Fprintln(out.Text, "The next tick commits nothing.")
	case valid:
		fmt.Fprintln(out.Text, "The next tick commits nothing for the overlays that are valid.")
	}
	for _, sentence := range output.PlanSentences(r, conditions) {
		fmt.Fprintln(out.Text, "  "+sentence)
	}
	fmt.Fprintln(out.Text)
}

// printSums prints all tables, and the arithmetic of each overlay with pending jobs or missing agents.
func printSums(out output.Output, r generator.Result, conditions []condition.Condition) error {
	if len(r.Decisions) > 0 {
		if err := output.QueueTable(r.Decisions).Write(out); err != nil {
			return err
		}
		fmt.Fprintln(out.Text)
	}
	if err := output.OverlayTable(r, conditions).Write(out); err != nil {
		return err
	}
	for _, d := range r.Decisions {
		if (d.Figures.Pending > 0 || d.Steps()[plan.StepDispatch].Sum() > 0) && !output.Partial(r, d.Overlay) {
			fmt.Fprintln(out.Text)
			output.PrintSteps(out.Text, d)
		}
	}
	return nil
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
