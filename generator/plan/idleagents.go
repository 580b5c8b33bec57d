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

// countAgents counts the queue's agents into the supplies, and returns the
// idle ones.
func (q queueReader) countAgents(supplies []Supply) []idleAgent {
	idle := make([]idleAgent, 0, len(q.agents))
	slugs := make([]string, len(q.overlays))
	for i, o := range q.overlays {
		slugs[i] = o.Slug()
	}
	rule := TagQueue + "=" + q.key
	for _, a := range q.agents {
		here := carries(a.Tags, rule)
		counts := false // as idle
		for i := range supplies {
			serves := here && sameCluster(a.Cluster, q.clusters[i])
			own, namesake := q.overlays[i].owns(a.Tags, slugs[i])
			if q.overlays[i].ordered(a.Tags) { // only its dispatch is known
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
				counts = counts || here // it takes no job, and so its dispatch may fail
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

// markReplacing marks the warm pool agents to be replaced. An agent is due shortly before its idle
// time-out: five minutes; a twelfth of a time-out above an hour; half of one below ten minutes. As
// soon as the first agent of an overlay is due, all agents that follow within a sixth of that
// time-out are due too: one order replaces them together, and the new agents are up before the old
// ones leave. The time-out is the one in the agent's tag; the policy may have changed since. The
// end of an agent's uptime counts like its time-out if it comes first.
//
// markReplacing also marks reusable agents that were created from an older template.
func (q queueReader) markReplacing(idle []idleAgent) {
	for i := range q.overlays {
		o := &q.overlays[i]
		left := func(a *idleAgent) (left, timeout time.Duration, ok bool) {
			if a.credit != i || a.IdleSince.IsZero() {
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
		for k := range idle {
			left, timeout, ok := left(&idle[k])
			lead := max(timeout/12, min(5*time.Minute, timeout/2))
			if ok && left <= lead && (!due || left < first || left == first && left+timeout/6 > last) {
				due, first, last = true, left, left+timeout/6
			}
		}
		for k := range idle {
			left, _, ok := left(&idle[k])
			idle[k].replacing = idle[k].replacing || due && ok && left <= last || idle[k].credit == i && o.outgrown(idle[k].Tags)
		}
	}
}

// creditTo returns the overlay to which an idle agent is credited; -1 for none. An agent that
// muster started is credited to its own overlay if it has all of the overlay's tags. An agent
// that muster did not start is credited to the first overlay whose tags it has.
func (q queueReader) creditTo(a Agent) int {
	of, muster := TagValue(a.Tags, TagOverlay)
	_, loaded := TagValue(a.Tags, TagFleet)
	for i, tags := range q.tags {
		if !sameCluster(a.Cluster, q.clusters[i]) {
			continue
		}
		anyOverlay := !muster || slices.Contains(q.overlays[i].Former, of)
		missing := func(tag string) bool {
			switch {
			case !loaded && strings.HasPrefix(tag, TagFleet+"="): // started without muster
			case anyOverlay && strings.HasPrefix(tag, TagOverlay+"="):
			default:
				return !carries(a.Tags, tag)
			}
			return false
		}
		if !slices.ContainsFunc(tags, missing) {
			return i
		}
	}
	return -1
}

// kind identifies a group of idle agents: the overlay whose buffer they are part of, whether they
// are being replaced, and the jobs that they can take, as a bit string.
type kind struct {
	credit    int
	replacing bool
	takes     string
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
func kinds(agents []idleAgent, classes []*class) (all []kind, counts []int) {
	count := map[kind]int{}
	set := make([]byte, len(classes)/8+1)
	for _, a := range agents {
		clear(set)
		for j, c := range classes {
			if c.pending > 0 && sameCluster(a.Cluster, c.cluster) && Satisfies(a.Tags, c.rules) {
				set[j/8] |= 1 << (j % 8)
			}
		}
		count[kind{a.credit, a.replacing, string(set)}]++
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
