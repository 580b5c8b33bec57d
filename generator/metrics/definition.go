package metrics

import (
	"cmp"
	"slices"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
)

// Definition describes a metric. The table of docs/reference/metrics.md is generated from them.
type Definition struct {
	// Name, Type (gauge, counter or histogram) and Labels are as they are served.
	Name, Type string
	Labels     []string
	// Help describes what it counts.
	Help string
	// buckets are a histogram's upper bounds.
	buckets []float64
}

// The types of metric.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// The labels.
const (
	labelOverlay = "overlay"
	labelQueue   = "queue"
	labelReason  = "reason"
	labelPurpose = "purpose"
	labelOutcome = "outcome"
	labelService = "service"
	labelStep    = "step"
	labelWho     = "receiver"
)

// Definitions are all metrics of muster's own, by name.
func Definitions() []Definition {
	var all []Definition
	for _, m := range table(&registrations{}, &starts{}) {
		all = append(all, m.Definition)
	}
	slices.SortFunc(all, func(a, b Definition) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// metric is a metric: its definition, and one function that returns its
// values.
type metric struct {
	Definition
	// overlay returns the value for an overlay; false if it has none now.
	overlay func(o status.Overlay, at scrape) (float64, bool)
	// read puts the values of a snapshot.
	read func(at scrape, put func(value float64, labels ...string))
	// tick adds the results of a tick. A value's exemplar is its dispatch; none if empty.
	tick func(r generator.Report, add func(value float64, dispatch string, labels ...string))
	// zero are the labels of series that begin at zero, after that of the overlay if the metric has
	// one: for each overlay, or at the start of the process. A series without labels is an empty list.
	zero [][]string
}

// scrape is a snapshot when it is scraped. fresh reports whether its figures are those of now.
type scrape struct {
	status.Snapshot
	now       time.Time
	fresh     bool
	goVersion string
}

// ofDecision is a gauge of the last decision about an overlay. It has no value while the last poll
// is outdated.
func ofDecision[N int | float64](name, help string, value func(d plan.Decision) N) metric {
	return metric{
		Definition: Definition{Name: name, Type: gauge, Labels: []string{labelOverlay}, Help: help},
		overlay: func(o status.Overlay, at scrape) (float64, bool) {
			if o.Decision == nil || !at.fresh {
				return 0, false
			}
			return float64(value(*o.Decision)), true
		},
	}
}

// ofPolicy is an [ofDecision] of the policy, which has a value even while the last poll is outdated.
func ofPolicy(name, help string, value func(d plan.Decision) int) metric {
	m := ofDecision(name, help, value)
	fresh := m.overlay
	m.overlay = func(o status.Overlay, at scrape) (float64, bool) {
		at.fresh = true
		return fresh(o, at)
	}
	return m
}

// ofService is a counter of requests to git and to Buildkite.
func ofService(name, help string, value func(s status.Service) int64) metric {
	return metric{
		Definition: Definition{Name: name, Type: counter, Labels: []string{labelService}, Help: help},
		read: func(at scrape, put func(float64, ...string)) {
			for _, s := range at.Services {
				put(float64(value(s)), s.Name)
			}
		},
	}
}

// ofLimit is a gauge of the rate limits that a server reports.
func ofLimit(name, help string, value func(l status.Limit) int64) metric {
	return metric{
		Definition: Definition{Name: name, Type: gauge, Labels: []string{labelService, "scope"}, Help: help},
		read: func(at scrape, put func(float64, ...string)) {
			for _, s := range at.Services {
				for _, l := range s.Limits {
					put(float64(value(l)), s.Name, l.Scope)
				}
			}
		},
	}
}

// single is a gauge with one value.
func single(name, help string, value func(at scrape) (float64, bool)) metric {
	return metric{Definition: Definition{Name: name, Type: gauge, Help: help}, read: func(at scrape, put func(float64, ...string)) {
		if v, ok := value(at); ok {
			put(v)
		}
	}}
}

// ofOperation is a counter of what is committed for an overlay.
func ofOperation(name, help string, labels []string, zero [][]string, count func(a ledger.Draft, add func(value float64, dispatch string, labels ...string))) metric {
	return metric{
		Definition: Definition{Name: name, Type: counter, Labels: append([]string{labelOverlay}, labels...), Help: help}, zero: zero,
		tick: func(r generator.Report, add func(float64, string, ...string)) {
			for _, a := range committed(r) {
				count(a, func(value float64, dispatch string, labels ...string) {
					add(value, dispatch, append([]string{a.Decision.Overlay}, labels...)...)
				})
			}
		},
	}
}

// ofDispatched is an [ofOperation] of each dispatch that is added, ofRetired of each that is removed or withdrawn.
func ofDispatched(name, help string, value func(d plan.Dispatch) int) metric {
	return ofOperation(name, help, []string{labelPurpose}, each(plan.ForDemand, plan.ForWarmPool), func(a ledger.Draft, add func(float64, string, ...string)) {
		if a.Kind == ledger.Dispatch {
			for _, d := range a.Decision.Dispatch {
				add(float64(value(d)), d.ID, string(d.Purpose))
			}
		}
	})
}

func ofRetired(name, help string, labels []string, zero [][]string, kind ledger.Kind, value func(r plan.Retirement) int) metric {
	return ofOperation(name, help, labels, zero, func(a ledger.Draft, add func(float64, string, ...string)) {
		if a.Kind != kind {
			return
		}
		for _, r := range a.Retirements() {
			add(float64(value(r)), r.ID, []string{r.Outcome()}[:len(labels)]...)
		}
	})
}

// committed returns the operations of a tick that are in git.
func committed(r generator.Report) []ledger.Draft {
	if r.DryRun {
		return nil
	}
	return slices.Concat(r.Result.Landed, r.Result.Operations)
}

// each is a list of one label each.
func each[T ~string](values ...T) [][]string {
	var all [][]string
	for _, v := range values {
		all = append(all, []string{string(v)})
	}
	return all
}

// once is one series without labels, except that of the overlay.
func once() [][]string { return [][]string{{}} }

// The counters that are not updated by ticks.
const (
	jobNotes = "muster_job_notifications_total"
	webhooks = "muster_webhooks_total"
)

// table has every metric once.
func table(registrations *registrations, starts *starts) []metric {
	overlay, queue, outcome := []string{labelOverlay}, []string{labelQueue}, []string{labelOutcome}
	outcomes := each(slices.DeleteFunc(plan.Outcomes(), func(o string) bool { return o == string(plan.Withdrawn) })...)
	quick := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	return []metric{
		ofDecision("muster_pending_jobs", "Runnable jobs without an agent that the overlay could serve; overlays of one queue may count the same jobs.", func(d plan.Decision) int { return d.Figures.Pending }),
		ofDecision("muster_oldest_pending_seconds", "Seconds for which the oldest pending job of the overlay had been runnable at the last poll; 0 if none is pending.", func(d plan.Decision) float64 {
			if oldest := d.Observation.Oldest(d.Overlay); !oldest.IsZero() {
				return max(0, d.At().Sub(oldest).Seconds())
			}
			return 0
		}),
		ofDecision("muster_in_flight_agents", "Agents that muster ordered, that have not registered with Buildkite, and whose lease has not expired.", func(d plan.Decision) int { return d.Figures.InFlight }),
		ofDecision("muster_overdue_agents", "Agents that muster ordered and that have not registered within the usual start-up time of the overlay; 0 while the circuit breaker is open.", func(d plan.Decision) int { return d.Arrival.Agents - d.Arrival.Registered }),
		{Definition: Definition{Name: "muster_failed_agents", Type: gauge, Labels: []string{labelOverlay, "cause"}, Help: "Agents of the latest orders that failed in a row, by cause of the failure; 0 after a successful order."}, read: failedAgents},
		ofDecision("muster_idle_agents", "Connected agents without a job that could take a job of the overlay, also agents that muster did not order.", func(d plan.Decision) int { return d.Figures.Idle }),
		ofDecision("muster_busy_agents", "Connected agents of the overlay that run a job.", func(d plan.Decision) int { return d.Figures.Busy }),
		ofDecision("muster_stopping_agents", "Agents of the overlay that take no more jobs, and count against max until disconnected.", func(d plan.Decision) int { return d.Figures.Stopping }),
		ofDecision("muster_current_agents", "Agents of the overlay that are connected or in flight, without stopping ones.", func(d plan.Decision) int { return d.Figures.Current }),
		ofDecision("muster_desired_agents", "Agents that the overlay should have, between min and max of the policy.", func(d plan.Decision) int { return d.Figures.Desired }),
		ofDecision("muster_missing_agents", "Agents that pending jobs and buffer require beyond those idle and in flight, before limits.", func(d plan.Decision) int { return d.Figures.Missing }),
		ofPolicy("muster_min_agents", "Minimum number of agents of the overlay: min of the policy, schedule or override in force.", func(d plan.Decision) int { return d.Figures.Min }),
		ofPolicy("muster_max_agents", "Maximum number of agents of the overlay: max of the policy, schedule or override in force.", func(d plan.Decision) int { return d.Figures.Max }),
		{Definition: Definition{Name: "muster_live_dispatches", Type: gauge, Labels: overlay, Help: "Dispatches (Jobs that order agents) of the overlay that are in git."},
			overlay: func(o status.Overlay, _ scrape) (float64, bool) { return float64(o.Dispatches), true }},
		{Definition: Definition{Name: "muster_condition", Type: gauge, Labels: []string{labelOverlay, "type", labelReason}, Help: "Conditions: 1 if true, 0 if false, absent if unknown. Without an overlay, a condition of muster itself or of a queue that no overlay serves."}, read: conditions},
		{Definition: Definition{Name: "muster_overlay_info", Type: gauge, Labels: []string{labelOverlay, labelQueue, "cluster"}, Help: "Always 1; the labels are the queue and the Buildkite cluster in the policy of the overlay."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, o := range at.Overlays {
					put(1, o.Name, o.Queue, o.Cluster)
				}
			}},
		{Definition: Definition{Name: "muster_queue_pending_jobs", Type: gauge, Labels: queue, Help: "Runnable jobs of the queue without an agent that some overlay could serve."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, q := range at.Queues {
					if q.Served && at.fresh {
						put(float64(q.Pending), q.Key)
					}
				}
			}},
		{Definition: Definition{Name: "muster_unmatched_jobs", Type: gauge, Labels: queue, Help: "Runnable jobs of the queue that no overlay can serve. Beyond 50 queues without an overlay, the rest have the label (others)."}, read: unmatched},
		ofDispatched("muster_dispatches_total", "Dispatches (Jobs that order agents) that muster committed to git, by purpose.", func(plan.Dispatch) int { return 1 }),
		ofDispatched("muster_dispatched_agents_total", "Agents that muster ordered, by purpose: pending jobs (demand), or min and buffer (warm-pool).", func(d plan.Dispatch) int { return d.Agents }),
		ofRetired("muster_retired_dispatches_total", "Dispatches (Jobs that order agents) that muster retired (removed from git), by outcome.", outcome, outcomes, ledger.Retire,
			func(plan.Retirement) int { return 1 }),
		ofRetired("muster_retired_agents_total", "Agents of dispatches that muster retired (removed from git), by outcome of the dispatch.", outcome, outcomes, ledger.Retire,
			func(r plan.Retirement) int { return r.Agents }),
		ofRetired("muster_withdrawn_dispatches_total", "Dispatches that muster withdrew: moved in git to where no syncer applies a Job, until retired.", nil, once(), ledger.Withdraw,
			func(plan.Retirement) int { return 1 }),
		ofRetired("muster_never_registered_agents_total", "Agents that muster ordered and that never registered with Buildkite before their lease expired.", nil, once(), ledger.Retire,
			func(r plan.Retirement) int { return r.Agents - r.Registered }),
		ofOperation("muster_commits_total", "Commits that muster pushed to the fleet repository, by overlay and operation (label act).", []string{"act"}, each(ledger.Kinds()...),
			func(a ledger.Draft, add func(float64, string, ...string)) { add(1, "", string(a.Kind)) }),
		{Definition: Definition{Name: "muster_registration_seconds", Type: histogram, Labels: overlay, Help: "Seconds from the order of an agent to the first poll of Buildkite that lists the agent.",
			buckets: []float64{10, 20, 30, 60, 90, 120, 180, 300, 600}}, zero: once(), tick: registrations.tick},
		{Definition: Definition{Name: "muster_start_seconds", Type: histogram, Labels: overlay, Help: "Seconds that a job waited for an agent until an agent of the overlay started the job, by the times of Buildkite.",
			buckets: []float64{2, 5, 10, 30, 60, 120, 300, 900, 3600}}, zero: once(), tick: starts.tick},
		{Definition: Definition{Name: "muster_ticks_total", Type: counter, Labels: []string{"result"}, Help: "Ticks (poll, decision, commit) by result."}, zero: each(generator.Outcomes()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(1, "", string(r.Outcome)) }},
		{Definition: Definition{Name: "muster_tick_failures_total", Type: counter, Labels: []string{labelStep}, Help: "Ticks (poll, decision, commit) that failed, by the step that failed."}, zero: each(generator.Steps()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) {
				if r.Outcome == generator.Failed {
					add(1, "", string(r.Failed))
				}
			}},
		{Definition: Definition{Name: "muster_tick_seconds", Type: histogram, Help: "Seconds that ticks (poll, decision, commit) took.", buckets: quick}, zero: once(),
			tick: func(r generator.Report, add func(float64, string, ...string)) {
				add(r.Ended.Sub(r.Began).Seconds(), "")
			}},
		{Definition: Definition{Name: "muster_tick_step_seconds", Type: histogram, Labels: []string{labelStep}, Help: "Seconds that each step of a tick (poll, decision, commit) took, over all tries after conflicts.", buckets: quick}, zero: each(generator.Steps()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) {
				for step, took := range r.Steps {
					add(took.Seconds(), "", string(step))
				}
			}},
		{Definition: Definition{Name: "muster_push_conflicts_total", Type: counter, Help: "Pushes that the git server refused because another writer had moved the branch."}, zero: once(),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(float64(r.Result.Conflicts), "") }},
		{Definition: Definition{Name: "muster_triggers_total", Type: counter, Labels: []string{"cause"}, Help: "Ticks (poll, decision, commit) by cause: start, interval, signal, webhook of Buildkite or git, or Buildkite's agent metrics."}, zero: each(generator.Causes()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(1, "", string(r.Cause)) }},
		{Definition: Definition{Name: "muster_triggers_deferred_total", Type: counter, Help: "Ticks that a webhook or Buildkite's agent metrics triggered, and whose poll waited because of Buildkite's rate limit."}, zero: once(),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(truth(r.Deferred), "") }},
		{Definition: Definition{Name: jobNotes, Type: counter, Labels: []string{"result"}, Help: "Messages about dispatches on the pages of pending jobs in Buildkite, by result: sent or failed; absent without --say-on-jobs."}},
		{Definition: Definition{Name: webhooks, Type: counter, Labels: []string{"source", "result"}, Help: "Requests to muster's webhooks by source and result; absent if muster serves no webhooks."}},
		ofService("muster_requests_total", "Requests to git or Buildkite (label service); with git over ssh, sessions.", func(s status.Service) int64 { return s.Requests }),
		ofService("muster_request_failures_total", "Requests to git or Buildkite (label service) without a valid response.", func(s status.Service) int64 { return s.Failures }),
		ofService("muster_sent_bytes_total", "Bytes of content that muster sent to git (label service); always 0 for Buildkite.", func(s status.Service) int64 { return s.Sent }),
		ofService("muster_received_bytes_total", "Bytes of content that muster received from git or Buildkite (label service), unpacked.", func(s status.Service) int64 { return s.Received }),
		ofLimit("muster_rate_limit_requests", "Requests that a rate limit allows in one window, by the last response of the service.", func(l status.Limit) int64 { return l.Limit }),
		ofLimit("muster_rate_limit_remaining_requests", "Requests that remain in the current window of a rate limit, by the last response of the service.", func(l status.Limit) int64 { return l.Remaining }),
		{Definition: Definition{Name: "muster_notifications_total", Type: counter, Labels: []string{labelWho, "result"}, Help: "Notifications of a receiver, such as a syncer, about pushes, by result: sent, failed, or merged into a later notification that succeeded."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, r := range at.Receivers {
					put(float64(r.Sent), r.Name, "sent")
					put(float64(r.Failed), r.Name, "failed")
					put(float64(r.Merged), r.Name, "merged")
				}
			}},
		{Definition: Definition{Name: "muster_last_notification_seconds", Type: gauge, Labels: []string{labelWho}, Help: "Seconds from the last push to the response of the receiver (such as a syncer) that muster notified; 0 before the first."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, r := range at.Receivers {
					put(r.Seconds, r.Name)
				}
			}},
		single("muster_buildkite_token_expiry_timestamp_seconds", "Unix time at which the Buildkite API token expires; absent if the token does not expire, or that is unknown.",
			func(at scrape) (float64, bool) { return stamp(at.TokenExpires), !at.TokenExpires.IsZero() }),
		single("muster_last_success_timestamp_seconds", "Unix time at which a tick (poll, decision, commit) last ended without an error; 0 before the first.", func(at scrape) (float64, bool) { return stamp(at.Success), true }),
		{Definition: Definition{Name: "muster_last_answer_timestamp_seconds", Type: gauge, Labels: []string{labelService}, Help: "Unix time of the last response from git or Buildkite (label service); 0 before the first."},
			read: func(at scrape, put func(float64, ...string)) {
				put(stamp(at.Git.Answered), "git")
				put(stamp(at.Buildkite.Answered), "buildkite")
			}},
		single("muster_interval_seconds", "Configured seconds from one tick (poll, decision, commit) to the next.", func(at scrape) (float64, bool) { return at.Interval().Seconds(), true }),
		{Definition: Definition{Name: "muster_build_info", Type: gauge, Labels: []string{"version", "commit", "goversion"}, Help: "Always 1; the labels are the versions of muster and of Go, and muster's commit."},
			read: func(at scrape, put func(float64, ...string)) {
				put(1, at.Muster.Version, at.Muster.Commit, at.goVersion)
			}},
	}
}

