package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"muster/generator/explanation"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// explanations is what -o json and -o yaml print.
type explanations struct {
	APIVersion   string                    `json:"apiVersion"`
	Kind         string                    `json:"kind"`
	Explanations []explanation.Explanation `json:"explanations"`
}

// ExplainPrinters are the values of explain's --output.
func ExplainPrinters() map[string]func(Output, []explanation.Explanation) error {
	document := func(all []explanation.Explanation) explanations {
		return explanations{APIVersion: "muster.dev/v1alpha1", Kind: "Explanations", Explanations: all}
	}
	return map[string]func(Output, []explanation.Explanation) error{
		"text": PrintExplanations,
		"json": func(out Output, all []explanation.Explanation) error { return WriteJSON(out.Text, document(all)) },
		"yaml": func(out Output, all []explanation.Explanation) error { return WriteYAML(out.Text, document(all)) },
	}
}

// PrintExplanations prints explanations as text, one after the other.
func PrintExplanations(out Output, all []explanation.Explanation) error {
	for i, x := range all {
		if i > 0 {
			fmt.Fprintln(out.Text)
		}
		p := explainPrinter{out: out}
		p.explanation(x)
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// explainPrinter prints one explanation for people. It keeps the first error.
type explainPrinter struct {
	out Output
	err error
}

func (p *explainPrinter) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.out.Text, strings.TrimRight(format, " ")+"\n", args...); p.err == nil {
		p.err = err
	}
}

// head begins a part.
func (p *explainPrinter) head(text string) {
	p.line("")
	p.title(text)
}

// title prints text as the head of a table.
func (p *explainPrinter) title(text string) {
	if err := (Table{Head: []string{text}}).Write(p.out); p.err == nil {
		p.err = err
	}
}

// list prints a part with some texts; nothing without texts.
func (p *explainPrinter) list(head string, texts []string) {
	if len(texts) == 0 {
		return
	}
	p.head(head)
	for _, text := range texts {
		p.hanging("  ", text)
	}
}

func (p *explainPrinter) explanation(x explanation.Explanation) {
	p.title(OneRow(x.Subject))
	if under := underSubject(x); under != "" {
		p.line("%s", under)
	}
	for _, note := range x.Notes {
		p.hanging("NOTE: ", note)
	}
	if len(x.Conditions) > 0 {
		p.head("CONDITIONS")
	}
	for _, c := range x.Conditions {
		PrintCondition(p.out.Text, c)
	}
	p.list("WHY", x.Why)
	p.steps(x)
	p.list("WHY NOT MORE", x.NotMore)
	var uncounted []string
	for _, u := range x.Uncounted {
		uncounted = append(uncounted, fmt.Sprintf("%d %s", u.Count, u.Why))
	}
	p.list("NOT COUNTED", uncounted)
	if len(x.InFlight) > 0 {
		p.head("IN FLIGHT")
		for _, d := range x.InFlight {
			p.line("  %s: %s of %s may register until %s", d.ID, ledger.Count(d.Agents, "agent"), clockTime(d.Ordered), clockTime(d.NotAfter))
		}
	}
	p.policy(x.Policy)
	if len(x.Timeline) > 0 {
		p.head("WHEN")
		p.timeline(x.Timeline)
	}
	if x.Commit != nil && x.Commit.Outcome != nil {
		p.head("WHAT BECAME OF IT")
		p.line("  %s", outcomeCell(*x.Commit).Text)
	}
}

