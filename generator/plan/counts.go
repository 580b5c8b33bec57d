package plan

import (
	"slices"
	"time"
)

// Counts is how many jobs and agents there are, as Buildkite's metrics tell. They are a
// reason to look at Buildkite, or not to: jobs that no agent would help are among them,
// and nothing says what the jobs ask for. So nothing is ever decided on them.
type Counts struct {
	// At is when they were asked for, by muster's clock.
	At time.Time
	// Clusters are those that were asked about.
	Clusters []ClusterCounts
}

// ClusterCounts are those of one Buildkite cluster.
type ClusterCounts struct {
	// Cluster is its name; empty is what is in none.
	Cluster string
	// Queues are its queues by key. One that is not listed has nothing.
	Queues map[string]QueueCounts
	// Total is said of all of them together.
	Total QueueCounts
}

// QueueCounts are those of one queue.
type QueueCounts struct {
	// Scheduled jobs have no agent. Limited and unmatched ones are among them
	// (buildkite/buildkite-agent-metrics issue 31).
	Scheduled int
	// Running jobs have one.
	Running int
	// Waiting jobs stand behind other steps, block steps too
	// (buildkite/buildkite-agent-scaler issue 199).
	Waiting int
	// Agents are connected, and Idle of them have no job.
	Agents, Idle int
}

// ShowNothing reports whether the counts say that a look at Buildkite would show no job
// that wants an agent and no agent, where the overlays are. The snapshot is the last look,
// which knows the queues. Where the counts do not tell, the answer is no: the clusters of
// all overlays must be among theirs.
func (c Counts) ShowNothing(overlays []Overlay, last Snapshot) bool {
	ahead := slices.ContainsFunc(overlays, func(o Overlay) bool { return o.Policy.Lookahead > 0 })
	for _, o := range overlays {
		name, told := o.Home(last)
		i := slices.IndexFunc(c.Clusters, func(k ClusterCounts) bool { return k.Cluster == name })
		if !told || i < 0 || !c.Clusters[i].showNothing(overlays, last, ahead) {
			return false
		}
	}
	return len(overlays) > 0
}

// Cover reports whether a cluster, by its name, is among those that were asked about.
func (c Counts) Cover(cluster string) bool {
	return slices.ContainsFunc(c.Clusters, func(k ClusterCounts) bool { return k.Cluster == cluster })
}

// Home is the name of the Buildkite cluster that the overlay's queue is in, as a snapshot
// knows it; empty where it is in none. False: that cannot be told by its name.
func (o Overlay) Home(s Snapshot) (cluster string, told bool) {
	found := slices.DeleteFunc(slices.Clone(s.Queues), func(q Queue) bool {
		return q.Key != o.Policy.Queue || o.Policy.Cluster != "" && o.Policy.Cluster != q.Cluster && o.Policy.Cluster != q.ClusterName
	})
	switch {
	case s.Unread != "" || len(found) > 1 || len(found) == 0 && len(s.Queues) > 0:
		return "", false
	case len(found) == 0:
		return "", true
	}
	return found[0].ClusterName, s.named(found[0])
}

// named reports whether the name of a queue's cluster is that of no other cluster.
func (s Snapshot) named(q Queue) bool {
	return q.ClusterName != "" && !slices.ContainsFunc(s.Queues, func(x Queue) bool { return x.ClusterName == q.ClusterName && x.Cluster != q.Cluster })
}

// showNothing looks at the queues of overlays, and at keys that are no queue's: for which
// jobs count that ask for any queue is not documented, nor, in a cluster without a queue
// "default", those that name none. Only queues of which it is known that others serve
// them are left aside.
func (k ClusterCounts) showNothing(overlays []Overlay, last Snapshot, ahead bool) bool {
	rest := k.Total
	for key, q := range k.Queues {
		rest.Scheduled, rest.Running = rest.Scheduled-q.Scheduled, rest.Running-q.Running
		rest.Waiting, rest.Agents = rest.Waiting-q.Waiting, rest.Agents-q.Agents
		if q.none(ahead) {
			continue
		}
		served := slices.ContainsFunc(overlays, func(o Overlay) bool { return o.Policy.Queue == key })
		known := slices.ContainsFunc(last.Queues, func(x Queue) bool { return x.ClusterName == k.Cluster && x.Key == key })
		if served || !known {
			return false
		}
	}
	return rest.none(ahead)
}

// none reports whether there is no job that wants an agent, or will where somebody looks
// ahead, and no agent.
func (q QueueCounts) none(ahead bool) bool {
	return q.Scheduled <= 0 && q.Running <= 0 && q.Agents <= 0 && (q.Waiting <= 0 || !ahead)
}

// More reports whether jobs have come for a queue of the overlays that no agent has, as
// against counts of before.
func (c Counts) More(overlays []Overlay, before Counts) bool {
	for _, k := range c.Clusters {
		i := slices.IndexFunc(before.Clusters, func(b ClusterCounts) bool { return b.Cluster == k.Cluster })
		if i < 0 {
			continue
		}
		for _, o := range overlays {
			if k.Queues[o.Policy.Queue].Scheduled > before.Clusters[i].Queues[o.Policy.Queue].Scheduled {
				return true
			}
		}
	}
	return false
}

// ShowsNothing reports whether an observation has nothing that changes but by a look at
// Buildkite: no job that wants an agent or will, no agent of whatever use, nothing that
// Buildkite keeps from being dispatched.
func (o Observation) ShowsNothing() bool {
	jobs := slices.ContainsFunc(o.Jobs, func(d Demand) bool { return d.Pending+d.Away+d.Upcoming+d.Later+d.Limited > 0 })
	agents := slices.ContainsFunc(o.Overlays, func(s Supply) bool {
		return s.Own+s.Busy+s.QueueBusy+s.Stopping+s.Namesakes+s.WrongTags > 0 || s.Suspended.Active() || len(s.Dispatches) > 0
	})
	return !jobs && !agents && len(o.Idle) == 0 && len(o.Unmatched) == 0
}
