package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Observation is a snapshot reduced to what the overlays of one queue need. The commit message
// contains it, in a format of package ledger that has the JSON of these types: their tags must not
// change. With the parent commit it is the complete input of a decision, so that the decision can
// be replayed. Its JSON is the output of muster plan.
type Observation struct {
	// At is the time of the poll, and of the decision.
	At time.Time `json:"at"`
	// Until is the end of a poll that was spread over several ticks; otherwise zero. Leases are
	// judged at At. Orders are made at Until, so that their lease is complete.
	Until time.Time `json:"until,omitzero"`
	// Queue is the queue's key.
	Queue string `json:"queue"`
	// Inferred reports that the agents are inferred from counts: a restarted muster does not find those
	// again that have registered.
	Inferred bool `json:"inferred,omitempty"`
	// Jobs are the queue's jobs that some overlay can serve. The same overlays and idle agents
	// can serve all jobs of a group.
	Jobs []Demand `json:"jobs,omitempty"`
	// Idle are the connected agents that wait for a job, in groups that can take the same jobs.
	// Agents that can take none and belong to no overlay are omitted.
	Idle []IdleAgents `json:"idle,omitempty"`
	// Overlays are the overlays that serve the queue, by name.
	Overlays []Capacity `json:"overlays"`
	// Unmatched are the queue's jobs that no overlay can serve.
	Unmatched []Unmatched `json:"unmatched,omitempty"`
}

// Demand counts the jobs of one group.
type Demand struct {
	// Overlays are the names of the overlays whose agents may take the jobs, sorted.
	Overlays []string `json:"overlays"`
	// Pending jobs are runnable and have no agent.
	Pending int `json:"pending,omitempty"`
	// OtherQueues jobs are pending, may run in any queue, and count in another queue. They are no
	// demand here, but agents that take none of them have failed.
	OtherQueues int `json:"otherQueues,omitempty"`
	// Oldest is the time since when the longest pending job has been runnable, including jobs of
	// OtherQueues.
	Oldest *time.Time `json:"oldest,omitempty"`
	// Upcoming jobs become runnable when others finish. New of them were
	// created after the last dispatch for upcoming jobs of each of the overlays,
	// and Newest is when the newest of them was, rounded up to the second.
	Upcoming int        `json:"upcoming,omitempty"`
	New      int        `json:"fresh,omitempty"`
	Newest   *time.Time `json:"newest,omitempty"`
	// Partial are those of New that were created by the time until which an overlay
	// has dispatched for some, by overlay; see [State.Partial].
	Partial map[string]int `json:"partial,omitempty"`
	// Stages are those of Upcoming that are due soon, sorted by time. They are not among New.
	// Later is the number of further jobs, which are no demand yet: the first of them is due at
	// Earliest, later than Within seconds from now.
	Stages   []Stage    `json:"stages,omitempty"`
	Later    int        `json:"later,omitempty"`
	Within   int        `json:"within,omitempty"`
	Earliest *time.Time `json:"earliest,omitempty"`
	// Limited and Blocked jobs are no demand, because no agent could run them now. They explain why
	// nothing is dispatched for them.
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
	Jobs IndexSet `json:"jobs,omitzero"`
}

// Capacity counts the agents that matter to one overlay.
type Capacity struct {
	// Overlay is the overlay's name.
	Overlay string `json:"overlay"`
	// Suspended is the reason in Buildkite why nothing is dispatched for the overlay, such as a
	// paused queue; otherwise zero.
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
	// Misplaced describes one of the OtherQueue agents; nil if OtherQueue is zero. Messages contain
	// it; no decision depends on it.
	Misplaced *Misplaced `json:"misplaced,omitempty"`
	// OtherFleets are agents of the queue that another muster ordered, according to their tag.
	OtherFleets int `json:"otherFleets,omitempty"`
	// Unknown agents carry the overlay's identifier, and no commit of the branch has ordered them; see
	// [Overlay.Orders]. Others of their orders may register until UnknownUntil.
	Unknown      int        `json:"unknown,omitempty"`
	UnknownUntil *time.Time `json:"unknownUntil,omitempty"`
	// Identity is the overlay's if state.yaml has none or another one; otherwise nil.
	Identity *Identity `json:"identity,omitempty"`
	// MaxJobs is the maximum number of dispatches that one commit adds or removes, because the git
	// host accepts no larger commit; zero means any number.
	MaxJobs int `json:"maxJobs,omitempty"`
	// Gaps are the gaps between jobs that ended after [State.GapsUntil]; kept only if the idle time depends on them.
	Gaps Gaps `json:"gaps,omitzero"`
	// Dispatches is what Buildkite has seen of each dispatch in git. Dispatches without a seen
	// agent are omitted.
	Dispatches map[string]Observed `json:"dispatches,omitempty"`
}

