package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/condition"
	"muster/generator/finding"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
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
they share their queues. It writes nothing. Without --repo it reads the origin of the
current clone. The exit code is 0 if there is nothing to do, and 1 otherwise.`,
		Example: `  muster plan
  muster plan default linux/large -o wide
  muster plan --watch`,
		RunE: func(cmd *cobra.Command, args []string) error {
			show, ok := planPrinters()[format]
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
	s.agent.addTo(c)
	w.addTo(c)
	c.Flags().StringVarP(&format, "output", "o", "table", "table, wide, json or yaml")
	invocation.OneOf(c, "output", "table", "wide", "json", "yaml")
	c.ValidArgsFunction = s.git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays })
	return c
}

// planPrinters are the values of plan's --output.
func planPrinters() map[string]func(output.Output, generator.Result) error {
	return map[string]func(output.Output, generator.Result) error{
		"table": func(out output.Output, r generator.Result) error { return printTable(out, r, false) },
		"wide":  func(out output.Output, r generator.Result) error { return printTable(out, r, true) },
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
		return !slices.ContainsFunc(r.Input.Overlays, func(o plan.Overlay) bool { return !other(o.Name) && similar(u, o) })
	})
	return r, nil
}

// similar reports whether the queue of an overlay may be a misspelling of one that no overlay serves.
func similar(u plan.Unserved, o plan.Overlay) bool {
	const letters = 2
	d := finding.Distance(strings.ToLower(u.Queue), strings.ToLower(o.Policy.Queue))
	return u.Queue == o.Name || d <= letters && 2*d < len(u.Queue)
}

// printTable prints what the queues have, the arithmetic of the overlays, and then
// the difference of the files.
func printTable(out output.Output, r generator.Result, all bool) error {
	if len(r.Decisions)+len(r.Suspended) == 0 {
		return nil
	}
	conditions := r.Conditions(r.Input.Snapshot.At)
	if err := printSums(out, r, conditions, all); err != nil {
		return err
	}
	for _, d := range r.Decisions {
		if d.OverriddenUntil != nil {
			fmt.Fprintf(out.Text, "%s: an override is in force until %s\n", d.Overlay, d.OverriddenUntil.Format(time.RFC3339))
		}
		if d.Schedule != "" {
			fmt.Fprintf(out.Text, "%s: schedule %q is in force\n", d.Overlay, d.Schedule)
		}
	}
	invalid := map[string]bool{}
	gap := "\n"
	for _, c := range condition.Problems(conditions) {
		if c.Type == condition.Suspended && c.Reason == string(plan.Invalid) { // printed as an error
			invalid[c.Overlay] = true
			continue
		}
		fmt.Fprint(out.Text, gap)
		output.PrintCondition(out.Text, c)
		gap = ""
	}
	for _, u := range r.Unserved {
		for _, o := range r.Input.Overlays {
			shown := slices.ContainsFunc(r.Decisions, func(d plan.Decision) bool { return d.Overlay == o.Name })
			if shown && similar(u, o) {
				fmt.Fprintf(out.Text, "The policy of %s has the queue %s: did you mean %s?\n", o.Name, o.Policy.Queue, u.Queue)
			}
		}
	}
	valid := slices.ContainsFunc(r.Decisions, func(d plan.Decision) bool { return !invalid[d.Overlay] })
	switch {
	case len(r.Operations) > 0 || len(invalid) > 0 && !valid:
	case len(invalid) > 0:
		fmt.Fprintln(out.Text, "\nThe next tick commits nothing for the overlays that are valid.")
	default:
		fmt.Fprintf(out.Text, "\n%s\n", nothing(r))
	}
	for _, a := range r.Operations {
		fmt.Fprintf(out.Text, "\n# %s: %s\n", a.Path, a.Kind)
		if err := printDiff(out.Text, r.Head.Tree, a.Changes); err != nil {
			return err
		}
	}
	return nil
}

// nothing says that the next tick commits nothing, and which overlays with pending jobs wait for agents
// that are in flight.
func nothing(r generator.Result) string {
	var waiting []string
	for _, d := range r.Decisions {
		i := slices.IndexFunc(r.Input.Overlays, func(o plan.Overlay) bool { return o.Name == d.Overlay })
		if d.Figures.Pending == 0 || d.Figures.InFlight == 0 || i < 0 {
			continue
		}
		text := fmt.Sprintf("%s waits for %s", d.Overlay, ledger.Count(d.Figures.InFlight, "agent"))
		var oldest time.Time
		seen := d.Observation.Capacity(d.Overlay).Dispatches
		for _, x := range r.Input.Overlays[i].Dispatches {
			starting := !x.Expired(d.At()) && seen[x.ID].Registered.Below(x.Agents) < x.Agents
			if starting && (oldest.IsZero() || x.At.Before(oldest)) {
				oldest = x.At
			}
		}
		if !oldest.IsZero() {
			text += fmt.Sprintf(", ordered %s ago", output.ShortAge(d.At().Sub(oldest)))
		}
		waiting = append(waiting, text)
	}
	if len(waiting) == 0 {
		return "The next tick commits nothing."
	}
	return "The next tick commits nothing: " + strings.Join(waiting, "; ") + "."
}

// printSums prints the tables, and the arithmetic of each overlay with pending jobs or missing agents.
func printSums(out output.Output, r generator.Result, conditions []condition.Condition, all bool) error {
	if len(r.Decisions) > 0 {
		if err := output.QueueTable(r.Decisions).Write(out); err != nil {
			return err
		}
		fmt.Fprintln(out.Text)
	}
	if err := output.OverlayTable(r, conditions, all).Write(out); err != nil {
		return err
	}
	for _, d := range r.Decisions {
		if d.Figures.Pending > 0 || d.Steps()[plan.StepDispatch].Sum() > 0 {
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
