package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"muster/generator"
	"muster/generator/plan"
	"muster/gitops/branch"
)

func (p program) planCommand() *cobra.Command {
	var s *settings
	var output string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what the next tick would do, and why",
		Long: `plan looks at Buildkite and at the fleet repository once, and prints the
arithmetic of each overlay and the difference that the next tick would commit.
It writes nothing. The exit code is 0 when there is nothing to do and 1 when
there is.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show, ok := map[string]func(io.Writer, generator.Result) error{"table": printTable, "json": printJSON, "yaml": printYAML}[output]
			if !ok {
				return usage(fmt.Errorf("--output %q: use table, json or yaml", output))
			}
			g, err := s.generator(true, 0)
			if err != nil {
				return err
			}
			result, err := g.Whole(cmd.Context())
			if err != nil {
				return err
			}
			if err := show(cmd.OutOrStdout(), result); err != nil {
				return err
			}
			if err := invalidOverlays(result.Suspended); err != nil {
				return err
			}
			if len(result.Acts) > 0 {
				return errChanges
			}
			return nil
		},
	}
	s = newSettings(p, c)
	c.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return c
}

// printTable prints the arithmetic as a table, and then the difference of the
// files.
func printTable(out io.Writer, r generator.Result) error {
	if len(r.Decisions) > 0 {
		if err := printSums(out, r.Decisions); err != nil {
			return err
		}
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(out, w.Err)
	}
	for _, d := range r.Decisions {
		if d.Schedule != "" {
			fmt.Fprintf(out, "%s: schedule %q is in force\n", d.Overlay, d.Schedule)
		}
		if d.Sum.MaxPerHour > 0 {
			fmt.Fprintf(out, "%s: maxPerHour of %d leaves %d agents this hour\n", d.Overlay, d.Sum.MaxPerHour, d.Sum.LeftThisHour)
		}
	}
	for _, s := range r.Suspended {
		if s.Why.Code != plan.Invalid { // those are printed as errors
			fmt.Fprintf(out, "%s: suspended: %s\n", s.Overlay, s.Why)
		}
	}
	printUnmatched(out, r)
	if len(r.Acts) == 0 {
		fmt.Fprintln(out, "\nNothing to do.")
		return nil
	}
	for _, a := range r.Acts {
		fmt.Fprintf(out, "\n# %s: %s\n", a.Path, a.Kind)
		if err := printDiff(out, r.Tip.Tree, a.Changes); err != nil {
			return err
		}
	}
	return nil
}

// printSums prints the arithmetic, an overlay a row. A column that is zero
// throughout is left out, but for those that every decision turns on.
func printSums(out io.Writer, decisions []plan.Decision) error {
	columns := []struct {
		name  string
		shown bool
		value func(plan.Decision) int
	}{
		{"PENDING", true, func(d plan.Decision) int { return d.Sum.Pending }},
		{"ELSEWHERE", false, func(d plan.Decision) int { return d.Sum.Elsewhere }},
		{"LOOKAHEAD", false, func(d plan.Decision) int { return d.Sum.Lookahead }},
		{"BUFFER", false, func(d plan.Decision) int { return d.Sum.Buffer }},
		{"IDLE", true, func(d plan.Decision) int { return d.Sum.Idle }},
		{"REPLACING", false, func(d plan.Decision) int { return d.Sum.Replacing }},
		{"IN-FLIGHT", true, func(d plan.Decision) int { return d.Sum.InFlight }},
		{"BUSY", true, func(d plan.Decision) int { return d.Sum.Busy }},
		{"STOPPING", false, func(d plan.Decision) int { return d.Sum.Stopping }},
		{"CURRENT", true, func(d plan.Decision) int { return d.Sum.Current }},
		{"MIN", true, func(d plan.Decision) int { return d.Sum.Min }},
		{"MAX", true, func(d plan.Decision) int { return d.Sum.Max }},
		{"MISSING", true, func(d plan.Decision) int { return d.Sum.Missing }},
		{"DESIRED", true, func(d plan.Decision) int { return d.Sum.Desired }},
		{"ROOM", true, func(d plan.Decision) int { return d.Sum.Room }},
		{"DISPATCH", true, func(d plan.Decision) int { return d.Sum.Dispatch }},
		{"RETIRE", false, func(d plan.Decision) int { return len(d.Retire) }},
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "OVERLAY\tQUEUE")
	for i, c := range columns {
		columns[i].shown = c.shown || slices.ContainsFunc(decisions, func(d plan.Decision) bool { return c.value(d) != 0 })
		if columns[i].shown {
			fmt.Fprint(w, "\t"+c.name)
		}
	}
	fmt.Fprintln(w)
	for _, d := range decisions {
		fmt.Fprintf(w, "%s\t%s", d.Overlay, d.Queue)
		for _, c := range columns {
			if c.shown {
				fmt.Fprintf(w, "\t%d", c.value(d))
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "\n"+plan.Formula)
	return w.Flush()
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
			missing := fmt.Sprintf("missing %q", u.Missing)
			if u.Unclustered {
				missing = "they are in no cluster, and the queue is in one"
			}
			fmt.Fprintf(out, "queue %s: no overlay serves %d jobs with the rules %q: %s, as %q\n", d.Queue, u.Jobs, u.Rules, missing, u.Example)
		}
		for _, s := range d.Observation.Overlays {
			if s.Strayed > 0 {
				fmt.Fprintf(out, "%s: %d agents are in another queue or cluster than the policy says; they count against max until they leave\n", s.Overlay, s.Strayed)
			}
		}
	}
	for _, u := range r.Unserved {
		fmt.Fprintf(out, "queue %s: %d jobs are pending and no overlay serves the queue, as %q\n", u.Queue, u.Jobs, u.Example)
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

// planDocument is what -o json and -o yaml print.
type planDocument struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Tip        string          `json:"tip"`
	Decisions  []plan.Decision `json:"decisions"`
	Suspended  []planSuspended `json:"suspended,omitempty"`
	// Unserved are the queues with pending jobs that no overlay serves.
	Unserved []plan.Unserved `json:"unserved,omitempty"`
}

type planSuspended struct {
	Overlay string `json:"overlay"`
	plan.Suspension
	Text string `json:"text"`
}

func document(r generator.Result) planDocument {
	d := planDocument{APIVersion: "muster.dev/v1alpha1", Kind: "Plan", Tip: r.Tip.Commit, Decisions: r.Decisions, Unserved: r.Unserved}
	for _, s := range r.Suspended {
		d.Suspended = append(d.Suspended, planSuspended{Overlay: s.Overlay, Suspension: s.Why, Text: s.Why.String()})
	}
	return d
}

func printJSON(out io.Writer, r generator.Result) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(document(r))
}

func printYAML(out io.Writer, r generator.Result) error {
	raw, err := json.Marshal(document(r))
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(yamlSafe(raw))
	if err != nil {
		return err
	}
	var document kyaml.Node
	if err := kyaml.Unmarshal(text, &document); err != nil {
		return err
	}
	quoteOdd(&document)
	return kyaml.NewEncoder(out).Encode(&document)
}

// quoteOdd puts strings between double quotes that have what [printable] escapes:
// only there an escape means the same as before.
func quoteOdd(n *kyaml.Node) {
	odd := func(c rune) bool { return c == '@' || !shown(c) }
	if n.Kind == kyaml.ScalarNode && strings.ContainsFunc(n.Value, odd) {
		n.Style = kyaml.DoubleQuotedStyle
	}
	for _, below := range n.Content {
		quoteOdd(below)
	}
}

// yamlSafe escapes in JSON what is valid there and no character of a YAML file
// (YAML 1.2.2, 5.1): DEL, the C1 controls, and U+FFFE and U+FFFF. Job rules may
// have any of them.
func yamlSafe(raw []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(raw) { // what is not UTF-8 becomes U+FFFD
		if r >= 0x7f && r <= 0x9f || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}
