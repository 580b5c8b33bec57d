// Package report summarizes a fleet's commits over a period: orders and their outcomes, how long
// jobs waited, and how long agents were connected. The state between two commits is not known, so
// that some figures are bounds: docs/how-to/investigate.md, "Report waits and cost", defines each
// of them.
package report

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Config is the configuration of a report.
type Config struct {
	// Overlays is the directory of overlays.
	Overlays string
	// From (inclusive) and To (exclusive) are the period; a zero To means up to the newest commit. Now
	// is the current time.
	From, To, Now time.Time
	// Names are the overlays; empty selects all.
	Names []string
	// Edits returns the changes of commits by people; see [history.Config].
	Edits func(commits []branch.Commit, trees map[string]string) ([]branch.Edits, error)
	// MaxEntries limits the number of commits by muster that are kept; zero is 50,000.
	MaxEntries int
}

// Lookback is how long before the period reading begins: no order is in flight for longer, and the first
// figures need the commit before them.
const Lookback = 25 * time.Hour

// Limits of a report; see [Report.LeftOut].
const (
	maxEntries    = 50_000
	maxOperations = 400
	maxEdits      = 200
	maxHours      = 10
	maxText       = 1500
	maxNames      = 10_000
)

// Report is the result for a period.
type Report struct {
	// From and To are the period.
	From, To time.Time
	// Overlays are sorted by the number of agents ordered, highest first.
	Overlays []Overlay
	// Days are the totals of all overlays, newest first.
	Days []Day
	// Hours are the hours of UTC in which most agents were ordered, busiest first.
	Hours []history.Total
	// Operations are by muster, and Edits by people, newest first. Only the text of operations is kept of
	// the large fields.
	Operations []ledger.Operation
	Edits      []ledger.Operation
	// LeftOut are the numbers of operations and edits that are not listed. The figures include them.
	LeftOut struct{ Operations, Edits int }
	// Cut reports that all figures omit the oldest commits, because there are more than are kept.
	// From is then the time of the oldest commit that is included.
	Cut bool
	// Names are all overlays in the commits, at most 10,000.
	Names []string
	// Count is the number of commits that were read.
	Count history.Count
}

// Overlay is the result for one overlay.
type Overlay struct {
	Name string
	Figures
	// Samples are the observations of its queue, oldest first. The first may be before the period.
	Samples []history.Sample
	// Since and Until are the times in the period between which the number of its agents is known; both
	// are zero if it is unknown.
	Since, Until time.Time
	// Ordered are its orders, oldest first.
	Ordered []ledger.Operation
	// Trials is the number of agents ordered while the circuit breaker was open. Open is the minimum
	// time for which it was open: from the first to the last trial between two other orders.
	Trials int
	Open   time.Duration
}

// Figures are the figures of an overlay or a day.
type Figures struct {
	history.Total
	// Connected is the time for which agents were connected, in agent-hours.
	Connected Range
	// Wait is the longest known wait of a pending job. Others may have waited longer.
	Wait time.Duration
	// Unused is the number of agents that registered and disconnected without a job.
	Unused Bounds
}

// Range contains the bounds of a figure.
type Range struct{ Min, Max float64 }

// Bounds contains the bounds of a number.
type Bounds struct{ Min, Max int }

// Day is the result for one day in UTC.
type Day struct {
	At time.Time
	Figures
}

// Read returns the report of the operations of a log, which must be newest first.
func (c Config) Read(log iter.Seq2[ledger.Operation, error]) (Report, error) {
	if c.MaxEntries == 0 {
		c.MaxEntries = maxEntries
	}
	m := &maker{
		Config: c, report: Report{From: c.From, To: c.To}, overlays: map[string]*Overlay{}, days: map[time.Time]*Day{},
		filter: history.Filter{Overlays: c.Names}, known: map[string]bool{}, texts: map[string]string{},
		hours: history.Digest{By: history.Hour}, byName: history.Digest{By: history.Overlay}, byDay: history.Digest{By: history.Day},
	}
	h := history.Config{Overlays: c.Overlays, Now: c.Now, Since: c.From.Add(-Lookback), Edits: c.Edits, Count: &m.report.Count}
	for row, err := range h.Rows(m.keep(log)) {
		if err != nil {
			return Report{}, err
		}
		m.row(row)
	}
	m.replay()
	if m.To.IsZero() {
		m.report.To = c.Now
	}
	return m.finish(), nil
}

// maker collects the content of a report.
type maker struct {
	Config
	report     Report
	filter     history.Filter
	known      map[string]bool    // names of overlays
	operations []ledger.Operation // by muster, the newest first
	texts      map[string]string
	overlays   map[string]*Overlay
	days       map[time.Time]*Day
	hours      history.Digest
	byName     history.Digest
	byDay      history.Digest
	orders     []ledger.Operation // the newest first
}

