// Package metrics exports Prometheus metrics of ticks: counters, histograms, and gauges of the
// last [status.Snapshot]. It does not use the global registry.
package metrics

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"muster/generator"
	"muster/generator/status"
)

// Metrics counts what ticks report. It is a [generator.Watcher]; its registry may be gathered
// concurrently.
type Metrics struct {
	registry   *prometheus.Registry
	metrics    []metric
	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
	known      map[string]bool // overlays that have series
}

// New returns metrics without counts. It calls snapshot and now at every scrape.
func New(snapshot func() status.Snapshot, now func() time.Time) (*Metrics, error) {
	m := &Metrics{
		registry: prometheus.NewRegistry(), metrics: table(&registrations{}, &starts{}),
		counters: map[string]*prometheus.CounterVec{}, histograms: map[string]*prometheus.HistogramVec{}, known: map[string]bool{},
	}
	all := []prometheus.Collector{
		newCollector(snapshot, now, m.metrics), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	for _, d := range m.metrics {
		switch {
		case d.read != nil || d.overlay != nil:
			continue
		case d.Type == counter:
			m.counters[d.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
			all = append(all, m.counters[d.Name])
		default:
			m.histograms[d.Name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.buckets}, d.Labels)
			all = append(all, m.histograms[d.Name])
		}
		if !d.ofOverlay() {
			m.zero(d)
		}
	}
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ofOverlay reports whether a metric has series for each overlay.
func (m metric) ofOverlay() bool { return len(m.Labels) > 0 && m.Labels[0] == labelOverlay }

// zero begins the series of a metric at zero, for an overlay if it has series for each.
func (m *Metrics) zero(d metric, overlay ...string) {
	for _, labels := range d.zero {
		labels = slices.Concat(overlay, labels)
		if c := m.counters[d.Name]; c != nil {
			c.WithLabelValues(labels...)
		} else {
			m.histograms[d.Name].WithLabelValues(labels...)
		}
	}
}

// Registry is where the metrics are gathered from.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics, as text or as OpenMetrics, as the client requests. It
// does not compress: that would cost more than gathering them. If a label value of a metric
// contains an @, a control character or a character outside ASCII, the metric's label values
// are replaced by the results of shown. If shown is nil, all label values are unchanged.
func (m *Metrics) Handler(shown func(string) string) http.Handler {
	const together = 4 // scrapes
	var from prometheus.Gatherer = m.registry
	if shown != nil {
		from = labelled{m.registry, shown}
	}
	return promhttp.HandlerFor(from, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true, MaxRequestsInFlight: together})
}

// Webhooks adds n requests to a webhook, by source and result; zero begins the series. It is safe
// for concurrent use.
func (m *Metrics) Webhooks(source, result string, n int) {
	m.counters[webhooks].WithLabelValues(source, result).Add(float64(n))
}

// JobNotes adds n job notifications by result; zero begins the series. It is safe for concurrent
// use.
func (m *Metrics) JobNotes(result string, n int) {
	m.counters[jobNotes].WithLabelValues(result).Add(float64(n))
}

// Began implements [generator.Watcher].
func (m *Metrics) Began(time.Time) {}

// Ended implements [generator.Watcher].
func (m *Metrics) Ended(r generator.Report) {
	m.overlays(r)
	for _, a := range committed(r) {
		m.begin(a.Decision.Overlay)
	}
	for _, d := range m.metrics {
		if d.tick == nil {
			continue
		}
		d.tick(r, func(value float64, dispatch string, labels ...string) {
			if c := m.counters[d.Name]; c != nil {
				add(c.WithLabelValues(labels...), value, dispatch)
			} else {
				observe(m.histograms[d.Name].WithLabelValues(labels...), value, dispatch)
			}
		})
	}
}

// overlays begins the series of new overlays, at zero, and ends those of removed overlays.
func (m *Metrics) overlays(r generator.Report) {
	if r.Err != nil {
		return
	}
	now := map[string]bool{}
	for _, o := range r.Result.Input.Overlays {
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
	for _, d := range m.metrics {
		if d.ofOverlay() {
			m.zero(d, overlay)
		}
	}
}

func (m *Metrics) end(overlay string) {
	delete(m.known, overlay)
	of := prometheus.Labels{labelOverlay: overlay}
	for _, c := range m.counters {
		c.DeletePartialMatch(of)
	}
	for _, h := range m.histograms {
		h.DeletePartialMatch(of)
	}
}

// add adds to a counter, with the dispatch as exemplar if it is known.
func add(c prometheus.Counter, value float64, dispatch string) {
	if e, ok := c.(prometheus.ExemplarAdder); ok && dispatch != "" && value > 0 {
		e.AddWithExemplar(value, prometheus.Labels{"dispatch": dispatch})
		return
	}
	c.Add(value)
}

// observe adds to a histogram, with the dispatch as exemplar if it is known.
func observe(o prometheus.Observer, value float64, dispatch string) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && dispatch != "" {
		e.ObserveWithExemplar(value, prometheus.Labels{"dispatch": dispatch})
		return
	}
	o.Observe(value)
}

// labelled gathers metrics with printable label values: names of overlays and queues are
// untrusted.
type labelled struct {
	from  prometheus.Gatherer
	shown func(string) string
}

// Gather implements [prometheus.Gatherer].
func (l labelled) Gather() ([]*dto.MetricFamily, error) {
	families, err := l.from.Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			if slices.ContainsFunc(m.Label, invalid) {
				m.Label = l.all(m.Label)
			}
		}
	}
	return families, err
}

// all returns copies of the labels with printable values: several metrics share the originals.
func (l labelled) all(labels []*dto.LabelPair) []*dto.LabelPair {
	var all []*dto.LabelPair
	for _, pair := range labels {
		all = append(all, label(pair.GetName(), l.shown(pair.GetValue())))
	}
	return all
}

// invalid reports whether a label's value has anything but letters, digits and signs of
// ASCII, or has an @.
func invalid(pair *dto.LabelPair) bool {
	value := pair.GetValue()
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '@' {
			return true
		}
	}
	return false
}
