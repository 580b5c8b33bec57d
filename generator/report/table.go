package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"muster/generator/ledger"
)

// Price is the price of a pod for one hour. The zero value is unknown: reports contain no costs.
type Price struct {
	// PerHour is in Currency, as in "EUR", which may be empty.
	PerHour  float64
	Currency string
}

// String returns the price as in "0.04 EUR".
func (p Price) String() string {
	text := strconv.FormatFloat(p.PerHour, 'f', -1, 64)
	if p.Currency != "" {
		text += " " + p.Currency
	}
	return text
}

// Table is a table of a report.
type Table struct {
	// ID is unique in the report.
	ID, Title string
	Columns   []Column
	Rows      [][]Cell
	// Total contains the sums of the rows; nil if there is no such row.
	Total []Cell
	// LeftOut is the number of omitted rows.
	LeftOut int
}

// Column is the head of a column. Numbers are aligned to the right.
type Column struct {
	Title  string
	Number bool
}

// Cell is a text. Foreign reports that it is untrusted. Bounds are those of a number, as in "(8 to 14)"; empty
// if it is exact. Commit is the ID of the commit that the text identifies; empty if it identifies none.
type Cell struct {
	Text    string
	Foreign bool
	Bounds  string
	Commit  string
}

// commitCell identifies a commit by the first characters of its ID.
func commitCell(id string) Cell { return Cell{Text: fmt.Sprintf("%.12s", id), Commit: id} }

// maxRows is the maximum number of overlays in a table.
const maxRows = 200

// Headline is one of the most important figures.
type Headline struct {
	// Name, Value and Bounds are as in "pod-hours", "9.1" and "(8.7 to 9.5)". Note adds to the value. Change is the
	// difference from the period before; empty without one.
	Name, Value, Bounds, Note, Change string
	// Doubt is set if a bound differs from the value by more than a third of it.
	Doubt Doubt
}

// Doubt is why the bounds of a figure are far apart, and the query that returns a better one in Prometheus.
type Doubt struct{ Why, Query string }

// figure is a kind of figure.
type figure struct {
	name  string
	of    func(Figures) (Range, bool)
	text  func(float64) string
	note  func(Figures) string
	doubt Doubt
}

func always(of func(Figures) Range) func(Figures) (Range, bool) {
	return func(f Figures) (Range, bool) { return of(f), true }
}

func exactly(of func(Figures) int) func(Figures) (Range, bool) {
	return func(f Figures) (Range, bool) { return between(of(f), of(f)), true }
}

// figures returns the kinds of figures of a report.
func (r Report) figures(p Price) []figure {
	days := fmt.Sprintf("%dh", int(math.Ceil(r.To.Sub(r.From).Hours())))
	number := func(v float64) string { return strconv.FormatFloat(math.Round(v), 'f', 0, 64) }
	seconds := func(v float64) string { return span(time.Duration(v * float64(time.Second))) }
	wait := func(q float64) func(Figures) (Range, bool) {
		return func(f Figures) (Range, bool) { return f.Waits.Quantile(q) }
	}
	hours := func(perHour float64) func(Figures) (Range, bool) {
		return always(func(f Figures) Range {
			c := f.Connected
			return Range{c.Min * perHour, c.About * perHour, c.Max * perHour}
		})
	}
	started := "sum(increase(muster_start_seconds_count[" + days + "]))"
	jobs := Doubt{"Git does not record whether agents of a buffer or of min had a job.", started}
	waits := Doubt{
		"Commits are too far apart to show exactly when jobs started.",
		"histogram_quantile(0.95, sum by (le) (increase(muster_start_seconds_bucket[" + days + "])))",
	}
	unused := Doubt{
		"Git records only until its retirement whether an order's agents had a job. Without reuse, compare agents with jobs.",
		"sum(increase(muster_dispatched_agents_total[" + days + "])) - " + started,
	}
	gaps := Doubt{
		"Git does not record when agents exited between two commits.",
		"sum(sum_over_time((muster_current_agents - muster_in_flight_agents + muster_stopping_agents)[" + days + ":1m])) / 60",
	}
	all := []figure{
		{name: "jobs", of: always(func(f Figures) Range { return f.Jobs }), text: number, doubt: jobs},
		{name: "median wait", of: wait(0.5), text: seconds, doubt: waits},
		{name: "p95 wait", of: wait(0.95), text: seconds, doubt: waits},
		{
			name: "agents started", of: exactly(func(f Figures) int { return f.Registered }), text: number,
			note: func(f Figures) string { return fmt.Sprintf("of %d ordered", f.Agents) },
		},
		{name: "unused", of: always(func(f Figures) Range { return f.Unused }), text: number, doubt: unused},
		{name: "pod-hours", of: hours(1), text: decimals("%.1f"), doubt: gaps},
	}
	if p.PerHour > 0 {
		name := "cost"
		if p.Currency != "" {
			name += " in " + p.Currency
		}
		all = append(all, figure{name: name, of: hours(p.PerHour), text: decimals("%.2f"), doubt: gaps})
	}
	return all
}

