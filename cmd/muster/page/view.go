package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator/status"
)

// view is what the page shows.
type view struct {
	Status    status.Snapshot
	Now       time.Time
	Troubles  []trouble
	Errors    int
	Overlays  []overlay
	Lines     []line
	Only      string   // the overlay whose timeline is shown; empty: the busiest
	Names     []string // all overlays with a timeline
	Unread    string   // why git's history is not in the timelines
	From      time.Time
	Decisions []decision
	Queues    []status.Queue
}

// overlay is a row of the table.
type overlay struct {
	status.Overlay
	State, Class, Reason string
	HasLine              bool
}

// line is one timeline.
type line struct {
	Name, Summary string
}

// decision is one that something was done about.
type decision struct {
	status.Decision
	ID, Subject, Reasons string
}

const (
	// mostLines are shown where no overlay is chosen, and mostShown decisions.
	mostLines, mostShown = 4, 20
)

// view is what is known now; false: there is no such overlay.
func (p *Page) view(only string) (view, bool) {
	s, now := p.cfg.Status(), p.cfg.Now()
	v := view{Status: s, Now: now, Troubles: troubles(s, now), Only: only, Names: p.history.busiest()}
	known := only == "" || slices.Contains(v.Names, only)
	for _, o := range s.Overlays {
		known = known || o.Name == only
		v.Overlays = append(v.Overlays, row(o, slices.Contains(v.Names, o.Name)))
	}
	for _, t := range v.Troubles {
		if t.Level == "error" {
			v.Errors++
		}
	}
	shown := v.Names[:min(mostLines, len(v.Names))]
	if only != "" {
		shown = []string{only}
	}
	for _, name := range shown {
		if summary, ok := p.history.summary(name); ok {
			v.Lines = append(v.Lines, line{name, summary})
		}
	}
	slices.Sort(v.Names)
	p.history.mu.Lock()
	v.Unread, v.From = p.history.problem, p.history.from
	p.history.mu.Unlock()
	if p.cfg.Commits == nil {
		v.Unread = ""
	}
	for _, d := range p.history.decisions(s.Decisions, mostShown) {
		subject, reasons, _ := strings.Cut(d.Text, "\n")
		id := fmt.Sprintf("d%d-%x-%s", d.At.Unix(), d.Overlay, d.Act)
		v.Decisions = append(v.Decisions, decision{d, id, subject, strings.Trim(reasons, "\n")})
	}
	for _, q := range s.Queues {
		if q.Unmatched > 0 {
			v.Queues = append(v.Queues, q)
		}
	}
	return v, known
}

// row is an overlay's.
func row(o status.Overlay, hasLine bool) overlay {
	r := overlay{Overlay: o, State: "ready", Class: "good", Reason: o.Why, HasLine: hasLine}
	switch {
	case o.Suspended.Active():
		r.State, r.Class = string(o.Suspended.Code), "bad"
		if o.Suspended.Wanted() {
			r.Class = "warn"
		}
	case !o.Known:
		r.State, r.Class, r.Reason = "unknown", "warn", "It could not be decided on."
	}
	return r
}

// summary says in words what a timeline shows, for who cannot see it.
func (h *history) summary(name string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tracks[name]
	if t == nil {
		return "", false
	}
	var most [quantities]int32
	for _, p := range t.points {
		for i, v := range p.values {
			most[i] = max(most[i], v)
		}
	}
	agents := 0
	for _, m := range t.marks {
		agents += m.agents
	}
	return fmt.Sprintf("%d dispatched in %d commits. At most %d pending, %d busy, %d idle, %d in flight.",
		agents, len(t.marks), most[pending], most[busy], most[idle], most[inFlight]), true
}

// stamp is a time as the page writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// age is how long ago a time was, in the largest unit that says something.
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
