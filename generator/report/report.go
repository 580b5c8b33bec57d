// Package report summarizes a fleet's commits over a period, next to another period: jobs and their waits,
// agents and their cost, and what was unusual. The state between two commits is not known, so that some
// figures have an error: [Report.Method] defines each of them.
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
	// is the current time. Compare is the start of a period of the same length to compare with; if it is
	// zero, that is the period before.
	From, To, Now, Compare time.Time
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

// Limits of a report.
const (
	maxEntries = 50_000
	maxEdits   = 200
	maxNames   = 10_000
)

// Report is the result for a period.
type Report struct {
	// From and To are the period.
	From, To time.Time
	// Overlays are sorted by the number of agents ordered, highest first.
	Overlays []Overlay
	// Outliers are the longest waits, failed orders, limits and open circuit breakers.
	Outliers []Outlier
	// Edits are by people, newest first. EditsLeftOut is the number of edits that are not listed.
	Edits        []ledger.Operation
	EditsLeftOut int
	// Before is the period to compare with; nil if its beginning was not read.
	Before *Report
	// Cut reports that all figures omit the oldest commits, because there are more than are kept.
	// From is then the time of the oldest commit that is included.
	Cut bool
	// Names are all overlays in the commits, at most 10,000.
	Names []string
	// Count is the number of commits that were read, and Oldest the time of the oldest.
	Count  history.Count
	Oldest time.Time
}

// Overlay is the result for one overlay.
type Overlay struct {
	Name string
	Figures
	// Samples are the observations of its queue in the period, oldest first.
	Samples []history.Sample
	// Since and Until are the times in the period between which the number of its agents is known; both
	// are zero if it is unknown.
	Since, Until time.Time
	// Ordered are its orders, oldest first.
	Ordered []ledger.Operation
}

// Figures are the figures of an overlay or of all.
type Figures struct {
	history.Total
	// Jobs is the number of jobs that agents took, and Waits how long they had been pending.
	Jobs  Range
	Waits Waits
	// Connected is the time for which agents were connected, in agent-hours.
	Connected Range
	// Unused is the number of agents that registered and disconnected without a job.
	Unused Range
}

// add adds the figures of another overlay.
func (f *Figures) add(x Figures) {
	f.Orders += x.Orders
	f.Agents += x.Agents
	f.Registered += x.Registered
	f.Lost += x.Lost
	f.InFlight += x.InFlight
	f.Unknown += x.Unknown
	f.Jobs.add(x.Jobs)
	f.Waits = append(f.Waits, x.Waits...)
	f.Connected.add(x.Connected)
	f.Unused.add(x.Unused)
}

// Range contains the bounds of a figure, and an estimate between them.
type Range struct{ Min, About, Max float64 }

// between returns a range with the mean as its estimate.
func between(least, most int) Range {
	return Range{float64(least), float64(least+most) / 2, float64(most)}
}

func (r *Range) add(x Range) {
	r.Min += x.Min
	r.About += x.About
	r.Max += x.Max
}

// Error returns the distance from the estimate to the farther bound.
func (r Range) Error() float64 { return max(r.About-r.Min, r.Max-r.About) }

// Sum returns the figures of all overlays.
func (r Report) Sum() Figures {
	var sum Figures
	for _, o := range r.Overlays {
		sum.add(o.Figures)
	}
	return sum
}

// Read returns the report of the operations of a log, which must be newest first.
func (c Config) Read(log iter.Seq2[ledger.Operation, error]) (Report, error) {
	if c.MaxEntries == 0 {
		c.MaxEntries = maxEntries
	}
	length := cmp.Or(c.To, c.Now).Sub(c.From)
	before := c
	if before.From = c.Compare; c.Compare.IsZero() {
		before.From = c.From.Add(-length)
	}
	before.To = before.From.Add(length)
	r := reader{Config: c, known: map[string]bool{}, makers: []*maker{newMaker(c), newMaker(before)}}
	since := c.From
	if before.From.Before(since) {
		since = before.From
	}
	h := history.Config{Overlays: c.Overlays, Now: c.Now, Since: since.Add(-Lookback), Edits: c.Edits, Count: &r.count}
	for row, err := range h.Rows(r.keep(log)) {
		if err != nil {
			return Report{}, err
		}
		r.know(row.Overlay)
		for _, m := range r.makers {
			m.row(row)
		}
	}
	r.replay()
	made := r.makers[0].finish()
	made.To = cmp.Or(c.To, c.Now)
	made.Names, made.Count, made.Oldest = slices.Sorted(maps.Keys(r.known)), r.count, r.oldest
	if made.Cut = r.cut && r.oldest.After(c.From); made.Cut {
		made.From = r.oldest
	}
	if !r.oldest.IsZero() && !r.oldest.After(before.From) {
		other := r.makers[1].finish()
		other.To = before.To
		made.Before = &other
	}
	return made, nil
}

