package simulation

import (
	"fmt"
	"strings"
	"time"

	"muster/generator/plan"
)

// Algorithm decides at each tick how many agents to start. An algorithm is made
// for one run and keeps what it remembers between ticks to itself; what it has
// ordered is remembered by the world, and lost with a push that fails.
type Algorithm interface {
	Tick(v View) Act
}

// Act is what an algorithm wants done; the zero value is nothing.
type Act struct {
	// Order are the Jobs to create.
	Order []plan.Dispatch
	// Retire are the manifests to take out of git, by ID. A Job that runs goes
	// on.
	Retire []string
	// State is what an overlay remembers.
	State plan.State
	// Decision is why, where the algorithm is muster's.
	Decision *plan.Decision
	// Life is how the agents of the order live.
	Life Life
	// Err is why the algorithm could not look; nothing is done then. It may say for how
	// long to wait, with the method RetryAfter.
	Err error
	// Commits is how many commits it takes; for an algorithm that does not
	// commit, how many times it acts on the cluster.
	Commits int
}

// View is what an algorithm can look at. Which of it the real one can see, and
// how, is said with each algorithm.
type View struct {
	// At is the time of the tick, and Tip names the state of the repository.
	At  time.Time
	Tip string
	// Overlay is the fleet repository at the tip.
	Overlay plan.Overlay
	// Snapshot reads Buildkite, as generator.Buildkite does.
	Snapshot func(since time.Time) plan.Snapshot
	// Look is Snapshot as the program reads it: within Buildkite's request limit, where
	// the world has one.
	Look func(since time.Time) (plan.Snapshot, error)
	// Reserve takes a runnable job out of Buildkite's dispatch for so long, and reports
	// whether it was there to be taken.
	Reserve func(job string, expiry time.Duration) bool
	// Pods is what the cluster knows.
	Pods Pods
}

// Pods counts the pods of all that was ordered, as the cluster would.
type Pods struct {
	// Alive have not come to their end; Starting of them have not registered.
	// What was ordered and not yet synced is among both.
	Alive, Starting int
	// LastUp is the share of the last order's pods that have registered or come
	// to their end; 1 when there was none.
	LastUp float64
}

// Metrics are a queue's numbers as the Buildkite Agent Metrics API tells them:
// without a look at the jobs' agent query rules, and with jobs that wait for a
// concurrency group among the scheduled ones (buildkite-agent-metrics issue
// #31).
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

// order is the act of starting n agents, as far as max leaves room: all
// algorithms are held to it by what the cluster knows.
func (v View) order(n int) Act {
	n = min(n, v.Overlay.Policy.Max-v.Pods.Alive)
	if n <= 0 {
		return Act{}
	}
	return Act{Commits: 1, Order: []plan.Dispatch{{
		ID: fmt.Sprintf("%s-%s", v.Overlay.Slug(), v.Tip), Purpose: plan.ForDemand, Agents: n,
		At: v.At, IdleTimeout: v.Overlay.Policy.IdleTimeout,
	}}}
}

// ruleFunc is an algorithm that remembers nothing: how many agents to start.
type ruleFunc func(v View) int

// Tick implements [Algorithm].
func (f ruleFunc) Tick(v View) Act { return v.order(f(v)) }
