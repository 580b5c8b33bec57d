package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"muster/generator/plan"
	"muster/generator/status"
)

// figures are the metrics of the last snapshot.
type figures struct {
	snapshot  func() status.Snapshot
	now       func() time.Time
	descs     map[string]*prometheus.Desc
	goVersion string
}

// Describe implements [prometheus.Collector]. It describes nothing: which series
// there are goes by the overlays, and each metric is checked when it is gathered.
func (f figures) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (f figures) Collect(out chan<- prometheus.Metric) {
	s, now := f.snapshot(), f.now()
	fresh := s.Fresh(now)
	put := func(kind prometheus.ValueType, name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(f.descs[name], kind, value, labels...)
	}
	plain := func(name string, value float64, labels []*dto.LabelPair) { out <- sample{f.descs[name], value, labels} }
	set := func(name string, value float64, labels ...string) { put(prometheus.GaugeValue, name, value, labels...) }
	for _, o := range s.Overlays {
		overlay(set, plain, o, s.Observed, fresh)
	}
	if fresh {
		queues(set, s.Queues)
	}
	for _, service := range s.Services {
		for name, value := range map[string]int64{
			"muster_requests_total": service.Requests, "muster_request_failures_total": service.Failures,
			"muster_sent_bytes_total": service.Sent, "muster_received_bytes_total": service.Received,
		} {
			put(prometheus.CounterValue, name, float64(value), service.Name)
		}
		for _, l := range service.Limits {
			set("muster_rate_limit_requests", float64(l.Limit), service.Name, l.Scope)
			set("muster_rate_limit_remaining_requests", float64(l.Remaining), service.Name, l.Scope)
		}
	}
	for _, r := range s.Receivers {
		for result, value := range map[string]int64{"told": r.Told, "failed": r.Failed, "merged": r.Merged} {
			put(prometheus.CounterValue, "muster_notifications_total", float64(value), r.Name, result)
		}
		set("muster_last_notification_seconds", r.Seconds, r.Name)
	}
	if !s.TokenExpires.IsZero() {
		set("muster_buildkite_token_expiry_timestamp_seconds", stamp(s.TokenExpires))
	}
	set("muster_last_success_timestamp_seconds", stamp(s.Success))
	set("muster_last_answer_timestamp_seconds", stamp(s.Git.Answered), "git")
	set("muster_last_answer_timestamp_seconds", stamp(s.Buildkite.Answered), "buildkite")
	set("muster_ready", truth(len(s.NotReady(now)) == 0))
	levels := map[string]int{"warn": 0, "error": 0}
	for _, p := range s.Problems {
		levels[p.Level]++
	}
	for level, n := range levels {
		set("muster_problems", float64(n), level)
	}
	set("muster_interval_seconds", s.Interval().Seconds())
	set("muster_build_info", 1, s.Muster.Version, s.Muster.Commit, f.goVersion)
}

type setter func(name string, value float64, labels ...string)

// overlay sets the gauges of one overlay. Figures that are not fresh are left
// out: nobody is to take them for those of now.
func overlay(set setter, plain func(string, float64, []*dto.LabelPair), o status.Overlay, observed time.Time, fresh bool) {
	labels := []*dto.LabelPair{label(labelOverlay, o.Name)}
	set("muster_overlay_info", 1, o.Name, o.Queue, o.Cluster)
	plain("muster_live_dispatches", float64(o.Dispatches), labels)
	plain("muster_breaker_open", truth(o.Breaker), labels)
	for _, code := range plan.SuspensionCodes() {
		plain("muster_suspended", truth(o.Suspended.Code == code), []*dto.LabelPair{labels[0], label(labelReason, string(code))})
	}
	if !o.Known {
		return
	}
	plain("muster_min_agents", float64(o.Sum.Min), labels)
	plain("muster_max_agents", float64(o.Sum.Max), labels)
	if !fresh {
		return
	}
	age := 0.0
	if !o.Oldest.IsZero() {
		age = max(0, observed.Sub(o.Oldest).Seconds())
	}
	plain("muster_oldest_pending_seconds", age, labels)
	plain("muster_pending_jobs", float64(o.Sum.Pending), labels)
	plain("muster_in_flight_agents", float64(o.Sum.InFlight), labels)
	plain("muster_idle_agents", float64(o.Sum.Idle), labels)
	plain("muster_busy_agents", float64(o.Sum.Busy), labels)
	plain("muster_stopping_agents", float64(o.Sum.Stopping), labels)
	plain("muster_current_agents", float64(o.Sum.Current), labels)
	plain("muster_desired_agents", float64(o.Sum.Desired), labels)
	plain("muster_missing_agents", float64(o.Sum.Missing), labels)
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

const (
	// mostUnserved is how many queues without an overlay have a series: their keys
	// are whatever people write into their steps.
	mostUnserved = 50
	others       = "(others)"
)

func queues(set setter, all []status.Queue) {
	var unserved []status.Queue
	for _, q := range all {
		if !q.Served {
			unserved = append(unserved, q)
			continue
		}
		set("muster_queue_pending_jobs", float64(q.Pending), q.Key)
		set("muster_unmatched_jobs", float64(q.Unmatched), q.Key)
	}
	slices.SortStableFunc(unserved, func(a, b status.Queue) int { return cmp.Compare(b.Unmatched, a.Unmatched) })
	rest := 0
	for i, q := range unserved {
		if i < mostUnserved {
			set("muster_unmatched_jobs", float64(q.Unmatched), q.Key)
		} else {
			rest += q.Unmatched
		}
	}
	if rest > 0 {
		set("muster_unmatched_jobs", float64(rest), others)
	}
}

// stamp is a time in seconds; zero is zero.
func stamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