// reader reads the operations of both periods.
type reader struct {
	Config
	known      map[string]bool    // names of overlays
	operations []ledger.Operation // by muster, the newest first
	oldest     time.Time          // time of the oldest operation
	cut        bool               // there are more operations than are kept
	count      history.Count
	makers     []*maker
}

// keep yields the operations, and stores those by muster without unneeded fields.
func (r *reader) keep(log iter.Seq2[ledger.Operation, error]) iter.Seq2[ledger.Operation, error] {
	return func(yield func(ledger.Operation, error) bool) {
		for e, err := range log {
			if e.ByMuster() {
				if len(r.operations) == r.MaxEntries {
					r.cut = true
					return
				}
				kept := e
				kept.Message, kept.Text, kept.Observation.Unmatched = "", "", nil
				r.operations = append(r.operations, kept)
			}
			if err == nil && (r.oldest.IsZero() || e.At.Before(r.oldest)) {
				r.oldest = e.At
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// know stores the name of an overlay.
func (r *reader) know(name string) {
	if name != "" && len(r.known) < maxNames {
		r.known[name] = true
	}
}

// maxAhead is how far in the future the time of a poll may be, because clocks differ. Samples with a
// later time are ignored.
const maxAhead = time.Hour

// replay passes the samples of all overlays, oldest first.
func (r *reader) replay() {
	var s history.Sampler
	for _, e := range slices.Backward(r.operations) {
		s.Add(e, func(s history.Sample) {
			r.know(s.Overlay)
			for _, m := range r.makers {
				if len(m.filter.Overlays) == 0 || slices.Contains(m.filter.Overlays, s.Overlay) {
					if !s.At.After(r.Now.Add(maxAhead)) {
						m.sample(e, s)
					}
				}
			}
		})
	}
}

// maker collects the content of a period.
type maker struct {
	Config
	filter   history.Filter
	overlays map[string]*Overlay
	byName   history.Digest
	orders   []ledger.Operation // the newest first
	edits    []ledger.Operation
	leftOut  int // of edits
	states   map[string]*state
	outliers outliers
}

// state is what is known of an overlay at its last sample.
type state struct {
	gaps  gaps
	queue queue
}

func newMaker(c Config) *maker {
	return &maker{
		Config: c, filter: history.Filter{Overlays: c.Names}, overlays: map[string]*Overlay{},
		byName: history.Digest{By: history.Overlay}, states: map[string]*state{},
	}
}

func (m *maker) within(at time.Time) bool {
	return !at.Before(m.From) && (m.To.IsZero() || at.Before(m.To))
}

// row adds a row.
func (m *maker) row(r ledger.Operation) {
	if !m.within(r.At) || !m.filter.Wants(r) {
		return
	}
	if r.Overlay != "" {
		m.byName.Add(r)
		o := m.overlay(r.Overlay)
		if r.Kind == ledger.Dispatch {
			m.orders = append(m.orders, r)
			// At least those that had disconnected without a job at the retirement, at most all registered
			// agents that are not known to have had one.
			o.Unused.add(between(r.Outcome.Unused, r.Outcome.Registered-r.Outcome.HadJob))
		}
	}
	if r.Kind.Own() {
		return
	}
	if len(m.edits) == maxEdits {
		m.leftOut++
		return
	}
	m.edits = append(m.edits, r)
}

// sample adds a sample of an overlay by an operation.
func (m *maker) sample(e ledger.Operation, s history.Sample) {
	x := m.states[s.Overlay]
	if x == nil {
		x = &state{}
		m.states[s.Overlay] = x
	}
	started := func(wait) {}
	in := m.within(s.At)
	if in {
		o := m.overlay(s.Overlay)
		o.Samples = append(o.Samples, s)
		started = func(w wait) { o.Waits = append(o.Waits, w) }
		m.outliers.add(e, s)
	}
	jobs := x.queue.add(s, started)
	if in {
		m.overlay(s.Overlay).Jobs.add(jobs)
	}
	m.between(&x.gaps, s)
}

func (m *maker) overlay(name string) *Overlay {
	if m.overlays[name] == nil {
		m.overlays[name] = &Overlay{Name: name}
	}
	return m.overlays[name]
}

// finish returns the report.
func (m *maker) finish() Report {
	for _, t := range m.byName.Totals() {
		m.overlay(t.Key).Total = t
	}
	for _, r := range slices.Backward(m.orders) {
		o := m.overlay(r.Overlay)
		o.Ordered = append(o.Ordered, r)
	}
	for name, x := range m.states {
		if len(x.gaps.all) > 0 {
			m.overlay(name).Connected = x.gaps.connected()
		}
	}
	r := Report{From: m.From, To: m.To, Edits: m.edits, EditsLeftOut: m.leftOut}
	for _, o := range m.overlays {
		r.Overlays = append(r.Overlays, *o)
	}
	slices.SortFunc(r.Overlays, func(a, b Overlay) int {
		return cmp.Or(cmp.Compare(b.Agents, a.Agents), strings.Compare(a.Name, b.Name))
	})
	r.Outliers = m.outliers.list(r.Overlays)
	return r
}
