package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Counted is the result of a client that cannot list agents: the number of agents in each queue, and
// the jobs that agents have taken.
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
	// Running is the number of running jobs if that is more than the agents that have a job; zero if
	// it is not.
	Running int
	// Invalid reports that the numbers of agents contradict each other.
	Invalid bool
}

// mostAgents is more agents than any queue has.
const mostAgents = 100_000

// contradiction returns why counts cannot be true, if ran jobs certainly ran when the agents were
// counted; empty if they can. Jobs without a rule for a queue are among the running ones of the
// queue "default", although they may run in another one.
func (q CountedQueue) contradiction(ran int) string {
	if q.Queue != "default" {
		ran = max(ran, q.Running)
	}
	switch {
	case q.Invalid || q.Idle < 0 || q.Idle > q.Agents || q.Agents > mostAgents:
		return fmt.Sprintf("%s, %d of them idle", quantity(q.Agents, "agent"), q.Idle)
	case q.Agents-q.Idle < ran:
		return fmt.Sprintf("%s, %d of them idle, with %s", quantity(q.Agents, "agent"), q.Idle, quantity(ran, "running job"))
	}
	return ""
}

// largest returns the counts with as many agents as they can mean.
func (q CountedQueue) largest(ran int) CountedQueue {
	bounded := func(n int) int { return min(max(n, 0), mostAgents) }
	q.Idle = bounded(q.Idle)
	q.Agents = max(bounded(q.Agents), q.Idle+max(ran, bounded(q.Running)))
	return q
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
// all at once, would exceed their share of Buildkite's rate limit, per minute; or, if that is zero,
// because some of them failed: requests is then how many succeeded in this call.
type SpreadError interface {
	RetryError
	Stretched() (requests, perMinute int)
}

// Snapshot is the result of a poll of Buildkite. It is complete except for what Unread names: a client
// that cannot read anything else returns an error. The order of its slices has no meaning.
type Snapshot struct {
	// At is the beginning of the poll, by muster's clock.
	At time.Time
	// Until is the end of a poll that was spread over several ticks, by muster's clock; otherwise
	// zero. Leases are judged at At, because an agent that registered since is missing; orders are
	// made at Until.
	Until time.Time
	// Agents are the connected agents, read before the jobs.
	Agents []Agent
	// Jobs are the unfinished jobs that may need an agent, now or later.
	Jobs []Job
	// Sightings are agents known from the jobs they ran: of running builds, and of builds that
	// finished since [Query.Since].
	Sightings []Sighting
	// Queues are the known cluster queues.
	Queues []Queue
	// Counted is set by a client that cannot list agents; nil if it lists them. [Inference]
	// derives Agents and Sightings from it and sets Inferred: when the agents registered, their
	// outcome and their owners are then unknown.
	Counted  *Counted
	Inferred bool
	// Contradiction is why nothing can be decided, because the first counts contradict each other;
	// empty if it can.
	Contradiction string
	// Unread describes optional information that could not be read, why, and the remedy; empty if
	// everything was read.
	Unread string
	// Failing describes how many requests of the last polls failed and were repeated, if they are
	// many; otherwise it is empty.
	Failing string
	// Gaps are the limits of the source of the snapshot, one sentence each; empty if it has none.
	Gaps []string
}

// Agent is one connected Buildkite agent.
type Agent struct {
	// ID is Buildkite's identifier.
	ID string
	// Cluster is the Buildkite cluster's identifier; empty when unknown or
	// unclustered.
	Cluster string
	// Tags are the agent's tags as "key=value". The client adds the tag of the default queue to an
	// agent without a queue tag.
	Tags []string
	// State is the state of the agent.
	State AgentState
	// Connected is when it connected, or when it registered if Buildkite reports only that; zero
	// if unknown.
	Connected time.Time
	// IdleSince is when an idle agent connected, or finished its last job; zero if unknown.
	IdleSince time.Time
	// LastJobFinished is when the agent finished its last job; zero if it has finished none, or if
	// that is unknown. An agent that exits after its job is still listed as idle for a while, but
	// takes no further job.
	LastJobFinished time.Time
}

// AgentState is the state of a connected agent.
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
	// Rules are the agent query rules as "key=value". The client adds the rule of the default queue
	// to a job without a queue rule.
	Rules []string
	// State is what prevents the job from running.
	State JobState
	// Created is when the job was created, with its build or by an upload of steps; zero if
	// unknown. It is not after Since.
	Created time.Time
	// Since is when the job became runnable; zero unless State is JobPending.
	Since time.Time
	// Due is the earliest predicted time at which an upcoming job becomes runnable; zero if unknown.
	// Stage is the name of the group of jobs that become runnable together; empty if the client
	// predicts no times.
	Due   time.Time
	Stage string
	// Freed reports that agents which take further jobs have finished an earlier job of its build by then, enough for
	// this one.
	Freed bool
	// Expected reports that an upcoming job does not exist yet, and has no ID. The only step of its build, which runs or
	// waits for an agent, uploaded such a job in the last builds of the pipeline.
	Expected bool
	// URL is the job's page, for reports.
	URL string
}

