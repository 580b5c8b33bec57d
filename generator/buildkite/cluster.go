package buildkite

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"muster/generator/plan"
)

// The maximum age of the list of queues, which says whether a queue is paused. Reading it takes
// a request, and one more for each cluster. With more than nine clusters it is read less often,
// so that it takes at most ten of the 50 requests a minute of a token's user.
const (
	freshFor   = time.Minute
	perRequest = 6 * time.Second
	// absentFor is how long to wait before the next request for the clusters of an
	// organisation without readable clusters.
	absentFor = 10 * time.Minute
)

// defaultQueue is the queue of jobs and agents that name none, outside clusters
// and where a cluster's own default is not known (docs agent/queues.md).
const defaultQueue = "default"

// clusters contains the clusters and their queues. The zero value has not been read.
type clusters struct {
	read     time.Time    // when they were read, by the caller's clock; zero if never
	unread   string       // why they cannot be read, and the remedy; empty if they can
	list     []plan.Queue // in the order of their clusters' identifiers
	requests int
	queues   map[string]string // queue's identifier → key
	homes    map[string]string // queue's identifier → its cluster's
	defaults map[string]string // cluster's identifier → key of its default queue
	// unknown are identifiers that the last reading did not contain: they are no
	// reason to read again.
	unknown map[string]bool
}

// due reports whether the list must be read again.
func (k *clusters) due(at time.Time) bool {
	if k.read.IsZero() || at.Before(k.read) {
		return true
	}
	if k.unread != "" {
		return at.Sub(k.read) >= absentFor
	}
	return at.Sub(k.read) >= max(freshFor, time.Duration(k.requests)*perRequest)
}

// explains reports whether an identifier of a queue or cluster is known.
func (k *clusters) explains(id string) bool { return k.queues[id] != "" || k.defaults[id] != "" }

func (k *clusters) unexplained(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return !k.explains(id) && !k.unknown[id] })
}

// addQueue adds a queue of a cluster. If a queue is listed twice, the later record wins.
func (k *clusters) addQueue(cluster clusterRecord, r queueRecord) {
	home := string(cluster.ID)
	k.queues[string(r.ID)], k.homes[string(r.ID)] = string(r.Key), home
	if r.ID == cluster.DefaultQueue {
		k.defaults[home] = string(r.Key)
	}
	queue := plan.Queue{
		Cluster: home, ClusterName: string(cluster.Name), ID: string(r.ID), Key: string(r.Key),
		Paused: bool(r.Paused), Hosted: bool(r.Hosted) || r.HostedAgents.there,
	}
	same := func(q plan.Queue) bool { return q.Cluster == home && q.Key == queue.Key }
	if i := slices.IndexFunc(k.list, same); i >= 0 {
		k.list[i] = queue
		return
	}
	k.list = append(k.list, queue)
}

// settle sorts the queues and records which of the named identifiers are unknown.
func (k *clusters) settle(named []string) {
	slices.SortFunc(k.list, func(a, b plan.Queue) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Key, b.Key))
	})
	k.unknown = map[string]bool{}
	for _, id := range named {
		if !k.explains(id) {
			k.unknown[id] = true
		}
	}
}

// defaultKey returns the key of the queue of a job or agent that names none: that of its
// queue's identifier, else that of its cluster's default queue, else "default".
func (k *clusters) defaultKey(queue, cluster string) string {
	return cmp.Or(k.queues[queue], k.defaults[cluster], defaultQueue)
}

// home returns the cluster of a job: its own, that of its build, or that of its queue; empty
// if the job is in no cluster.
func (k *clusters) home(j *keptJob, b *readBuild) string {
	return cmp.Or(j.Cluster, b.cluster, k.homes[j.queue])
}

// agentTags returns an agent's tags, with its default queue if they name none (docs
// agent/queues.md "The default self-hosted queue").
func (k *clusters) agentTags(tags []string, cluster, queue string) []string {
	if hasQueue(tags) {
		return tags
	}
	return append(slices.Clone(tags), "queue="+k.defaultKey(queue, cluster))
}

// rules returns a job's rules, with its default queue if they name none.
// The rules come before cluster_queue_id, which may be null even in a cluster.
func (k *clusters) rules(j *keptJob, cluster string) []string {
	if hasQueue(j.Rules) {
		return j.Rules
	}
	return append(slices.Clone(j.Rules), "queue="+k.defaultKey(j.queue, cluster))
}

// unnamed returns the identifiers of queues and clusters whose names are needed
// to place an agent or a job that names no queue.
func (l *poll) unnamed() []string {
	named := map[string]bool{}
	add := func(queue, cluster string) {
		if id := cmp.Or(queue, cluster); id != "" {
			named[id] = true
		}
	}
	for _, r := range l.agents {
		if !hasQueue(r.MetaData) {
			cluster, queue := place(string(r.WebURL), string(r.Cluster))
			add(queue, cluster)
		}
	}
	for _, b := range l.builds {
		for i := range b.jobs {
			j := &b.jobs[i]
			switch {
			case !b.active:
			case !hasQueue(j.Rules):
				add(j.queue, cmp.Or(j.Cluster, b.cluster))
			case j.Cluster == "" && b.cluster == "":
				add(j.queue, "")
			}
		}
	}
	return slices.Sorted(maps.Keys(named))
}
