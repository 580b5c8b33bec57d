package output

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/history"
	"muster/generator/ledger"
)

// HistoryPrinter prints rows one by one.
type HistoryPrinter interface {
	Row(r ledger.Operation) error
	End(count history.Count) error
}

// Flusher is a [HistoryPrinter] that buffers rows.
type Flusher interface{ Flush() error }

// NewHistoryPrinter returns the printer for a value of history's --output; nil if the value is
// unknown. If by is not empty, it prints the totals of [history.Digest].
func NewHistoryPrinter(format, by string, out HistoryOutput) HistoryPrinter {
	switch {
	case by != "" && slices.Contains([]string{"table", "wide", "json"}, format):
		return &digestPrinter{out: out, json: format == "json", digest: history.Digest{By: history.By(by)}}
	case by != "":
		return nil
	}
	head := []string{"TIME", "COMMIT", "OVERLAY", "ACT", "AGENTS", "WHY", "OUTCOME"}
	switch format {
	case "table":
		return &tablePrinter{out: out, stream: Stream{Out: out.Output, Head: head, Limit: tableWidth, Cut: slices.Index(head, "WHY")}}
	case "wide":
		return &tablePrinter{wide: true, out: out, stream: Stream{Out: out.Output, Head: append(head, "BY", "QUEUE", "DISPATCHES")}}
	case "json":
		return &jsonPrinter{JSONList{Out: out.Text, Kind: "History", List: "rows"}}
	case "yaml":
		return &yamlPrinter{out: out}
	case "csv":
		return &csvPrinter{out: out}
	}
	return nil
}

// HistoryOutput is a buffered output: one system call for each of 100,000 rows would take
// longer than reading them.
type HistoryOutput struct {
	Output
	buffer *rowBuffer
}

// NewHistoryOutput returns a buffered output; done is called before each write.
func NewHistoryOutput(out Output, done func()) HistoryOutput {
	b := &rowBuffer{done: done, to: out.Raw}
	return HistoryOutput{Output{Text: &Printable{To: b}, Raw: b, Colour: out.Colour}, b}
}

// Flush writes the buffer.
func (out HistoryOutput) Flush() error { return out.buffer.flush() }

// rowBuffer is a buffer that, unlike [bufio.Writer], does not split what is written at once:
// the progress line would erase the first part of a row.
type rowBuffer struct {
	done func()
	to   io.Writer
	text bytes.Buffer
}

func (b *rowBuffer) Write(text []byte) (int, error) {
	const size = 32 << 10
	if b.text.Write(text); b.text.Len() < size {
		return len(text), nil
	}
	return len(text), b.flush()
}

func (b *rowBuffer) flush() error {
	if b.text.Len() == 0 {
		return nil
	}
	b.done()
	_, err := b.text.WriteTo(b.to)
	return err
}

// tablePrinter prints a table. It flushes the first rows as soon as the width of the columns
// is known.
type tablePrinter struct {
	wide   bool
	out    HistoryOutput
	stream Stream
	rows   int
}

func (p *tablePrinter) Row(r ledger.Operation) error {
	if err := p.stream.Row(historyCells(r, p.wide)); err != nil {
		return err
	}
	if p.rows++; p.rows == heldRows {
		return p.out.Flush()
	}
	return nil
}

// Flush implements [Flusher].
func (p *tablePrinter) Flush() error { return p.stream.Flush() }

func (p *tablePrinter) End(history.Count) error { return p.stream.Flush() }

// tableWidth is the maximum width of the narrow table.
const tableWidth = 100

func historyCells(r ledger.Operation, wide bool) []Cell {
	why := OneRow(r.Why)
	if !r.Kind.Own() {
		why += ", by " + r.Author
		if r.Reason != "" {
			why += ": " + r.Reason
		}
	}
	agents := Unknown
	if len(r.Orders) > 0 {
		agents = strconv.Itoa(r.Agents())
	}
	style := Plain
	switch r.Kind {
	case ledger.Damaged, ledger.Unknown:
		style = Bad
	case ledger.Repair:
		style = Warning
	case ledger.Withdraw, ledger.Retire:
		style = Faint
	case ledger.Dispatch:
	default:
		style = Good
	}
	layout, outcome := "2006-01-02T15:04Z", shortOutcome(r)
	if wide {
		layout, outcome = time.RFC3339, outcomeCell(r)
	}
	cells := []Cell{
		{Text: r.At.UTC().Format(layout), Style: Faint}, {Text: r.ID[:min(7, len(r.ID))]}, {Text: cmp.Or(r.Overlay, Unknown)},
		{Text: string(r.Kind), Style: style}, {Text: agents}, {Text: why}, outcome,
	}
	if wide {
		cells[6].Text = cmp.Or(cells[6].Text, Unknown)
		for _, text := range []string{r.Author, r.Queue, strings.Join(r.Dispatches(), " ")} {
			cells = append(cells, Cell{Text: cmp.Or(text, Unknown)})
		}
	}
	return cells
}

