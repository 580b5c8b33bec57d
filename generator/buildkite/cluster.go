package buildkite

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"muster/generator/plan"
)

// How old the list of queues may be, and with it the news that one is paused.
// Reading it costs a request, and one more for each cluster: with more than
// nine clusters it is read more rarely, so that it never takes more than ten
// of the 50 requests a minute that a token's user has.
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

// clusters is what is known of clusters and queues. The zero value has still to
// be read.
type clusters struct {
	read     time.Time    // when, by the caller's clock; zero: never
	unread   string       // why they cannot be read, and what to do; empty: they can
	list     []plan.Queue // in the order of their clusters' identifiers
	requests int
	queues   map[string]string // queue's identifier → key
	homes    map[string]string // queue's identifier → its cluster's
	defaults map[string]string // cluster's identifier → key of its default queue
	// unknown are identifiers that a reading did not explain: they are no
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
func (k *clusters) explains(id string) bool {
	_, queue := k.queues[id]
	_, cluster := k.defaults[id]
	return queue || cluster
}

func (k *clusters) unexplained(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return !k.explains(id) && !k.unknown[id] })
}

// add adds a cluster that is about to be read.
func (k *clusters) add(cluster clusterRecord) {
	k.requests++
	k.defaults[string(cluster.ID)] = defaultQueue
}

// addQueue adds a queue of a cluster. Of one that is listed twice the later
// reading counts.
func (k *clusters) addQueue(cluster clusterRecord, r queueRecord) {
	home := string(cluster.ID)
	k.queues[string(r.ID)], k.homes[string(r.ID)] = string(r.Key), home
	if r.ID == cluster.DefaultQueue {
		k.defaults[home] = string(r.Key)
	}
	queue := plan.Queue{
		Cluster: home, ClusterName: string(cluster.Name), Key: string(r.Key),
		Paused: bool(r.Paused), Hosted: bool(r.Hosted) || r.HostedAgents.there,
	}
	same := func(q plan.Queue) bool { return q.Cluster == home && q.Key == queue.Key }
	if i := slices.IndexFunc(k.list, same); i >= 0 {
		k.list[i] = queue
		return
	}
	k.list = append(k.list, queue)
}

// settle brings what was read into order, and notes what it does not explain.
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

// defaultKey is the key of the queue that something without one belongs to: its
// own by identifier, else its cluster's default, else "default".
func (k *clusters) defaultKey(queue, cluster string) string {
	return cmp.Or(k.queues[queue], k.defaults[cluster], defaultQueue)
}

// home is the cluster of a job: its own, that of another job of its build, or
// that of its queue. With none of them it is outside the clusters. (The build's
// pipeline would tell as well, but is not asked for.)
func (k *clusters) home(j *keptJob, b *readBuild) string {
	return cmp.Or(j.Cluster, b.cluster, k.homes[j.queue])
}

// agentTags are an agent's tags, its default queue's among them when they name
// none (docs agent/queues.md "The default self-hosted queue").
func (k *clusters) agentTags(tags []string, cluster, queue string) []string {
	if hasQueue(tags) {
		return tags
	}
	return append(slices.Clone(tags), "queue="+k.defaultKey(queue, cluster))
}

// rules are a job's rules, its default queue's among them when they name none.
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
