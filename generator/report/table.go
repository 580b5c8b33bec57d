package report

import (
	"cmp"
	"fmt"
	"slices"
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

// Table is a table of a report.
type Table struct {
	// ID is unique in the report.
	ID, Title string
	// Note explains the figures and their limits.
	Note    string
	Columns []Column
	Rows    [][]Cell
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

// Cell is a text. Foreign reports that it is untrusted.
type Cell struct {
	Text    string
	Foreign bool
}

// maxRows is the maximum number of overlays and days in a table.
const maxRows = 200

// Tables returns the tables of the report.
func (r Report) Tables(p Price) []Table {
	return []Table{r.agents(), r.hours(p), r.days(p), r.waits(), r.busiest(), r.edits()}
}

// field is a column with the function that formats its cells. total reports whether it has a sum.
type field struct {
	title string
	text  func(Figures) string
	total bool
}

func number(title string, value func(Figures) int) field {
	return field{title, func(f Figures) string { return strconv.Itoa(value(f)) }, true}
}

func seconds(title string, value func(Figures) *int) field {
	return field{title: title, text: func(f Figures) string {
		if v := value(f); v != nil {
			return span(time.Duration(*v) * time.Second)
		}
		return "-"
	}}
}

var (
	orders     = number("orders", func(f Figures) int { return f.Orders })
	ordered    = number("agents", func(f Figures) int { return f.Agents })
	registered = number("registered", func(f Figures) int { return f.Registered })
	never      = number("never registered", func(f Figures) int { return f.Lost })
	waited     = field{title: "longest wait, at least", text: func(f Figures) string { return span(f.Wait) }}
)

// connected returns the columns of pod-hours and of their cost.
func connected(p Price) []field {
	all := bounds("pod-hours", "pod-hours", "%.1f", 1)
	if p.PerHour == 0 {
		return all
	}
	name := "cost"
	if p.Currency != "" {
		name += " in " + p.Currency
	}
	return append(all, bounds(name, "cost", "%.2f", p.PerHour)...)
}

// bounds returns the columns of a figure that is proportional to pod-hours. The name of the first column
// may be longer.
func bounds(first, name, format string, perHour float64) []field {
	column := func(title string, of func(Range) float64) field {
		return field{title, func(f Figures) string { return fmt.Sprintf(format, of(f.Connected)*perHour) }, true}
	}
	return []field{
		column(first+", about", func(x Range) float64 { return (x.Min + x.Max) / 2 }),
		column(name+", at least", func(x Range) float64 { return x.Min }),
		column(name+", at most", func(x Range) float64 { return x.Max }),
	}
}

// head returns the columns of a table; the first is a name.
func head(first string, fields []field) []Column {
	columns := []Column{{Title: first}}
	for _, f := range fields {
		columns = append(columns, Column{f.title, true})
	}
	return columns
}

// line returns a row of figures.
func line(name Cell, f Figures, fields []field) []Cell {
	row := []Cell{name}
	for _, x := range fields {
		row = append(row, Cell{Text: x.text(f)})
	}
	return row
}

// byOverlay returns a table with a row for each overlay.
func (r Report) byOverlay(t Table, fields []field, more ...func(Overlay) string) Table {
	var sum Figures
	for i, o := range r.Overlays {
		sum.add(o.Figures)
		if i >= maxRows {
			t.LeftOut++
			continue
		}
		row := line(Cell{o.Name, true}, o.Figures, fields)
		for _, text := range more {
			row = append(row, Cell{Text: text(o)})
		}
		t.Rows = append(t.Rows, row)
	}
	if len(r.Overlays) > 1 && slices.ContainsFunc(fields, func(f field) bool { return f.total }) {
		t.Total = []Cell{{Text: "all"}}
		for _, f := range fields {
			text := ""
			if f.total {
				text = f.text(sum)
			}
			t.Total = append(t.Total, Cell{Text: text})
		}
		for range more {
			t.Total = append(t.Total, Cell{})
		}
	}
	return t
}

// add adds the figures that have a sum.
func (f *Figures) add(x Figures) {
	f.Orders += x.Orders
	f.Agents += x.Agents
	f.Registered += x.Registered
	f.Lost += x.Lost
	f.InFlight += x.InFlight
	f.Unknown += x.Unknown
	f.Connected.Min += x.Connected.Min
	f.Connected.Max += x.Connected.Max
	f.Unused.Min += x.Unused.Min
	f.Unused.Max += x.Unused.Max
}

func (r Report) agents() Table {
	fields := []field{
		orders, ordered, registered, never,
		number("in flight", func(f Figures) int { return f.InFlight }),
		number("unknown", func(f Figures) int { return f.Unknown }),
		number("unused, at least", func(f Figures) int { return f.Unused.Min }),
		number("unused, at most", func(f Figures) int { return f.Unused.Max }),
	}
	return r.byOverlay(Table{
		ID: "agents", Title: "Orders and outcomes", Columns: head("overlay", fields),
		Note: "Unused are agents that registered and exited without a job. At least: those that had exited when their order was retired. At most: all that registered, except those known to have had a job by then.",
	}, fields)
}

func (r Report) hours(p Price) Table {
	fields := connected(p)
	t := Table{
		ID: "pod-hours", Title: "Pod-hours", Columns: append(head("overlay", fields), Column{"known from", false}, Column{"until", false}),
		Note: "The time that agents were connected, from the first to the last commit that records them. Between two commits, at least: the agents of the second without those that registered in between. At most: the agents of the first and those that registered. About: the mean of both. Pod start and end are not included.",
	}
	if p.PerHour > 0 {
		t.Title += " and cost"
		t.Note += fmt.Sprintf(" A pod-hour costs %s.", p)
	}
	moment := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return stamp(at)
	}
	return r.byOverlay(t, fields, func(o Overlay) string { return moment(o.Since) }, func(o Overlay) string { return moment(o.Until) })
}

// String returns the price as in "0.04 EUR".
func (p Price) String() string {
	text := strconv.FormatFloat(p.PerHour, 'f', -1, 64)
	if p.Currency != "" {
		text += " " + p.Currency
	}
	return text
}

func (r Report) days(p Price) Table {
	fields := append([]field{orders, ordered, registered, never, waited}, connected(p)...)
	t := Table{ID: "days", Title: "Day by day", Note: "Days are in UTC. Each order counts on its day.", Columns: head("day", fields)}
	for i, d := range r.Days {
		if i >= maxRows {
			t.LeftOut++
			continue
		}
		t.Rows = append(t.Rows, line(Cell{Text: d.At.Format(time.DateOnly)}, d.Figures, fields))
	}
	return t
}

func (r Report) waits() Table {
	fields := []field{
		waited,
		seconds("first agent after, mean", func(f Figures) *int { return f.FirstMean }),
		seconds("first agent after, longest", func(f Figures) *int { return f.FirstMax }),
	}
	t := Table{
		ID: "waits", Title: "Waits and the circuit breaker", Columns: append(head("overlay", fields), Column{"trials", true}, Column{"breaker open, at least", true}),
		Note: "The longest wait is the greatest age of a pending job that a commit records: others may have waited longer. The time to the first agent ends with the poll that listed it. The breaker's time is from the first to the last trial.",
	}
	return r.byOverlay(t, fields, func(o Overlay) string { return strconv.Itoa(o.Trials) }, func(o Overlay) string { return span(o.Open) })
}

func (r Report) busiest() Table {
	fields := []field{orders, ordered, registered, never}
	t := Table{ID: "busiest", Title: "Busiest hours", Note: "Hours of UTC in which most agents were ordered.", Columns: head("hour", fields)}
	for _, x := range r.Hours {
		at, _ := time.Parse("2006-01-02T15:04Z", x.Key)
		t.Rows = append(t.Rows, line(Cell{Text: stamp(at)}, Figures{Total: x}, fields))
	}
	return t
}

func (r Report) edits() Table {
	t := Table{ID: "people", Title: "What people changed", Note: "Authors are as in the commits; only signatures prove them.", LeftOut: r.LeftOut.Edits}
	for _, title := range []string{"time", "overlay", "operation", "change", "by", "reason"} {
		t.Columns = append(t.Columns, Column{Title: title})
	}
	for _, e := range r.Edits {
		t.Rows = append(t.Rows, []Cell{{Text: stamp(e.At)}, {cmp.Or(e.Overlay, "all"), e.Overlay != ""}, {Text: string(e.Kind)}, {e.Why, true}, {e.Author, true}, {e.Reason, true}})
	}
	return t
}

// stamp formats a time in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// span formats a duration in its two largest units.
func span(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Outcome describes the outcome of an order; empty for other operations.
func Outcome(a ledger.Operation) string {
	o := a.Outcome
	if o == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d registered", o.Registered, a.Agents())
	if o.State != ledger.Retired {
		text = string(o.State) + ", " + text
	}
	if worked := o.WhoWorked(); worked != "" {
		text += ", " + worked
	}
	return text
}
