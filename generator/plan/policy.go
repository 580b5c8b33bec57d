package plan

import "time"

// Policy is the scaling policy of one overlay, with every default filled in.
type Policy struct {
	// Queue is the key of the Buildkite queue that the agents serve.
	Queue string
	// Cluster is the name or the identifier of the Buildkite cluster; empty
	// where the queue's key is enough to tell.
	Cluster string
	// Tags are the agents' further tags as "key=value", sorted.
	Tags []string
	// Min is the number of agents that are kept whatever is pending.
	Min int
	// Max is the number of agents that is never passed.
	Max int
	// Buffer is the number of agents that are kept idle, ready for jobs to come.
	Buffer int
	// Lookahead is the share, 0 to 1, of upcoming jobs that agents are started
	// for before the jobs become runnable.
	Lookahead float64
	// Lease is the time in which a dispatch's agents may start.
	Lease time.Duration
	// LeaseAuto reports whether the lease is derived from start-up times. Lease is then only its
	// value until enough of them are known, and overdue agents are presumed lost.
	LeaseAuto bool
	// IdleTimeout is how long an agent ordered for a job waits for one, and
	// WarmIdleTimeout how long an agent kept for Min and Buffer does.
	IdleTimeout, WarmIdleTimeout time.Duration
	// Reuse lets agents take more than one job; zero: each takes one.
	Reuse Reuse
	// Priority orders the overlays that serve one queue: higher first.
	Priority int
	// MaxPerHour is the number of agents ordered in any hour that is never
	// passed; zero means no such limit.
	MaxPerHour int
	// Schedules change Min, Max and Buffer in named windows.
	Schedules []Schedule
	// Overrides change Min, Max, Buffer, MaxPerHour and Paused until a moment each.
	Overrides []Override
	// Paused stops ordering. Dispatches are still retired: that ends no agent,
	// and a manifest left in git past its Job's TTL would be run again.
	Paused bool
}

// Reuse is for how long agents take further jobs. The zero value means one job for each agent.
type Reuse struct {
	// Idle is how long an agent ordered for a job waits for each job; agents of the warm pool wait
	// for WarmIdleTimeout instead. Uptime is for how long an agent takes jobs in total, from its
	// connection; it finishes a job that it has then.
	Idle, Uptime time.Duration
}

// On reports whether agents take more than one job.
func (r Reuse) On() bool { return r.Uptime > 0 }

// DemandIdleTimeout is how long an agent ordered for a job waits for one.
func (p Policy) DemandIdleTimeout() time.Duration {
	if p.Reuse.On() {
		return p.Reuse.Idle
	}
	return p.IdleTimeout
}