func decimals(format string) func(float64) string {
	return func(v float64) string { return fmt.Sprintf(format, v) }
}

// cell returns the value of a figure with its bounds.
func (x figure) cell(f Figures) Cell {
	r, ok := x.of(f)
	if !ok {
		return Cell{Text: "-"}
	}
	c := Cell{Text: x.text(r.About)}
	if low, high := x.text(r.Min), x.text(r.Max); low != high {
		c.Bounds = "(" + low + " to " + high + ")"
	}
	return c
}

// change describes the difference from the figure of another period.
func (x figure) change(now, before Figures) string {
	a, ok := x.of(now)
	b, is := x.of(before)
	if !ok || !is {
		return ""
	}
	was, d := "was "+x.text(b.About), a.About-b.About
	switch {
	case x.text(a.About) == x.text(b.About):
		return "as before"
	case math.Abs(d) <= a.Error()+b.Error():
		return "about as before, " + x.text(b.About)
	case b.About == 0:
		return was
	case d/b.About >= 9.995:
		return fmt.Sprintf("%.0f times as many, %s", a.About/b.About, was)
	}
	return fmt.Sprintf("%+.0f %%, %s", 100*d/b.About, was)
}

// Headlines returns the most important figures.
func (r Report) Headlines(p Price) []Headline {
	var all []Headline
	sum, before := r.Sum(), Figures{}
	if r.Before != nil {
		before = r.Before.Sum()
	}
	for _, x := range r.figures(p) {
		c := x.cell(sum)
		h := Headline{Name: x.name, Value: c.Text, Bounds: c.Bounds}
		if v, ok := x.of(sum); ok && c.Bounds != "" && v.Error() > v.About/3 {
			h.Doubt = x.doubt
		}
		if x.note != nil {
			h.Note = x.note(sum)
		}
		if r.Before != nil {
			h.Change = x.change(sum, before)
		}
		all = append(all, h)
	}
	return all
}

// Uncertain is a doubt about one or several figures, as in "pod-hours, cost".
type Uncertain struct {
	Doubt
	Figures string
}

// Doubts returns the doubts about some figures.
func Doubts(all []Headline) []Uncertain {
	var doubts []Uncertain
	for _, x := range all {
		if x.Doubt.Why == "" {
			continue
		}
		if n := len(doubts); n > 0 && doubts[n-1].Doubt == x.Doubt {
			doubts[n-1].Figures += ", " + x.Name
			continue
		}
		doubts = append(doubts, Uncertain{x.Doubt, x.Name})
	}
	return doubts
}

// Tables returns the tables of the report.
func (r Report) Tables(p Price) []Table {
	return []Table{r.byOverlay(p), r.outliers(), r.edits()}
}

