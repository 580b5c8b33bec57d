package page

import (
	"fmt"
	"slices"
	"time"

	"muster/generator"
	"muster/generator/plan"
	"muster/generator/status"
)

// problem is something that is wrong, and what to do about it.
type problem struct {
	status.Problem
	Remedy string
}

// remedy says what to do about a problem with some reason; empty: its text says that.
func remedy(reason string) string {
	const git = "Look at the git server and at muster's credentials: muster check, with the same flags and variables."
	switch reason {
	case string(plan.Paused):
		return "Remove paused: true from its scaling.yaml to go on."
	case string(plan.PausedInBuildkite):
		return "Resume the queue in Buildkite to go on."
	case string(plan.Invalid):
		return "Correct the file in the fleet repository and push. muster check, in a clone, says when it is right. Agents that run go on."
	case string(plan.BackingOff):
		return "The last orders failed: look at the dispatch's Job with kubectl get jobs,pods -A -l muster.dev/overlay. No Job: the syncer. No pod that runs: image, Secret, quota, nodes. Probes go on, and close the circuit breaker by themselves."
	case string(plan.UnknownCluster), string(plan.UnknownQueue), string(plan.AmbiguousQueue), string(plan.HostedQueue):
		return "Correct spec.queue or spec.cluster in its scaling.yaml, or create the queue in Buildkite."
	case string(plan.AgentsCannotWork):
		return "Compare the agents' tags and cluster in Buildkite with spec.tags and spec.cluster: a template or an image that changes tags makes this."
	case plan.Overdue, plan.OrdersFailed:
		return "Check in this order: the syncer has applied the newest commit; the Job exists (kubectl get jobs -A -l muster.dev/overlay); its pods start (kubectl get pods -A -l muster.dev/overlay: image, Secret, quota, nodes); the log of a pod (agent token, queue)."
	case "invalid-state":
		return "Nothing: the next commit writes the file anew."
	case "unmatched":
		return "Correct the rules in the step's agents, or add the missing tag to an overlay of that queue (muster init --overlay)."
	case "metrics":
		return "Nothing is lost: each tick looks at Buildkite, as without an agent token. muster check, with the same flags and variables, says what is wrong with the token."
	case "unserved":
		return "Correct the queue in the step's agents, or make an overlay for the queue in that cluster (muster init --overlay). Other agents may serve it: then this is well."
	case "agents-elsewhere":
		return "Nothing, if the policy was just edited: they leave by themselves."
	case "same-name":
		return "Rename one of the two overlays."
	case "request-limit":
		return "Nothing: figures are older than an interval for a while. A longer --interval leaves Buildkite's limit to others."
	case string(generator.Limited):
		return "Nothing: muster waits as Buildkite, GitHub or the git host asks; the error names it. If it lasts, find out who else uses that limit."
	case string(generator.Conflict):
		return "Nothing, if it is over soon. Otherwise somebody pushes to the branch without end."
	case string(generator.StepHead), string(generator.StepCommit):
		return git + " If the push is refused, the branch is protected or a hook objects."
	case string(generator.StepLoad):
		return git + " --overlays has to name a directory of the repository."
	case string(generator.StepPoll):
		return "Look at Buildkite's status page and at the API token: muster check, with the same flags and variables."
	case string(generator.StepDecide), string(generator.StepRender):
		return "This is a fault of muster's: report it with the log."
	case "token":
		return "Make a new Buildkite API token, and put it where muster reads it."
	case "stuck":
		return "Restart muster: nothing is lost, all it knows is in git."
	}
	return ""
}

// tokenWarning is how long before its end a token is a problem.
const tokenWarning = 14 * 24 * time.Hour

// problems are all that is wrong, the worst first.
func problems(s status.Snapshot, now time.Time) []problem {
	var all []problem
	add := func(p status.Problem) { all = append(all, problem{Problem: p, Remedy: remedy(p.Reason)}) }
	if stuck := s.Stuck(now); stuck != "" {
		add(status.Problem{Level: "error", Reason: "stuck", Text: stuck})
	}
	for _, p := range s.Problems {
		add(p)
	}
	if s.Tick.Count > 0 {
		for _, text := range s.Silent(now) {
			add(status.Problem{Level: "error", Reason: "no-answer", Text: text + ". Nothing is decided meanwhile, and the figures below are old."})
		}
	}
	if left := s.TokenExpires.Sub(now); !s.TokenExpires.IsZero() && left < tokenWarning {
		text := fmt.Sprintf("the Buildkite API token expires on %s", stamp(s.TokenExpires))
		add(status.Problem{Level: "warn", Reason: "token", Text: text})
	}
	rank := func(t problem) int {
		if t.Level == "error" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b problem) int { return rank(a) - rank(b) })
	return all
}