// underSubject is the line below the first: when, by whom, on what.
func underSubject(x explanation.Explanation) string {
	if x.Commit == nil && x.DecidedOn != "" {
		poll := "git contains no poll of Buildkite before it"
		if !x.Poll.IsZero() {
			poll = fmt.Sprintf("the last poll of Buildkite recorded in git was at %s, %s before", clockTime(x.Poll), x.At.Sub(x.Poll).Round(time.Second))
		}
		return fmt.Sprintf("the newest commit was %.7s; %s", x.DecidedOn, poll)
	}
	var words []string
	if !x.At.IsZero() {
		words = append(words, "at "+clockTime(x.At))
	}
	if c := x.Commit; c != nil {
		words = append(words, fmt.Sprintf("commit %.7s by %s", c.ID, OneRow(c.Author)))
		if c.Version != "" {
			words = append(words, "decided by version "+c.Version)
		}
	}
	if x.DecidedOn != "" {
		words[len(words)-1] += fmt.Sprintf(" on the files of commit %.7s", x.DecidedOn)
	}
	return strings.Join(words, ", ")
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// steps prints the arithmetic, a line for each of the formula.
func (p *explainPrinter) steps(x explanation.Explanation) {
	if len(x.Steps) == 0 {
		return
	}
	switch {
	case x.Commit == nil:
		p.head("HOW MANY AGENTS, AT THE LAST POLL")
	case x.Commit.Kind == ledger.Dispatch:
		p.head("HOW MANY AGENTS")
	default:
		p.head("HOW MANY AGENTS WERE NEEDED THEN")
	}
	for _, s := range x.Steps {
		head, terms := stepWords(s)
		switch {
		case s.Name != "dispatch" || s.Value == 0:
		case x.Commit == nil:
			terms += "; if it had polled then"
		case x.Commit.Kind != ledger.Dispatch:
			terms += "; in another commit of the same tick"
		}
		p.hanging(head, terms)
	}
}

// stepWords returns the name and value of a step, and its terms with the last bound that changed it.
func stepWords(s plan.Step) (head, terms string) {
	terms = s.String()
	if bounds := s.ActiveBounds(); len(bounds) > 0 {
		terms += ", but " + bounds[len(bounds)-1].String()
	}
	return fmt.Sprintf("  %-8s %4d = ", s.Name, s.Value), terms
}

// PrintSteps prints the arithmetic of a decision, a line for each step of [plan.Formula].
func PrintSteps(out io.Writer, d plan.Decision) {
	fmt.Fprintln(out, d.Overlay)
	for _, s := range d.Steps() {
		head, terms := stepWords(s)
		fmt.Fprintln(out, head+terms)
	}
}

// policy prints the policy in force, and who wrote it.
func (p *explainPrinter) policy(x *explanation.Policy) {
	if x == nil {
		return
	}
	p.head("POLICY AT THAT TIME")
	var settings []string
	for _, s := range x.Settings {
		settings = append(settings, s.Setting+" "+s.After)
	}
	p.hanging("  ", x.File+": "+strings.Join(settings, ", "))
	if x.Schedule != "" {
		p.line("  its schedule %q was in force", x.Schedule)
	}
	if x.OverriddenUntil != nil {
		p.line("  an override of it was in force, until %s", clockTime(*x.OverriddenUntil))
	}
	for i, row := range x.Changes {
		what := "before that"
		if i == 0 {
			what = "last changed"
		}
		p.hanging("  ", fmt.Sprintf("%s at %s by %s, in commit %.7s: %s", what, clockTime(row.At), row.Author, row.ID, row.Why))
	}
}

// timeline prints what happened when, and how long after the first.
func (p *explainPrinter) timeline(all []explanation.Event) {
	for i, e := range all {
		after := ""
		if d := e.At.Sub(all[0].At); i > 0 && d > 0 {
			after = "+" + d.Round(time.Second).String()
		}
		p.line("  %s  %8s  %s", clockTime(e.At), after, OneRow(e.What))
	}
}

// explainWidth is where lines of explanations break.
const explainWidth = 100

// hanging prints text with a hanging indent: the first line starts with head, and the other
// lines are indented by its width.
func (p *explainPrinter) hanging(head, text string) {
	line := head
	for i, word := range strings.Fields(text) {
		if i > 0 && len([]rune(line))+1+len([]rune(word)) > explainWidth {
			p.line("%s", line)
			line = strings.Repeat(" ", len([]rune(head))) + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	p.line("%s", line)
}
