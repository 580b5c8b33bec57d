package plan

import (
	"slices"
	"time"
)

// Counts is how many jobs and agents there are, as Buildkite's metrics tell. The jobs only
// trigger a poll: those that no agent would help are among them, and nothing says what they
// ask for.
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
}

// QueueCounts are those of one queue.
type QueueCounts struct {
	// Scheduled jobs have no agent. Limited and unmatched ones are among them
	// (buildkite/buildkite-agent-metrics issue 31).
	Scheduled int
	// Agents are connected, and Idle of them have no job.
	Agents, Idle int
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
