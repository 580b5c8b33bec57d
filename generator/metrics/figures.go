package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	put := func(kind prometheus.ValueType, name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(f.descs[name], kind, value, labels...)
	}
	set := func(name string, value float64, labels ...string) { put(prometheus.GaugeValue, name, value, labels...) }
	for _, o := range s.Overlays {
		overlay(set, o, s.Observed, s.Fresh(now))
	}
	if s.Fresh(now) {
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
func overlay(set setter, o status.Overlay, observed time.Time, fresh bool) {
	set("muster_overlay_info", 1, o.Name, o.Queue, o.Cluster)
	set("muster_live_dispatches", float64(o.Dispatches), o.Name)
	set("muster_breaker_open", truth(o.Breaker), o.Name)
	for _, code := range plan.SuspensionCodes() {
		set("muster_suspended", truth(o.Suspended.Code == code), o.Name, string(code))
	}
	if !o.Known {
		return
	}
	set("muster_min_agents", float64(o.Sum.Min), o.Name)
	set("muster_max_agents", float64(o.Sum.Max), o.Name)
	if !fresh {
		return
	}
	age := 0.0
	if !o.Oldest.IsZero() {
		age = max(0, observed.Sub(o.Oldest).Seconds())
	}
	set("muster_oldest_pending_seconds", age, o.Name)
	set("muster_pending_jobs", float64(o.Sum.Pending), o.Name)
	set("muster_in_flight_agents", float64(o.Sum.InFlight), o.Name)
	set("muster_idle_agents", float64(o.Sum.Idle), o.Name)
	set("muster_busy_agents", float64(o.Sum.Busy), o.Name)
	set("muster_stopping_agents", float64(o.Sum.Stopping), o.Name)
	set("muster_current_agents", float64(o.Sum.Current), o.Name)
	set("muster_desired_agents", float64(o.Sum.Desired), o.Name)
	set("muster_missing_agents", float64(o.Sum.Missing), o.Name)
}

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
