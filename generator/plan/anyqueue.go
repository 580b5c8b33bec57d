package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// anyQueue is the queue key of jobs that run in any queue: queue=* matches every agent
// (docs agent/cli/reference/start.md, "Agent targeting").
const anyQueue = "*"

// placeAnyQueue assigns each job that may run in any queue to one queue: the only one that can serve
// it, or else one where an overlay can serve it now. It adds the classes to those of the queues, and
// omits jobs that no overlay serves.
func placeAnyQueue(readers []queueReader, jobs map[string][]*class) {
	var roaming []*class
	classes := jobs[anyQueue]
	keys := make([][]string, len(classes)) // the queues that can serve each
	for _, q := range readers {
		for n, servers := range q.servers(classes) {
			if len(servers.names) > 0 {
				keys[n] = append(keys[n], q.key)
			}
		}
	}
	for n, c := range classes {
		switch key := keys[n]; len(key) {
		case 0: // FindUnserved lists them
		case 1:
			jobs[key[0]] = append(jobs[key[0]], c)
		default:
			roaming = append(roaming, c)
		}
	}
	if len(roaming) > 0 {
		p := newPlacement(readers, jobs, roaming)
		for n, c := range roaming {
			p.place(n, c, jobs)
		}
	}
}

// placement assigns jobs that several queues could serve to one queue each. It runs the flow
// of one queue (see [division]) over all queues, with min, look-ahead and buffers, so that
// each agent serves the same in both. Agents of the same kind serve in the order of their
// queues. A job is assigned to the queue whose agent serves it, or else to the first queue
// that has room. A repeated decision assigns it to the same queue.
type placement struct {
	queues []placeQueue
	jobs   []Demand
	may    [][]placeMay   // by group of jobs: the overlays and agents that may serve it, by queue
	groups map[string]int // indexes of groups of jobs, by who may serve them
	of     []int          // by roaming class: the group of its pending jobs
	ahead  []int          // by roaming class: the queue that counts the jobs that are not pending
	left   map[int][]int  // by group of jobs and queue: jobs that it serves and that are not assigned to a class
}

// placeQueue is a queue of a placement.
type placeQueue struct {
	key         string
	allocations []*allocation
	counts      queueCounts
	from        map[*class]int // index of the roaming class that a class is a copy of
	takes       []IndexSet     // by kind of agents: the jobs that it can take
}

// placeMay contains the overlays and kinds of agents of a queue that may serve jobs.
type placeMay struct {
	queue    int
	overlays []string
	agents   bool   // there are idle agents, and the jobs may need one
	kinds    string // the set of these kinds that may serve the jobs; see [appendNumber]
}

func newPlacement(readers []queueReader, jobs map[string][]*class, roaming []*class) *placement {
	p := &placement{groups: map[string]int{}, left: map[int][]int{}}
	remember(roaming, readers)
	may := make([][]placeMay, len(roaming))
	for i, q := range readers {
		queue := placeQueue{key: q.key, from: map[*class]int{}}
		var all []*class
		for _, c := range jobs[q.key] {
			own := *c
			all = append(all, &own)
		}
		for n, c := range roaming {
			one := *c
			queue.from[&one] = n
			all = append(all, &one)
		}
		queue.counts = q.read(all)
		queue.takes = make([]IndexSet, len(queue.counts.kinds))
		queue.allocations = newAllocations(q.overlays, queue.counts.observation(q.overlays))
		p.queues = append(p.queues, queue)
		taken := takers(queue.counts.kinds, len(queue.counts.served))
		for j, c := range queue.counts.served {
			m := placeMay{queue: i, overlays: c.servers.names, agents: len(queue.counts.kinds) > 0, kinds: taken[j]}
			if n, ok := queue.from[c]; ok {
				may[n] = append(may[n], m)
			} else {
				p.demand(m, c)
			}
		}
	}
	for n, c := range roaming {
		j := p.group(may[n])
		p.jobs[j].Pending += c.pending
		p.of, p.ahead = append(p.of, j), append(p.ahead, p.lookAheadQueue(j, c))
	}
	for i, q := range p.queues {
		for _, c := range q.counts.served {
			if n, ok := q.from[c]; ok && i == p.ahead[n] {
				upcoming := *c
				upcoming.pending = 0
				p.demand(placeMay{queue: i, overlays: c.servers.names}, &upcoming)
			}
		}
	}
	p.serve(readers)
	return p
}

// remember adds to classes what the state of overlays that can take their upcoming jobs contains
// about them.
func remember(classes []*class, readers []queueReader) {
	for _, c := range classes {
		c.otherOverlays = remembered{}
	}
	for _, q := range readers {
		for n, servers := range q.servers(classes) {
			for _, i := range servers.overlays {
				classes[n].otherOverlays.add(q.overlays[i].State.AheadOf)
			}
			classes[n].lookedAhead = later(servers.lookedAhead, classes[n].lookedAhead)
		}
	}
}

