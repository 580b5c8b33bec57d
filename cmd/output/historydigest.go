package output

import (
	"cmp"
	"strconv"
	"strings"

	"muster/generator/history"
	"muster/generator/ledger"
)

// digestPrinter computes and prints totals of rows.
type digestPrinter struct {
	out    HistoryOutput
	json   bool
	digest history.Digest
}

func (p *digestPrinter) Row(r ledger.Operation) error { p.digest.Add(r); return nil }

func (p *digestPrinter) End(count history.Count) error {
	all := p.digest.Totals()
	if !p.json {
		return p.table(all)
	}
	if all == nil {
		all = []history.Total{}
	}
	return WriteJSON(p.out.Text, digestDocument{"muster.dev/v1alpha1", "HistoryDigest", all, count})
}

// digestDocument is what -o json prints of a digest.
type digestDocument struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Totals     []history.Total `json:"totals"`
	Count      history.Count   `json:"count"`
}

// totalFields are the cells of a row; unknown values are empty.
func totalFields(t history.Total) []string {
	fields := []string{t.Key}
	for _, n := range []int{t.Orders, t.Agents, t.Registered, t.Lost, t.InFlight, t.Unknown} {
		fields = append(fields, strconv.Itoa(n))
	}
	fields = append(fields, optional(t.FirstMean, "s"), optional(t.FirstMax, "s"))
	for _, n := range []int{t.Retires, t.Repairs, t.Malformed, t.Edits} {
		fields = append(fields, strconv.Itoa(n))
	}
	return fields
}

// table prints a row for each total.
func (p *digestPrinter) table(all []history.Total) error {
	if len(all) == 0 {
		return nil
	}
	by := strings.ToUpper(string(p.digest.By))
	t := Table{Head: []string{
		by, "ORDERS", "AGENTS", "REGISTERED", "LOST", "IN-FLIGHT", "UNKNOWN",
		"FIRST-MEAN", "FIRST-MAX", "RETIRES", "REPAIRS", "DAMAGED", "EDITS",
	}}
	for _, x := range all {
		var row []Cell
		for i, text := range totalFields(x) {
			c := Cell{Text: cmp.Or(text, Unknown)}
			if i == 4 && x.Lost > 0 {
				c.Style = Bad
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Write(p.out.Output)
}
