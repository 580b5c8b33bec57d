package plan

import (
	"cmp"
	"slices"
	"time"
)

// Observe reduces a snapshot to one observation per queue that an overlay
// serves, ordered by the queue's key. The register says which indexes were seen
// before; it should have noted this snapshot already.
func Observe(overlays []Overlay, s Snapshot, r *Registrations) []Observation {
	jobs := classify(s.Jobs)
	agents := asOfJobs(s)
	connected := map[string]int{}
	for _, a := range agents {
		if id, ok := tagValue(a.Tags, TagDispatch); ok {
			connected[id]++
		}
	}
	var observations []Observation
	for key, group := range byQueue(overlays) {
		q := queueReader{overlays: group, snapshot: s, register: r, connected: connected}
		observations = append(observations, q.read(key, jobs[key], agents))
	}
	slices.SortFunc(observations, func(a, b Observation) int { return cmp.Compare(a.Queue, b.Queue) })
	return observations
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

// unclustered is the cluster of an agent that is in none, once others of the
// same list say theirs: it can take no cluster's jobs.
const unclustered = "-"

// asOfJobs returns the agents as they were when the jobs were read: one that was
// read as idle and has a job by then is busy, and one that came in between and
// has a job is there.
func asOfJobs(s Snapshot) []Agent {
	working := map[string]bool{}
	for _, g := range s.Sightings {
		if g.Running {
			working[g.Agent] = true
		}
	}
	agents := slices.Clone(s.Agents)
	listed := map[string]bool{}
	clustered := slices.ContainsFunc(agents, func(a Agent) bool { return a.Cluster != "" })
	for i := range agents {
		listed[agents[i].ID] = true
		if clustered && agents[i].Cluster == "" {
			agents[i].Cluster = unclustered
		}
		if agents[i].State == AgentIdle && working[agents[i].ID] {
			agents[i].State = AgentBusy
		}
	}
	for _, g := range s.Sightings {
		if g.Running && !listed[g.Agent] { // it came after the agents were read
			listed[g.Agent] = true
			agents = append(agents, Agent{ID: g.Agent, Tags: g.Tags, State: AgentBusy})
		}
	}
	return agents
}

// queueReader makes the observation of one queue.
type queueReader struct {
	overlays  []Overlay // in order
	snapshot  Snapshot
	register  *Registrations
	connected map[string]int // agents by dispatch
}

func (q queueReader) read(key string, classes []*class, agents []Agent) Observation {
	o := Observation{At: q.snapshot.At.UTC().Truncate(time.Second), Queue: key}
	if !q.snapshot.Until.IsZero() {
		o.Until = q.snapshot.Until.UTC().Truncate(time.Second)
	}
	supplies := make([]Supply, len(q.overlays))
	tags := make([][]string, len(q.overlays))
	clusters := make([]string, len(q.overlays))
	for i, overlay := range q.overlays {
		clusters[i], supplies[i].Suspended = q.cluster(overlay.Policy)
		supplies[i].Overlay = overlay.Name
		supplies[i].Dispatches = q.seen(overlay)
		tags[i] = overlay.AgentTags()
	}
	var served []*class
	for _, c := range classes {
		var inCluster [][]string
		for i, overlay := range q.overlays {
			if clusters[i] != "" && c.cluster != clusters[i] {
				continue
			}
			inCluster = append(inCluster, tags[i])
			if satisfies(tags[i], c.rules) {
				c.overlays = append(c.overlays, overlay.Name)
			}
		}
		switch {
		case len(c.overlays) > 0:
			slices.Sort(c.overlays)
			served = append(served, c)
		case len(inCluster) > 0 && c.pending > 0:
			o.Unmatched = append(o.Unmatched, Unmatched{Rules: c.rules, Missing: nearest(inCluster, c.rules), Jobs: c.pending, Example: c.example})
		}
	}
	o.Unmatched = fewest(o.Unmatched)
	idle := q.countAgents(agents, key, clusters, supplies)
	for i := range idle {
		idle[i].credit = creditTo(idle[i].Agent, tags, clusters)
	}
	q.markReplacing(idle)
	q.countUseless(idle, served, supplies)
	taken, spare := matchIdle(idle, served)
	o.Jobs = demands(served, taken)
	for k, n := range spare {
		supplies[k.credit].Spare += n
		if k.replacing {
			supplies[k.credit].Replacing += n
		}
	}
	slices.SortFunc(supplies, func(a, b Supply) int { return cmp.Compare(a.Overlay, b.Overlay) })
	o.Overlays = supplies
	return o
}

// cluster resolves the policy's Buildkite cluster to its identifier; empty means
// that any will do. The second result says why nothing may be dispatched.
func (q queueReader) cluster(p Policy) (id string, why Suspension) {
	var found []Queue
	known := p.Cluster == ""
	for _, k := range q.snapshot.Queues {
		if p.Cluster != "" && k.Cluster != p.Cluster && k.ClusterName != p.Cluster {
			continue
		}
		known = true
		id = k.Cluster
		if k.Key == p.Queue {
			found = append(found, k)
		}
	}
	switch {
	case !known:
		return p.Cluster, Suspension{Code: UnknownCluster, Cluster: p.Cluster}
	case p.Cluster != "" && len(found) == 0:
		return id, Suspension{Code: UnknownQueue, Cluster: p.Cluster, Queue: p.Queue}
	case len(found) > 1:
		return "", Suspension{Code: AmbiguousQueue, Queue: p.Queue}
	case len(found) == 0:
		return "", Suspension{}
	case found[0].Paused:
		why = Suspension{Code: PausedInBuildkite, Queue: p.Queue}
	}
	return found[0].Cluster, why
}

// seen collects what is known of the overlay's dispatches.
func (q queueReader) seen(o Overlay) map[string]Seen {
	known := map[string]Seen{}
	for _, d := range o.Dispatches {
		s := q.register.Seen(d.ID)
		s.Connected = q.connected[d.ID]
		if !s.Registered.IsZero() {
			known[d.ID] = s
		}
	}
	return known
}

// countAgents counts the queue's agents into the supplies, and returns the
// idle ones.
func (q queueReader) countAgents(agents []Agent, key string, clusters []string, supplies []Supply) []idleAgent {
	var idle []idleAgent
	slugs := make([]string, len(q.overlays))
	for i, o := range q.overlays {
		slugs[i] = o.Slug()
	}
	for _, a := range agents {
		here := carries(a.Tags, TagQueue+"="+key)
		slug, _ := tagValue(a.Tags, TagOverlay)
		inCluster := false
		for i := range supplies {
			serves := here && sameCluster(a.Cluster, clusters[i])
			own := slug == slugs[i]
			switch {
			case own && (!serves || a.State == AgentStopping):
				supplies[i].Stopping++
			case own:
				supplies[i].Own++
				if a.State == AgentBusy {
					supplies[i].Busy++
				}
			}
			if !serves {
				continue
			}
			inCluster = true
			if a.State == AgentBusy {
				supplies[i].QueueBusy++
			}
		}
		if inCluster && a.State == AgentIdle {
			idle = append(idle, idleAgent{Agent: a})
		}
	}
	return idle
}
