package output

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// PrintStatus prints a row for each overlay, and below it why overlays are
// suspended. whole: also the dispatches and the last acts.
func PrintStatus(out Output, f FleetStatus, wide, whole bool) error {
	if len(f.Overlays) == 0 {
		fmt.Fprintln(out.Text, "There is no overlay.")
		return nil
	}
	if oldest := f.oldest(); !oldest.IsZero() {
		fmt.Fprintf(out.Text, "PENDING, IDLE, BUSY and DESIRED are as of the last poll in git, SEEN ago (%s at most); muster plan polls now.\n\n", ShortAge(f.At.Sub(oldest)))
	}
	if err := f.table(wide).Write(out); err != nil {
		return err
	}
	gap := "\n"
	var all []condition.Condition
	for _, o := range f.Overlays {
		all = append(all, o.Conditions...)
	}
	for _, c := range condition.ProblemsInGit(all) {
		fmt.Fprint(out.Text, gap)
		PrintCondition(out.Text, c)
		gap = ""
	}
	if !whole {
		return nil
	}
	for _, o := range f.Overlays {
		for _, t := range []Table{o.dispatches(f.At), o.operations(f.At)} {
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

// oldest returns the time of the oldest observation; zero if none is outdated.
func (f FleetStatus) oldest() time.Time {
	var oldest time.Time
	for _, o := range f.Overlays {
		outdated := o.Observed != nil && f.At.Sub(o.Observed.At) > condition.OutdatedAfter
		if outdated && (oldest.IsZero() || o.Observed.At.Before(oldest)) {
			oldest = o.Observed.At
		}
	}
	return oldest
}

// PrintCondition prints a condition on a line, and its remedy below it.
func PrintCondition(out io.Writer, c condition.Condition) {
	fmt.Fprintln(out, c)
	if c.Remedy != "" {
		fmt.Fprintf(out, "  %s\n", c.Remedy)
	}
}

// OneRow makes text fit for a row.
func OneRow(text string) string { return strings.ReplaceAll(text, "\n", " | ") }

// table has the columns in three groups: what is in git, what was last seen of
// Buildkite and how long ago, and the last act and how long ago.
func (f FleetStatus) table(wide bool) Table {
	t := Table{Head: []string{"OVERLAY", "QUEUE", "STATE", "MIN", "MAX", "DISPATCHES", "IN-FLIGHT", "PENDING", "IDLE", "BUSY", "DESIRED", "SEEN", "LAST-ACT", "AGE", "LAST-HOUR"}}
	if wide {
		t.Head = append(t.Head, "CLUSTER", "SCHEDULE", "COMMIT", "REASON")
	}
	most := 0
	for _, o := range f.Overlays {
		most = max(most, slices.Max(o.Ordered))
	}
	for _, o := range f.Overlays {
		row := []Cell{{Text: o.Overlay}, {Text: cmp.Or(o.Queue, Unknown)}, StateCell(o.Conditions)}
		row = append(row, o.figures()...)
		op, age, commit := Unknown, Unknown, Unknown
		if len(o.Operations) > 0 {
			last := o.Operations[0]
			op, age, commit = short(last), ShortAge(f.At.Sub(last.At)), last.ID[:min(7, len(last.ID))]
		}
		seen := Unknown
		if o.Observed != nil {
			seen = ShortAge(f.At.Sub(o.Observed.At))
		}
		row = append(row, Cell{Text: seen, Style: Faint}, Cell{Text: op}, Cell{Text: age, Style: Faint}, Cell{Text: LastHour(o.Ordered, most)})
		if wide {
			reason := Unknown
			if c := condition.Chosen(o.Conditions); c.Abnormal() {
				reason = OneRow(c.Message)
			} else if problems := condition.ProblemsInGit(o.Conditions); len(problems) > 0 {
				reason = OneRow(problems[0].Message)
			}
			for _, text := range []string{cmp.Or(o.Cluster, Unknown), cmp.Or(o.Schedule, Unknown), commit, reason} {
				row = append(row, Cell{Text: text})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// figures are the numbers of a row from MIN to DESIRED; those that are not known
// are no zeros.
func (o overlayStatus) figures() []Cell {
	figure := func(n int, known bool, style Style) Cell {
		if !known {
			return Cell{Unknown, style}
		}
		return Cell{strconv.Itoa(n), style}
	}
	valid := o.Queue != "" && o.State != string(plan.Invalid)
	var poll observedStatus
	if o.Observed != nil {
		poll = *o.Observed
	}
	polled := func(n int) Cell { return figure(n, o.Observed != nil, Faint) }
	return []Cell{
		figure(o.Min, o.readable, Plain), figure(o.Max, o.readable, Plain),
		figure(len(o.Dispatches), valid, Plain), figure(o.InFlight, valid, Plain),
		polled(poll.Pending), polled(poll.Idle), polled(poll.Busy), figure(poll.Desired, o.Observed != nil && o.readable, Faint),
	}
}

// short returns an operation in at most two words: its kind and the number of agents, if any.
func short(a ledger.Operation) string {
	if a.Agents() == 0 {
		return string(a.Kind)
	}
	return fmt.Sprintf("%s %d", a.Kind, a.Agents())
}

// LastHour draws the agents that were ordered, on a scale that all rows share, and
// their sum.
func LastHour(ordered []int, most int) string {
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
		return Unknown
	}
	return fmt.Sprintf("%s %d", line.String(), sum)
}

// dispatches is a row for each dispatch in git.
func (o overlayStatus) dispatches(now time.Time) Table {
	t := Table{Head: []string{"DISPATCH", "PURPOSE", "AGENTS", "IN-FLIGHT", "AGE", "LEASE"}}
	for _, d := range o.Dispatches {
		lease := "over"
		if left := d.NotAfter.Sub(now); left > 0 {
			lease = ShortAge(left) + " left"
		}
		if d.Withdrawn {
			lease += ", withdrawn"
		}
		t.Rows = append(t.Rows, []Cell{
			{Text: d.ID}, {Text: string(d.Purpose)}, {Text: strconv.Itoa(d.Agents)}, {Text: strconv.Itoa(d.InFlight)},
			{Text: ShortAge(now.Sub(d.At))}, {Text: lease},
		})
	}
	return t
}

// operations is a row for each of the last acts.
func (o overlayStatus) operations(now time.Time) Table {
	t := Table{Head: []string{"COMMIT", "AGE", "SUBJECT"}}
	for _, a := range o.Operations {
		t.Rows = append(t.Rows, []Cell{{Text: a.ID[:min(7, len(a.ID))]}, {Text: ShortAge(now.Sub(a.At))}, {Text: a.Subject()}})
	}
	return t
}
