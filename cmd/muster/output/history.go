package output

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/generator/history"
)

// HistoryPrinter prints rows as they come.
type HistoryPrinter interface {
	Row(r history.Row) error
	// Pause is called where no row comes for a while.
	Pause() error
	End(count history.Count) error
}

// HistoryPrinters are the values of history's --output, of rows or of their digest.
func HistoryPrinters(by string) map[string]func(HistoryOutput) HistoryPrinter {
	if by != "" {
		digest := func(print func(HistoryOutput, []history.Total, history.Count) error) func(HistoryOutput) HistoryPrinter {
			return func(out HistoryOutput) HistoryPrinter {
				return &digestPrinter{out: out, digest: history.Digest{By: history.By(by)}, print: print}
			}
		}
		table := digest(func(out HistoryOutput, all []history.Total, _ history.Count) error { return printTotals(out, by, all) })
		return map[string]func(HistoryOutput) HistoryPrinter{
			"table": table, "wide": table, "json": digest(printTotalsJSON), "yaml": digest(printTotalsYAML),
			"csv": digest(func(out HistoryOutput, all []history.Total, _ history.Count) error {
				return printTotalsCSV(out, by, all)
			}),
		}
	}
	table := func(wide bool) func(HistoryOutput) HistoryPrinter {
		return func(out HistoryOutput) HistoryPrinter {
			head := []string{"TIME", "OVERLAY", "ACT", "AGENTS", "WHY", "OUTCOME"}
			if wide {
				head = append(head, "BY", "COMMIT", "QUEUE", "DISPATCHES")
			}
			return &tablePrinter{wide: wide, out: out, stream: Stream{Out: out.Output, Head: head}}
		}
	}
	return map[string]func(HistoryOutput) HistoryPrinter{
		"table": table(false), "wide": table(true),
		"json": func(out HistoryOutput) HistoryPrinter {
			return &jsonPrinter{JSONList{Out: out.Text, Kind: "History", List: "rows"}}
		},
		"yaml": func(out HistoryOutput) HistoryPrinter { return &yamlPrinter{out: out} },
		"csv":  func(out HistoryOutput) HistoryPrinter { return &csvPrinter{out: out} },
	}
}

// HistoryOutput gathers what is printed: a system call for each of 100,000 rows takes
// longer than reading them.
type HistoryOutput struct {
	Output
	to *gathered
}

// gathered writes in large pieces; before each the progress line is removed, where it
// would be on the same terminal.
type gathered struct {
	done func() // before each write
	out  Output
	text bytes.Buffer
}

const gatheredSize = 32 << 10

func (g *gathered) Write(text []byte) (int, error) {
	g.text.Write(text)
	if g.text.Len() < gatheredSize {
		return len(text), nil
	}
	return len(text), g.flush()
}

func (g *gathered) flush() error {
	if g.text.Len() == 0 {
		return nil
	}
	g.done()
	_, err := g.out.Raw.Write(g.text.Bytes())
	g.text.Reset()
	return err
}

// NewHistoryOutput returns an output that writes in large pieces; done is called before each.
func NewHistoryOutput(out Output, done func()) HistoryOutput {
	g := &gathered{done: done, out: out}
	return HistoryOutput{Output{Text: &Printable{To: g}, Raw: g, Colour: out.Colour}, g}
}

// Flush writes what has been gathered.
func (out HistoryOutput) Flush() error { return out.to.flush() }

// tablePrinter prints a table. The first rows are shown as soon as they are there.
type tablePrinter struct {
	wide   bool
	out    HistoryOutput
	stream Stream
	rows   int
}

func (p *tablePrinter) Row(r history.Row) error {
	if err := p.stream.Row(historyCells(r, p.wide)); err != nil {
		return err
	}
	if p.rows++; p.rows == heldRows {
		return p.Pause()
	}
	return nil
}

func (p *tablePrinter) Pause() error {
	if err := p.stream.Flush(); err != nil {
		return err
	}
	return p.out.Flush()
}

func (p *tablePrinter) End(history.Count) error { return p.stream.Flush() }

// maxWhy is how much of a reason a narrow table shows.
const maxWhy = 72

func historyCells(r history.Row, wide bool) []Cell {
	why := OneRow(r.Why)
	if !r.Operation.Own() {
		why += ", by " + r.By
		if r.Reason != "" {
			why += ": " + r.Reason
		}
	}
	if text := []rune(why); !wide && len(text) > maxWhy {
		why = string(text[:maxWhy-1]) + "…"
	}
	agents := Unknown
	if r.Operation.Own() && r.Operation != history.Repair && r.Operation != history.Malformed {
		agents = strconv.Itoa(r.Agents)
	}
	style := Plain
	switch r.Operation {
	case history.Malformed, history.Unknown:
		style = Bad
	case history.Repair:
		style = Warning
	case history.Retire:
		style = Faint
	case history.Dispatch:
	default:
		style = Good
	}
	cells := []Cell{
		{Text: r.At.UTC().Format(time.RFC3339), Style: Faint}, {Text: cmp.Or(r.Overlay, Unknown)}, {Text: string(r.Operation), Style: style},
		{Text: agents}, {Text: why}, outcomeCell(r),
	}
	if wide {
		cells[5].Text = cmp.Or(cells[5].Text, Unknown)
		for _, text := range []string{r.By, r.Commit[:min(7, len(r.Commit))], r.Queue, strings.Join(r.Dispatches, " ")} {
			cells = append(cells, Cell{Text: cmp.Or(text, Unknown)})
		}
	}
	return cells
}