// failedAgents puts the agents of failed orders by overlay and cause.
func failedAgents(at scrape, put func(value float64, labels ...string)) {
	for _, o := range at.Overlays {
		if o.Decision == nil || !at.fresh {
			continue
		}
		a, b := o.Decision.Arrival, o.Decision.State.Breaker
		for _, cause := range plan.Failures() {
			agents := 0
			if cause == b.Cause && (b.Open() || a.FailedOrders > 0) {
				agents = b.Agents
			}
			put(float64(agents), o.Name, string(cause))
		}
	}
}

// conditions puts the conditions of muster itself and of the overlays. What depends on a poll
// has no value while the last poll is outdated.
func conditions(at scrape, put func(value float64, labels ...string)) {
	of := func(overlay string, all []condition.Condition) {
		for i, c := range all {
			polled := c.Type == condition.AgentsArriving || c.Type == condition.ScalingLimited || c.Type == condition.JobsServed
			if c.Status == condition.Unknown || polled && !at.fresh || slices.ContainsFunc(all[:i], func(b condition.Condition) bool { return b.Type == c.Type && b.Reason == c.Reason }) {
				continue
			}
			put(truth(c.Status == condition.True), overlay, string(c.Type), c.Reason)
		}
	}
	now := at.At(at.now)
	of("", now.Conditions)
	for _, o := range now.Overlays {
		of(o.Name, o.Conditions)
	}
}

const (
	// maxUnserved limits the queues without an overlay that have a series: their keys are
	// untrusted.
	maxUnserved = 50
	others      = "(others)"
)

// unmatched puts the unmatched jobs of each queue.
func unmatched(at scrape, put func(value float64, labels ...string)) {
	if !at.fresh {
		return
	}
	var unserved []status.Queue
	for _, q := range at.Queues {
		if !q.Served {
			unserved = append(unserved, q)
			continue
		}
		put(float64(q.Unmatched), q.Key)
	}
	slices.SortStableFunc(unserved, func(a, b status.Queue) int { return cmp.Compare(b.Unmatched, a.Unmatched) })
	rest := 0
	for i, q := range unserved {
		if i < maxUnserved {
			put(float64(q.Unmatched), q.Key)
		} else {
			rest += q.Unmatched
		}
	}
	if rest > 0 {
		put(float64(rest), others)
	}
}

// stamp returns a time in Unix seconds; zero for the zero time.
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
