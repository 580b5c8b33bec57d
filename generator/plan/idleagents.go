package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// idleAgent is a connected agent that waits for a job.
type idleAgent struct {
	Agent
	credit    int  // the overlay whose look-ahead and buffer it is part of, or -1
	replacing bool // it is about to exit, or new agents are to replace it
}

// owners finds the overlays of one queue that an agent can belong to.
type owners struct {
	slugs []string // by overlay
	// byTag has the overlays of the tags TagIdentity and TagOverlay, and byDispatch those of dispatches
	// that some agents are known by.
	byTag, byDispatch map[string][]int
	// byTags is by the other tags, without overlays that follow one that is alike; see tagIndex. firsts
	// are the indexes of the overlays.
	byTags *ruleIndex
	firsts []int
}

// newOwners returns the owners of the queue's agents.
func (q queueReader) newOwners() *owners {
	w := &owners{slugs: make([]string, len(q.overlays)), byTag: make(map[string][]int, 2*len(q.overlays)), byDispatch: map[string][]int{}}
	dispatches := false
	for i := range q.overlays {
		o := &q.overlays[i]
		w.slugs[i] = o.Slug()
		w.byTag[TagOverlay+"="+w.slugs[i]] = append(w.byTag[TagOverlay+"="+w.slugs[i]], i)
		if id := o.Identity.ID; id != "" {
			w.byTag[TagIdentity+"="+id] = append(w.byTag[TagIdentity+"="+id], i)
		}
		dispatches = dispatches || slices.ContainsFunc(o.Dispatches, o.orderedByOther)
	}
	dispatches = dispatches || slices.ContainsFunc(q.agents, func(a *Agent) bool { return w.needsDispatch(a.Tags) })
	for i := range q.overlays {
		o := &q.overlays[i]
		for k := 0; dispatches && k < len(o.Dispatches); k++ {
			w.byDispatch[o.Dispatches[k].ID] = append(w.byDispatch[o.Dispatches[k].ID], i)
		}
	}
	return w
}

// needsDispatch reports whether an agent may belong to the overlay of its dispatch alone: it has no known
// queue, or an identifier that no overlay of the queue has.
func (w *owners) needsDispatch(tags []string) bool {
	return !hasQueue(tags) || slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(tag, TagIdentity+"=") && w.byTag[tag] == nil
	})
}

// tagIndex returns an index of the tags of overlays that are not their names.
func (q queueReader) tagIndex(w *owners) *ruleIndex {
	if w.byTags != nil {
		return w.byTags
	}
	var tags [][]string
	known := map[string]bool{}
	for i := range q.overlays {
		plain := slices.DeleteFunc(slices.Clone(q.tags[i]), hasName)
		key := string(appendKey(nil, q.clusters[i], plain))
		if !known[key] {
			known[key] = true
			tags, w.firsts = append(tags, plain), append(w.firsts, i)
		}
	}
	index := newRuleIndex(tags)
	w.byTags = &index
	return w.byTags
}

// countAgents counts the queue's agents into the supplies, and returns the
// idle ones.
func (q queueReader) countAgents(capacities []Capacity, w *owners) []idleAgent {
	idle := make([]idleAgent, 0, len(q.agents))
	rule := TagQueue + "=" + q.key
	clusters := map[string]bool{"": len(q.overlays) > 0} // those in which an overlay is
	for _, id := range q.clusters {
		clusters[id] = true
	}
	anywhere := slices.Contains(q.clusters, "")
	busy, foreign := map[string]int{}, map[string]int{} // agents of the queue that run a job, or are another muster's, by cluster
	for _, a := range q.agents {
		here := carries(a.Tags, rule)
		counts := here && (anywhere || clusters[a.Cluster]) // as idle
		if here && a.State == AgentBusy {
			busy[a.Cluster]++
		}
		if here && len(q.overlays) > 0 && q.overlays[0].foreign(a.Tags) {
			foreign[a.Cluster]++
		}
		for _, i := range w.of(a.Tags) {
			serves := here && sameCluster(a.Cluster, q.clusters[i])
			own := q.overlays[i].owns(a.Tags, w.slugs[i])
			if until := q.overlays[i].unknownUntil(a, q.snapshot.At); !until.IsZero() {
				capacities[i].countUnknown(until)
			}
			if q.overlays[i].ordered(a.Tags) { // only its dispatch is known
				own, serves, counts = true, true, true
				if a.State == AgentBusy {
					capacities[i].QueueBusy++
				}
			}
			switch {
			case own && a.State == AgentStopping:
				capacities[i].Stopping++
			case own && !serves:
				capacities[i].Stopping++
				capacities[i].OtherQueue++
				if m := q.misplaced(a, &q.overlays[i]); capacities[i].Misplaced == nil || m.compare(*capacities[i].Misplaced) < 0 {
					capacities[i].Misplaced = &m
				}
				counts = counts || here // it takes no job, and so its dispatch may fail
			case own:
				capacities[i].Own++
				if _, stays := uptimeOf(a.Tags); stays {
					capacities[i].Reusable++
				}
				if a.State == AgentBusy {
					capacities[i].Busy++
				}
			}
		}
		if counts && a.State == AgentIdle {
			idle = append(idle, idleAgent{Agent: *a})
		}
	}
	for id, n := range busy {
		for i := range capacities {
			if sameCluster(id, q.clusters[i]) {
				capacities[i].QueueBusy += n
			}
		}
	}
	for id, n := range foreign {
		for i := range capacities {
			if sameCluster(id, q.clusters[i]) {
				capacities[i].OtherFleets += n
			}
		}
	}
	return idle
}

