package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Observation is a snapshot reduced to what the overlays of one queue need. The commit message
// contains it, in a format of package ledger that has the JSON of these types: their tags must not
// change. With the parent commit it is the complete input of a decision, so that the decision can
// be replayed. Its JSON is the output of muster plan.
type Observation struct {
	// At is when Buildkite was read, and the time of the decision.
	At time.Time `json:"at"`
	// Until is when a reading that was spread over minutes was complete; zero
	// when Buildkite was read at once. Everything is judged by At; what is ordered
	// bears this time, so that its lease is whole.
	Until time.Time `json:"until,omitzero"`
	// Queue is the queue's key.
	Queue string `json:"queue"`
	// Jobs are the queue's jobs that some overlay can serve, in groups that are
	// alike to every overlay and to every idle agent.
	Jobs []Demand `json:"jobs,omitempty"`
	// Idle are the connected agents that wait for a job, in groups that can take
	// the same jobs. Those that are of no use here are left out.
	Idle []IdleAgents `json:"idle,omitempty"`
	// Overlays are the overlays that serve the queue, by name.
	Overlays []Supply `json:"overlays"`
	// Unmatched are the queue's jobs that no overlay can serve.
	Unmatched []Unmatched `json:"unmatched,omitempty"`
}

// Demand counts the jobs of one group.
type Demand struct {
	// Overlays are the names of the overlays whose agents may take the jobs, sorted.
	Overlays []string `json:"overlays"`
	// Pending jobs are runnable and have no agent.
	Pending int `json:"pending,omitempty"`
	// OtherQueues jobs are pending and ask for any queue, and count for another that could
	// serve them. They are no demand here, but agents that take none have failed.
	OtherQueues int `json:"otherQueues,omitempty"`
	// Oldest is since when the longest pending job has been runnable, those of OtherQueues
	// included.
	Oldest *time.Time `json:"oldest,omitempty"`
	// Upcoming jobs become runnable when others finish. Fresh of them were
	// created after the last dispatch for upcoming jobs of each of the overlays,
	// and Newest is when the newest of them was, rounded up to the second.
	Upcoming int        `json:"upcoming,omitempty"`
	Fresh    int        `json:"fresh,omitempty"`
	Newest   *time.Time `json:"newest,omitempty"`
	// Partial are those of Fresh that were created by the time until which an overlay
	// has dispatched for some, by overlay; see [State.Partial]. Nil: none.
	Partial map[string]int `json:"partial,omitempty"`
	// Stages are those of Upcoming whose moment is known and has nearly come, the first
	// due first. They are not among Fresh. Later are further jobs, which are no demand yet: the
	// first of them is due at Earliest, later than Within seconds from now.
	Stages   []Stage    `json:"stages,omitempty"`
	Later    int        `json:"later,omitempty"`
	Within   int        `json:"within,omitempty"`
	Earliest *time.Time `json:"earliest,omitempty"`
	// Limited and Blocked jobs are no demand: no agent would help them. They
	// are counted to explain why nothing is dispatched for them.
	Limited int `json:"limited,omitempty"`
	Blocked int `json:"blocked,omitempty"`
}

// IdleAgents is a group of idle agents.
type IdleAgents struct {
	// Agents is how many there are.
	Agents int `json:"agents"`
	// Overlay is the overlay whose look-ahead and buffer they are part of: their own, or the first
	// that they could stand in for; empty if there is no such overlay.
	Overlay string `json:"overlay,omitempty"`
	// Replacing reports whether they are close to their idle time-out or uptime, or
	// made from an older template, so that they serve pending jobs only.
	Replacing bool `json:"replacing,omitempty"`
	// Jobs are the groups of Observation.Jobs that they can take, by index.
	Jobs Indexes `json:"jobs,omitzero"`
}

// Supply counts the agents that matter to one overlay.
type Supply struct {
	// Overlay is the overlay's name.
	Overlay string `json:"overlay"`
	// Suspended says why Buildkite lets nothing be dispatched for the overlay
	// now, as when the queue is paused; zero when nothing does.
	Suspended Suspension `json:"suspended,omitzero"`
	// WrongTags agents registered without a tag that they were ordered with, while others of their
	// dispatch are still in flight; see countWrongTags.
	WrongTags int `json:"wrongTags,omitempty"`
	// Busy agents run a job and have the overlay's tag. QueueBusy counts all agents of the queue
	// that run a job, regardless of who started them.
	Busy      int `json:"busy,omitempty"`
	QueueBusy int `json:"queueBusy,omitempty"`
	// Own agents carry the overlay's tag and are connected, idle or busy.
	Own int `json:"own,omitempty"`
	// Reusable of them take more than one job.
	Reusable int `json:"reusable,omitempty"`
	// Stopping agents carry the overlay's tag too, but take no more jobs.
	Stopping int `json:"stopping,omitempty"`
	// OtherQueue agents carry it and are in another queue or cluster than the
	// policy's, as after an edit of the policy. They count as stopping.
	OtherQueue int `json:"otherQueue,omitempty"`
	// OtherFleets are agents of another fleet repository that has an overlay of the same name.
	// They belong to no overlay of this repository.
	OtherFleets int `json:"otherFleets,omitempty"`
	// MaxJobs is the maximum number of dispatches that one commit adds or removes, because the git
	// host accepts no larger commit; zero means any number.
	MaxJobs int `json:"maxJobs,omitempty"`
	// Dispatches is what Buildkite has seen of each dispatch in git. Dispatches without a seen
	// agent are omitted.
	Dispatches map[string]Seen `json:"dispatches,omitempty"`
	// OtherTags are dispatches that were ordered with other tags than the policy has now, and
	// whose agents in flight can serve other jobs; nil if there are no such dispatches.
	OtherTags map[string]OtherTags `json:"otherTags,omitempty"`
}

