package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// JobsFor returns at most most pending jobs that agents of the named overlay could take, the
// longest pending first. It omits jobs for which skip returns true. Buildkite decides which agent
// gets which job: the result is for people who inspect a job.
func JobsFor(overlays []Overlay, s Snapshot, overlay string, most int, skip func(job string) bool) []Job {
	var jobs []Job
	for _, q := range newReaders(overlays, s) {
		i := slices.IndexFunc(q.overlays, func(o Overlay) bool { return o.Name == overlay })
		if i < 0 {
			continue
		}
		for _, j := range s.Jobs {
			if j.State == JobPending && !skip(j.ID) && q.reaches(i, &class{cluster: j.Cluster}) && Satisfies(q.tags[i], j.Rules) {
				jobs = append(jobs, j)
			}
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return jobs[:min(most, len(jobs))]
}

// Observe reduces a snapshot to one observation per queue that an overlay
// serves, ordered by the queue's key. The registrations say which indexes were
// seen before; they should have noted this snapshot already.
func Observe(overlays []Overlay, s Snapshot, r *Registrations) []Observation {
	jobs := classify(s.Jobs)
	agents := asOfJobs(s, reusable(overlays))
	connected := map[string]int{}
	for _, a := range agents {
		if id, ok := TagValue(a.Tags, TagDispatch); ok {
			connected[id]++
		}
	}
	readers := newReaders(overlays, s)
	for i := range readers {
		readers[i].registrations, readers[i].connected = r, connected
	}
	divideAgents(readers, agents)
	placeAnyQueue(readers, jobs)
	observations := make([]Observation, len(readers))
	for i, q := range readers {
		observations[i] = q.read(jobs[q.key]).observation(q.overlays)
	}
	return observations
}

// divideAgents gives each reader the agents that can count in its queue: those with the
// tag of the queue or of one of its overlays, and those that are only known to belong to a
// dispatch of such an overlay.
func divideAgents(readers []queueReader, agents []Agent) {
	byTag := map[string][]int{}
	noQueue := func(a Agent) bool {
		_, told := TagValue(a.Tags, TagQueue)
		return !told
	}
	dispatches := slices.ContainsFunc(agents, noQueue)
	for i, q := range readers {
		add := func(key, value string) { byTag[key+"="+value] = append(byTag[key+"="+value], i) }
		add(TagQueue, q.key)
		for k := range q.overlays {
			o := &q.overlays[k]
			add(TagOverlay, o.Slug())
			for _, former := range o.Former {
				add(TagOverlay, former)
			}
			for k := 0; dispatches && k < len(o.Dispatches); k++ {
				add(TagDispatch, o.Dispatches[k].ID)
			}
		}
	}
	last := make([]int, len(readers)) // the number, from 1, of the agent that a reader was given last
	for n := range agents {
		for _, tag := range agents[n].Tags {
			for _, i := range byTag[tag] {
				if last[i] != n+1 {
					last[i] = n + 1
					readers[i].agents = append(readers[i].agents, &agents[n])
				}
			}
		}
	}
}

// FindUnserved lists the queues with pending jobs that no overlay serves, by key and
// cluster. A queue of the same key in another cluster is another queue: that an
// overlay serves one says nothing of the other.
func FindUnserved(overlays []Overlay, s Snapshot) []Unserved {
	readers := newReaders(overlays, s)
	names := map[string]string{}
	for _, q := range s.Queues {
		names[q.Cluster] = cmp.Or(q.ClusterName, q.Cluster)
	}
	byCluster := map[[2]string]*Unserved{}
	for key, classes := range classify(s.Jobs) {
		for _, c := range classes {
			if c.pending == 0 || answered(readers, key, c) {
				continue
			}
			in := [2]string{key, c.cluster}
			u := byCluster[in]
			if u == nil {
				u = &Unserved{Queue: key, Cluster: cmp.Or(names[c.cluster], c.cluster)}
				byCluster[in] = u
			}
			u.Jobs += c.pending
			if u.Example == "" || c.example != "" && c.example < u.Example {
				u.Example = c.example
			}
		}
	}
	var all []Unserved
	for _, in := range slices.SortedFunc(maps.Keys(byCluster), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		all = append(all, *byCluster[in])
	}
	return all
}

// byQueue groups overlays by their queue's key, each group ordered by priority
// and then by name.
func byQueue(overlays []Overlay) map[string][]Overlay {
	groups := map[string][]Overlay{}
	for _, o := range overlays {
		groups[o.Policy.Queue] = append(groups[o.Policy.Queue], o)
	}
	for _, g := range groups {
		slices.SortFunc(g, inOrder)
	}
	return groups
}

// inOrder orders overlays as they are filled: higher priority first, then by name.
func inOrder(a, b Overlay) int {
	return cmp.Or(cmp.Compare(b.Policy.Priority, a.Policy.Priority), cmp.Compare(a.Name, b.Name))
}

// queueReader makes the observation of one queue.
type queueReader struct {
	key       string
	overlays  []Overlay    // in order
	tags      [][]string   // of each overlay's agents
	clusters  []string     // of each overlay; empty is any
	inQueues  []Queue      // the queue, in each cluster that has it
	clustered bool         // whether the queue is in any cluster
	outside   bool         // whether it is in none, and only agents in none have it
	suspended []Suspension // of each overlay
	snapshot  Snapshot

	agents        []*Agent // that can be counted in the queue; see divideAgents
	registrations *Registrations
	connected     map[string]int // agents by dispatch
}

// newReaders returns a reader for each queue that an overlay serves, by key.
func newReaders(overlays []Overlay, s Snapshot) []queueReader {
	groups, queues := byQueue(overlays), map[string][]Queue{}
	for _, q := range s.Queues {
		queues[q.Key] = append(queues[q.Key], q)
	}
	keys := slices.Sorted(maps.Keys(groups))
	unknown := Unknown(keys, s)
	all := make([]queueReader, 0, len(keys))
	for _, key := range keys {
		group := groups[key]
		q := queueReader{key: key, overlays: group, inQueues: queues[key], clustered: len(queues[key]) > 0, snapshot: s,
			tags: make([][]string, len(group)), clusters: make([]string, len(group)), suspended: make([]Suspension, len(group))}
		q.outside = len(s.Queues) > 0 && !q.clustered && !unknown[key]
		for i, o := range group {
			q.tags[i] = o.AgentTags()
			q.clusters[i], q.suspended[i] = q.cluster(o.Policy)
			if unknown[key] && !q.suspended[i].Active() {
				q.suspended[i] = Suspension{Code: UnknownQueue, Queue: key}
			}
		}
		all = append(all, q)
	}
	return all
}

// serving returns the names of the overlays whose agents may take the jobs of a
// class, sorted.
func (q queueReader) serving(c *class) []string {
	var names []string
	for i, o := range q.overlays {
		if q.reaches(i, c) && Satisfies(q.tags[i], c.rules) {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// reaches reports whether agents of overlay i are in the cluster of a class. Jobs
// in no cluster are out of reach where the queue is in one, or in several; jobs of a
// cluster are out of reach where the queue is in none.
func (q queueReader) reaches(i int, c *class) bool {
	in := q.clusters[i]
	if c.cluster == "" {
		return in == "" && !q.clustered
	}
	return (in == "" || in == c.cluster) && !q.outside
}

// inCluster returns the tags of the overlays whose agents are in the cluster of a
// class.
func (q queueReader) inCluster(c *class) (tags [][]string) {
	for i := range q.overlays {
		if q.reaches(i, c) {
			tags = append(tags, q.tags[i])
		}
	}
	return tags
}

// answered reports whether the jobs of a class, which ask for the queue of a key,
// are in the observation of a queue: as demand or as unmatched. The readers are in the
// order of their keys.
func answered(readers []queueReader, key string, c *class) bool {
	if key == anyQueue {
		return slices.ContainsFunc(readers, func(q queueReader) bool { return len(q.serving(c)) > 0 })
	}
	i, found := slices.BinarySearchFunc(readers, key, func(q queueReader, key string) int { return cmp.Compare(q.key, key) })
	return found && (c.cluster == "" || len(readers[i].inCluster(c)) > 0)
}

// reading is what was read of one queue, before it is grouped.
type reading struct {
	rest   Observation // without jobs and idle agents
	served []*class
	kinds  []kind // of idle agents, and then of the others
	counts []int  // of idle agents
	others []otherTags
}

// observation groups what was read.
func (r reading) observation(overlays []Overlay) Observation {
	o := r.rest
	jobs, takes := group(r.served, r.kinds)
	o.Jobs, o.Idle = jobs, groupIdle(r.kinds, r.counts, takes, overlays)
	for n, x := range r.others {
		i := slices.IndexFunc(o.Overlays, func(s Supply) bool { return s.Overlay == overlays[x.overlay].Name })
		if o.Overlays[i].OtherTags == nil {
			o.Overlays[i].OtherTags = map[string]OtherTags{}
		}
		o.Overlays[i].OtherTags[x.dispatch] = OtherTags{Jobs: takes[len(r.counts)+n], Spare: x.spare}
	}
	return o
}

func (q queueReader) read(classes []*class) reading {
	o := Observation{At: q.snapshot.At.UTC().Truncate(time.Second), Queue: q.key}
	if !q.snapshot.Until.IsZero() {
		o.Until = q.snapshot.Until.UTC().Truncate(time.Second)
	}
	supplies := make([]Supply, len(q.overlays))
	for i, overlay := range q.overlays {
		supplies[i] = Supply{Overlay: overlay.Name, Suspended: q.suspended[i], Dispatches: q.seen(overlay)}
	}
	var served []*class
	for _, c := range classes {
		c.overlays = q.serving(c)
		if len(c.overlays) > 0 {
			c.lookAhead(q.overlays, q.snapshot.At)
			served = append(served, c)
		} else if u, ok := q.unmatched(c); ok {
			o.Unmatched = append(o.Unmatched, u)
		}
	}
	boundStages(served)
	o.Unmatched = largest(o.Unmatched)
	idle := q.countAgents(supplies)
	for i := range idle {
		idle[i].credit = q.creditTo(idle[i].Agent)
	}
	q.markReplacing(idle)
	q.countWrongTags(idle, served, supplies)
	slices.SortFunc(supplies, func(a, b Supply) int { return cmp.Compare(a.Overlay, b.Overlay) })
	o.Overlays = supplies
	r := reading{rest: o, served: served}
	r.kinds, r.counts = kinds(idle, served)
	r.others = q.otherTags(served, supplies, o.At)
	for _, x := range r.others {
		r.kinds = append(r.kinds, kind{takes: x.takes})
	}
	return r
}

// unmatched says why no overlay of the queue serves a class; false where nothing
// is pending, and for the jobs of another cluster, which [FindUnserved] lists.
func (q queueReader) unmatched(c *class) (u Unmatched, ok bool) {
	inCluster := q.inCluster(c)
	u = Unmatched{Rules: c.rules, Jobs: c.pending, Example: c.example}
	switch {
	case c.pending == 0:
		return u, false
	case len(inCluster) > 0:
		u.Missing = nearest(inCluster, c.rules)
		return u, true
	}
	u.Unclustered = c.cluster == ""
	return u, u.Unclustered
}

// cluster resolves the policy's Buildkite cluster to its identifier; empty means
// that any will do. The second result says why nothing may be dispatched.
func (q queueReader) cluster(p Policy) (id string, why Suspension) {
	in := func(k Queue) bool { return p.Cluster == "" || k.Cluster == p.Cluster || k.ClusterName == p.Cluster }
	found := slices.DeleteFunc(slices.Clone(q.inQueues), func(k Queue) bool { return !in(k) })
	switch {
	case len(found) > 1:
		return "", Suspension{Code: AmbiguousQueue, Queue: p.Queue}
	case len(found) == 1 && found[0].Hosted:
		return found[0].Cluster, Suspension{Code: HostedQueue, Queue: p.Queue, Cluster: found[0].ClusterName}
	case len(found) == 1 && found[0].Paused:
		return found[0].Cluster, Suspension{Code: PausedInBuildkite, Queue: p.Queue}
	case len(found) == 1:
		return found[0].Cluster, Suspension{}
	case p.Cluster == "":
		return "", Suspension{}
	}
	for _, k := range slices.Backward(q.snapshot.Queues) {
		if in(k) {
			return k.Cluster, Suspension{Code: UnknownQueue, Cluster: p.Cluster, Queue: p.Queue}
		}
	}
	return p.Cluster, Suspension{Code: UnknownCluster, Cluster: p.Cluster}
}

// seen collects what is known of the overlay's dispatches.
func (q queueReader) seen(o Overlay) map[string]Seen {
	known := map[string]Seen{}
	for _, d := range o.Dispatches {
		s := q.registrations.Seen(d.ID)
		s.Connected = q.connected[d.ID]
		if o.Policy.LeaseAuto {
			s.StartupTimes = q.registrations.StartupTimes(d)
		}
		if !s.Registered.IsZero() {
			known[d.ID] = s
		}
	}
	return known
}

// countAgents counts the queue's agents into the supplies, and returns the
// idle ones.
func (q queueReader) countAgents(supplies []Supply) []idleAgent {
	idle := make([]idleAgent, 0, len(q.agents))
	slugs := make([]string, len(q.overlays))
	for i, o := range q.overlays {
		slugs[i] = o.Slug()
	}
	for _, a := range q.agents {
		here := carries(a.Tags, TagQueue+"="+q.key)
		counts := false // as idle
		for i := range supplies {
			serves := here && sameCluster(a.Cluster, q.clusters[i])
			own, namesake := q.overlays[i].owns(a.Tags, slugs[i])
			if q.overlays[i].ordered(a.Tags) { // all that is known of it is its dispatch
				own, serves = true, true
			}
			switch {
			case namesake:
				supplies[i].OtherFleets++
			case own && a.State == AgentStopping:
				supplies[i].Stopping++
			case own && !serves:
				supplies[i].Stopping++
				supplies[i].OtherQueue++
				counts = counts || here // it takes nothing, and its dispatch is judged by that
			case own:
				supplies[i].Own++
				if _, stays := uptimeOf(a.Tags); stays {
					supplies[i].Reusable++
				}
				if a.State == AgentBusy {
					supplies[i].Busy++
				}
			}
			if !serves {
				continue
			}
			counts = true
			if a.State == AgentBusy {
				supplies[i].QueueBusy++
			}
		}
		if counts && a.State == AgentIdle {
			idle = append(idle, idleAgent{Agent: *a})
		}
	}
	return idle
}
