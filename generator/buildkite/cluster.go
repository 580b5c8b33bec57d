package buildkite

import (
	"context"
	"fmt"
	"net/http"
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
	// absentFor is when an organisation without readable clusters is asked
	// again.
	absentFor = 10 * time.Minute
)

// defaultQueue is the queue of jobs and agents that name none, outside clusters
// and where a cluster's own default is not known (docs agent/queues.md).
const defaultQueue = "default"

// clusters is what is known of clusters and queues. The zero value has still to
// be read.
type clusters struct {
	read     time.Time // when, by the caller's clock; zero: never
	absent   bool
	list     []plan.Queue
	requests int
	queues   map[string]string // queue's identifier → key
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
	if k.absent {
		return at.Sub(k.read) >= absentFor
	}
	return at.Sub(k.read) >= max(freshFor, time.Duration(k.requests)*perRequest)
}

// snapshot returns the queues in the order of their clusters' identifiers.
func (k *clusters) snapshot() []plan.Queue { return slices.Clone(k.list) }

// refreshClusters reads clusters and queues when they are due, or when
// something observed names one that is not known. Unclustered organisations
// have none, and a token without read_clusters cannot see them: both are said
// once, and everything else still works.
func (s *session) refreshClusters(ctx context.Context, at time.Time, named func() []string) error {
	k := &s.client.clusters
	if !k.due(at) && (k.absent || !k.unexplained(named())) {
		return nil
	}
	fresh, err := s.readClusters(ctx)
	switch {
	case hasStatus(err, http.StatusForbidden, http.StatusNotFound):
		s.client.once("no clusters", func() {
			s.client.cfg.Log.Warn("clusters cannot be read: paused queues and default queues other than "+
				defaultQueue+" are not known; give the token the scope read_clusters if there are any", "reason", err)
		})
		fresh = &clusters{absent: true}
	case err != nil:
		return err
	}
	fresh.read = at
	*k = *fresh
	k.unknown = map[string]bool{}
	for _, id := range named() {
		if !k.explains(id) {
			k.unknown[id] = true
		}
	}
	return nil
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

// readClusters reads every cluster and its queues (docs
// apis/rest_api/clusters.md "List clusters", clusters/queues.md "List queues").
func (s *session) readClusters(ctx context.Context) (*clusters, error) {
	var found []clusterRecord
	err := s.list(ctx, s.path("clusters"), nil, func(raw []byte) error {
		r, why, err := decode[clusterRecord](raw)
		switch {
		case why != "":
			s.odd("cluster")(why)
		case err == nil:
			found = append(found, r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b clusterRecord) int { return compare(a.ID, b.ID) })
	found = slices.CompactFunc(found, func(a, b clusterRecord) bool { return a.ID == b.ID })
	k := &clusters{requests: 1, queues: map[string]string{}, defaults: map[string]string{}}
	for _, cluster := range found {
		k.requests++
		if err := s.readQueues(ctx, k, cluster); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		s.client.once("no clusters", func() {
			s.client.cfg.Log.Info("the organisation has no clusters: queues are agents' tags only, and none can be paused")
		})
	}
	return k, nil
}

func (s *session) readQueues(ctx context.Context, k *clusters, cluster clusterRecord) error {
	id := string(cluster.ID)
	if !slug.MatchString(id) { // it goes into a path
		s.odd("cluster")("its id is not one")
		return nil
	}
	k.defaults[id] = defaultQueue
	queues := map[string]plan.Queue{}
	err := s.list(ctx, s.path("clusters/"+id+"/queues"), nil, func(raw []byte) error {
		r, why, err := decode[queueRecord](raw)
		if why != "" {
			s.odd("queue")(why)
		}
		if why != "" || err != nil {
			return err
		}
		k.queues[string(r.ID)] = string(r.Key)
		if r.ID == cluster.DefaultQueue {
			k.defaults[id] = string(r.Key)
		}
		queues[string(r.Key)] = plan.Queue{
			Cluster: id, ClusterName: string(cluster.Name), Key: string(r.Key), Paused: bool(r.Paused),
		}
		return nil
	})
	if hasStatus(err, http.StatusNotFound) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return fmt.Errorf("queues of cluster %s: %w", id, err)
	}
	for _, key := range sorted(queues) {
		k.list = append(k.list, queues[key])
	}
	return nil
}

func compare(a, b text) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// defaultKey is the key of the queue that something without one belongs to: its
// own by identifier, else its cluster's default, else "default".
func (k *clusters) defaultKey(queue, cluster string) string {
	if key, ok := k.queues[queue]; ok {
		return key
	}
	if key, ok := k.defaults[cluster]; ok {
		return key
	}
	return defaultQueue
}

// agentTags are an agent's tags, its default queue's among them when they name
// none (docs agent/queues.md "The default self-hosted queue").
func (k *clusters) agentTags(r *agentRecord) []string {
	tags := slices.Clone([]string(r.MetaData))
	if !hasQueue(tags) {
		cluster, queue := place(r)
		tags = append(tags, "queue="+k.defaultKey(queue, cluster))
	}
	return tags
}

// rules are a job's rules, its default queue's among them when they name none.
// The rules come before cluster_queue_id, which may be null even in a cluster.
// A rule "*", as in the samples of docs apis/rest_api/builds.md, asks for
// nothing and is left out.
func (k *clusters) rules(r *jobRecord, cluster string) []string {
	rules := slices.DeleteFunc(slices.Clone([]string(r.Rules)), func(rule string) bool { return rule == "*" })
	if !hasQueue(rules) {
		rules = append(rules, "queue="+k.defaultKey(string(r.Queue), cluster))
	}
	return rules
}

// unnamed returns the identifiers of queues and clusters whose names are needed
// to place an agent or a job that names no queue.
func unnamed(agents map[string]agentRecord, builds map[string]readBuild) []string {
	var ids []string
	add := func(queue, cluster string) {
		if queue != "" {
			ids = append(ids, queue)
		} else if cluster != "" {
			ids = append(ids, cluster)
		}
	}
	for _, id := range sorted(agents) {
		r := agents[id]
		if !hasQueue(r.MetaData) {
			cluster, queue := place(&r)
			add(queue, cluster)
		}
	}
	for _, id := range sorted(builds) {
		b := builds[id]
		for i := range b.jobs {
			if r := &b.jobs[i]; b.active && r.Type == script && !hasQueue(r.Rules) && !ended(string(r.State)) {
				cluster := string(r.Cluster)
				if cluster == "" {
					cluster = b.cluster
				}
				add(string(r.Queue), cluster)
			}
		}
	}
	return ids
}
