package fakebuildkite

import (
	"fmt"
	"slices"
)

// cluster is one Buildkite cluster: agents and jobs never cross its border
// (docs pipelines/security/clusters.md). The unclustered rest of the
// organisation is a cluster without an identifier.
type cluster struct {
	id, name string
	queues   []*queue // made, and listed
	all      []*queue // and those that are only named
	byKey    map[string]*queue
	def      *queue
	// any holds the jobs whose rule is queue=* or queue=.
	any *queue
}

// queue is one queue: the runnable jobs and the idle agents, each indexed so
// that dispatch looks at few of them.
type queue struct {
	id, key     string
	description string
	cluster     *cluster
	paused      bool
	hosted      bool
	buckets     []*bucket
	idle        []*agent
}

func newCluster(id, name string) *cluster {
	c := &cluster{id: id, name: name, byKey: map[string]*queue{}}
	c.any = &queue{key: "*", cluster: c}
	return c
}

// AddCluster adds a cluster and returns its identifier.
func (s *Server) AddCluster(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := newCluster(s.id('c'), name)
	s.clusters = append(s.clusters, c)
	return c.id
}

// AddHostedQueue adds a queue of Buildkite hosted agents, which no other agent
// can join (docs apis/rest_api/clusters/queues.md "Create a Buildkite hosted
// queue"). Hosted agents are not simulated: its jobs wait.
func (s *Server) AddHostedQueue(clusterID, key string) string {
	id := s.AddQueue(clusterID, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster(clusterID).queue(key).hosted = true
	return id
}

// AddQueue adds a queue to a cluster, by the cluster's identifier, and returns
// the queue's. The first queue of a cluster becomes its default, as in a cluster
// that the interface makes (docs agent/queues/managing.md); see
// [Server.SetDefaultQueue].
func (s *Server) AddQueue(clusterID, key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addQueue(s.cluster(clusterID), key).id
}

func (s *Server) addQueue(c *cluster, key string) *queue {
	id, q := s.id('e'), c.queue(key)
	if q.id == "" {
		q.id = id
		c.queues = append(c.queues, q)
	}
	if c.def == nil {
		c.def = q
	}
	return q
}

// SetDefaultQueue makes the queue with the key the cluster's default: the
// queue of agents and jobs that name none. An empty key leaves the cluster
// without one (docs apis/rest_api/clusters.md "default_queue_id").
func (s *Server) SetDefaultQueue(clusterID, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cluster(clusterID)
	c.def = c.byKey[key]
}

// PauseQueue stops dispatch: jobs of the queue wait, whatever the agents
// (docs agent/queues/managing.md "Pause and resume a queue").
func (s *Server) PauseQueue(clusterID, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster(clusterID).queue(key).paused = true
}

// ResumeQueue lets the jobs of a paused queue go to agents again.
func (s *Server) ResumeQueue(clusterID, key string) {
	s.do(func() { s.resumeQueue(s.cluster(clusterID).queue(key)) })
}

func (s *Server) resumeQueue(q *queue) {
	q.paused = false
	for _, a := range slices.Clone(q.idle) {
		s.dispatchAgent(a)
	}
}

// queue returns the queue with the key, making it where it is missing: outside
// clusters a queue is only a tag, and in a cluster jobs may name one that does
// not exist yet.
func (c *cluster) queue(key string) *queue {
	if q, ok := c.byKey[key]; ok {
		return q
	}
	q := &queue{key: key, cluster: c}
	c.all = append(c.all, q)
	c.byKey[key] = q
	return q
}

// defaultKey is the queue of agents and jobs that name none.
func (c *cluster) defaultKey() string {
	if c.def != nil {
		return c.def.key
	}
	return "default"
}

// cluster returns the cluster with the identifier; empty is the unclustered
// rest. An unknown identifier is a mistake in the test that uses it.
func (s *Server) cluster(id string) *cluster {
	if id == "" {
		return s.loose
	}
	i := slices.IndexFunc(s.clusters, func(c *cluster) bool { return c.id == id })
	if i < 0 {
		panic(fmt.Sprintf("fakebuildkite: no cluster %q", id))
	}
	return s.clusters[i]
}