// keep yields the operations, and stores those by muster.
func (m *maker) keep(log iter.Seq2[ledger.Operation, error]) iter.Seq2[ledger.Operation, error] {
	return func(yield func(ledger.Operation, error) bool) {
		for r, err := range log {
			if r.ByMuster() {
				if len(m.operations) == m.MaxEntries {
					m.report.Cut = true
					return
				}
				m.add(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// add stores an operation without unneeded fields.
func (m *maker) add(e ledger.Operation) {
	if m.within(e.At) && m.wants(e.Overlay) && len(m.texts) < maxOperations {
		m.texts[e.ID] = shorten(e.Text)
	}
	e.Message, e.Text, e.Observation.Unmatched = "", "", nil
	m.operations = append(m.operations, e)
	if at := e.At; len(m.operations) == m.MaxEntries && at.After(m.report.From) {
		m.report.From = at
	}
}

func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " ..."
}

func (m *maker) within(at time.Time) bool {
	return !at.Before(m.report.From) && (m.To.IsZero() || at.Before(m.To))
}

// wants reports whether an overlay is reported.
func (m *maker) wants(name string) bool { return len(m.Names) == 0 || slices.Contains(m.Names, name) }

// row adds a row.
func (m *maker) row(r ledger.Operation) {
	m.know(r.Overlay)
	if !m.within(r.At) || !m.filter.Wants(r) {
		return
	}
	m.hours.Add(r)
	m.byDay.Add(r)
	day := m.day(r.At)
	if r.Overlay != "" {
		m.byName.Add(r)
		o := m.overlay(r.Overlay)
		if r.Kind == ledger.Dispatch {
			if r.Trial() {
				o.Trials += r.Agents()
			}
			m.orders = append(m.orders, r)
			unused(&o.Unused, r)
			unused(&day.Unused, r)
		}
	}
	switch {
	case !r.Kind.Own():
		if m.report.Edits = append(m.report.Edits, r); len(m.report.Edits) > maxEdits {
			m.report.Edits = m.report.Edits[:maxEdits]
			m.report.LeftOut.Edits++
		}
	case len(m.report.Operations) == maxOperations:
		m.report.LeftOut.Operations++
	default:
		r.Text = cmp.Or(m.texts[r.ID], r.Why)
		m.report.Operations = append(m.report.Operations, r)
	}
}

// know stores the name of an overlay.
func (m *maker) know(name string) {
	if name != "" && len(m.known) < maxNames {
		m.known[name] = true
	}
}

// unused adds the agents of an order without a job: at least those that had disconnected without one at
// the retirement, at most all registered agents that are not known to have had one.
func unused(b *Bounds, r ledger.Operation) {
	o := r.Outcome
	b.Min += o.Unused
	b.Max += o.Registered - o.HadJob
}

func (m *maker) overlay(name string) *Overlay {
	if m.overlays[name] == nil {
		m.overlays[name] = &Overlay{Name: name}
	}
	return m.overlays[name]
}

func (m *maker) day(at time.Time) *Day {
	at = at.UTC().Truncate(24 * time.Hour)
	if m.days[at] == nil {
		m.days[at] = &Day{At: at}
	}
	return m.days[at]
}

// finish returns the report.
func (m *maker) finish() Report {
	for _, t := range m.byName.Totals() {
		m.overlay(t.Key).Total = t
	}
	for _, t := range m.byDay.Totals() {
		at, _ := time.Parse(time.DateOnly, t.Key)
		m.day(at).Total = t
	}
	m.addOrders()
	r := m.report
	r.Names = slices.Sorted(maps.Keys(m.known))
	for _, o := range m.overlays {
		r.Overlays = append(r.Overlays, *o)
	}
	slices.SortFunc(r.Overlays, func(a, b Overlay) int {
		return cmp.Or(cmp.Compare(b.Agents, a.Agents), strings.Compare(a.Name, b.Name))
	})
	for _, at := range slices.SortedFunc(maps.Keys(m.days), func(a, b time.Time) int { return b.Compare(a) }) {
		r.Days = append(r.Days, *m.days[at])
	}
	for _, t := range m.hours.Totals() {
		if t.Agents > 0 {
			r.Hours = append(r.Hours, t)
		}
	}
	slices.SortStableFunc(r.Hours, func(a, b history.Total) int { return cmp.Compare(b.Agents, a.Agents) })
	r.Hours = r.Hours[:min(len(r.Hours), maxHours)]
	return r
}

// addOrders sets the orders and the open times of circuit breakers.
func (m *maker) addOrders() {
	first := map[string]time.Time{} // of the trials in a row
	last := map[string]time.Time{}
	for _, r := range slices.Backward(m.orders) {
		o := m.overlay(r.Overlay)
		o.Ordered = append(o.Ordered, r)
		if !r.Trial() {
			delete(first, o.Name)
			continue
		}
		if first[o.Name].IsZero() {
			first[o.Name], last[o.Name] = r.At, r.At
		}
		o.Open += max(0, r.At.Sub(last[o.Name]))
		last[o.Name] = r.At
	}
}
