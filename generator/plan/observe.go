package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// class is a group of jobs that are alike to every agent.
type class struct {
	cluster                            string
	rules                              []string
	pending, waiting, limited, blocked int
	oldest                             time.Time
	example                            string
	overlays                           []string
}

// classify groups jobs by cluster and rules, and the groups by their queue's
// key. The groups' order depends on their content alone.
func classify(jobs []Job) map[string][]*class {
	byText := map[string]*class{}
	var text []byte
	for i := range jobs {
		j := &jobs[i]
		text = append(text[:0], j.Cluster...)
		for _, rule := range j.Rules {
			text = append(append(text, 0), rule...)
		}
		c := byText[string(text)]
		if c == nil {
			c = &class{cluster: j.Cluster, rules: slices.Compact(slices.Sorted(slices.Values(j.Rules)))}
			byText[string(text)] = c
		}
		c.add(j)
	}
	queues := map[string][]*class{}
	for _, c := range byText {
		key, _ := tagValue(c.rules, TagQueue)
		queues[key] = append(queues[key], c)
	}
	for key, classes := range queues {
		queues[key] = merge(classes)
	}
	return queues
}

func (c *class) add(j *Job) {
	switch j.State {
	case JobPending:
		c.pending++
		if c.oldest.IsZero() || !j.Since.IsZero() && j.Since.Before(c.oldest) {
			c.oldest = j.Since
		}
		if c.example == "" || j.URL != "" && j.URL < c.example {
			c.example = j.URL
		}
	case JobUpcoming:
		c.waiting++
	case JobLimited:
		c.limited++
	case JobBlocked:
		c.blocked++
	}
}

// merge orders classes, and joins those whose rules were only listed differently.
func merge(classes []*class) []*class {
	slices.SortFunc(classes, func(a, b *class) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), slices.Compare(a.rules, b.rules))
	})
	var merged []*class
	for _, c := range classes {
		if n := len(merged); n > 0 && merged[n-1].cluster == c.cluster && slices.Equal(merged[n-1].rules, c.rules) {
			last := merged[n-1]
			last.pending += c.pending
			last.waiting += c.waiting
			last.limited += c.limited
			last.blocked += c.blocked
			if last.oldest.IsZero() || !c.oldest.IsZero() && c.oldest.Before(last.oldest) {
				last.oldest = c.oldest
			}
			if last.example == "" || c.example != "" && c.example < last.example {
				last.example = c.example
			}
			continue
		}
		merged = append(merged, c)
	}
	return merged
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
	supplies := make([]Supply, len(q.overlays))
	tags := make([][]string, len(q.overlays))
	clusters := make([]string, len(q.overlays))
	for i, overlay := range q.overlays {
		clusters[i], supplies[i].Held = q.cluster(overlay.Policy)
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
	q.markLeaving(idle)
	q.countUseless(idle, served, supplies)
	taken, spare := matchIdle(idle, served)
	o.Jobs = demands(served, taken)
	for k, n := range spare {
		supplies[k.credit].Spare += n
		if k.leaving {
			supplies[k.credit].Replacing += n
		}
	}
	slices.SortFunc(supplies, func(a, b Supply) int { return cmp.Compare(a.Overlay, b.Overlay) })
	o.Overlays = supplies
	return o
}

// fewest keeps the largest groups of unmatched jobs, and cuts what is long: they
// are there to be read, and anybody who may write a pipeline may write rules.
func fewest(groups []Unmatched) []Unmatched {
	const most, longest = 5, 120
	slices.SortStableFunc(groups, func(a, b Unmatched) int { return cmp.Compare(b.Jobs, a.Jobs) })
	groups = groups[:min(most, len(groups))]
	for i, g := range groups {
		for _, words := range []*[]string{&groups[i].Rules, &groups[i].Missing} {
			short := slices.Clone((*words)[:min(2*most, len(*words))])
			for k, w := range short {
				if len(w) > longest {
					short[k] = strings.ToValidUTF8(w[:longest], "") + "…"
				}
			}
			*words = short
		}
		if len(g.Example) > 2*longest {
			groups[i].Example = ""
		}
	}
	return groups
}