// demand adds a class that counts in one queue.
func (p *placement) demand(m placeMay, c *class) {
	if c.pending == 0 {
		m.agents, m.kinds = false, ""
	}
	p.jobs[p.group([]placeMay{m})].add(c)
}

// group returns the index of the group of jobs that these agents may serve.
func (p *placement) group(may []placeMay) int {
	var key strings.Builder
	var overlays []string
	for _, m := range may {
		key.WriteString(strconv.Itoa(m.queue) + "\x00" + strings.Join(m.overlays, "\x00") + "\x00" + strconv.FormatBool(m.agents) + m.kinds + "\x01")
		overlays = append(overlays, m.overlays...)
	}
	j, ok := p.groups[key.String()]
	if ok {
		return j
	}
	j = len(p.jobs)
	p.groups[key.String()] = j
	slices.Sort(overlays)
	p.jobs, p.may = append(p.jobs, Demand{Overlays: overlays}), append(p.may, may)
	for _, m := range may {
		for _, k := range numbers(m.kinds) {
			p.queues[m.queue].takes[k].Add(j)
		}
	}
	return j
}

// serve runs the flow, and sets how many of the jobs of several queues each queue serves. The
// fallback queue counts the jobs that no agent serves.
func (p *placement) serve(readers []queueReader) {
	type group struct {
		IdleAgents
		queue, rank int
	}
	var idle []group
	var allocations []*allocation
	var of []int // the queue of each allocation
	for i, q := range p.queues {
		for k, n := range q.counts.counts {
			g := IdleAgents{Agents: n, Replacing: q.counts.kinds[k].replacing, Jobs: q.takes[k]}
			if credit := q.counts.kinds[k].credit; credit >= 0 {
				g.Overlay = readers[i].overlays[credit].Name
			}
			idle = append(idle, group{g, i, q.counts.kinds[k].rank()})
		}
		for _, s := range q.allocations {
			allocations, of = append(allocations, s), append(of, i)
		}
	}
	slices.SortStableFunc(idle, func(a, b group) int { return cmp.Compare(a.rank, b.rank) })
	groups := make([]IdleAgents, len(idle))
	for g := range idle {
		groups[g] = idle[g].IdleAgents
	}
	d := newDivision(allocations, p.jobs, groups, readers[0].snapshot.At)
	for _, j := range p.of {
		if p.left[j] != nil {
			continue
		}
		left := make([]int, len(p.queues))
		for i := range d.flow.serves {
			from := d.source(i)
			queue := 0
			switch from.kind {
			case fromIdle:
				queue = idle[from.index].queue
			default:
				queue = of[from.index]
			}
			left[queue] += d.flow.serving(i, j)
		}
		left[p.fallback(j)] += d.flow.want[j]
		p.left[j] = left
	}
}

// fallback returns the queue that counts the jobs that no agent can serve now: the first queue
// with an overlay that is not suspended, or else the first queue.
func (p *placement) fallback(j int) int {
	return p.first(j, func(s *allocation) bool { return !s.suspended.Active() && !s.breaker.Open() })
}

// lookAheadQueue returns the queue that counts the jobs of a class that are not pending: the first queue with an overlay
// that looks ahead to all of them, or else to some, or else the first queue.
func (p *placement) lookAheadQueue(j int, c *class) int {
	unknown := c.unknownTimes()
	return p.first(j, func(s *allocation) bool {
		return s.looksAhead() && (!unknown || s.policy.aheadOfUnknown())
	}, (*allocation).looksAhead)
}

// first returns the first queue with an allocation that may serve the jobs and matches, or else matches the next
// condition, or else the first queue with an allocation that may serve them.
func (p *placement) first(j int, conditions ...func(s *allocation) bool) int {
	for _, matches := range conditions {
		for _, m := range p.may[j] {
			if slices.ContainsFunc(p.queues[m.queue].allocations, func(s *allocation) bool { return slices.Contains(m.overlays, s.overlay.Name) && matches(s) }) {
				return m.queue
			}
		}
	}
	return p.may[j][0].queue
}

// place adds a class to the queues that can serve it: to each the pending jobs that count there, and
// the number of those that count in other queues.
func (p *placement) place(n int, c *class, jobs map[string][]*class) {
	j, pending := p.of[n], c.pending
	for _, m := range p.may[j] {
		q := p.queues[m.queue]
		part := *c
		part.pending = min(pending, p.left[j][m.queue])
		part.otherQueues = c.pending - part.pending
		pending -= part.pending
		p.left[j][m.queue] -= part.pending
		if m.queue != p.ahead[n] {
			part.upcoming, part.limited, part.blocked, part.created = 0, 0, 0, nil
			part.countOtherOverlays(m.overlays, q.allocations)
		}
		if part.pending+part.otherQueues+part.upcoming+part.limited+part.blocked+len(part.staged) > 0 {
			jobs[q.key] = append(jobs[q.key], &part)
		}
	}
}
