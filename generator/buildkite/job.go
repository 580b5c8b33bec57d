package buildkite

import (
	"slices"
	"strings"

	"muster/generator/plan"
)

// script is the one type of job that an agent runs; waiter, manual and trigger
// need none (docs apis/rest_api/builds.md "Job data model").
const script = "script"

// occupied reports whether a job in the state has an agent to itself. States:
// docs pipelines/configure/defining_steps.md "Job states".
func occupied(state string) bool {
	switch state {
	case "assigned", "accepted", "running", "canceling", "timing_out":
		return true
	}
	return false
}

// ended reports whether a job in the state is over: same page. REST writes
// passed or failed for finished.
func ended(state string) bool {
	switch state {
	case "passed", "failed", "finished", "canceled", "timed_out", "skipped", "broken", "expired":
		return true
	}
	return false
}

// released reports whether a block step in the state holds nothing back.
func released(state string) bool {
	switch state {
	case "unblocked", "unblocked_failed":
		return true
	}
	return ended(state)
}

// noRunnableAt is the state of a job that is listed as scheduled and has no
// runnable_at, until it is decided what that means; see [Config].CountLimited.
const noRunnableAt plan.JobState = "scheduled without runnable_at"

// wants returns what keeps a job of type script from running; false when it
// wants no agent, now or later. Behind: a block step that was not released
// stands before it.
func wants(r *jobRecord, behind bool) (plan.JobState, bool) {
	switch string(r.State) {
	case "scheduled":
		if len(r.RunnableAt) == 0 || string(r.RunnableAt) == "null" || string(r.RunnableAt) == `""` {
			return noRunnableAt, true
		}
		return plan.JobPending, true
	case "limiting", "limited", "platform_limiting", "platform_limited", "reserved":
		return plan.JobLimited, true
	case "blocked":
		return plan.JobBlocked, true
	case "waiting":
		if behind {
			return plan.JobBlocked, true
		}
		return plan.JobUpcoming, true
	}
	return "", false
}

// known reports whether a state is one that wants no agent, now or later.
func known(state string) bool {
	switch state {
	case "pending", "waiting_failed", "blocked_failed":
		return true
	}
	return occupied(state) || released(state)
}

// hasQueue reports whether tags or rules name a queue.
func hasQueue(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(tag, "queue=")
	})
}
