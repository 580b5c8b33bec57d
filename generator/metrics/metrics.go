// Package metrics makes Prometheus metrics of what ticks report: counters and
// histograms of what happened, and gauges of the last [status.Snapshot]. It has a
// registry of its own and touches no global one.
package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
)

// Metrics counts what ticks report. It is a [generator.Watcher]; its registry may
// be gathered from several goroutines meanwhile.
type Metrics struct {
	registry *prometheus.Registry

	dispatches, dispatched, retired, retiredAgents *prometheus.CounterVec
	withdrawn, never, commits                      *prometheus.CounterVec
	registration, start                            *prometheus.HistogramVec
	ticks, failures, races                         *prometheus.CounterVec
	wakes, deferred, webhooks, jobNotes            *prometheus.CounterVec
	tick, step                                     *prometheus.HistogramVec

	known         map[string]bool // overlays that have series
	registrations registrations
	starts        starts
}

// New returns metrics that have counted nothing. The snapshot and the time are
// asked at every scrape.
func New(snapshot func() status.Snapshot, now func() time.Time) (*Metrics, error) {
	definitions, descs := made()
	count := func(name string) *prometheus.CounterVec {
		d := definitions[name]
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	}
	spread := func(name string) *prometheus.HistogramVec {
		d := definitions[name]
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.buckets}, d.Labels)
	}
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		dispatches: count("muster_dispatches_total"), dispatched: count("muster_dispatched_agents_total"),
		retired: count("muster_retired_dispatches_total"), retiredAgents: count("muster_retired_agents_total"),
		withdrawn: count("muster_withdrawn_dispatches_total"), never: count("muster_never_registered_agents_total"),
		commits: count("muster_commits_total"), registration: spread("muster_registration_seconds"), start: spread("muster_start_seconds"),
		ticks: count("muster_ticks_total"), failures: count("muster_tick_failures_total"), races: count("muster_push_races_total"),
		wakes: count("muster_wakes_total"), deferred: count("muster_wakes_deferred_total"), webhooks: count("muster_webhooks_total"),
		jobNotes: count("muster_job_notes_total"),
		tick:     spread("muster_tick_seconds"), step: spread("muster_tick_step_seconds"),
		known: map[string]bool{},
	}
	for _, o := range generator.Outcomes() {
		m.ticks.WithLabelValues(string(o))
	}
	for _, s := range generator.Steps() {
		m.failures.WithLabelValues(string(s))
		m.step.WithLabelValues(string(s))
	}
	for _, c := range generator.Causes() {
		m.wakes.WithLabelValues(string(c))
	}
	m.races.WithLabelValues()
	m.deferred.WithLabelValues()
	m.tick.WithLabelValues()
	for _, c := range []prometheus.Collector{
		m.dispatches, m.dispatched, m.retired, m.retiredAgents, m.withdrawn, m.never, m.commits, m.registration, m.start,
		m.ticks, m.failures, m.races, m.wakes, m.deferred, m.webhooks, m.jobNotes, m.tick, m.step,
		figures{snapshot: snapshot, now: now, descs: descs, goVersion: runtime.Version()},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Registry is where the metrics are gathered from.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics, as text or as OpenMetrics, whichever is asked for. It
// does not compress: that would cost more than gathering them. The values of labels
// are shown as that function says, which is asked about those that are not plain; nil:
// as they are.
func (m *Metrics) Handler(shown func(string) string) http.Handler {
	const together = 4 // scrapes
	var from prometheus.Gatherer = m.registry
	if shown != nil {
		from = labelled{m.registry, shown}
	}
	return promhttp.HandlerFor(from, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true, MaxRequestsInFlight: together})
}

// Webhooks adds requests to a webhook, by their source and by what became of them. None
// begins the series. It may be called from several goroutines.
func (m *Metrics) Webhooks(source, result string, n int) {
	m.webhooks.WithLabelValues(source, result).Add(float64(n))
}

// JobNotes adds lines that were to be written on jobs' pages, by what became of them. None
// begins the series. It may be called from several goroutines.
func (m *Metrics) JobNotes(result string, n int) {
	m.jobNotes.WithLabelValues(result).Add(float64(n))
}

// Began implements [generator.Watcher].
func (m *Metrics) Began(time.Time) {}