// OtherTags describes which jobs agents of a dispatch will be able to serve.
type OtherTags struct {
	// Jobs are the groups of Observation.Jobs that they can take, by index.
	Jobs Indexes `json:"jobs,omitzero"`
	// Spare reports whether they can stand in for agents that are dispatched now,
	// so that look-ahead and buffer count on them.
	Spare bool `json:"spare,omitempty"`
}

// Seen is what Buildkite has seen of one dispatch, now or before.
type Seen struct {
	// Registered are the indexes whose agents have registered.
	Registered Indexes `json:"registered,omitzero"`
	// FirstAt is when an index was first known to have registered; nil if none has, or if the
	// process had not started polling by then. No decision depends on it: it is for readers of the
	// ledger.
	FirstAt *time.Time `json:"firstAt,omitempty"`
	// RegisteredAt is when all indexes were first known to have registered; nil
	// while some have not.
	RegisteredAt *time.Time `json:"registeredAt,omitempty"`
	// StartupTimes are how long those that registered took since the order, where the
	// overlay's lease goes by it.
	StartupTimes StartupTimes `json:"startupTimes,omitzero"`
	// HadJob is how many of the agents are known to have had a job.
	HadJob int `json:"hadJob,omitempty"`
	// Connected is how many of the agents are connected now. WrongTags of them registered without
	// a tag that they were ordered with; see countWrongTags.
	Connected int `json:"connected,omitempty"`
	WrongTags int `json:"wrongTags,omitempty"`
}

// Unmatched is a group of jobs that no overlay of their queue can serve.
type Unmatched struct {
	// Rules are the jobs' agent query rules.
	Rules []string `json:"rules"`
	// Missing are the rules that the nearest overlay does not satisfy.
	Missing []string `json:"missing"`
	// Unclustered reports that the jobs are in no Buildkite cluster, while the
	// queue that the overlays serve is in one: their agents cannot take them.
	Unclustered bool `json:"unclustered,omitempty"`
	// Jobs is how many runnable jobs there are, and Example the page of one.
	Jobs    int    `json:"jobs"`
	Example string `json:"example,omitempty"`
}

// Why describes what prevents the overlays from serving the jobs.
func (u Unmatched) Why() string {
	if u.Unclustered {
		return "in no cluster, and the queue is in one"
	}
	return fmt.Sprintf("missing %q", u.Missing)
}

// Unserved is a queue with pending jobs that no overlay serves.
type Unserved struct {
	// Queue is its key, or "*" for jobs that ask for any queue and match no
	// overlay.
	Queue string `json:"queue"`
	// Cluster is the name of the jobs' Buildkite cluster, or its identifier where the
	// name is not known; empty for jobs in none.
	Cluster string `json:"cluster,omitempty"`
	// Jobs is how many pending jobs there are, and Example the page of one.
	Jobs    int    `json:"jobs"`
	Example string `json:"example,omitempty"`
}

// Where says which cluster the queue is in, as in ` in the cluster "ci"`; empty
// where it is in none.
func (u Unserved) Where() string {
	if u.Cluster == "" {
		return ""
	}
	return fmt.Sprintf(" in the cluster %q", u.Cluster)
}

// Count returns how many jobs of the observation are pending for the named overlay,
// and how many agents are idle that are part of it or could take one of its jobs.
func (o Observation) Count(overlay string) (pending, idle int) {
	mine := func(i int) bool { return slices.Contains(o.Jobs[i].Overlays, overlay) }
	for i, j := range o.Jobs {
		if mine(i) {
			pending += j.Pending
		}
	}
	for _, g := range o.Idle {
		takes := g.Overlay == overlay
		for i := range o.Jobs {
			takes = takes || g.Jobs.Has(i) && mine(i)
		}
		if takes {
			idle += g.Agents
		}
	}
	return pending, idle
}

// orderedAt is the time that new dispatches bear.
func (o Observation) orderedAt() time.Time {
	return cmp.Or(o.Until, o.At)
}

// Supply returns what was counted for the named overlay; only its name is set if there is nothing.
func (o Observation) Supply(overlay string) Supply {
	for _, s := range o.Overlays {
		if s.Overlay == overlay {
			return s
		}
	}
	return Supply{Overlay: overlay}
}