// JobState is what prevents an unfinished job from running, in the detail that muster needs.
type JobState string

// The states of an unfinished job.
const (
	// JobPending is runnable now and has no agent: demand.
	JobPending JobState = "pending"
	// JobUpcoming depends on running steps, and on no block step: look-ahead only.
	JobUpcoming JobState = "upcoming"
	// JobLimited waits for a concurrency group or the plan's limit, or is reserved by another
	// autoscaler: no agent could run it now.
	JobLimited JobState = "limited"
	// JobBlocked depends on a block step that a person must release.
	JobBlocked JobState = "blocked"
)

// Sighting is an agent that is known by a job that it ran or runs.
type Sighting struct {
	// Agent is Buildkite's identifier of the agent, and Name its name. The Job names it after its
	// dispatch and index, as in "default-7f3k9c2b-3", for when Buildkite does not return the tags.
	Agent, Name string
	// Tags are the agent's tags as "key=value".
	Tags []string
	// Running reports whether the job still runs.
	Running bool
	// Started is when the job started, and Waited how long it had been runnable before. Both are
	// zero if unknown, or if the agent has had a later job.
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
	// ID identifies the queue in Buildkite; empty if unknown. Key is its key, as in "queue=key".
	ID, Key string
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

// unclustered is the cluster of a listed agent that is in no cluster. It takes no job of a
// cluster, because the builds of a cluster's pipelines run only on the agents of that
// cluster (docs pipelines/security/clusters.md).
const unclustered = "-"

// asOfJobs returns the agents as they were when the jobs were read, which is after the agents were
// read. An agent that has taken a job since is busy. An agent that registered since is known by its
// job. If that has ended, it may still be connected; it waits for another job if it is reusable.
// reusable contains the dispatches of reusable agents.
func asOfJobs(s Snapshot, reusable map[string]bool) []Agent {
	working := map[string]bool{}
	for _, g := range s.Sightings {
		if g.Running {
			working[g.Agent] = true
		}
	}
	agents := slices.Clone(s.Agents)
	listed := make(map[string]bool, len(agents))
	for i := range agents {
		listed[agents[i].ID] = true
		if agents[i].Cluster == "" {
			agents[i].Cluster = unclustered
		}
		switch {
		case agents[i].State != AgentIdle:
		case working[agents[i].ID]:
			agents[i].State = AgentBusy
		case lingers(agents[i], s.At), overstays(agents[i], s.At):
			agents[i].State = AgentStopping
		}
	}
	for _, g := range s.Sightings {
		if listed[g.Agent] { // otherwise it registered after the agents were read, or exited before
			continue
		}
		if x, there := unlisted(g, s, reusable); there {
			listed[g.Agent] = true
			agents = append(agents, x)
		}
	}
	return agents
}

// unlisted returns an agent that is known only by a job, and reports whether it may be connected.
// The jobs that a reusable agent without known tags can take are unknown.
func unlisted(g Sighting, s Snapshot, reusable map[string]bool) (x Agent, there bool) {
	x = Agent{ID: g.Agent, Tags: g.tags(), State: AgentBusy}
	if g.Running {
		return x, true
	}
	end := cmp.Or(s.Until, s.At)
	id, own := TagValue(x.Tags, TagDispatch)
	_, stays := uptimeOf(x.Tags)
	if x.State = AgentStopping; stays {
		x.State = AgentIdle
	}
	return x, own && g.Started.After(s.At) && (stays || reusable[id] || end.Sub(g.Started) < longestLinger)
}

// longestLinger is how long an agent that has finished its one job may stay
// connected: 57 to 60 s were seen when streaming with versions 3.122 to 3.127
// (buildkite/agent pull request #3994), 2 to 9 s when polling with 3.138.
const longestLinger = 90 * time.Second

// lingers reports whether an agent of the fleet has had its one job and is about to exit. It
// is listed as connected without a job, but takes no other. An agent that stays longer takes more
// jobs because of its template, and a reusable agent takes the next job at once.
func lingers(a Agent, now time.Time) bool {
	if a.LastJobFinished.IsZero() || now.Sub(a.LastJobFinished) >= longestLinger {
		return false
	}
	_, own := TagValue(a.Tags, TagDispatch)
	_, stays := uptimeOf(a.Tags)
	return own && !stays
}

// overstays reports whether the uptime of an agent is over: without a job it is about
// to leave, and takes no other.
func overstays(a Agent, now time.Time) bool {
	uptime, stays := uptimeOf(a.Tags)
	return stays && !a.Connected.IsZero() && now.Sub(a.Connected) >= uptime
}

// reusableDispatches returns the dispatches in git whose agents take more than one job.
func reusableDispatches(overlays []Overlay) map[string]bool {
	all := map[string]bool{}
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			if d.Uptime > 0 {
				all[d.ID] = true
			}
		}
	}
	return all
}
