package plan

import (
	"slices"
	"time"
)

// Counts is the number of jobs and agents, from Buildkite's metrics endpoint. The jobs only
// trigger a poll: they include jobs that no agent can take, and their agent query rules are
// unknown.
type Counts struct {
	// At is the time of the request, by muster's clock.
	At time.Time
	// Clusters are the clusters of the request.
	Clusters []ClusterCounts
}

// ClusterCounts are the counts of one Buildkite cluster.
type ClusterCounts struct {
	// Cluster is its name; empty for queues in no cluster.
	Cluster string
	// Queues are its queues by key. A missing queue has neither jobs nor agents.
	Queues map[string]QueueCounts
}

// QueueCounts are the counts of one queue.
type QueueCounts struct {
	// Scheduled jobs have no agent. Limited and unmatched ones are among them
	// (buildkite/buildkite-agent-metrics issue 31).
	Scheduled int
	// Agents are connected, and Idle of them have no job.
	Agents, Idle int
	// Running is the number of running jobs if that is more than the agents that have a job; zero if
	// it is not.
	Running int
	// Invalid reports that the numbers of agents contradict each other.
	Invalid bool
}

// Cover reports whether the counts include a cluster, by its name.
func (c Counts) Cover(cluster string) bool {
	return slices.ContainsFunc(c.Clusters, func(k ClusterCounts) bool { return k.Cluster == cluster })
}

// Home returns the name of the Buildkite cluster of the overlay's queue, according to a snapshot;
// empty if the queue is in no cluster. It returns false if the name does not identify the cluster.
func (o Overlay) Home(s Snapshot) (cluster string, ok bool) {
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

// named reports whether no other cluster has the name of a queue's cluster.
func (s Snapshot) named(q Queue) bool {
	return q.ClusterName != "" && !slices.ContainsFunc(s.Queues, func(x Queue) bool { return x.ClusterName == q.ClusterName && x.Cluster != q.Cluster })
}

// More reports whether a queue of the overlays has more jobs without an agent than in earlier counts.
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

// AgentsMissing reports whether an overlay needs more agents than it orders: limits withhold them, and an
// agent that registers or exits may be what they wait for.
func AgentsMissing(decisions []Decision) bool {
	return slices.ContainsFunc(decisions, func(d Decision) bool { return d.Figures.Wanted() > d.Figures.Dispatch })
}

// PollWithin returns the time from one poll to the next that shows each agent in flight, although it
// registers after the first, gets no job and exits: four fifths of the shortest idle time-out. It
// returns zero if no agent is in flight after the decisions.
func PollWithin(overlays []Overlay, decisions []Decision) time.Duration {
	ordered := map[string][]Dispatch{}
	for _, o := range overlays {
		ordered[o.Name] = o.Dispatches
	}
	var shortest time.Duration
	for _, d := range decisions {
		consider := func(x Dispatch) {
			if idle := x.longestIdle(); shortest == 0 || idle < shortest {
				shortest = idle
			}
		}
		for _, x := range d.Dispatch {
			consider(x)
		}
		k := slices.IndexFunc(d.Observation.Overlays, func(s Capacity) bool { return s.Overlay == d.Overlay })
		for _, x := range ordered[d.Overlay] {
			if !x.Expired(d.Observation.At) && d.Observation.Overlays[k].Dispatches[x.ID].Registered.Below(x.Agents) < x.Agents {
				consider(x)
			}
		}
	}
	return shortest / 5 * 4
}

// MinTickSpacing is the shortest time between two triggered ticks, unless their mean time
// is shorter.
const MinTickSpacing = time.Second

// SignalSpacing is the mean time between ticks after signals of a muster without other triggers.
const SignalSpacing = 3 * time.Second

// tickBurst is the number of ticks that may begin MinTickSpacing apart after a pause.
const tickBurst = 4

// Pace spaces out triggered ticks. On average one tick begins each Every; after a pause, a few
// begin MinTickSpacing apart. It is a leaky bucket of tickBurst ticks. The zero value allows every
// tick at once.
type Pace struct {
	// Every is the mean time between two triggered ticks.
	Every time.Duration
	// due is the time at which the bucket is empty.
	due time.Time
}

// Wait returns how long to wait from now until the next triggered tick may begin. last is the
// time at which the last tick began, triggered or not.
func (p *Pace) Wait(now, last time.Time) time.Duration {
	earliest := later(p.due.Add(-(tickBurst-1)*p.Every), last.Add(min(p.Every, MinTickSpacing)))
	return max(0, earliest.Sub(now))
}

// Began records that a triggered tick begins at a time.
func (p *Pace) Began(at time.Time) {
	p.due = later(at, p.due).Add(p.Every)
}