// outcomeCell returns the outcome of a dispatch.
func outcomeCell(r ledger.Operation) Cell {
	o := r.Outcome
	if o == nil {
		return Cell{}
	}
	text, style := fmt.Sprintf("%d of %d registered", o.Registered, r.Agents()), Plain
	switch {
	case o.State == ledger.InFlight:
		text = "in flight, " + text
	case o.State == ledger.OutcomeUnknown:
		text = "unknown, " + text
	case r.Lost() == r.Agents() && r.Agents() > 0:
		text, style = fmt.Sprintf("none of %d registered", r.Agents()), Bad
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

// shortOutcome returns the outcome of a dispatch for a narrow table, which has the number of agents in another column.
func shortOutcome(r ledger.Operation) Cell {
	if r.Outcome == nil {
		return Cell{}
	}
	text, style := fmt.Sprintf("%d registered", r.Outcome.Registered), Plain
	switch {
	case r.Outcome.State == ledger.InFlight:
		text = fmt.Sprintf("%d so far", r.Outcome.Registered)
	case r.Outcome.State == ledger.OutcomeUnknown:
		text = "unknown"
	case r.Lost() == r.Agents() && r.Agents() > 0:
		text, style = "none registered", Bad
	case r.Lost() > 0:
		style = Warning
	}
	return Cell{Text: text, Style: style}
}

// jsonPrinter prints one document, row by row.
type jsonPrinter struct{ list JSONList }

func (p *jsonPrinter) Row(r ledger.Operation) error { return p.list.Add(r) }

func (p *jsonPrinter) End(count history.Count) error {
	return p.list.End(map[string]any{"count": count})
}

// yamlPrinter prints one document, row by row.
type yamlPrinter struct {
	out  HistoryOutput
	rows int
}

func (p *yamlPrinter) Row(r ledger.Operation) error {
	if p.rows++; p.rows == 1 {
		if _, err := p.out.Text.Write([]byte("apiVersion: muster.dev/v1alpha1\nkind: History\nrows:\n")); err != nil {
			return err
		}
	}
	return WriteYAML(p.out.Text, []ledger.Operation{r})
}

func (p *yamlPrinter) End(count history.Count) error {
	if p.rows == 0 {
		return WriteYAML(p.out.Text, map[string]any{"apiVersion": "muster.dev/v1alpha1", "kind": "History", "rows": []string{}, "count": count})
	}
	return WriteYAML(p.out.Text, map[string]any{"count": count})
}

// csvPrinter prints a line with the names of the columns, and one for each row.
type csvPrinter struct {
	out   HistoryOutput
	begun bool
}

func (p *csvPrinter) Row(r ledger.Operation) error {
	if err := p.begin(); err != nil {
		return err
	}
	fields := []string{r.At.UTC().Format(time.RFC3339), r.Overlay, string(r.Kind), "", r.Why, "", "", "", "", "", r.Author, r.Email, r.ID, r.Queue, strings.Join(r.Dispatches(), " ")}
	if r.Kind == ledger.Dispatch || r.Kind == ledger.Retire {
		fields[3] = strconv.Itoa(r.Agents())
	}
	if o := r.Outcome; o != nil {
		fields[5], fields[6], fields[7], fields[8] = string(o.State), strconv.Itoa(o.Registered), optional(o.FirstAfter, ""), optional(o.AllAfter, "")
		fields[9] = strconv.Itoa(o.HadJob)
	}
	return writeCSV(p.out, fields)
}

// begin prints the names of the columns, once.
func (p *csvPrinter) begin() error {
	if p.begun {
		return nil
	}
	p.begun = true
	return writeCSV(p.out, []string{"time", "overlay", "act", "agents", "why", "state", "registered", "firstAfter", "allAfter", "hadJob", "by", "email", "commit", "queue", "dispatches"})
}

func (p *csvPrinter) End(history.Count) error { return p.begin() }

// optional returns a number with its unit; "" for nil.
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