// Misplaced describes an agent that is in another queue or cluster than its overlay.
type Misplaced struct {
	// Queue is the key of its queue, and Cluster its Buildkite cluster, by name if that is known. Both
	// are empty if they are unknown.
	Queue   string `json:"queue,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Missing are the tags of the overlay's agents that it does not have.
	Missing []string `json:"missing,omitempty"`
}

// compare orders descriptions, so that they do not depend on the order of agents.
func (m Misplaced) compare(o Misplaced) int {
	return cmp.Or(cmp.Compare(m.Queue, o.Queue), cmp.Compare(m.Cluster, o.Cluster), slices.Compare(m.Missing, o.Missing))
}

// misplaced describes an agent of an overlay in another queue or cluster.
func (q queueReader) misplaced(a *Agent, o *Overlay) Misplaced {
	m := Misplaced{Cluster: a.Cluster}
	m.Queue, _ = TagValue(a.Tags, TagQueue)
	for _, known := range q.snapshot.Queues {
		if known.Cluster == a.Cluster {
			m.Cluster = cmp.Or(known.ClusterName, a.Cluster)
		}
	}
	for _, tag := range without(o.AgentTags(), TagIdentity) {
		if !slices.Contains(a.Tags, tag) {
			m.Missing = append(m.Missing, tag)
		}
	}
	return m
}

// Observed is what Buildkite has seen of one dispatch, now or before.
type Observed struct {
	// Registered are the indexes whose agents have registered.
	Registered IndexSet `json:"registered,omitzero"`
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
	// HadJob is how many of the agents are known to have had a job. ExitedUnused is how many others
	// have registered and are not connected.
	HadJob       int `json:"hadJob,omitempty"`
	ExitedUnused int `json:"exitedUnused,omitempty"`
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

// Where describes the cluster of the queue, as in ` in the cluster "ci"`; empty if it is in none.
func (u Unserved) Where() string {
	if u.Cluster == "" {
		return ""
	}
	return fmt.Sprintf(" in the cluster %q", u.Cluster)
}

// Count returns how many jobs of the observation are pending for the named overlay,
// and how many idle agents belong to it or can take one of its jobs.
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

// Oldest returns the time since when the oldest pending job of the named overlay has been runnable;
// zero if none is pending, or the time is unknown.
func (o Observation) Oldest(overlay string) (since time.Time) {
	for _, j := range o.Jobs {
		if j.Pending > 0 && j.Oldest != nil && slices.Contains(j.Overlays, overlay) {
			since = earlier(*j.Oldest, since)
		}
	}
	return since
}

// orderedAt returns the time of new dispatches.
func (o Observation) orderedAt() time.Time {
	return cmp.Or(o.Until, o.At)
}

// Capacity returns the capacity of the named overlay; only its name is set if the observation has none.
func (o Observation) Capacity(overlay string) Capacity {
	for _, s := range o.Overlays {
		if s.Overlay == overlay {
			return s
		}
	}
	return Capacity{Overlay: overlay}
}

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
	agents := asOfJobs(s, reusableDispatches(overlays))
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

// divideAgents adds to each reader the agents that can count in its queue: those with the tag of the
// queue, or of one of its overlays or their dispatches.
func divideAgents(readers []queueReader, agents []Agent) {
	byTag, ids := map[string][]int{}, map[string]bool{}
	for _, q := range readers {
		for k := range q.overlays {
			ids[q.overlays[k].Identity.ID] = true
		}
	}
	dispatches := slices.ContainsFunc(agents, func(a Agent) bool { // only its dispatch may be known
		id, known := TagValue(a.Tags, TagIdentity)
		return !hasQueue(a.Tags) || known && !ids[id]
	})
	for i, q := range readers {
		add := func(key, value string) { byTag[key+"="+value] = append(byTag[key+"="+value], i) }
		add(TagQueue, q.key)
		for k := range q.overlays {
			o := &q.overlays[k]
			add(TagOverlay, o.Slug())
			if o.Identity.ID != "" {
				add(TagIdentity, o.Identity.ID)
			}
			for k := 0; dispatches && k < len(o.Dispatches); k++ {
				add(TagDispatch, o.Dispatches[k].ID)
			}
		}
	}
	last := make([]int, len(readers)) // the number, from 1, of the last agent of a reader
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

// FindUnserved returns the queues with pending jobs that no overlay serves, sorted by key and
// cluster. Queues with the same key in different clusters are different queues.
func FindUnserved(overlays []Overlay, s Snapshot) []Unserved {
	readers, jobs := newReaders(overlays, s), classify(s.Jobs)
	anywhere := map[*class]bool{} // jobs of any queue that an overlay serves
	for _, q := range readers {
		for n, servers := range q.servers(jobs[anyQueue]) {
			if c := jobs[anyQueue][n]; len(servers.names) > 0 {
				anywhere[c] = true
			}
		}
	}
	names := map[string]string{}
	for _, q := range s.Queues {
		names[q.Cluster] = cmp.Or(q.ClusterName, q.Cluster)
	}
	byCluster := map[[2]string]*Unserved{}
	for key, classes := range jobs {
		for _, c := range classes {
			if c.pending == 0 || anywhere[c] || answered(readers, key, c) {
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

// servers are overlays of a queue whose agents may take the same jobs.
type servers struct {
	overlays []int    // by index, in order
	names    []string // sorted
	// What they look ahead to and remember.
	ahead       bool          // whether any of them looks ahead
	within      time.Duration // the longest time before which agents are ordered for a stage
	memory      remembered
	lookedAhead time.Time
	partial     []int // those that have dispatched for some
}

// newServers returns those of the overlays with these indexes.
func newServers(overlays []Overlay, indexes []int) *servers {
	s := &servers{overlays: indexes, names: make([]string, 0, len(indexes)), memory: remembered{}}
	for _, i := range indexes {
		o := &overlays[i]
		s.names = append(s.names, o.Name)
		s.memory.add(o.State.AheadOf)
		s.lookedAhead = later(o.State.LookedAhead, s.lookedAhead)
		if o.Policy.Lookahead > 0 {
			s.ahead, s.within = true, max(s.within, lead(*o))
		}
		if !o.State.Partial.Until.IsZero() {
			s.partial = append(s.partial, i)
		}
	}
	slices.Sort(s.names)
	return s
}

// servers returns, for each of the classes, the overlays whose agents may take its jobs. Equal results
// are identical.
func (q queueReader) servers(classes []*class) []*servers {
	var ofAny, ofOne []int // classes for agents of any overlay, or of one
	for j, c := range classes {
		if slices.ContainsFunc(c.rules, hasName) {
			ofOne = append(ofOne, j)
		} else {
			ofAny = append(ofAny, j)
		}
	}
	all, byNames := make([]*servers, len(classes)), map[string]*servers{}
	if len(ofAny) > 0 {
		var groups [][]int // overlays that differ in their names alone
		byTags := map[string]int{}
		var tags []string
		var key []byte
		for i := range q.overlays {
			tags = slices.DeleteFunc(append(tags[:0], q.tags[i]...), hasName)
			key = appendKey(key[:0], q.clusters[i], tags)
			g, known := byTags[string(key)]
			if !known {
				g = len(groups)
				byTags[string(key)], groups = g, append(groups, nil)
			}
			groups[g] = append(groups[g], i)
		}
		q.findServers(all, classes, ofAny, groups, byNames)
	}
	if len(ofOne) > 0 {
		groups := make([][]int, len(q.overlays))
		for i := range groups {
			groups[i] = []int{i}
		}
		q.findServers(all, classes, ofOne, groups, byNames)
	}
	return all
}

// hasName reports whether a tag differs between overlays that are alike.
func hasName(tag string) bool {
	return strings.HasPrefix(tag, TagOverlay+"=") || strings.HasPrefix(tag, TagIdentity+"=")
}

// findServers sets the servers of some of the classes. The overlays of a group can take the same of
// these. byNames has the results so far.
func (q queueReader) findServers(all []*servers, classes []*class, some []int, groups [][]int, byNames map[string]*servers) {
	rules, sets := make([][]string, len(some)), make([][]byte, len(some))
	for n, j := range some {
		rules[n] = classes[j].rules
	}
	index := newRuleIndex(rules)
	var takes []int32
	for g, overlays := range groups {
		takes = index.satisfied(takes[:0], q.tags[overlays[0]])
		for _, n := range takes {
			if q.reaches(overlays[0], classes[some[n]]) {
				sets[n] = appendNumber(sets[n], g)
			}
		}
	}
	bySet := map[string]*servers{}
	for n, set := range sets {
		if bySet[string(set)] == nil {
			var overlays []int
			for _, g := range numbers(string(set)) {
				overlays = append(overlays, groups[g]...)
			}
			slices.Sort(overlays)
			s := newServers(q.overlays, overlays)
			key := strings.Join(s.names, "\x00")
			if byNames[key] == nil {
				byNames[key] = s
			}
			bySet[string(set)] = byNames[key]
		}
		all[some[n]] = bySet[string(set)]
	}
}

// indexOf returns an index of the rules of classes.
func indexOf(classes []*class) ruleIndex {
	rules := make([][]string, len(classes))
	for n, c := range classes {
		rules[n] = c.rules
	}
	return newRuleIndex(rules)
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

// reachable reports whether agents of an overlay are in the cluster of a class.
func (q queueReader) reachable(c *class) bool {
	for i := range q.overlays {
		if q.reaches(i, c) {
			return true
		}
	}
	return false
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
	i, found := slices.BinarySearchFunc(readers, key, func(q queueReader, key string) int { return cmp.Compare(q.key, key) })
	return found && (c.cluster == "" || readers[i].reachable(c))
}

// queueCounts is what was read of one queue, before it is grouped.
type queueCounts struct {
	rest   Observation // without jobs and idle agents
	served []*class
	kinds  []kind // of idle agents
	counts []int  // of each kind
}

// observation groups what was read.
func (r queueCounts) observation(overlays []Overlay) Observation {
	o := r.rest
	jobs, takes := group(r.served, r.kinds)
	o.Jobs, o.Idle = jobs, groupIdle(r.kinds, r.counts, takes, overlays)
	return o
}

func (q queueReader) read(classes []*class) queueCounts {
	seconds := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
	o := Observation{At: seconds(q.snapshot.At), Until: seconds(q.snapshot.Until), Queue: q.key, Inferred: q.snapshot.Inferred}
	capacities := make([]Capacity, len(q.overlays))
	for i, overlay := range q.overlays {
		capacities[i] = Capacity{Overlay: overlay.Name, Suspended: q.suspended[i], Dispatches: q.observed(overlay), Gaps: q.registrations.gapsUntil(overlay, o.At)}
		if overlay.Identity != overlay.State.Identity {
			capacities[i].Identity = &overlay.Identity
		}
	}
	var served, unmatched []*class
	for n, servers := range q.servers(classes) {
		c := classes[n]
		if c.servers = servers; len(servers.names) > 0 {
			c.lookAhead(q.overlays, q.snapshot.At)
			served = append(served, c)
		} else if c.pending > 0 && (c.cluster == "" || q.reachable(c)) { // [FindUnserved] has the others
			unmatched = append(unmatched, c)
		}
	}
	boundStages(served)
	o.Unmatched = q.unmatched(unmatched)
	owners := q.newOwners()
	idle := q.countAgents(capacities, owners)
	for i := range idle {
		idle[i].credit = q.creditTo(idle[i].Agent, owners)
	}
	q.markReplacing(idle)
	index := indexOf(served)
	q.countWrongTags(idle, served, index, capacities)
	r := queueCounts{served: served}
	r.kinds, r.counts = kinds(idle, served, index)
	slices.SortFunc(capacities, func(a, b Capacity) int { return cmp.Compare(a.Overlay, b.Overlay) })
	o.Overlays = capacities
	r.rest = o
	return r
}

// unmatched returns the largest of the classes that no overlay of the queue serves, and why.
func (q queueReader) unmatched(classes []*class) (all []Unmatched) {
	slices.SortStableFunc(classes, func(a, b *class) int { return cmp.Compare(b.pending, a.pending) })
	for _, c := range classes[:min(MaxUnmatched, len(classes))] {
		u := Unmatched{Rules: c.rules, Jobs: c.pending, Example: c.example}
		if inCluster := q.inCluster(c); len(inCluster) > 0 {
			u.Missing = nearest(inCluster, c.rules)
		} else {
			u.Unclustered = true
		}
		all = append(all, u.short())
	}
	return all
}

// clusterNames returns the names of the clusters of queues, at most five.
func clusterNames(queues []Queue) string {
	const most = 5
	var names []string
	for _, q := range queues {
		names = append(names, cmp.Or(q.ClusterName, q.Cluster))
	}
	slices.Sort(names)
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += ", ..."
	}
	return text
}

// cluster returns the identifier of the policy's Buildkite cluster; empty means any. The second
// result is the reason why nothing may be dispatched.
func (q queueReader) cluster(p Policy) (id string, why Suspension) {
	in := func(k Queue) bool { return p.Cluster == "" || k.Cluster == p.Cluster || k.ClusterName == p.Cluster }
	found := slices.DeleteFunc(slices.Clone(q.inQueues), func(k Queue) bool { return !in(k) })
	switch {
	case len(found) > 1:
		return "", Suspension{Code: AmbiguousQueue, Queue: p.Queue, Cluster: clusterNames(found)}
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

// observed returns what is known about the overlay's dispatches.
func (q queueReader) observed(o Overlay) map[string]Observed {
	known := map[string]Observed{}
	for _, d := range o.Dispatches {
		s := q.registrations.Observed(d.ID)
		s.Connected = q.connected[d.ID]
		if q.snapshot.Inferred && d.Edited { // which agents are its own is unknown
			s.Connected = 0
			for _, n := range q.connected {
				s.Connected += n
			}
			for _, a := range q.snapshot.Agents {
				if _, known := TagValue(a.Tags, TagDispatch); !known {
					s.Connected++
				}
			}
		}
		if o.Policy.learnsStartupTimes() {
			s.StartupTimes = q.registrations.StartupTimes(d)
		}
		if !s.Registered.IsZero() || s.Connected > 0 {
			known[d.ID] = s
		}
	}
	return known
}
