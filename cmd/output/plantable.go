package output

import (
	"cmp"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/plan"
)

// Unknown stands in a table for a figure that is not known or not limited.
const Unknown = "-"

// planColumn is a figure of an overlay's row. Its name in capitals is the term of
// [plan.Formula].
type planColumn struct {
	name  string
	shown showColumn
	value func(plan.Decision) int
	// limited: a value of zero is no limit.
	limited func(plan.Decision) bool
	// ofPolicy: it is unknown if the policy is invalid.
	ofPolicy bool
}

type showColumn int

const (
	wide      showColumn = iota // in a wide table
	otherwise                   // the same, if it is not zero in every row
	brief                       // in both tables
)

// planColumns are the figures of a row, in the order of the formula.
func planColumns() []planColumn {
	columns := []planColumn{
		{name: "PENDING", shown: brief, value: func(d plan.Decision) int { return d.Figures.Pending }},
		{name: "OTHER-OVERLAYS", value: func(d plan.Decision) int { return d.Figures.OtherOverlays }},
		{name: "LOOKAHEAD", ofPolicy: true, value: func(d plan.Decision) int { return d.Figures.Lookahead }},
		{name: "BUFFER", ofPolicy: true, value: func(d plan.Decision) int { return d.Figures.Buffer }},
		{name: "IDLE", shown: brief, value: func(d plan.Decision) int { return d.Figures.Idle }},
		{name: "REPLACING", value: func(d plan.Decision) int { return d.Figures.Replacing }},
		{name: "IN-FLIGHT", shown: brief, value: func(d plan.Decision) int { return d.Figures.InFlight }},
		{name: "OVERDUE", shown: otherwise, value: func(d plan.Decision) int { return d.Figures.Overdue }},
		{name: "NON-MATCHING", shown: otherwise, value: func(d plan.Decision) int { return d.Figures.NonMatching }},
		{name: "BUSY", shown: brief, value: func(d plan.Decision) int { return d.Figures.Busy }},
		{name: "STOPPING", value: func(d plan.Decision) int { return d.Figures.Stopping }},
		{name: "CURRENT", value: func(d plan.Decision) int { return d.Figures.Current }},
		{name: "MIN", ofPolicy: true, value: func(d plan.Decision) int { return d.Figures.Min }},
		{name: "MAX", ofPolicy: true, shown: brief, value: func(d plan.Decision) int { return d.Figures.Max }},
		{name: "MISSING", ofPolicy: true, value: func(d plan.Decision) int { return d.Figures.Missing }},
		{name: "DESIRED", ofPolicy: true, value: func(d plan.Decision) int { return d.Figures.Desired }},
		{name: "BEYOND-MAX", ofPolicy: true, shown: otherwise, value: func(d plan.Decision) int { return d.Figures.BeyondMax() }},
		{name: "ROOM", ofPolicy: true, value: func(d plan.Decision) int { return d.Figures.Room }},
		{name: "DISPATCH", shown: brief, value: func(d plan.Decision) int { return d.Figures.Dispatch }},
		{name: "DEMAND", value: func(d plan.Decision) int { return d.Figures.Demand }},
		{name: "WARM-POOL", value: func(d plan.Decision) int { return d.Figures.WarmPool }},
		{name: "RETIRE", value: func(d plan.Decision) int { return len(d.Withdrawn()) + len(d.Retired()) }},
	}
	at := slices.IndexFunc(columns, func(c planColumn) bool { return c.name == "MISSING" })
	return slices.Insert(columns, at, limitColumns()...)
}

// limitColumns are what the limits besides max allow.
func limitColumns() (columns []planColumn) {
	for _, term := range plan.LimitTerms() {
		columns = append(columns, planColumn{
			name: strings.ToUpper(capital.ReplaceAllString(term, "-$0")), shown: otherwise,
			value:   func(d plan.Decision) int { left, _ := d.Figures.Left(term); return left },
			limited: func(d plan.Decision) bool { _, limited := d.Figures.Left(term); return limited },
		})
	}
	return columns
}

