package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/cmd/muster/terminal"
	"muster/generator/plan"
)

// printStatus prints a row for each overlay, and below it why overlays are
// suspended. whole: also the dispatches and the last acts.
func printStatus(out terminal.Output, f fleetStatus, wide, whole bool) error {
	if len(f.Overlays) == 0 {
		fmt.Fprintln(out.Text, "There is no overlay.")
		return nil
	}
	if err := f.table(wide).Write(out); err != nil {
		return err
	}
	gap := "\n"
	for _, o := range f.Overlays {
		if o.Suspended != nil && !wide {
			fmt.Fprintf(out.Text, "%s%s: suspended: %s\n", gap, o.Overlay, oneRow(o.Suspended.Text))
			gap = ""
		}
	}
	if !whole {
		return nil
	}
	for _, o := range f.Overlays {
		for _, t := range []terminal.Table{o.dispatches(f.At), o.acts(f.At)} {
			if len(t.Rows) == 0 {
				continue
			}
			fmt.Fprintln(out.Text)
			if err := t.Write(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneRow makes text fit for a row.
func oneRow(text string) string { return strings.ReplaceAll(text, "\n", " | ") }

// table has the columns in three groups: what is in git, what was last seen of
// Buildkite and how long ago, and the last act and how long ago.
func (f fleetStatus) table(wide bool) terminal.Table {
	t := terminal.Table{Head: []string{"OVERLAY", "QUEUE", "STATE", "MIN", "MAX", "DISPATCHES", "IN-FLIGHT", "PENDING", "IDLE", "BUSY", "DESIRED", "SEEN", "LAST-ACT", "AGE", "LAST-HOUR"}}
	if wide {
		t.Head = append(t.Head, "CLUSTER", "SCHEDULE", "COMMIT", "REASON")
	}
	most := 0
	for _, o := range f.Overlays {
		most = max(most, slices.Max(o.Ordered))
	}
	for _, o := range f.Overlays {
		row := []terminal.Cell{{Text: o.Overlay}, {Text: cmp.Or(o.Queue, unknown)}, o.state()}
		row = append(row, o.figures()...)
		act, age, commit := unknown, unknown, unknown
		if len(o.Acts) > 0 {
			last := o.Acts[0]
			act, age, commit = last.short(), shortAge(f.At.Sub(last.At)), last.Commit[:min(7, len(last.Commit))]
		}
		seen := unknown
		if o.Observed != nil {
			seen = shortAge(f.At.Sub(o.Observed.At))
		}
		row = append(row, terminal.Cell{Text: seen, Style: terminal.Faint}, terminal.Cell{Text: act}, terminal.Cell{Text: age, Style: terminal.Faint}, terminal.Cell{Text: lastHour(o.Ordered, most)})
		if wide {
			reason := unknown
			if o.Suspended != nil {
				reason = oneRow(o.Suspended.Text)
			}
			for _, text := range []string{cmp.Or(o.Cluster, unknown), cmp.Or(o.Schedule, unknown), commit, reason} {
				row = append(row, terminal.Cell{Text: text})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (o overlayStatus) state() terminal.Cell {
	if o.Suspended == nil {
		return stateOf("")
	}
	return stateOf(o.Suspended.Code)
}

// figures are the numbers of a row from MIN to DESIRED; those that are not known
// are no zeros.
func (o overlayStatus) figures() []terminal.Cell {
	numbers := []int{o.Min, o.Max, len(o.Dispatches), o.InFlight}
	known := 2
	if o.Queue == "" { // the policy cannot be read
		known = 0
	} else if o.Suspended == nil || o.Suspended.Code != plan.Invalid {
		known = len(numbers)
	}
	observed := o.Observed != nil
	if observed {
		numbers = append(numbers, o.Observed.Pending, o.Observed.Idle, o.Observed.Busy, o.Observed.Desired)
	} else {
		numbers = append(numbers, 0, 0, 0, 0)
	}
	cells := make([]terminal.Cell, len(numbers))
	for i, n := range numbers {
		cells[i].Text = unknown
		if i < known || i >= 4 && observed {
			cells[i].Text = strconv.Itoa(n)
		}
	}
	return cells
}

// short is an act in two words.
func (a actStatus) short() string {
	if a.Agents == 0 {
		return string(a.Act)
	}
	return fmt.Sprintf("%s %d", a.Act, a.Agents)
}

// lastHour draws the agents that were ordered, on a scale that all rows share, and
// their sum.
func lastHour(ordered []int, most int) string {
	const bars = "▁▂▃▄▅▆▇█"
	var line strings.Builder
	sum := 0
	for _, n := range ordered {
		sum += n
		bar := '·'
		if n > 0 {
			bar = []rune(bars)[max(1, (n*8+most-1)/most)-1]
		}
		line.WriteRune(bar)
	}
	if sum == 0 {
		return unknown
	}
	return fmt.Sprintf("%s %d", line.String(), sum)
}

// dispatches is a row for each dispatch in git.
func (o overlayStatus) dispatches(now time.Time) terminal.Table {
	t := terminal.Table{Head: []string{"DISPATCH", "PURPOSE", "AGENTS", "IN-FLIGHT", "AGE", "LEASE"}}
	for _, d := range o.Dispatches {
		lease := "over"
		if left := d.NotAfter.Sub(now); left > 0 {
			lease = shortAge(left) + " left"
		}
		if d.Withdrawn {
			lease += ", withdrawn"
		}
		t.Rows = append(t.Rows, []terminal.Cell{
			{Text: d.ID}, {Text: string(d.Purpose)}, {Text: strconv.Itoa(d.Agents)}, {Text: strconv.Itoa(d.InFlight)},
			{Text: shortAge(now.Sub(d.At))}, {Text: lease},
		})
	}
	return t
}

// acts is a row for each of the last acts.
func (o overlayStatus) acts(now time.Time) terminal.Table {
	t := terminal.Table{Head: []string{"COMMIT", "AGE", "SUBJECT"}}
	for _, a := range o.Acts {
		t.Rows = append(t.Rows, []terminal.Cell{{Text: a.Commit[:min(7, len(a.Commit))]}, {Text: shortAge(now.Sub(a.At))}, {Text: a.Subject}})
	}
	return t
}