// hasQueue reports whether the queue of an agent is known.
func hasQueue(tags []string) bool {
	_, known := TagValue(tags, TagQueue)
	return known
}

// of returns the overlays that an agent may belong to.
func (w *owners) of(tags []string) []int {
	var all []int
	for _, tag := range tags {
		if more := w.byTag[tag]; len(all) == 0 {
			all = more
		} else if len(more) > 0 && !slices.Equal(all, more) {
			all = slices.Concat(all, more)
		}
	}
	if w.needsDispatch(tags) {
		id, _ := TagValue(tags, TagDispatch)
		all = slices.Concat(all, w.byDispatch[id])
	}
	if len(all) > 1 {
		all = slices.Compact(slices.Sorted(slices.Values(all)))
	}
	return all
}

// markReplacing marks the warm pool agents to be replaced. An agent is due shortly before its idle
// time-out: five minutes; a twelfth of a time-out above an hour; half of one below ten minutes. As
// soon as the first agent of an overlay is due, all agents that follow within a sixth of that
// time-out are due too: one order replaces them together, and the new agents are up before the old
// ones leave. The time-out is the one in the agent's tag; the policy may have changed since. The
// end of an agent's uptime counts like its time-out if it comes first.
//
// markReplacing also marks reusable agents that were created from an older template.
func (q queueReader) markReplacing(idle []idleAgent) {
	credited := byCredit(idle, len(q.overlays))
	for i := range q.overlays {
		o := &q.overlays[i]
		left := func(a *idleAgent) (left, timeout time.Duration, ok bool) {
			if a.IdleSince.IsZero() {
				return 0, 0, false
			}
			timeout, warm := secondsIn(a.Tags, TagWarm)
			left = a.IdleSince.Add(timeout).Sub(q.snapshot.At)
			if uptime, stays := uptimeOf(a.Tags); stays && !a.Connected.IsZero() {
				timeout = min(timeout, uptime)
				left = min(left, a.Connected.Add(uptime).Sub(q.snapshot.At))
			}
			return left, timeout, warm
		}
		due, first, last := false, time.Duration(0), time.Duration(0)
		for _, k := range credited[i] {
			left, timeout, ok := left(&idle[k])
			lead := max(timeout/12, min(5*time.Minute, timeout/2))
			if ok && left <= lead && (!due || left < first || left == first && left+timeout/6 > last) {
				due, first, last = true, left, left+timeout/6
			}
		}
		for _, k := range credited[i] {
			left, _, ok := left(&idle[k])
			idle[k].replacing = idle[k].replacing || due && ok && left <= last || o.outgrown(idle[k].Tags)
		}
	}
}

// byCredit returns the indexes of the idle agents that are credited to each overlay.
func byCredit(idle []idleAgent, overlays int) [][]int {
	counts, all := make([]int, overlays), make([][]int, overlays)
	for _, a := range idle {
		if a.credit >= 0 {
			counts[a.credit]++
		}
	}
	place := make([]int, len(idle))
	for i, n := range counts {
		all[i], place = place[:0:n], place[n:]
	}
	for k, a := range idle {
		if a.credit >= 0 {
			all[a.credit] = append(all[a.credit], k)
		}
	}
	return all
}

