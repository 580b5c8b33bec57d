package output

import (
	"cmp"
	"strconv"
	"strings"

	"muster/generator/history"
)

// digestPrinter computes and prints totals of rows.
type digestPrinter struct {
	out    HistoryOutput
	digest history.Digest
	print  func(HistoryOutput, []history.Total, history.Count) error
}

func (p *digestPrinter) Row(r history.Row) error { p.digest.Add(r); return nil }

func (p *digestPrinter) End(count history.Count) error {
	return p.print(p.out, p.digest.Totals(), count)
}

// digestDocument is what -o json and -o yaml print of a digest.
type digestDocument struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Totals     []history.Total `json:"totals"`
	Count      history.Count   `json:"count"`
}

func newDigestDocument(all []history.Total, count history.Count) digestDocument {
	if all == nil {
		all = []history.Total{}
	}
	return digestDocument{"muster.dev/v1alpha1", "HistoryDigest", all, count}
}

func printTotalsJSON(out HistoryOutput, all []history.Total, count history.Count) error {
	return WriteJSON(out.Text, newDigestDocument(all, count))
}

func printTotalsYAML(out HistoryOutput, all []history.Total, count history.Count) error {
	return WriteYAML(out.Text, newDigestDocument(all, count))
}

// totalHead are the columns of a digest.
func totalHead(by string) []string {
	return []string{strings.ToUpper(by), "ORDERS", "AGENTS", "REGISTERED", "LOST", "IN-FLIGHT", "UNKNOWN", "FIRST-MEAN", "FIRST-MAX", "RETIRES", "REPAIRS", "DAMAGED", "EDITS"}
}

// totalFields are the cells of a line; unknown values are empty.
func totalFields(t history.Total, unit string) []string {
	fields := []string{t.Key}
	for _, n := range []int{t.Orders, t.Agents, t.Registered, t.Lost, t.InFlight, t.Unknown} {
		fields = append(fields, strconv.Itoa(n))
	}
	fields = append(fields, optional(t.FirstMean, unit), optional(t.FirstMax, unit))
	for _, n := range []int{t.Retires, t.Repairs, t.Malformed, t.Edits} {
		fields = append(fields, strconv.Itoa(n))
	}
	return fields
}

func printTotals(out HistoryOutput, by string, all []history.Total) error {
	if len(all) == 0 {
		return nil
	}
	t := Table{Head: totalHead(by)}
	for _, x := range all {
		var row []Cell
		for i, text := range totalFields(x, "s") {
			c := Cell{Text: cmp.Or(text, Unknown)}
			if i == 4 && x.Lost > 0 {
				c.Style = Bad
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Write(out.Output)
}

func printTotalsCSV(out HistoryOutput, by string, all []history.Total) error {
	if err := writeCSV(out, totalHead(by)); err != nil {
		return err
	}
	for _, t := range all {
		if err := writeCSV(out, totalFields(t, "")); err != nil {
			return err
		}
	}
	return nil
}
