package plan

import (
	"slices"
	"strings"
	"time"
)

// Counted is the result of a reader that cannot list agents: how many there are in each queue, and
// which jobs agents have taken.
type Counted struct {
	// At is when the agents were counted, by muster's clock: no later than the jobs were read.
	At time.Time
	// Queues are the requested queues that exist.
	Queues []CountedQueue
	// Runs are the jobs that were pending at an earlier poll and that an agent has taken since:
	// each while it runs, and once when it has ended.
	Runs []Run
}

// CountedQueue is how many agents are connected to a queue.
type CountedQueue struct {
	// Queue is its key, and Cluster its Buildkite cluster as in [Queue].
	Queue, Cluster string
	// Agents are connected, regardless of who started them. Idle of them have no job.
	Agents, Idle int
}

// Run is a job that an agent has taken.
type Run struct {
	// ID is the job's identifier.
	ID string
	// Queue, Cluster and Rules are the job's.
	Queue, Cluster string
	Rules          []string
	// Running reports whether it still runs.
	Running bool
}

// Query defines what a [Snapshot] must contain.
type Query struct {
	// At is the time now.
	At time.Time
	// Since asks for builds that finished after it as well; the zero value asks for none.
	Since time.Time
	// Overlays are those that decisions are about: agents that can be of none of them may be
	// left out. Empty asks for all agents.
	Overlays []Overlay
}

// Lookahead reports whether an overlay orders agents for upcoming jobs, and so needs to know
// when those become runnable.
func (q Query) Lookahead() bool {
	return slices.ContainsFunc(q.Overlays, func(o Overlay) bool { return o.Policy.Lookahead > 0 })
}

// RetryError is an error after which the same query is to be repeated, no sooner than after
// RetryAfter: a rate limit, or a snapshot that takes several calls.
type RetryError interface {
	error
	RetryAfter() time.Duration
}

// SpreadError is a [RetryError] of a snapshot that takes several calls because its requests,
// all at once, would exceed their share of Buildkite's rate limit, per minute.
type SpreadError interface {
	RetryError
	Stretched() (requests, perMinute int)
}

// Snapshot is what Buildkite said at one moment, in muster's own words. It is
// complete but for what Unread names: otherwise a reader that could not read
// everything returns an error instead.
// The order of its slices carries no meaning.
type Snapshot struct {
	// At is when the reading began, by muster's clock.
	At time.Time
	// Until is when a reading that was spread over minutes was complete, by
	// muster's clock; zero when it was read at once. Leases are judged by At, for
	// an agent that came since is not seen; what is ordered is ordered at Until.
	Until time.Time
	// Agents are the connected agents, read before the jobs.
	Agents []Agent
	// Jobs are the unfinished jobs that may want an agent, now or later.
	Jobs []Job
	// Sightings are agents known from the jobs they ran: of running builds, and of builds that
	// finished since [Query.Since].
	Sightings []Sighting
	// Queues are the cluster queues that the reader could name.
	Queues []Queue
	// Counted is set by a reader that cannot list agents; nil if it lists them. [Inference]
	// derives Agents and Sightings from it and sets Inferred: when the agents registered, their
	// outcome and their owners are then unknown.
	Counted  *Counted
	Inferred bool
	// Unread says what muster can do without and could not read, why, and what to
	// do; empty: nothing.
	Unread string
	// Gaps are what the source of the snapshot can never know, a sentence each; none for a
	// source that lists all.
	Gaps []string
}

// Agent is one connected Buildkite agent.
type Agent struct {
	// ID is Buildkite's identifier.
	ID string
	// Cluster is the Buildkite cluster's identifier; empty when unknown or
	// unclustered.
	Cluster string
	// Tags are the agent's tags as "key=value". An agent without a queue tag is
	// given that of its default queue by the reader.
	Tags []string
	// State is what the agent is doing.
	State AgentState
	// Connected is when it connected, or when it registered if Buildkite reports only that; zero
	// if unknown.
	Connected time.Time
	// IdleSince is when an idle agent connected, or finished its last job; zero
	// when unknown.
	IdleSince time.Time
	// LastJobFinished is when the agent finished its last job; zero when it has
	// finished none, or that is not known. An agent that leaves after its job
	// is still listed as idle for a while, and takes nothing more.
	LastJobFinished time.Time
}

// AgentState is what a connected agent is doing.
type AgentState string