// cluster resolves the policy's Buildkite cluster to its identifier; empty means
// that any will do. The second result says why the overlay must be held.
func (q queueReader) cluster(p Policy) (id, held string) {
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
		return p.Cluster, fmt.Sprintf("Buildkite shows no cluster %q: is that its name or id, and may the token read_clusters?", p.Cluster)
	case p.Cluster != "" && len(found) == 0:
		return id, fmt.Sprintf("cluster %q has no queue %q", p.Cluster, p.Queue)
	case len(found) > 1:
		return "", fmt.Sprintf("several clusters have a queue %q: set spec.cluster", p.Queue)
	case len(found) == 0:
		return "", ""
	case found[0].Paused:
		held = fmt.Sprintf("queue %q%s", p.Queue, pausedInBuildkite)
	}
	return found[0].Cluster, held
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
			}
			if !serves {
				continue
			}
			inCluster = true
			if a.State == AgentBusy {
				supplies[i].Busy++
			}
		}
		if inCluster && a.State == AgentIdle {
			idle = append(idle, idleAgent{Agent: a})
		}
	}
	return idle
}

// sameCluster reports whether an agent of one cluster can serve another; an
// empty one is not known, or any.
func sameCluster(agent, cluster string) bool {
	return agent == "" || cluster == "" || agent == cluster
}

// nearest returns the rules that the overlay which satisfies the most of them
// still misses.
func nearest(tags [][]string, rules []string) []string {
	var best []string
	for i := range tags {
		var missing []string
		for _, rule := range rules {
			if !carries(tags[i], rule) {
				missing = append(missing, rule)
			}
		}
		if best == nil || len(missing) < len(best) {
			best = missing
		}
	}
	return best
}

// idleAgent is a connected agent that waits for a job.
type idleAgent struct {
	Agent
	credit  int  // the overlay whose buffer it is part of, or -1
	leaving bool // it is about to run into its idle time-out
}

// markLeaving marks the upkeep agents that are to be relieved. As soon as the
// first of an overlay is close to its idle time-out (five minutes; a twelfth of
// it above an hour, half of it below ten minutes), so are all that follow it
// within a sixth of that time-out: one order relieves them together, and the
// new agents are up before the old ones leave.
func (q queueReader) markLeaving(idle []idleAgent) {
	for i, o := range q.overlays {
		timeout := o.Policy.WarmIdleTimeout
		lead := max(timeout/12, min(5*time.Minute, timeout/2))
		keep := TagDispatch + "=" + o.Slug() + keepInfix
		left := func(a idleAgent) (time.Duration, bool) {
			if a.credit != i || a.IdleSince.IsZero() || !slices.ContainsFunc(a.Tags, func(t string) bool { return strings.HasPrefix(t, keep) }) {
				return 0, false
			}
			return a.IdleSince.Add(timeout).Sub(q.snapshot.At), true
		}
		due := slices.ContainsFunc(idle, func(a idleAgent) bool {
			d, ok := left(a)
			return ok && d <= lead
		})
		for k := range idle {
			d, ok := left(idle[k])
			idle[k].leaving = idle[k].leaving || due && ok && d <= lead+timeout/6
		}
	}
}

// countUseless counts the agents of dispatches in git that came without a tag
// which they were told to carry: they are idle, match nothing that is pending,
// could not stand in for the overlay's agents, and none of their dispatch has
// ever had a job. It is what a template looks like that loses a tag, but not
// what a policy looks like that has just been given one. Until the rest of their
// dispatch has come, nothing more is ordered; then it has failed.
func (q queueReader) countUseless(idle []idleAgent, classes []*class, supplies []Supply) {
	useless := map[string][]idleAgent{} // by dispatch
	for _, a := range idle {
		if id, ok := tagValue(a.Tags, TagDispatch); ok && a.credit < 0 && !slices.ContainsFunc(classes, func(c *class) bool {
			return c.pending > 0 && sameCluster(a.Cluster, c.cluster) && satisfies(a.Tags, c.rules)
		}) {
			useless[id] = append(useless[id], a)
		}
	}
	for i, o := range q.overlays {
		for _, d := range o.Dispatches {
			seen := supplies[i].Dispatches[d.ID]
			if len(useless[d.ID]) == 0 || seen.Worked || o.outdated(d) {
				continue
			}
			told := d.Tags
			if told == nil {
				told = o.AgentTags()
			}
			for _, a := range useless[d.ID] {
				if !satisfies(a.Tags, told) {
					seen.WrongTags++
				}
			}
			supplies[i].Dispatches[d.ID] = seen
			switch {
			case seen.WrongTags == 0: // in another cluster than the policy's
				if d.Purpose == ForDemand {
					supplies[i].WrongTags += len(useless[d.ID])
				}
			case seen.Registered.Below(d.Agents) < d.Agents:
				supplies[i].WrongTags += seen.WrongTags
			}
		}
	}
}