// capital matches where a word of a term begins.
var capital = regexp.MustCompile("[A-Z]")

// chooseColumns returns the columns of a table, in which a limit that limits no decision is left out.
func chooseColumns(decisions []plan.Decision, all bool) []planColumn {
	return slices.DeleteFunc(planColumns(), func(c planColumn) bool {
		switch {
		case c.shown != otherwise:
			return !all && c.shown != brief
		case c.limited != nil:
			return !all || !slices.ContainsFunc(decisions, c.limited)
		}
		return !all || !slices.ContainsFunc(decisions, func(d plan.Decision) bool { return c.value(d) != 0 })
	})
}

// planNames returns the names of the overlays of a plan, in order.
func planNames(r generator.Result) []string {
	var names []string
	for _, d := range r.Decisions {
		names = append(names, d.Overlay)
	}
	for _, s := range r.Suspended {
		names = append(names, s.Overlay)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// decisionOf returns the decision on an overlay; ok is false if it has none.
func decisionOf(r generator.Result, name string) (d plan.Decision, ok bool) {
	i := slices.IndexFunc(r.Decisions, func(d plan.Decision) bool { return d.Overlay == name })
	if i < 0 {
		return d, false
	}
	return r.Decisions[i], true
}

// Partial reports whether the policy of an overlay is invalid; see [plan.Policy.Partial].
func Partial(r generator.Result, name string) bool {
	return slices.ContainsFunc(r.Input.Overlays, func(o plan.Overlay) bool { return o.Name == name && o.Policy.Partial() })
}

// terminalWidth is the width that the brief table keeps to.
const terminalWidth = 100

// BriefTable has a row for each overlay, with the figures that matter most. It has at most 100 columns: it shortens
// long names.
func BriefTable(r generator.Result, conditions []condition.Condition) Table {
	t := planTable(r, conditions, []string{"OVERLAY"}, chooseColumns(r.Decisions, false))
	at := 2 // after PENDING
	t.Head = slices.Insert(t.Head, at, "OLDEST")
	var width []int
	for i, row := range t.Rows {
		age := Unknown
		if d, ok := decisionOf(r, row[0].Text); ok {
			if oldest := oldestOf(d, d.Overlay); !oldest.IsZero() {
				age = ShortAge(d.At().Sub(oldest))
			}
		}
		t.Rows[i] = slices.Insert(row, at, Cell{Text: age})
		width = widen(width, t.Rows[i][1:])
	}
	width = widen(width, boldCells(t.Head[1:]))
	left := terminalWidth
	for _, w := range width {
		left -= w + gap
	}
	for _, row := range t.Rows {
		row[0].Text = shortName(row[0].Text, max(len(t.Head[0]), left))
	}
	return t
}

// shortName leaves out the middle of a name that is longer than width.
func shortName(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width {
		return name
	}
	half := (width - 1) / 2
	return string(runes[:width-1-half]) + "…" + string(runes[len(runes)-half:])
}

// oldestOf returns since when the oldest pending job has waited that an overlay can take, or any job if the name
// is empty; zero if none is pending.
func oldestOf(d plan.Decision, overlay string) (oldest time.Time) {
	for _, j := range d.Observation.Jobs {
		mine := overlay == "" || slices.Contains(j.Overlays, overlay)
		if mine && j.Pending > 0 && j.Oldest != nil && (oldest.IsZero() || j.Oldest.Before(oldest)) {
			oldest = *j.Oldest
		}
	}
	return oldest
}

// OverlayTable has a row for each overlay, with all figures and the reason of its state.
func OverlayTable(r generator.Result, conditions []condition.Condition) Table {
	t := planTable(r, conditions, []string{"OVERLAY", "QUEUE"}, chooseColumns(r.Decisions, true))
	t.Head = append(t.Head, "REASON")
	for i, row := range t.Rows {
		d, _ := decisionOf(r, row[0].Text)
		t.Rows[i] = append(row, Cell{Text: planReason(d, condition.Of(conditions, row[0].Text))})
	}
	return t
}

// planTable has the name, perhaps the queue, some figures and the state of each overlay. Overlays without a
// decision have no figures.
func planTable(r generator.Result, conditions []condition.Condition, names []string, columns []planColumn) Table {
	t := Table{Head: names}
	for _, c := range columns {
		t.Head = append(t.Head, c.name)
	}
	t.Head = append(t.Head, "STATE")
	for _, name := range planNames(r) {
		d, ok := decisionOf(r, name)
		row := []Cell{{Text: name}, {Text: cmp.Or(d.Queue, Unknown)}}[:len(names)]
		partial := Partial(r, name)
		for _, c := range columns {
			text := Unknown
			if ok && (c.limited == nil || c.limited(d)) && !(c.ofPolicy && partial) {
				text = strconv.Itoa(c.value(d))
			}
			row = append(row, Cell{Text: text})
		}
		t.Rows = append(t.Rows, append(row, StateCell(condition.Of(conditions, name))))
	}
	return t
}

// planReason returns the reason for the state of an overlay.
func planReason(d plan.Decision, all []condition.Condition) string {
	chosen := condition.Chosen(all)
	switch {
	case chosen.Abnormal():
		return strings.ReplaceAll(chosen.Message, "\n", " | ")
	case d.OverriddenUntil != nil:
		return "an override is in force until " + d.OverriddenUntil.Format(time.RFC3339)
	case d.Schedule != "":
		return fmt.Sprintf("schedule %q is in force", d.Schedule)
	}
	return Unknown
}

// StateCell returns the cell with the state of an overlay; see [condition.State].
func StateCell(all []condition.Condition) Cell {
	state := Cell{Text: condition.State(all), Style: Warning}
	switch level := condition.StateLevel(all); {
	case level < slog.LevelInfo:
		state.Style = Good
	case level >= slog.LevelError:
		state.Style = Bad
	}
	return state
}

// QueueTable has what is the queues': an overlay's row says what of it the overlay's
// agents could take.
func QueueTable(decisions []plan.Decision) Table {
	t := Table{Head: []string{"QUEUE", "OVERLAYS", "PENDING", "OLDEST", "UPCOMING", "LIMITED", "BLOCKED", "UNMATCHED", "IDLE", "BUSY"}}
	byQueue := slices.Clone(decisions)
	slices.SortStableFunc(byQueue, func(a, b plan.Decision) int { return strings.Compare(a.Queue, b.Queue) })
	for i, d := range byQueue {
		if i > 0 && byQueue[i-1].Queue == d.Queue {
			continue
		}
		o := d.Observation
		var pending, upcoming, limited, blocked, unmatched, idle int
		for _, j := range o.Jobs {
			pending, upcoming, limited, blocked = pending+j.Pending, upcoming+j.Upcoming+j.Later, limited+j.Limited, blocked+j.Blocked
		}
		for _, u := range o.Unmatched {
			unmatched += u.Jobs
		}
		for _, g := range o.Idle {
			idle += g.Agents
		}
		row := []Cell{{Text: d.Queue}}
		for _, n := range []int{len(o.Overlays), pending, upcoming, limited, blocked, unmatched, idle, d.Figures.QueueBusy} {
			row = append(row, Cell{Text: strconv.Itoa(n)})
		}
		age := Unknown
		if oldest := oldestOf(d, ""); !oldest.IsZero() {
			age = ShortAge(o.At.Sub(oldest))
		}
		t.Rows = append(t.Rows, slices.Insert(row, 3, Cell{Text: age}))
	}
	return t
}

// ShortAge is a length of time as kubectl writes an age: 45s, 12m, 3h20m, 5d.
func ShortAge(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute && d%time.Minute >= time.Second:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 10*time.Hour && int(d.Minutes())%60 > 0:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