// The states of a connected agent.
const (
	// AgentIdle waits for a job.
	AgentIdle AgentState = "idle"
	// AgentBusy has a job.
	AgentBusy AgentState = "busy"
	// AgentStopping takes no more jobs: it does not count as supply, but still runs.
	AgentStopping AgentState = "stopping"
)

// Job is one unfinished job of type script.
type Job struct {
	// ID is Buildkite's identifier.
	ID string
	// Cluster is the Buildkite cluster's identifier; empty when unclustered.
	Cluster string
	// Rules are the agent query rules as "key=value". A job without a queue
	// rule is given that of its default queue by the reader.
	Rules []string
	// State is what keeps the job from running.
	State JobState
	// Created is when the job was created, with its build or by an upload of steps; zero if
	// unknown. It is not after Since.
	Created time.Time
	// Since is when the job became runnable; zero unless State is JobPending.
	Since time.Time
	// Due is the earliest moment at which an upcoming job is predicted to become
	// runnable; zero: nothing is known of that. Stage names the jobs that become runnable
	// when it does; empty where the reader tells nothing of moments.
	Due   time.Time
	Stage string
	// URL is the job's page, for reports.
	URL string
}

// JobState is what prevents an unfinished job from running, in the detail that muster needs.
type JobState string

// The states of an unfinished job.
const (
	// JobPending is runnable now and has no agent: demand.
	JobPending JobState = "pending"
	// JobUpcoming stands behind steps that are running, with no block step
	// between: look-ahead only.
	JobUpcoming JobState = "upcoming"
	// JobLimited waits for a concurrency group, for the plan's limit, or is
	// reserved by another scaler: no agent would help.
	JobLimited JobState = "limited"
	// JobBlocked stands behind a block step, for a person to release.
	JobBlocked JobState = "blocked"
)

// Sighting says that an agent existed: it ran or runs a job.
type Sighting struct {
	// Agent is Buildkite's identifier of the agent, Name what it calls itself:
	// the agent Job calls it after its dispatch and index, as in
	// "default-7f3k9c2b-3", which helps where the tags are not told.
	Agent, Name string
	// Tags are the agent's tags as "key=value".
	Tags []string
	// Running reports whether the job still runs.
	Running bool
	// Started is when the job started, and Waited how long it had been runnable by
	// then; both zero where that is not told, or the agent has had several jobs and
	// this is not the last.
	Started time.Time
	Waited  time.Duration
}

// tags returns the agent's tags. If Buildkite does not report them, it derives the dispatch and
// the index from the agent's name.
func (s Sighting) tags() []string {
	if at := strings.LastIndexByte(s.Name, '-'); len(s.Tags) == 0 && at > 0 {
		return []string{TagDispatch + "=" + s.Name[:at], TagIndex + "=" + s.Name[at+1:]}
	}
	return s.Tags
}

// Queue is one cluster queue.
type Queue struct {
	// Cluster and ClusterName identify the Buildkite cluster; empty when
	// unclustered.
	Cluster, ClusterName string
	// Key is the queue's key, as in "queue=key".
	Key string
	// Paused reports whether dispatch of jobs is paused.
	Paused bool
	// Hosted reports whether the queue is for agents that Buildkite hosts, which
	// no other agent can join.
	Hosted bool
}

// Unknown returns the queues, by key, that do not exist in Buildkite: there are clusters, but none
// has the queue, and no agent and no job is in it. A queue outside the clusters is known only by
// its agents and jobs. A job in a cluster does not prove that its queue exists: a step may name a
// queue that its cluster does not have, and no agent can register there.
func Unknown(queues []string, s Snapshot) map[string]bool {
	unknown := map[string]bool{}
	if len(s.Queues) == 0 {
		return unknown
	}
	for _, key := range queues {
		unknown[key] = true
	}
	for _, q := range s.Queues {
		delete(unknown, q.Key)
	}
	seen := func(tags []string) {
		for _, t := range tags {
			if key, ok := strings.CutPrefix(t, TagQueue+"="); ok {
				delete(unknown, key)
			}
		}
	}
	for i := 0; i < len(s.Agents) && len(unknown) > 0; i++ {
		seen(s.Agents[i].Tags)
	}
	for i := 0; i < len(s.Jobs) && len(unknown) > 0; i++ {
		if s.Jobs[i].Cluster == "" {
			seen(s.Jobs[i].Rules)
		}
	}
	return unknown
}
