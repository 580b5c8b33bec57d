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

// Source describes the source of the figures, and what they omit.
func (r Report) Source() string {
	text := fmt.Sprintf("From %d commits, %d of them by muster. Nothing is recorded between two commits.", r.Count.Commits, r.Count.Muster)
	if r.Cut {
		text += " The report omits older commits: there are too many."
	}
	if r.Count.Cut != "" {
		text += fmt.Sprintf(" The history ends at %.12s: this is a shallow clone.", r.Count.Cut)
	}
	if n := r.Count.Malformed; n > 0 {
		text += fmt.Sprintf(" %d commits by muster cannot be read.", n)
	}
	if n := r.Count.Unknown; n > 0 {
		text += fmt.Sprintf(" The changes of %d commits by people cannot be read.", n)
	}
	return text
}

// Markdown returns the report in Markdown. Untrusted text is in code spans, in which forges interpret no
// mention, link or markup.
func (r Report) Markdown(p Price) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n", r.Title(), r.Source())
	for _, t := range r.Tables(p) {
		t.markdown(&b)
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
	fmt.Fprintf(b, "\n%s\n", t.Note)
}

func markdownRow(b *strings.Builder, row []Cell) {
	for _, c := range row {
		text := c.Text
		if c.Foreign {
			text = ledger.MarkdownCode(text)
		}
		b.WriteString("| " + text + " ")
	}
	b.WriteString("|\n")
}