// creditTo returns the overlay that a spare agent is credited to: its own, as
// long as it could still take any job of it, or, when muster did not start it,
// the first whose every tag it carries; -1 is none.
func creditTo(a Agent, tags [][]string, clusters []string) int {
	_, muster := tagValue(a.Tags, TagOverlay)
	for i := range tags {
		needed := tags[i]
		if !muster {
			needed = without(needed, TagOverlay)
		}
		if sameCluster(a.Cluster, clusters[i]) && satisfies(a.Tags, needed) {
			return i
		}
	}
	return -1
}

// matchIdle hands the pending jobs to the idle agents that could take them, as
// many as can be, and first to those that are part of no buffer or will not be
// for long. It returns how many of each class are taken, and how many agents of
// each kind that an overlay is credited with are spare.
func matchIdle(idle []idleAgent, classes []*class) (taken []int, spare map[kind]int) {
	groups, supply := alike(idle, classes)
	demand := make([]int, len(classes))
	for j, c := range classes {
		demand[j] = c.pending
	}
	f := newFlow(supply, demand, func(g, j int) bool { return groups[g].takes[j/8]&(1<<(j%8)) != 0 })
	for g := range groups {
		for j := range classes {
			f.serve(j, g, f.free[g])
		}
	}
	taken = make([]int, len(classes))
	for j, c := range classes {
		taken[j] = c.pending - f.want[j]
	}
	spare = map[kind]int{}
	for g, n := range f.free {
		if groups[g].credit >= 0 {
			spare[groups[g]] = n
		}
	}
	return taken, spare
}

// kind is what tells idle agents apart: whose buffer they are part of, and
// which classes of jobs they can take, as a bit string.
type kind struct {
	credit  int
	leaving bool
	takes   string
}

// rank orders kinds: of no buffer, leaving one, part of one.
func (k kind) rank() int {
	switch {
	case k.credit < 0:
		return 0
	case k.leaving:
		return 1
	}
	return 2
}

// alike counts agents by kind, in the order in which they are given jobs.
func alike(agents []idleAgent, classes []*class) (kinds []kind, counts []int) {
	count := map[kind]int{}
	set := make([]byte, len(classes)/8+1)
	for _, a := range agents {
		clear(set)
		for j, c := range classes {
			if sameCluster(a.Cluster, c.cluster) && satisfies(a.Tags, c.rules) {
				set[j/8] |= 1 << (j % 8)
			}
		}
		count[kind{a.credit, a.leaving, string(set)}]++
	}
	for k := range count {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.credit, b.credit), cmp.Compare(a.takes, b.takes))
	})
	for _, k := range kinds {
		counts = append(counts, count[k])
	}
	return kinds, counts
}

func without(tags []string, key string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return strings.HasPrefix(t, key+"=") })
}

// demands joins classes that the same overlays can serve.
func demands(classes []*class, taken []int) []Demand {
	var all []Demand
	for j, c := range classes {
		i := slices.IndexFunc(all, func(d Demand) bool { return slices.Equal(d.Overlays, c.overlays) })
		if i < 0 {
			i = len(all)
			all = append(all, Demand{Overlays: c.overlays})
		}
		d := &all[i]
		d.Pending += c.pending
		d.Idle += taken[j]
		d.Upcoming += c.waiting
		d.Limited += c.limited
		d.Blocked += c.blocked
		if at := c.oldest.UTC().Truncate(time.Second); !c.oldest.IsZero() && (d.Oldest == nil || at.Before(*d.Oldest)) {
			d.Oldest = &at
		}
	}
	slices.SortFunc(all, func(a, b Demand) int { return slices.Compare(a.Overlays, b.Overlays) })
	return all
}
