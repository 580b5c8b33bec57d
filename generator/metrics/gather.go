package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

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

// all are labels as they are shown. They are not changed: several metrics share them.
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