// byOverlay returns a table with a row for each overlay.
func (r Report) byOverlay(p Price) Table {
	lost := figure{name: "never registered", of: exactly(func(f Figures) int { return f.Lost }), text: decimals("%.0f")}
	all := r.figures(p)
	figures := append(append([]figure(nil), all[:5]...), append([]figure{lost}, all[5:]...)...)
	t := Table{ID: "overlays", Title: "By overlay", Columns: []Column{{Title: "overlay"}}}
	row := func(name Cell, f Figures) []Cell {
		cells := []Cell{name}
		for _, x := range figures {
			cells = append(cells, x.cell(f))
		}
		return cells
	}
	for _, x := range figures {
		t.Columns = append(t.Columns, Column{x.name, true})
	}
	for i, o := range r.Overlays {
		if i >= maxRows {
			t.LeftOut++
			continue
		}
		t.Rows = append(t.Rows, row(Cell{Text: o.Name, Foreign: true}, o.Figures))
	}
	if len(r.Overlays) > 1 {
		t.Total = row(Cell{Text: "all"}, r.Sum())
	}
	return t
}

func (r Report) outliers() Table {
	t := Table{ID: "outliers", Title: "What stood out"}
	for _, title := range []string{"time", "overlay", "what", "reason", "commit"} {
		t.Columns = append(t.Columns, Column{Title: title})
	}
	for _, o := range r.Outliers {
		t.Rows = append(t.Rows, []Cell{{Text: stamp(o.At)}, {Text: o.Overlay, Foreign: true}, {Text: o.What}, {Text: o.Reason}, commitCell(o.Commit)})
	}
	return t
}

func (r Report) edits() Table {
	t := Table{ID: "people", Title: "What people changed", LeftOut: r.EditsLeftOut}
	for _, title := range []string{"time", "overlay", "operation", "change", "by", "reason", "commit"} {
		t.Columns = append(t.Columns, Column{Title: title})
	}
	for _, e := range r.Edits {
		t.Rows = append(t.Rows, []Cell{
			{Text: stamp(e.At)}, {Text: cmp.Or(e.Overlay, "all"), Foreign: e.Overlay != ""}, {Text: string(e.Kind)},
			{Text: e.Why, Foreign: true}, {Text: e.Author, Foreign: true}, {Text: e.Reason, Foreign: true}, commitCell(e.ID),
		})
	}
	return t
}

// Definition explains how a figure is computed.
type Definition struct{ Name, Text string }

// Method returns how the figures are computed.
func (r Report) Method(p Price) []Definition {
	all := []Definition{
		{"Jobs", "those that an agent took. At least those that a commit recorded as pending and a later one did not, also if they were canceled. At most, in addition, one job for each agent that registered and was not idle at the next commit."},
		{"Wait", "from when a job could run until an agent took it. The oldest job gets the next agent, between the commits, and between the first and the last registration: the estimate spreads jobs evenly. Jobs that no commit recorded as pending found an idle agent at once."},
		{"Agents started", "agents that registered. Exact, by later commits."},
		{"Unused", "agents that registered and exited without a job. At least those that had exited when their order was retired; at most all, except those known to have had a job by then."},
		{"Pod-hours", "the time that agents were connected. Between two commits, at least the agents of the second without those that registered in between; at most the agents of the first and those that registered. The estimate assumes that agents exit at a constant rate. Pod start and end are not included."},
	}
	if p.PerHour > 0 {
		all = append(all, Definition{"Cost", fmt.Sprintf("a pod-hour costs %s.", p)})
	}
	return append(
		all,
		Definition{"(8 to 14)", "the bounds within which the figure is; the number before them is an estimate."},
		Definition{"What stood out", "the five largest of each kind: waits over a minute, orders whose agents did not register, commits that ordered fewer agents than jobs needed because of a limit such as max, and open circuit breakers (from the first to the last trial). muster explain COMMIT has the arithmetic, and muster history lists all decisions."},
		Definition{"What people changed", "authors are as in the commits; only signatures prove them."},
	)
}

// stamp formats a time in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// span formats a duration in its two largest units.
func span(d time.Duration) string {
	unit := func(n time.Duration, name string, rest time.Duration, of string) string {
		if rest == 0 {
			return fmt.Sprintf("%d %s", n, name)
		}
		return fmt.Sprintf("%d %s %d %s", n, name, rest, of)
	}
	switch d = d.Round(time.Second); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return unit(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < 24*time.Hour:
		return unit(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return fmt.Sprintf("%s %d h", ledger.Count(int(d/(24*time.Hour)), "day"), d%(24*time.Hour)/time.Hour)
}
