package preview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/simulation"
)

const (
	// maxSettings and maxJobLines are limits for one overlay, because comments have a maximum size.
	maxSettings, maxJobLines = 40, 200
	// maxFindings is the maximum number of findings.
	maxFindings = 50
)

// Markdown returns the report for a comment of a pull request. Content of files is in code spans, in
// which forges interpret no mention, link or markup.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## What this does to the agents\n\n%s to %s\n", ledger.MarkdownCode(short(r.Base)), ledger.MarkdownCode(short(r.Head)))
	if len(r.Changes) == 0 {
		b.WriteString("\nNo policy, template or base is changed: muster continues as before.\n")
	}
	shown := map[string]string{}
	for _, group := range grouped(r.Changes) {
		group.markdown(&b, shown)
	}
	r.findings(&b)
	return b.String()
}

func short(commit string) string { return commit[:min(7, len(commit))] }

func (r Report) findings(b *strings.Builder) {
	if len(r.Findings) == 0 {
		b.WriteString("\n`muster check` finds nothing wrong.\n")
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", ledger.Count(len(r.Findings), "finding"))
	for i, f := range r.Findings {
		if i == maxFindings {
			fmt.Fprintf(b, "- and %d more\n", len(r.Findings)-i)
			break
		}
		fresh := ""
		if r.New != nil && r.New(f) {
			fresh = " **new**"
		}
		fmt.Fprintf(b, "-%s %s\n", fresh, ledger.MarkdownCode(f.Error()))
	}
}

// group contains overlays with the same change, such as a change of the base.
type group struct {
	overlays []string
	Change
}

// grouped groups overlays with the same change that were not simulated.
func grouped(changes []Change) []group {
	var all []group
	for _, c := range changes {
		same := slices.IndexFunc(all, func(g group) bool {
			return g.Kind == Changed && c.Kind == Changed && g.Replay == nil && c.Replay == nil && g.NotPlayed == c.NotPlayed &&
				g.Invalid == c.Invalid && slices.Equal(g.Settings, c.Settings) && changedLines(g.Job) == changedLines(c.Job)
		})
		if same >= 0 {
			all[same].overlays = append(all[same].overlays, c.Overlay)
			continue
		}
		all = append(all, group{[]string{c.Overlay}, c})
	}
	return all
}

// changedLines returns the removed and added lines of a diff, because the context contains names.
func changedLines(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if (line[0] == '+' || line[0] == '-') && !strings.HasPrefix(line, "+++ ") && !strings.HasPrefix(line, "--- ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// markdown writes the change of a group. shown maps each Job that was written before to its overlay.
func (g group) markdown(b *strings.Builder, shown map[string]string) {
	var names []string
	for _, name := range g.overlays {
		names = append(names, ledger.MarkdownCode(name))
	}
	if len(names) == 1 {
		fmt.Fprintf(b, "\n### Overlay %s\n", names[0])
	} else {
		fmt.Fprintf(b, "\n### %d overlays: %s\n", len(names), strings.Join(names, ", "))
	}
	switch g.Kind {
	case Added:
		fmt.Fprintf(b, "\nIt is new: queue %s, at most %s.\n", ledger.MarkdownCode(g.Queue), ledger.Count(g.After.Max, "agent"))
	case Removed:
		b.WriteString("\nIt is removed. Its Jobs stay, if their annotations prevent their deletion as in base/job.yaml; otherwise a syncer that prunes terminates agents in the middle of their jobs. Pause it first, and remove it when its agents have left.\n")
	case Changed:
	}
	if g.Invalid != "" {
		fmt.Fprintf(b, "\n**It would be suspended: nothing is ordered for it.**\n\n%s\n", ledger.MarkdownBlock("text", g.Invalid))
	}
	g.settings(b)
	switch before, same := shown[changedLines(g.Job)]; {
	case g.Job == "":
	case same:
		fmt.Fprintf(b, "\nThe agents' Job changes as that of %s.\n", ledger.MarkdownCode(before))
	default:
		shown[changedLines(g.Job)] = g.overlays[0]
		lines := strings.SplitAfter(g.Job, "\n")
		text := strings.Join(lines[:min(len(lines), maxJobLines)], "")
		fmt.Fprintf(b, "\n<details><summary>The agents' Job changes, from the next order on</summary>\n\n%s\n</details>\n", ledger.MarkdownBlock("diff", text))
	}
	switch {
	case g.Replay != nil:
		g.Replay.markdown(b)
	case g.NotPlayed != "":
		fmt.Fprintf(b, "\nThere is no simulation. %s\n", g.NotPlayed)
	}
}

func (g group) settings(b *strings.Builder) {
	if len(g.Settings) == 0 {
		return
	}
	b.WriteString("\n| setting | before | after |\n|---|---|---|\n")
	for i, s := range g.Settings {
		if i == maxSettings {
			fmt.Fprintf(b, "| and %d more | | |\n", len(g.Settings)-i)
			break
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", ledger.MarkdownCode(s.Setting), ledger.MarkdownCode(s.Before), ledger.MarkdownCode(s.After))
	}
}

// markdown writes a table and a chart of both simulations.
func (r Replay) markdown(b *strings.Builder) {
	const day = "2006-01-02 15:04"
	fmt.Fprintf(b, "\n**What it would have done** with the %s from %s to %s (UTC), as this fleet's own commits record them. Both policies are simulated with the same syncer and nodes.", ledger.Count(r.After.Jobs, "job"), r.From.UTC().Format(day), r.To.UTC().Format(day))
	if r.Partial {
		b.WriteString(" Other overlays serve the queue too: they are not simulated.")
	}
	if r.Overridden {
		b.WriteString(" The changed overrides are not simulated: they apply from their commit on.")
	}
	b.WriteString("\n\n| | before | after | |\n|---|---:|---:|---:|\n")
	for _, row := range []struct {
		name, format string
		value        func(simulation.Measures) float64
	}{
		{"mean wait of a job", "%.0f s", func(m simulation.Measures) float64 { return m.Wait.Mean.Seconds() }},
		{"p95 wait of a job", "%.0f s", func(m simulation.Measures) float64 { return m.Wait.P95.Seconds() }},
		{"longest wait", "%.0f s", func(m simulation.Measures) float64 { return m.Wait.Max.Seconds() }},
		{"pod-hours", "%.1f", func(m simulation.Measures) float64 { return m.Connected.Hours() }},
		{"agents", "%.0f", func(m simulation.Measures) float64 { return float64(m.Agents) }},
		{"unused agents", "%.0f", func(m simulation.Measures) float64 { return float64(m.Unused) }},
		{"most agents at once", "%.0f", func(m simulation.Measures) float64 { return float64(m.Highest) }},
		{"commits", "%.0f", func(m simulation.Measures) float64 { return float64(m.Commits) }},
		{"jobs never served", "%.0f", func(m simulation.Measures) float64 { return float64(m.Unserved) }},
	} {
		was, is := row.value(r.Before), row.value(r.After)
		fmt.Fprintf(b, "| %s | "+row.format+" | "+row.format+" | %s |\n", row.name, was, is, difference(was, is))
	}
	fmt.Fprintf(b, "\n%s", ledger.MarkdownBlock("text", chart(r.Before, r.After)))
}

// difference returns the growth of a figure in per cent; empty if it is below 0.5.
func difference(was, is float64) string {
	switch {
	case was == is:
		return ""
	case was == 0:
		return "new"
	case (is-was)/was*100 < 0.5 && (is-was)/was*100 > -0.5:
		return ""
	}
	return fmt.Sprintf("%+.0f %%", (is-was)/was*100)
}

// chartWidth is the maximum number of bars in a chart.
const chartWidth = 56

// chart draws the mean numbers of agents over time, both on one scale.
func chart(before, after simulation.Measures) string {
	hours := max(len(before.ByHour), len(after.ByHour))
	each := (hours + chartWidth - 1) / chartWidth
	var most float64
	bars := func(m simulation.Measures) []float64 {
		var all []float64
		for from := 0; from < hours; from += each {
			var sum time.Duration
			for i := from; i < min(from+each, len(m.ByHour)); i++ {
				sum += m.ByHour[i]
			}
			mean := sum.Hours() / float64(each)
			all, most = append(all, mean), max(most, mean)
		}
		return all
	}
	was, is := bars(before), bars(after)
	draw := func(values []float64) string {
		levels := []rune(" ▁▂▃▄▅▆▇█")
		var text strings.Builder
		for _, v := range values {
			level := 0
			if v > 0 && most > 0 {
				level = max(1, int(v/most*float64(len(levels)-1)+0.5))
			}
			text.WriteRune(levels[level])
		}
		return text.String()
	}
	return fmt.Sprintf("agents, on average of %s each; the highest bar is %.1f\nbefore |%s|\nafter  |%s|\n", ledger.Count(each, "hour"), most, draw(was), draw(is))
}