// Ended implements [generator.Watcher].
func (m *Metrics) Ended(r generator.Report) {
	m.ticks.WithLabelValues(string(r.Outcome)).Inc()
	if r.Outcome == generator.Failed {
		m.failures.WithLabelValues(string(r.Failed)).Inc()
	}
	m.races.WithLabelValues().Add(float64(r.Result.Races))
	m.wakes.WithLabelValues(string(r.Cause)).Inc()
	if r.Deferred {
		m.deferred.WithLabelValues().Inc()
	}
	m.tick.WithLabelValues().Observe(r.Ended.Sub(r.Began).Seconds())
	for step, took := range r.Steps {
		m.step.WithLabelValues(string(step)).Observe(took.Seconds())
	}
	m.overlays(r)
	m.registrations.note(r.Result, func(overlay, dispatch string, agents int, after time.Duration) {
		for range agents {
			observe(m.registration.WithLabelValues(overlay), after.Seconds(), dispatch)
		}
	})
	m.starts.note(r.Result, func(overlay, dispatch string, waited time.Duration) {
		observe(m.start.WithLabelValues(overlay), waited.Seconds(), dispatch)
	})
	if r.DryRun {
		return
	}
	for _, a := range r.Result.Landed {
		m.act(a)
	}
	for _, a := range r.Result.Acts {
		m.act(a)
	}
}

// act counts one act that is in git.
func (m *Metrics) act(a ledger.Act) {
	overlay := a.Decision.Overlay
	m.begin(overlay)
	m.commits.WithLabelValues(overlay, string(a.Kind)).Inc()
	switch a.Kind {
	case ledger.Dispatch:
		for _, d := range a.Decision.Dispatch {
			add(m.dispatches.WithLabelValues(overlay, string(d.Purpose)), 1, d.ID)
			add(m.dispatched.WithLabelValues(overlay, string(d.Purpose)), d.Agents, d.ID)
		}
	case ledger.Retire:
		for _, r := range a.Decision.Retire {
			if r.Reason == plan.Withdrawn {
				add(m.withdrawn.WithLabelValues(overlay), 1, r.ID)
				continue
			}
			add(m.retired.WithLabelValues(overlay, r.Outcome()), 1, r.ID)
			add(m.retiredAgents.WithLabelValues(overlay, r.Outcome()), r.Agents, r.ID)
			add(m.never.WithLabelValues(overlay), r.Agents-r.Registered, r.ID)
		}
	}
}

// overlays begins the series of overlays that are new, at zero, and ends those of
// overlays that are gone.
func (m *Metrics) overlays(r generator.Report) {
	if r.Err != nil {
		return
	}
	now := map[string]bool{}
	for _, o := range r.Result.Looked.Overlays {
		now[o.Name] = true
		m.begin(o.Name)
	}
	for _, s := range r.Result.Suspended {
		now[s.Overlay] = true
	}
	for name := range m.known {
		if !now[name] {
			m.end(name)
		}
	}
}

func (m *Metrics) begin(overlay string) {
	if m.known[overlay] {
		return
	}
	m.known[overlay] = true
	for _, purpose := range []plan.Purpose{plan.ForDemand, plan.ForWarmPool} {
		m.dispatches.WithLabelValues(overlay, string(purpose))
		m.dispatched.WithLabelValues(overlay, string(purpose))
	}
	for _, outcome := range plan.Outcomes() {
		if outcome != string(plan.Withdrawn) {
			m.retired.WithLabelValues(overlay, outcome)
			m.retiredAgents.WithLabelValues(overlay, outcome)
		}
	}
	for _, kind := range []ledger.Kind{ledger.Repair, ledger.Dispatch, ledger.Retire} {
		m.commits.WithLabelValues(overlay, string(kind))
	}
	m.withdrawn.WithLabelValues(overlay)
	m.never.WithLabelValues(overlay)
	m.registration.WithLabelValues(overlay)
	m.start.WithLabelValues(overlay)
}

func (m *Metrics) end(overlay string) {
	delete(m.known, overlay)
	of := prometheus.Labels{labelOverlay: overlay}
	for _, c := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.dispatches, m.dispatched, m.retired, m.retiredAgents, m.withdrawn, m.never, m.commits, m.registration, m.start,
	} {
		c.DeletePartialMatch(of)
	}
}

// add adds to a counter, with the dispatch that it is about as exemplar.
func add(c prometheus.Counter, n int, dispatch string) {
	if e, ok := c.(prometheus.ExemplarAdder); ok && n > 0 {
		e.AddWithExemplar(float64(n), prometheus.Labels{"dispatch": dispatch})
	}
}

// observe adds to a histogram, with the dispatch that it is about as exemplar
// where it is known.
func observe(o prometheus.Observer, value float64, dispatch string) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && dispatch != "" {
		e.ObserveWithExemplar(value, prometheus.Labels{"dispatch": dispatch})
		return
	}
	o.Observe(value)
}
