package fakebuildkite

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"
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
	id, key string
	cluster *cluster
	paused  bool
	hosted  bool
	buckets []*bucket
	idle    []*agent
}

// bucket holds the runnable jobs of a queue that have the same rules.
type bucket struct {
	rules string
	match []string
	jobs  Heap[waitingJob]
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
	c := s.cluster(clusterID)
	id, q := s.id('e'), c.queue(key)
	if q.id == "" {
		q.id = id
		c.queues = append(c.queues, q)
	}
	if c.def == nil {
		c.def = q
	}
	return q.id
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
	s.do(func() {
		q := s.cluster(clusterID).queue(key)
		q.paused = false
		for _, a := range slices.Clone(q.idle) {
			s.dispatchAgent(a)
		}
	})
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

// satisfies reports whether an agent with these tags may run a job with this
// rule: the tag is there, or the rule is key=* or key= and the key is. A rule
// that is only "*", as in the documentation's samples, asks for nothing (docs
// agent/cli/reference/start.md "Agent targeting").
func satisfies(tags []string, rule string) bool {
	if rule == "*" {
		return true
	}
	key, wild := strings.CutSuffix(strings.TrimSuffix(rule, "*"), "=")
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == rule || wild && strings.HasPrefix(tag, key+"=")
	})
}

// satisfiesAll reports whether every rule is satisfied: Buildkite takes no
// less (docs agent/queues.md, pipelines/configure/defining_steps.md
// "Targeting specific agents").
func satisfiesAll(tags, rules []string) bool {
	return !slices.ContainsFunc(rules, func(rule string) bool { return !satisfies(tags, rule) })
}

// enqueue makes a runnable job visible to dispatch.
func (q *queue) enqueue(j *job) {
	rules := strings.Join(j.match, "\x00")
	i := slices.IndexFunc(q.buckets, func(b *bucket) bool { return b.rules == rules })
	if i < 0 {
		i = len(q.buckets)
		q.buckets = append(q.buckets, &bucket{rules: rules, match: j.match})
	}
	j.stamp++
	heap.Push(&q.buckets[i].jobs, waitingJob{job: j, stamp: j.stamp})
}

// best returns the first job in dispatch order that tags satisfy, or nil.
// Buckets that have become empty are dropped on the way.
func (q *queue) best(tags []string) *job {
	var best *job
	kept := q.buckets[:0]
	for _, b := range q.buckets {
		j := b.head()
		if j == nil {
			continue
		}
		kept = append(kept, b)
		if (best == nil || j.before(best)) && satisfiesAll(tags, b.match) {
			best = j
		}
	}
	clear(q.buckets[len(kept):])
	q.buckets = kept
	return best
}

// head returns the first job that still waits for an agent, or nil.
func (b *bucket) head() *job {
	for len(b.jobs) > 0 {
		if w := b.jobs[0]; w.job.state == stateScheduled && w.job.stamp == w.stamp {
			return w.job
		}
		heap.Pop(&b.jobs)
	}
	return nil
}

// before reports whether j is dispatched before k: higher priority first, then
// the older scheduled_at, then the order of upload (docs
// pipelines/configure/workflows/job_priority.md "Job dispatch precedence").
func (j *job) before(k *job) bool {
	return first(j.step.Priority, k.step.Priority, j.scheduled, k.scheduled, j.seq, k.seq)
}

// first reports whether a job is dispatched before another, by the fields that determine the order.
func first(priority, otherPriority int, scheduled, otherScheduled time.Time, seq, otherSeq uint64) bool {
	return cmp.Or(cmp.Compare(otherPriority, priority), scheduled.Compare(otherScheduled), cmp.Compare(seq, otherSeq)) < 0
}

// waitingJob is a job in a bucket; stale once the job's stamp has moved on.
type waitingJob struct {
	job   *job
	stamp int
}

// Before reports whether the job is dispatched before another.
func (w waitingJob) Before(other waitingJob) bool { return w.job.before(other.job) }

// dispatchJob gives a job that has just become runnable to the best idle
// agent, or leaves it in its queue.
func (s *Server) dispatchJob(j *job) {
	c := j.build.cluster
	queues := []*queue{j.queue}
	if j.queue == c.any {
		queues = c.all
	}
	var best *agent
	for _, q := range queues {
		if q.paused {
			continue
		}
		takes := func(a *agent) bool { return a.mayWork() && satisfiesAll(a.tags, j.match) }
		i := slices.IndexFunc(q.idle, takes) // idle is in order: the first is the best
		if i >= 0 && (best == nil || q.idle[i].compare(best) < 0) {
			best = q.idle[i]
		}
	}
	j.queue.enqueue(j)
	if best != nil {
		s.assign(j, best)
	}
}

// dispatchAgent gives an idle agent the first job it satisfies.
func (s *Server) dispatchAgent(a *agent) {
	if !a.mayWork() {
		return
	}
	var best *job
	open := false
	for _, q := range a.queues {
		if q.paused {
			continue
		}
		open = true
		if j := q.best(a.tags); j != nil && (best == nil || j.before(best)) {
			best = j
		}
	}
	if !open {
		return
	}
	if j := a.cluster.any.best(a.tags); j != nil && (best == nil || j.before(best)) {
		best = j
	}
	if best != nil {
		s.assign(best, a)
	}
}

// group is a concurrency group: it limits how many of its jobs run at a time, in the order of their
// creation, or in the order of arrival if it is eager (docs
// pipelines/configure/workflows/controlling_concurrency.md). The plan's limit is such a group over
// the whole organisation.
type group struct {
	limit   int
	eager   bool
	members []*member
}

// member is one unfinished job of a group.
type member struct {
	group *group
	job   *job
	// arrived says that nothing else keeps the job: it only wants a slot.
	arrived bool
	slot    bool
}

// join adds a job to the group, in order of creation.
func (g *group) join(j *job) *member {
	m := &member{group: g, job: j}
	g.members = append(g.members, m)
	return m
}

// leave takes a finished job out.
func (m *member) leave() {
	m.group.members = slices.DeleteFunc(m.group.members, func(other *member) bool { return other == m })
}

// admit gives the free slots away and returns who got one.
func (g *group) admit() []*job {
	used := 0
	if g.eager {
		for _, m := range g.members {
			if m.slot {
				used++
			}
		}
	}
	var admitted []*job
	for _, m := range g.members {
		if used >= g.limit {
			break
		}
		if m.arrived && !m.slot {
			m.slot = true
			admitted = append(admitted, m.job)
			used++
		} else if !g.eager {
			used++ // holds its place in the line, running or not yet arrived
		}
	}
	return admitted
}
