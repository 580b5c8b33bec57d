package report

import (
	"fmt"
	"strings"

	"muster/generator/ledger"
)

// Title returns the title of the report.
func (r Report) Title() string {
	return "Agents from " + stamp(r.From) + " to " + stamp(r.To) + " (UTC)"
}

// Source describes the source of the figures, what they omit, and the period to compare with.
func (r Report) Source() string {
	text := fmt.Sprintf("From %s, %d by muster.", ledger.Count(r.Count.Commits, "commit"), r.Count.Muster)
	if b := r.Before; b != nil {
		text += fmt.Sprintf(" Compared with %s to %s.", stamp(b.From), stamp(b.To))
	} else if !r.Oldest.IsZero() {
		text += fmt.Sprintf(" No comparison with the period before: the commits begin at %s.", stamp(r.Oldest))
	}
	if r.Cut {
		text += " The report omits older commits: there are too many."
	}
	if r.Count.Cut != "" {
		text += fmt.Sprintf(" The history ends at %.12s: this is a shallow clone.", r.Count.Cut)
	}
	if n := r.Count.Malformed; n > 0 {
		text += fmt.Sprintf(" %s by muster cannot be read.", ledger.Count(n, "commit"))
	}
	if n := r.Count.Unknown; n > 0 {
		text += fmt.Sprintf(" The changes of %s by people cannot be read.", ledger.Count(n, "commit"))
	}
	return text
}

// Markdown returns the report in Markdown. Untrusted text is in code spans, in which forges interpret no
// mention, link or markup.
func (r Report) Markdown(p Price) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", r.Title(), r.Source())
	change := ""
	if r.Before != nil {
		change = " change |"
	}
	b.WriteString("| figure | value |" + change + "\n|---|---:|" + strings.Repeat("---|", strings.Count(change, "|")) + "\n")
	headlines := r.Headlines(p)
	for _, h := range headlines {
		fmt.Fprintf(&b, "| %s |", h.Name)
		for _, text := range []string{h.Value, h.Bounds, h.Note} {
			if text != "" {
				b.WriteString(" " + text)
			}
		}
		b.WriteString(" |")
		if r.Before != nil {
			b.WriteString(" " + h.Change + " |")
		}
		b.WriteString("\n")
	}
	for _, d := range Doubts(headlines) {
		fmt.Fprintf(&b, "\nUncertain: %s. %s In Prometheus: `%s`\n", d.Figures, d.Why, d.Query)
	}
	for _, t := range r.Tables(p) {
		t.markdown(&b)
	}
	b.WriteString("\n### Method\n\n")
	for _, d := range r.Method(p) {
		fmt.Fprintf(&b, "- %s: %s\n", d.Name, d.Text)
	}
	return b.String()
}

func (t Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n", t.Title)
	if len(t.Rows) == 0 {
		b.WriteString("Nothing.\n")
		return
	}
	rule := "|"
	for _, c := range t.Columns {
		b.WriteString("| " + c.Title + " ")
		if c.Number {
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	b.WriteString("|\n" + rule + "\n")
	for _, row := range t.Rows {
		markdownRow(b, row)
	}
	if t.Total != nil {
		markdownRow(b, t.Total)
	}
	if t.LeftOut > 0 {
		fmt.Fprintf(b, "\nAnd %d more.\n", t.LeftOut)
	}
}

func markdownRow(b *strings.Builder, row []Cell) {
	for _, c := range row {
		text := c.Text
		if c.Foreign {
			text = ledger.MarkdownCode(text)
		}
		if c.Bounds != "" {
			text += " " + c.Bounds
		}
		b.WriteString("| " + text + " ")
	}
	b.WriteString("|\n")
}