// outcomeCell is what became of a dispatch, in a few words.
func outcomeCell(r history.Row) Cell {
	o := r.Outcome
	if o == nil {
		return Cell{}
	}
	text, style := fmt.Sprintf("%d of %d registered", o.Registered, r.Agents), Plain
	switch {
	case o.State == history.InFlight:
		text = "in flight, " + text
	case o.State == history.OutcomeUnknown:
		text = "unknown, " + text
	case r.Lost() == r.Agents && r.Agents > 0:
		text, style = fmt.Sprintf("none of %d registered", r.Agents), Bad
	case r.Lost() > 0:
		style = Warning
	}
	switch {
	case o.FirstAfter != nil:
		text += fmt.Sprintf(", first after %ds", *o.FirstAfter)
	case o.AllAfter != nil:
		text += fmt.Sprintf(", all after %ds", *o.AllAfter)
	}
	if worked := o.WhoWorked(); worked != "" {
		text += ", " + worked
	}
	return Cell{Text: text, Style: style}
}

// jsonPrinter prints one document, row by row.
type jsonPrinter struct{ list JSONList }

func (p *jsonPrinter) Row(r history.Row) error { return p.list.Add(r) }

func (p *jsonPrinter) Pause() error { return nil }

func (p *jsonPrinter) End(count history.Count) error {
	return p.list.End(map[string]any{"count": count})
}

// yamlPrinter prints one document, row by row.
type yamlPrinter struct {
	out  HistoryOutput
	rows int
}

func (p *yamlPrinter) Row(r history.Row) error {
	if p.rows++; p.rows == 1 {
		if _, err := p.out.Text.Write([]byte("apiVersion: muster.dev/v1alpha1\nkind: History\nrows:\n")); err != nil {
			return err
		}
	}
	return writeYAML(p.out.Text, []history.Row{r})
}

func (p *yamlPrinter) Pause() error { return nil }

func (p *yamlPrinter) End(count history.Count) error {
	if p.rows == 0 {
		return writeYAML(p.out.Text, map[string]any{"apiVersion": "muster.dev/v1alpha1", "kind": "History", "rows": []string{}, "count": count})
	}
	return writeYAML(p.out.Text, map[string]any{"count": count})
}

// csvPrinter prints a line with the names of the columns, and one for each row.
type csvPrinter struct {
	out  HistoryOutput
	rows int
}

func (p *csvPrinter) Row(r history.Row) error {
	if p.rows++; p.rows == 1 {
		if err := p.head(); err != nil {
			return err
		}
	}
	fields := []string{r.At.UTC().Format(time.RFC3339), r.Overlay, string(r.Operation), "", r.Why, "", "", "", "", "", r.By, r.Email, r.Commit, r.Queue, strings.Join(r.Dispatches, " ")}
	if r.Operation == history.Dispatch || r.Operation == history.Retire {
		fields[3] = strconv.Itoa(r.Agents)
	}
	if o := r.Outcome; o != nil {
		fields[5], fields[6], fields[7], fields[8] = string(o.State), strconv.Itoa(o.Registered), optional(o.FirstAfter, ""), optional(o.AllAfter, "")
		fields[9] = strconv.Itoa(o.HadJob)
	}
	return writeCSV(p.out, fields)
}

func (p *csvPrinter) head() error {
	return writeCSV(p.out, []string{"time", "overlay", "act", "agents", "why", "state", "registered", "firstAfter", "allAfter", "hadJob", "by", "email", "commit", "queue", "dispatches"})
}

func (p *csvPrinter) Pause() error { return nil }

func (p *csvPrinter) End(history.Count) error {
	if p.rows == 0 {
		return p.head()
	}
	return nil
}

// optional is a number with its unit; empty if it is not known.
func optional(n *int, unit string) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n) + unit
}

// writeCSV writes one line (RFC 4180). It puts an apostrophe before untrusted text that a
// spreadsheet would interpret as a formula, as spreadsheets themselves do
// (owasp.org/www-community/attacks/CSV_Injection).
func writeCSV(out HistoryOutput, fields []string) error {
	for i, f := range fields {
		if f != "" && strings.ContainsRune("=+-@\t\r", rune(f[0])) {
			fields[i] = "'" + f
		}
	}
	w := csv.NewWriter(out.Text)
	if err := w.Write(fields); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}