// creditTo returns the overlay to which an idle agent is credited; -1 for none. An agent that
// muster started is credited to its own overlay if it has all of the overlay's tags; the overlay may
// have been renamed since. An agent that muster did not start is credited to the first overlay whose
// tags it has.
func (q queueReader) creditTo(a Agent, w *owners) int {
	_, named := TagValue(a.Tags, TagOverlay)
	_, known := TagValue(a.Tags, TagIdentity)
	fits := func(i int) bool {
		if !sameCluster(a.Cluster, q.clusters[i]) {
			return false
		}
		return !slices.ContainsFunc(q.tags[i], func(tag string) bool {
			if carries(a.Tags, tag) {
				return false
			}
			overlay, id := strings.HasPrefix(tag, TagOverlay+"="), strings.HasPrefix(tag, TagIdentity+"=")
			switch {
			case overlay && !named, id && !known: // started without muster
				return false
			case overlay && known || id:
				return !q.overlays[i].owns(a.Tags, "")
			}
			return true
		})
	}
	credit := -1
	try := func(i int) (done bool) {
		if done = credit >= 0 && i >= credit; !done && fits(i) {
			credit, done = i, true
		}
		return done
	}
	if !named && !known {
		q.tagIndex(w).each(a.Tags, func(overlays []int32) {
			for _, n := range overlays {
				if try(w.firsts[n]) {
					break
				}
			}
		})
		return credit
	}
	for _, i := range w.of(a.Tags) {
		if try(i) {
			break
		}
	}
	return credit
}

// kind identifies a group of idle agents: the overlay whose buffer they are part of, whether they
// are being replaced, and the jobs that they can take.
type kind struct {
	credit    int
	replacing bool
	takes     string // the set of classes; see takesOf
}

// takesOf returns a set of classes; see [appendNumber]. It orders sets by their bits in bytes, the
// last of eight classes first: decisions in git depend on that.
func takesOf(classes []int32) string {
	sorted := slices.Clone(classes)
	for n := range sorted {
		sorted[n] ^= 7
	}
	slices.Sort(sorted)
	var set []byte
	for _, j := range sorted {
		set = appendNumber(set, int(j))
	}
	return string(set)
}

// classes returns the classes that agents of the kind can take.
func (k kind) classes() []int {
	all := numbers(k.takes)
	for n := range all {
		all[n] ^= 7
	}
	return all
}

// rank orders kinds by the sequence in which they are assigned: replacing, of no buffer, part of a
// buffer.
func (k kind) rank() int {
	switch {
	case k.replacing:
		return 0
	case k.credit < 0:
		return 1
	}
	return 2
}

// kinds counts idle agents by kind, in the order in which they are given jobs.
// The takes of a kind are the classes that its agents can take.
func kinds(agents []idleAgent, classes []*class, index ruleIndex) (all []kind, counts []int) {
	keys := map[string]bool{} // of tags that matter
	for _, c := range classes {
		for _, rule := range c.rules {
			key, _, _ := strings.Cut(rule, "=")
			keys[key] = true
		}
	}
	count, takes := map[kind]int{}, map[string]string{} // takes by cluster and tags that matter
	var matter []string
	var text []byte
	var some []int32
	for _, a := range agents {
		matter = matter[:0]
		for _, tag := range a.Tags {
			if key, _, _ := strings.Cut(tag, "="); keys[key] {
				matter = append(matter, tag)
			}
		}
		text = appendKey(text[:0], a.Cluster, matter)
		set, known := takes[string(text)]
		if !known {
			some = slices.DeleteFunc(index.satisfied(some[:0], matter), func(j int32) bool {
				return classes[j].pending == 0 || !sameCluster(a.Cluster, classes[j].cluster)
			})
			set = takesOf(some)
			takes[string(text)] = set
		}
		count[kind{a.credit, a.replacing, set}]++
	}
	for k := range count {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.credit, b.credit), cmp.Compare(a.takes, b.takes))
	})
	for _, k := range all {
		counts = append(counts, count[k])
	}
	return all, counts
}

// groupIdle joins kinds of idle agents that take the same groups of jobs. It omits kinds that take
// none and belong to no overlay.
func groupIdle(idle []kind, counts []int, takes []IndexSet, overlays []Overlay) (agents []IdleAgents) {
	for k, n := range counts {
		g := IdleAgents{Agents: n, Replacing: idle[k].replacing, Jobs: takes[k]}
		if idle[k].credit >= 0 {
			g.Overlay = overlays[idle[k].credit].Name
		}
		if last := len(agents) - 1; last >= 0 && agents[last].alike(g) {
			agents[last].Agents += n
		} else if g.Overlay != "" || !g.Jobs.IsZero() {
			agents = append(agents, g)
		}
	}
	return agents
}

// alike reports whether two groups differ only in their number of agents.
func (g IdleAgents) alike(other IdleAgents) bool {
	return g.Overlay == other.Overlay && g.Replacing == other.Replacing && g.Jobs.String() == other.Jobs.String()
}
