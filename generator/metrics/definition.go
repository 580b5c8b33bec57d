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
		ofDecision("muster_pending_jobs", "Jobs that are runnable, have no agent and could be served by the overlay; overlays of one queue may count the same ones.", func(d plan.Decision) int { return d.Figures.Pending }),
		ofDecision("muster_oldest_pending_seconds", "How long the oldest of the overlay's pending jobs had been runnable at the last poll; 0 if none is pending.", func(d plan.Decision) float64 {
			if oldest := d.Observation.Oldest(d.Overlay); !oldest.IsZero() {
				return max(0, d.At().Sub(oldest).Seconds())
			}
			return 0
		}),
		ofDecision("muster_in_flight_agents", "Agents that are dispatched and have not registered, while their lease lasts.", func(d plan.Decision) int { return d.Figures.InFlight }),
		ofDecision("muster_overdue_agents", "Overdue agents: ordered, and not registered in the time that agents of the overlay need; 0 while the circuit breaker is open.", func(d plan.Decision) int { return d.Arrival.Agents - d.Arrival.Registered }),
		{Definition: Definition{Name: "muster_failed_agents", Type: gauge, Labels: []string{labelOverlay, "cause"}, Help: "Agents of the last orders that failed in the same way, by that cause; 0 once a later one succeeds."}, read: failedAgents},
		ofDecision("muster_idle_agents", "Connected agents without a job that could take one of the overlay's, from any source.", func(d plan.Decision) int { return d.Figures.Idle }),
		ofDecision("muster_busy_agents", "Agents of the overlay that run a job.", func(d plan.Decision) int { return d.Figures.Busy }),
		ofDecision("muster_stopping_agents", "Agents of the overlay that take no more jobs and count against max.", func(d plan.Decision) int { return d.Figures.Stopping }),
		ofDecision("muster_current_agents", "The overlay's agents: connected and in flight, stopping ones left out.", func(d plan.Decision) int { return d.Figures.Current }),
		ofDecision("muster_desired_agents", "How many agents the overlay should have.", func(d plan.Decision) int { return d.Figures.Desired }),
		ofDecision("muster_missing_agents", "Agents that jobs and buffer ask for beyond those idle and in flight.", func(d plan.Decision) int { return d.Figures.Missing }),
		ofPolicy("muster_min_agents", "The policy's min, or that of the schedule in force.", func(d plan.Decision) int { return d.Figures.Min }),
		ofPolicy("muster_max_agents", "The policy's max, or that of the schedule in force.", func(d plan.Decision) int { return d.Figures.Max }),
		{Definition: Definition{Name: "muster_live_dispatches", Type: gauge, Labels: overlay, Help: "Dispatches of the overlay that are in git."},
			overlay: func(o status.Overlay, _ scrape) (float64, bool) { return float64(o.Dispatches), true }},
		{Definition: Definition{Name: "muster_condition", Type: gauge, Labels: []string{labelOverlay, "type", labelReason}, Help: "1 if the condition is true, 0 if it is false, absent if it is unknown; without an overlay, a condition of muster itself or of a queue that no overlay serves."}, read: conditions},
		{Definition: Definition{Name: "muster_overlay_info", Type: gauge, Labels: []string{labelOverlay, labelQueue, "cluster"}, Help: "1 for each overlay, with the queue and the Buildkite cluster of its policy."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, o := range at.Overlays {
					put(1, o.Name, o.Queue, o.Cluster)
				}
			}},
		{Definition: Definition{Name: "muster_queue_pending_jobs", Type: gauge, Labels: queue, Help: "Jobs of the queue that are runnable, have no agent and could be served by some overlay."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, q := range at.Queues {
					if q.Served && at.fresh {
						put(float64(q.Pending), q.Key)
					}
				}
			}},
		{Definition: Definition{Name: "muster_unmatched_jobs", Type: gauge, Labels: queue, Help: "Runnable jobs of the queue that no overlay can serve. Beyond 50 queues without an overlay the rest is one, (others)."}, read: unmatched},
		ofDispatched("muster_dispatches_total", "Dispatches that were written into git.", func(plan.Dispatch) int { return 1 }),
		ofDispatched("muster_dispatched_agents_total", "Agents that they order.", func(d plan.Dispatch) int { return d.Agents }),
		ofRetired("muster_retired_dispatches_total", "Dispatches that were removed from git, by what became of them.", outcome, outcomes, ledger.Retire,
			func(plan.Retirement) int { return 1 }),
		ofRetired("muster_retired_agents_total", "Agents that they ordered, by what became of the dispatch.", outcome, outcomes, ledger.Retire,
			func(r plan.Retirement) int { return r.Agents }),
		ofRetired("muster_withdrawn_dispatches_total", "Dispatches that were moved to where no syncer applies them, before they are retired.", nil, once(), ledger.Withdraw,
			func(plan.Retirement) int { return 1 }),
		ofRetired("muster_never_registered_agents_total", "Agents of retired dispatches that never registered within the lease.", nil, once(), ledger.Retire,
			func(r plan.Retirement) int { return r.Agents - r.Registered }),
		ofOperation("muster_commits_total", "Commits, one for each operation.", []string{"act"}, each(ledger.Kinds()...),
			func(a ledger.Draft, add func(float64, string, ...string)) { add(1, "", string(a.Kind)) }),
		{Definition: Definition{Name: "muster_registration_seconds", Type: histogram, Labels: overlay, Help: "From the dispatch of an agent to the first poll that lists it.",
			buckets: []float64{10, 20, 30, 60, 90, 120, 180, 300, 600}}, zero: once(), tick: registrations.tick},
		{Definition: Definition{Name: "muster_start_seconds", Type: histogram, Labels: overlay, Help: "How long jobs that agents of the overlay ran had been pending when they started, by Buildkite's times.",
			buckets: []float64{2, 5, 10, 30, 60, 120, 300, 900, 3600}}, zero: once(), tick: starts.tick},
		{Definition: Definition{Name: "muster_ticks_total", Type: counter, Labels: []string{"result"}, Help: "Ticks by result."}, zero: each(generator.Outcomes()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(1, "", string(r.Outcome)) }},
		{Definition: Definition{Name: "muster_tick_failures_total", Type: counter, Labels: []string{labelStep}, Help: "Ticks that failed, by the step in which they did."}, zero: each(generator.Steps()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) {
				if r.Outcome == generator.Failed {
					add(1, "", string(r.Failed))
				}
			}},
		{Definition: Definition{Name: "muster_tick_seconds", Type: histogram, Help: "How long ticks took.", buckets: quick}, zero: once(),
			tick: func(r generator.Report, add func(float64, string, ...string)) {
				add(r.Ended.Sub(r.Began).Seconds(), "")
			}},
		{Definition: Definition{Name: "muster_tick_step_seconds", Type: histogram, Labels: []string{labelStep}, Help: "How long the steps of ticks took, over all tries.", buckets: quick}, zero: each(generator.Steps()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) {
				for step, took := range r.Steps {
					add(took.Seconds(), "", string(step))
				}
			}},
		{Definition: Definition{Name: "muster_push_conflicts_total", Type: counter, Help: "Conflicts: pushes refused because the branch had moved."}, zero: once(),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(float64(r.Result.Conflicts), "") }},
		{Definition: Definition{Name: "muster_triggers_total", Type: counter, Labels: []string{"cause"}, Help: "Ticks by what began them: the start, the interval, a signal, a webhook of Buildkite or git, or Buildkite's metrics."}, zero: each(generator.Causes()...),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(1, "", string(r.Cause)) }},
		{Definition: Definition{Name: "muster_triggers_deferred_total", Type: counter, Help: "Ticks whose poll, triggered by a webhook or the metrics, waited because Buildkite's rate limit left only those of the interval."}, zero: once(),
			tick: func(r generator.Report, add func(float64, string, ...string)) { add(truth(r.Deferred), "") }},
		{Definition: Definition{Name: jobNotes, Type: counter, Labels: []string{"result"}, Help: "Job notifications by result: sent or failed; absent without --say-on-jobs."}},
		{Definition: Definition{Name: webhooks, Type: counter, Labels: []string{"source", "result"}, Help: "Requests to webhooks by result; absent if no webhook is served."}},
		ofService("muster_requests_total", "Requests that were sent; to git over ssh, sessions.", func(s status.Service) int64 { return s.Requests }),
		ofService("muster_request_failures_total", "Those without a good answer.", func(s status.Service) int64 { return s.Failures }),
		ofService("muster_sent_bytes_total", "Bytes of content that were sent; of Buildkite, to which nothing but questions are sent, 0.", func(s status.Service) int64 { return s.Sent }),
		ofService("muster_received_bytes_total", "Bytes of content that were received, unpacked.", func(s status.Service) int64 { return s.Received }),
		ofLimit("muster_rate_limit_requests", "Requests that the server allows in its window, as it last said.", func(l status.Limit) int64 { return l.Limit }),
		ofLimit("muster_rate_limit_remaining_requests", "Requests that were left in the window, as the server last said.", func(l status.Limit) int64 { return l.Remaining }),
		{Definition: Definition{Name: "muster_notifications_total", Type: counter, Labels: []string{labelWho, "result"}, Help: "Pushes by result of the notification: sent, failed, or merged into a later one that succeeded."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, r := range at.Receivers {
					put(float64(r.Sent), r.Name, "sent")
					put(float64(r.Failed), r.Name, "failed")
					put(float64(r.Merged), r.Name, "merged")
				}
			}},
		{Definition: Definition{Name: "muster_last_notification_seconds", Type: gauge, Labels: []string{labelWho}, Help: "From the last push that a receiver was notified of to its response; 0 if none."},
			read: func(at scrape, put func(float64, ...string)) {
				for _, r := range at.Receivers {
					put(r.Seconds, r.Name)
				}
			}},
		single("muster_buildkite_token_expiry_timestamp_seconds", "When the Buildkite API token expires; absent where it does not, or that is not known.",
			func(at scrape) (float64, bool) { return stamp(at.TokenExpires), !at.TokenExpires.IsZero() }),
		single("muster_last_success_timestamp_seconds", "When a tick last ended without an error; 0 if none has.", func(at scrape) (float64, bool) { return stamp(at.Success), true }),
		{Definition: Definition{Name: "muster_last_answer_timestamp_seconds", Type: gauge, Labels: []string{labelService}, Help: "When git and Buildkite last answered; 0 where they have not."},
			read: func(at scrape, put func(float64, ...string)) {
				put(stamp(at.Git.Answered), "git")
				put(stamp(at.Buildkite.Answered), "buildkite")
			}},
		single("muster_interval_seconds", "The time from tick to tick, as configured.", func(at scrape) (float64, bool) { return at.Interval().Seconds(), true }),
		{Definition: Definition{Name: "muster_build_info", Type: gauge, Labels: []string{"version", "commit", "goversion"}, Help: "1, with the version of muster and of Go."},
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
