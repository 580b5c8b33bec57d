package simulation

import (
	"fmt"
	"strings"
	"time"

	"muster/generator/plan"
)

// Algorithm decides at each tick how many agents to start. An algorithm is created for one run and
// keeps its own state between ticks. The scenario keeps its orders, and loses them if a push fails.
type Algorithm interface {
	Tick(v View) Operation
}

// Named is an algorithm in its transport, with its name and where its rule was published.
type Named struct {
	Name   string
	Source string
	// Transport says in a word or two how its orders become pods.
	Transport string
	New       func() Algorithm
	// Scenario, if not nil, changes a scenario to that of the algorithm: its transport, and its
	// policy if it has a policy of its own for muster.
	Scenario func(*Scenario)
	// Policy says that it is muster with one of its policies.
	Policy bool
}

// In returns the world that the algorithm has around it.
func (n Named) In(w Scenario) Scenario {
	if n.Scenario != nil {
		n.Scenario(&w)
	}
	return w
}

// Algorithms are all that can be compared, muster's first.
func Algorithms() []Named {
	all := policies()
	for _, r := range rivals() {
		all = append(all, r.named())
	}
	return all
}

// DefaultAlgorithms returns the names of the algorithms that are compared by default:
// muster's most different policies, and other autoscalers.
func DefaultAlgorithms() []string {
	return []string{
		"muster", "muster-argocd", "muster-flux", "muster-buffer-4", "muster-reuse-auto", "muster-reuse-1m",
		"keda-accurate", "keda-5s-stay", "elastic-ci-stack", "elastic-ci-stack-60s", "agent-stack-k8s", "agent-stack-k8s-max", "arc",
	}
}

// Operation is what an algorithm wants done; the zero value is nothing.
type Operation struct {
	// Order are the Jobs to create.
	Order []plan.Dispatch
	// Retire is the list of manifests to remove from git, by ID. A running Job continues.
	Retire []string
	// State is what an overlay remembers.
	State plan.State
	// Decision is why, where the algorithm is muster's.
	Decision *plan.Decision
	// Life is how the agents of the order live.
	Life Life
	// Within, if it is not zero, is the time in which the next tick must begin, if Buildkite's limit
	// allows.
	Within time.Duration
	// Missing reports that limits withhold agents; see [plan.AgentsMissing].
	Missing bool
	// Err is why the algorithm could not look; nothing is done then. It may say for how
	// long to wait, with the method RetryAfter.
	Err error
	// Commits is how many commits it takes; for an algorithm that does not
	// commit, how many times it acts on the cluster.
	Commits int
}

// View is the input of an algorithm. Each algorithm documents which of it the real one can read,
// and how.
type View struct {
	// At is the time of the tick, and Tip names the state of the repository.
	At   time.Time
	Head string
	// Overlay is the fleet repository at the head of the branch.
	Overlay plan.Overlay
	// Snapshot reads Buildkite, as generator.Buildkite does.
	Snapshot func(since time.Time) plan.Snapshot
	// Poll is Snapshot as the program reads it: within Buildkite's request limit, where
	// the world has one.
	Poll func(since time.Time) (plan.Snapshot, error)
	// Reserve takes a runnable job out of Buildkite's dispatch for so long, and reports
	// whether it was there to be taken.
	Reserve func(job string, expiry time.Duration) bool
	// Pods is what the cluster knows.
	Pods Pods
}

// Pods counts the pods of all that was ordered, as the cluster would.
type Pods struct {
	// Alive is the number of pods that have not ended; Starting of them have not registered. Both
	// include pods that were ordered and not yet synced.
	Alive, Starting int
	// LastUp is the share of the last order's pods that have registered or ended; 1 before the
	// first order.
	LastUp float64
}

// Metrics are a queue's numbers as the Buildkite Agent Metrics API returns them: they ignore the
// jobs' agent query rules, and count jobs that wait for a concurrency group as scheduled
// (buildkite-agent-metrics issue #31).
type Metrics struct {
	Scheduled, Running, Waiting int
}

// Metrics counts the queue's jobs.
func (v View) Metrics() Metrics {
	var m Metrics
	s := v.Snapshot(time.Time{})
	queue := plan.TagQueue + "=" + v.Overlay.Policy.Queue
	of := []string{queue}
	for i := range s.Jobs {
		if !ofQueue(of, s.Jobs[i].Rules) {
			continue
		}
		switch s.Jobs[i].State {
		case plan.JobPending, plan.JobLimited:
			m.Scheduled++
		case plan.JobUpcoming:
			m.Waiting++
		}
	}
	for _, a := range s.Agents {
		if a.State == plan.AgentBusy && plan.Satisfies(a.Tags, of) {
			m.Running++
		}
	}
	return m
}

// ofQueue reports whether the queue's tag satisfies the rules about the queue.
func ofQueue(tag, rules []string) bool {
	for i, rule := range rules {
		if strings.HasPrefix(rule, plan.TagQueue+"=") && !plan.Satisfies(tag, rules[i:i+1]) {
			return false
		}
	}
	return true
}

// order returns the operation that starts n agents, or fewer if the policy's max leaves less room.
// It applies max to all algorithms by the state of the cluster.
func (v View) order(n int) Operation {
	n = min(n, v.max()-v.Pods.Alive)
	if n <= 0 {
		return Operation{}
	}
	return Operation{Commits: 1, Order: []plan.Dispatch{{
		ID: fmt.Sprintf("%s-%s", v.Overlay.Slug(), v.Head), Purpose: plan.ForDemand, Agents: n,
		At: v.At, IdleTimeout: v.Overlay.Policy.IdleTimeout,
	}}}
}

// ruleFunc is an algorithm that remembers nothing: how many agents to start.
type ruleFunc func(v View) int

// Tick implements [Algorithm].
func (f ruleFunc) Tick(v View) Operation { return v.order(f(v)) }

// max is the policy's maximum number of agents, with its schedules.
func (v View) max() int { return Scenario{Policy: v.Overlay.Policy}.maxAt(v.At) }
