package laboratory

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"muster/generator/advice"
	"muster/generator/ledger"
	"muster/generator/simulation"
)

// PrintAdvice prints the workload of an overlay, the policies on the frontier, and the
// proposal.
func PrintAdvice(out io.Writer, overlay string, load simulation.Workload, a advice.Answer) error {
	fmt.Fprintf(out, "%s: %s of %s to %s, policies simulated: %d\n\n", overlay, ledger.Count(len(load.Arrivals), "job"),
		load.Start.Format("2006-01-02"), load.Start.Add(load.Length).Format("2006-01-02"), a.Played)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  P95 WAIT\tMEAN WAIT\tPOD-HOURS\tAGENTS\tUNUSED\tCHANGES")
	line := func(o advice.Option) {
		fmt.Fprintf(w, "  %s\t%s\t%.1f\t%d\t%d\t%s\n", seconds(o.Wait.P95), seconds(o.Wait.Mean), o.Pods.Hours(), o.Agents, o.Unused, changed(o))
	}
	if !slices.ContainsFunc(a.Frontier, func(o advice.Option) bool { return len(o.Changes) == 0 }) {
		line(a.Today)
	}
	for _, o := range a.Frontier {
		line(o)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if a.Proposed == nil {
		fmt.Fprintln(out, "Keep today's policy: no other is clearly better within the allowed cost.")
		return nil
	}
	o := a.Proposed
	fmt.Fprintf(out, "Proposed: %s. p95 %s instead of %s, for %.0f %% of the pod time.\n",
		changed(*o), seconds(o.Wait.P95), seconds(a.Today.Wait.P95), 100*float64(o.Pods)/float64(a.Today.Pods))
	return nil
}

// changed returns the settings that an option changes.
func changed(o advice.Option) string {
	if len(o.Changes) == 0 {
		return "none: today's policy"
	}
	values := o.Values()
	var all []string
	for _, c := range o.Changes {
		all = append(all, c.Setting+": "+values[c.Setting])
	}
	return strings.Join(all, ", ")
}
