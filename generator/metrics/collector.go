package metrics

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"muster/generator/status"
)

// collector collects the metrics of the last snapshot.
type collector struct {
	snapshot  func() status.Snapshot
	now       func() time.Time
	metrics   []metric
	descs     map[string]*prometheus.Desc
	goVersion string
}

func newCollector(snapshot func() status.Snapshot, now func() time.Time, metrics []metric) collector {
	c := collector{snapshot: snapshot, now: now, metrics: metrics, descs: map[string]*prometheus.Desc{}, goVersion: runtime.Version()}
	for _, m := range metrics {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return c
}

// Describe implements [prometheus.Collector]. It describes nothing: which series
// there are goes by the overlays, and each metric is checked when it is gathered.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	at := scrape{Snapshot: c.snapshot(), now: c.now(), goVersion: c.goVersion}
	at.fresh = at.Fresh(at.now)
	labels := make([][]*dto.LabelPair, len(at.Overlays))
	for i, o := range at.Overlays {
		labels[i] = []*dto.LabelPair{label(labelOverlay, o.Name)}
	}
	for _, m := range c.metrics {
		desc := c.descs[m.Name]
		if m.overlay != nil {
			for i, o := range at.Overlays {
				if value, ok := m.overlay(o, at); ok {
					out <- sample{desc, value, labels[i]}
				}
			}
		}
		if m.read != nil {
			m.read(at, func(value float64, labels ...string) {
				if m.Type == counter {
					out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
					return
				}
				out <- sample{desc, value, m.pairs(labels)}
			})
		}
	}
}

// pairs are the labels of a series, sorted by name.
func (m metric) pairs(values []string) []*dto.LabelPair {
	all := make([]*dto.LabelPair, len(values))
	for i, value := range values {
		all[i] = label(m.Labels[i], value)
	}
	slices.SortFunc(all, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

// sample is a gauge like those of [prometheus.NewConstMetric], whose labels several
// share: of 50 overlays there are a thousand.
type sample struct {
	desc   *prometheus.Desc
	value  float64
	labels []*dto.LabelPair // sorted by name
}

// Desc implements [prometheus.Metric].
func (s sample) Desc() *prometheus.Desc { return s.desc }

// Write implements [prometheus.Metric].
func (s sample) Write(out *dto.Metric) error {
	out.Label, out.Gauge = s.labels, &dto.Gauge{Value: &s.value}
	return nil
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
