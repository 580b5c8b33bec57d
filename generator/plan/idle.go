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
	credit    int  // the overlay whose buffer it is part of, or -1
	replacing bool // it is about to run into its idle time-out
}

// markReplacing marks the warm pool agents that are to be replaced. As soon as the
// first of an overlay is close to its idle time-out (five minutes; a twelfth of
// it above an hour, half of it below ten minutes), so are all that follow it
// within a sixth of that time-out: one order replaces them together, and the
// new agents are up before the old ones leave.
func (q queueReader) markReplacing(idle []idleAgent) {
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
			idle[k].replacing = idle[k].replacing || due && ok && d <= lead+timeout/6
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
			return c.pending > 0 && sameCluster(a.Cluster, c.cluster) && Satisfies(a.Tags, c.rules)
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
				if !Satisfies(a.Tags, told) {
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
		if sameCluster(a.Cluster, clusters[i]) && Satisfies(a.Tags, needed) {
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
	credit    int
	replacing bool
	takes     string
}

// rank orders kinds: of no buffer, replacing one, part of one.
func (k kind) rank() int {
	switch {
	case k.credit < 0:
		return 0
	case k.replacing:
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
			if sameCluster(a.Cluster, c.cluster) && Satisfies(a.Tags, c.rules) {
				set[j/8] |= 1 << (j % 8)
			}
		}
		count[kind{a.credit, a.replacing, string(set)}]++
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
