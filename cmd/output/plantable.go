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
}

type showColumn int

const (
	always    showColumn = iota
	otherwise            // where it is not zero in every row
	wide                 // the same, and in a wide table always
	wideOnly
)

// planColumns are the figures of a row, in the order of the formula.
func planColumns() []planColumn {
	columns := []planColumn{
		{name: "PENDING", value: func(d plan.Decision) int { return d.Figures.Pending }},
		{name: "OTHER-OVERLAYS", shown: wide, value: func(d plan.Decision) int { return d.Figures.OtherOverlays }},
		{name: "LOOKAHEAD", shown: wide, value: func(d plan.Decision) int { return d.Figures.Lookahead }},
		{name: "BUFFER", shown: wide, value: func(d plan.Decision) int { return d.Figures.Buffer }},
		{name: "IDLE", value: func(d plan.Decision) int { return d.Figures.Idle }},
		{name: "REPLACING", shown: wide, value: func(d plan.Decision) int { return d.Figures.Replacing }},
		{name: "IN-FLIGHT", value: func(d plan.Decision) int { return d.Figures.InFlight }},
		{name: "OVERDUE", shown: otherwise, value: func(d plan.Decision) int { return d.Figures.Overdue }},
		{name: "NON-MATCHING", shown: otherwise, value: func(d plan.Decision) int { return d.Figures.NonMatching }},
		{name: "BUSY", value: func(d plan.Decision) int { return d.Figures.Busy }},
		{name: "STOPPING", shown: wide, value: func(d plan.Decision) int { return d.Figures.Stopping }},
		{name: "CURRENT", value: func(d plan.Decision) int { return d.Figures.Current }},
		{name: "MIN", value: func(d plan.Decision) int { return d.Figures.Min }},
		{name: "MAX", value: func(d plan.Decision) int { return d.Figures.Max }},
		{name: "MISSING", value: func(d plan.Decision) int { return d.Figures.Missing }},
		{name: "DESIRED", value: func(d plan.Decision) int { return d.Figures.Desired }},
		{name: "BEYOND-MAX", shown: otherwise, value: func(d plan.Decision) int { return d.Figures.BeyondMax() }},
		{name: "ROOM", value: func(d plan.Decision) int { return d.Figures.Room }},
		{name: "DISPATCH", value: func(d plan.Decision) int { return d.Figures.Dispatch }},
		{name: "DEMAND", shown: wideOnly, value: func(d plan.Decision) int { return d.Figures.Demand }},
		{name: "WARM-POOL", shown: wideOnly, value: func(d plan.Decision) int { return d.Figures.WarmPool }},
		{name: "RETIRE", shown: wide, value: func(d plan.Decision) int { return len(d.Retire) }},
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

// shared reports whether other overlays serve the queue too.
func shared(d plan.Decision) bool { return len(d.Observation.Overlays) > 1 }

// chooseColumns leaves out those that are zero throughout and that few decisions
// turn on.
func chooseColumns(decisions []plan.Decision, all bool) []planColumn {
	return slices.DeleteFunc(planColumns(), func(c planColumn) bool {
		switch {
		case c.shown == always, all && c.shown >= wide:
			return false
		case c.name == "OTHER-OVERLAYS" && slices.ContainsFunc(decisions, shared):
			return false
		case c.shown == wideOnly:
			return true
		case c.limited != nil:
			return !slices.ContainsFunc(decisions, c.limited)
		}
		return !slices.ContainsFunc(decisions, func(d plan.Decision) bool { return c.value(d) != 0 })
	})
}

// OverlayTable has a row for each overlay. Overlays without a decision have no figures.
func OverlayTable(r generator.Result, conditions []condition.Condition, all bool) Table {
	t := Table{Head: []string{"OVERLAY", "QUEUE"}}
	columns := chooseColumns(r.Decisions, all)
	for _, c := range columns {
		t.Head = append(t.Head, c.name)
	}
	if t.Head = append(t.Head, "STATE"); all {
		t.Head = append(t.Head, "REASON")
	}
	decided := map[string]plan.Decision{}
	var names []string
	for _, d := range r.Decisions {
		decided[d.Overlay] = d
		names = append(names, d.Overlay)
	}
	for _, s := range r.Suspended {
		if _, ok := decided[s.Overlay]; !ok {
			names = append(names, s.Overlay)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d, ok := decided[name]
		row := []Cell{{Text: name}, {Text: cmp.Or(d.Queue, Unknown)}}
		for _, c := range columns {
			text := Unknown
			if ok && (c.limited == nil || c.limited(d)) {
				text = strconv.Itoa(c.value(d))
			}
			row = append(row, Cell{Text: text})
		}
		state, reason := planState(d, condition.Of(conditions, name))
		if row = append(row, state); all {
			row = append(row, Cell{Text: reason})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// planState returns the state of an overlay and the reason for it.
func planState(d plan.Decision, all []condition.Condition) (state Cell, reason string) {
	problems := condition.Problems(all)
	switch {
	case len(problems) > 0:
		return StateCell(all), strings.ReplaceAll(problems[0].Message, "\n", " | ")
	case d.OverriddenUntil != nil:
		return StateCell(all), "an override is in force until " + d.OverriddenUntil.Format(time.RFC3339)
	case d.Schedule != "":
		return StateCell(all), fmt.Sprintf("schedule %q is in force", d.Schedule)
	}
	return StateCell(all), Unknown
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
		var oldest time.Time
		for _, j := range o.Jobs {
			pending, upcoming, limited, blocked = pending+j.Pending, upcoming+j.Upcoming+j.Later, limited+j.Limited, blocked+j.Blocked
			if j.Pending > 0 && j.Oldest != nil && (oldest.IsZero() || j.Oldest.Before(oldest)) {
				oldest = *j.Oldest
			}
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
		if !oldest.IsZero() {
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
