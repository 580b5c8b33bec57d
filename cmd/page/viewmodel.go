package page

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/cmd/chart"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/status"
)

// view is what the page shows.
type view struct {
	Status     status.Snapshot
	Now        time.Time
	Problems   []condition.Condition
	Errors     int
	Overlays   []overlay
	Lines      []chart.Timeline
	Only       string   // the overlay whose timeline is shown; empty: the busiest
	Hours      int      // the length of the timelines
	Names      []string // all overlays with a timeline
	Unread     string   // why git's history is not in the timelines
	From       time.Time
	Operations []operation
	Queues     []status.Queue
}

// overlay is a row of the table.
type overlay struct {
	status.Overlay
	Class, Reason string
	HasLine       bool
}

// operation is an operation with the identifier of its element.
type operation struct {
	ledger.Operation
	ElementID string
}

const (
	// maxLines limits the timelines without a chosen overlay, and maxShown the operations.
	maxLines, maxShown = 4, 20
)

// view returns the current view; false if the overlay does not exist.
func (p *Page) view(only string, hours int) (view, bool) {
	now := p.cfg.Now()
	s := p.cfg.Status().At(now)
	v := view{Status: s, Now: now, Problems: s.Problems(), Only: only, Hours: hours, Names: p.history.busiest()}
	known := only == "" || slices.Contains(v.Names, only)
	for _, o := range s.Overlays {
		known = known || o.Name == only
		v.Overlays = append(v.Overlays, row(o, slices.Contains(v.Names, o.Name)))
	}
	for _, t := range v.Problems {
		if t.Level() == slog.LevelError {
			v.Errors++
		}
	}
	shown := v.Names[:min(maxLines, len(v.Names))]
	if only != "" {
		shown = []string{only}
	}
	for _, name := range shown {
		if t, ok := p.history.timeline(name, now.Add(-time.Duration(hours)*time.Hour)); ok {
			v.Lines = append(v.Lines, t)
		}
	}
	slices.Sort(v.Names)
	p.history.mu.Lock()
	v.Unread, v.From = p.history.problem, p.history.from
	p.history.mu.Unlock()
	if p.cfg.Commits == nil {
		v.Unread = ""
	}
	for _, o := range p.history.operations(s.Operations, maxShown) {
		v.Operations = append(v.Operations, operation{o, fmt.Sprintf("d%d-%x-%s", o.Decided.Unix(), o.Overlay, o.Kind)})
	}
	for _, q := range s.Queues {
		if q.Unmatched > 0 {
			v.Queues = append(v.Queues, q)
		}
	}
	return v, known
}

// row returns the row of an overlay, with the message of the first problem or else the
// arithmetic as the reason.
func row(o status.Overlay, hasLine bool) overlay {
	r := overlay{Overlay: o, Class: class(condition.StateLevel(o.Conditions)), Reason: o.Why, HasLine: hasLine}
	if problems := condition.Problems(o.Conditions); len(problems) > 0 {
		r.Reason = problems[0].Message
	}
	return r
}

// class returns the class in the style sheet for a state.
func class(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "good"
	case level < slog.LevelError:
		return "warn"
	}
	return "bad"
}

// summary describes a timeline of [history.timeline] for readers who cannot see it.
func summary(t chart.Timeline) string {
	var most []string
	for _, band := range t.Bands {
		for _, series := range band.Series {
			highest := 0.0
			for _, v := range series.Values {
				if v > highest { // NaN is not
					highest = v
				}
			}
			most = append(most, fmt.Sprintf("%v %s", highest, series.Name))
		}
	}
	agents, marks := 0, t.Bands[len(t.Bands)-1].Marks
	for _, m := range marks {
		n, _ := strconv.Atoi(m.Label)
		agents += n
	}
	return fmt.Sprintf("%d dispatched in %d commits. At most %s.", agents, len(marks), strings.Join(most, ", "))
}

// stamp is a time as the page writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// age returns how long ago a time was, in the largest suitable unit.
func (v view) age(t time.Time) string {
	switch d := v.Now.Sub(t); {
	case d < 0:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}
