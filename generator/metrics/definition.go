package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Definition says what a metric is. The table of docs/reference/metrics.md is made of them.
type Definition struct {
	// Name, Type (gauge, counter or histogram) and Labels are as they are served.
	Name, Type string
	Labels     []string
	// Help says what it counts.
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
	all := append(append(ofOverlays(), ofDispatches()...), ofMuster()...)
	slices.SortFunc(all, func(a, b Definition) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

func ofOverlays() []Definition {
	overlay, queue := []string{labelOverlay}, []string{labelQueue}
	return []Definition{
		{Name: "muster_pending_jobs", Type: gauge, Labels: overlay, Help: "Jobs that are runnable, have no agent and could be served by the overlay; overlays of one queue may count the same ones."},
		{Name: "muster_oldest_pending_seconds", Type: gauge, Labels: overlay, Help: "How long the oldest of the overlay's pending jobs had been runnable at the last poll; 0 if none is pending."},
		{Name: "muster_in_flight_agents", Type: gauge, Labels: overlay, Help: "Agents that are dispatched and have not registered, while their lease lasts."},
		{Name: "muster_idle_agents", Type: gauge, Labels: overlay, Help: "Connected agents without a job that could take one of the overlay's, from any source."},
		{Name: "muster_busy_agents", Type: gauge, Labels: overlay, Help: "Agents of the overlay that run a job."},
		{Name: "muster_stopping_agents", Type: gauge, Labels: overlay, Help: "Agents of the overlay that take no more jobs and count against max."},
		{Name: "muster_current_agents", Type: gauge, Labels: overlay, Help: "The overlay's agents: connected and in flight, stopping ones left out."},
		{Name: "muster_desired_agents", Type: gauge, Labels: overlay, Help: "How many agents the overlay should have."},
		{Name: "muster_missing_agents", Type: gauge, Labels: overlay, Help: "Agents that jobs and buffer ask for beyond those idle and in flight."},
		{Name: "muster_min_agents", Type: gauge, Labels: overlay, Help: "The policy's min, or that of the schedule in force."},
		{Name: "muster_max_agents", Type: gauge, Labels: overlay, Help: "The policy's max, or that of the schedule in force."},
		{Name: "muster_live_dispatches", Type: gauge, Labels: overlay, Help: "Dispatches of the overlay that are in git."},
		{Name: "muster_suspended", Type: gauge, Labels: []string{labelOverlay, labelReason}, Help: "1 where nothing is dispatched for the overlay for this reason, otherwise 0."},
		{Name: "muster_breaker_open", Type: gauge, Labels: overlay, Help: "1 while the overlay's circuit breaker lets only probes pass, otherwise 0."},
		{Name: "muster_overlay_info", Type: gauge, Labels: []string{labelOverlay, labelQueue, "cluster"}, Help: "1 for each overlay, with the queue and the Buildkite cluster of its policy."},
		{Name: "muster_queue_pending_jobs", Type: gauge, Labels: queue, Help: "Jobs of the queue that are runnable, have no agent and could be served by some overlay."},
		{Name: "muster_unmatched_jobs", Type: gauge, Labels: queue, Help: "Runnable jobs of the queue that no overlay can serve. Beyond 50 queues without an overlay the rest is one, (others)."},
	}
}

func ofDispatches() []Definition {
	purpose, outcome := []string{labelOverlay, labelPurpose}, []string{labelOverlay, labelOutcome}
	overlay := []string{labelOverlay}
	return []Definition{
		{Name: "muster_dispatches_total", Type: counter, Labels: purpose, Help: "Dispatches that were written into git."},
		{Name: "muster_dispatched_agents_total", Type: counter, Labels: purpose, Help: "Agents that they order."},
		{Name: "muster_retired_dispatches_total", Type: counter, Labels: outcome, Help: "Dispatches that were removed from git, by what became of them."},
		{Name: "muster_retired_agents_total", Type: counter, Labels: outcome, Help: "Agents that they ordered, by what became of the dispatch."},
		{Name: "muster_withdrawn_dispatches_total", Type: counter, Labels: overlay, Help: "Dispatches that were moved to where no syncer applies them, before they are retired."},
		{Name: "muster_never_registered_agents_total", Type: counter, Labels: overlay, Help: "Agents of retired dispatches that never registered within the lease."},
		{Name: "muster_commits_total", Type: counter, Labels: []string{labelOverlay, "act"}, Help: "Commits, one for each operation."},
		{Name: "muster_registration_seconds", Type: histogram, Labels: overlay, buckets: []float64{10, 20, 30, 60, 90, 120, 180, 300, 600},
			Help: "From the dispatch of an agent to the first poll that lists it."},
		{Name: "muster_start_seconds", Type: histogram, Labels: overlay, buckets: []float64{2, 5, 10, 30, 60, 120, 300, 900, 3600},
			Help: "How long jobs that agents of the overlay ran had been pending when they started, by Buildkite's times."},
	}
}

func ofMuster() []Definition {
	service, limit := []string{labelService}, []string{labelService, "scope"}
	quick := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	return []Definition{
		{Name: "muster_ticks_total", Type: counter, Labels: []string{"result"}, Help: "Ticks by result."},
		{Name: "muster_tick_failures_total", Type: counter, Labels: []string{labelStep}, Help: "Ticks that failed, by the step in which they did."},
		{Name: "muster_tick_seconds", Type: histogram, buckets: quick, Help: "How long ticks took."},
		{Name: "muster_tick_step_seconds", Type: histogram, Labels: []string{labelStep}, buckets: quick, Help: "How long the steps of ticks took, over all tries."},
		{Name: "muster_push_races_total", Type: counter, Help: "Conflicts: pushes refused because the branch had moved."},
		{Name: "muster_wakes_total", Type: counter, Labels: []string{"cause"}, Help: "Ticks by what began them: the start, the interval, a signal, a webhook of Buildkite or git, or Buildkite's metrics."},
		{Name: "muster_wakes_deferred_total", Type: counter, Help: "Ticks whose poll, triggered by a webhook or the metrics, waited because Buildkite's rate limit left only those of the interval."},
		{Name: "muster_job_notes_total", Type: counter, Labels: []string{"result"}, Help: "Lines for jobs' pages that say which dispatch was ordered, by result: said or failed; absent without --say-on-jobs."},
		{Name: "muster_webhooks_total", Type: counter, Labels: []string{"source", "result"}, Help: "Requests to webhooks by result; absent if no webhook is served."},
		{Name: "muster_requests_total", Type: counter, Labels: service, Help: "Requests that were sent; to git over ssh, sessions."},
		{Name: "muster_request_failures_total", Type: counter, Labels: service, Help: "Those without a good answer."},
		{Name: "muster_sent_bytes_total", Type: counter, Labels: service, Help: "Bytes of content that were sent; of Buildkite, to which nothing but questions are sent, 0."},
		{Name: "muster_received_bytes_total", Type: counter, Labels: service, Help: "Bytes of content that were received, unpacked."},
		{Name: "muster_rate_limit_requests", Type: gauge, Labels: limit, Help: "Requests that the server allows in its window, as it last said."},
		{Name: "muster_rate_limit_remaining_requests", Type: gauge, Labels: limit, Help: "Requests that were left in the window, as the server last said."},
		{Name: "muster_notifications_total", Type: counter, Labels: []string{labelWho, "result"}, Help: "Pushes by result of the notification: told, failed, or merged into a later one that succeeded."},
		{Name: "muster_last_notification_seconds", Type: gauge, Labels: []string{labelWho}, Help: "From the last push that a receiver was notified of to its response; 0 if none."},
		{Name: "muster_buildkite_token_expiry_timestamp_seconds", Type: gauge, Help: "When the Buildkite API token expires; absent where it does not, or that is not known."},
		{Name: "muster_last_success_timestamp_seconds", Type: gauge, Help: "When a tick last ended without an error; 0 if none has."},
		{Name: "muster_last_answer_timestamp_seconds", Type: gauge, Labels: service, Help: "When git and Buildkite last answered; 0 where they have not."},
		{Name: "muster_ready", Type: gauge, Help: "1 while /readyz is ok, otherwise 0."},
		{Name: "muster_problems", Type: gauge, Labels: []string{"level"}, Help: "What is wrong now, as the log said when it began."},
		{Name: "muster_interval_seconds", Type: gauge, Help: "The time from tick to tick, as configured."},
		{Name: "muster_build_info", Type: gauge, Labels: []string{"version", "commit", "goversion"}, Help: "1, with the version of muster and of Go."},
	}
}

// made are the descriptions of all definitions by name, as the library has them.
func made() (map[string]Definition, map[string]*prometheus.Desc) {
	byName, descs := map[string]Definition{}, map[string]*prometheus.Desc{}
	for _, d := range Definitions() {
		byName[d.Name] = d
		descs[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	}
	return byName, descs
}
