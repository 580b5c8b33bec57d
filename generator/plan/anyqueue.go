package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// anyQueue is the key of jobs that ask for any queue: queue=* takes every agent
// (docs agent/cli/reference/start.md, "Agent targeting").
const anyQueue = "*"

// placeAnyQueue counts the jobs that ask for any queue in queues, each once: in the
// one queue that can serve them, or else where an overlay can serve them now. The
// classes are added to those of the queues. Jobs that no overlay serves are left.
func placeAnyQueue(readers []queueReader, jobs map[string][]*class, agents []Agent) {
	var roaming []*class
	for _, c := range jobs[anyQueue] {
		var keys []string
		for _, q := range readers {
			if len(q.serving(c)) > 0 {
				keys = append(keys, q.key)
			}
		}
		switch len(keys) {
		case 0: // FindUnserved lists them
		case 1:
			jobs[keys[0]] = append(jobs[keys[0]], c)
		default:
			roaming = append(roaming, c)
		}
	}
	if len(roaming) > 0 {
		p := newPlacement(readers, jobs, roaming, agents)
		for n, c := range roaming {
			p.place(n, c, jobs)
		}
	}
}

// placement finds out in which queues jobs that several could serve are counted. It
// is one maximum flow over all queues, as each queue's own is made; see [division].
// What is asked for: first the queues' own jobs, then those of any queue. Who
// serves it: the idle agents, those in flight, those that min asks for, and then
// the room that is left, by queue. So a job goes where an agent is for it, and is
// ordered for in the first queue that has room; made again on what was ordered, it
// stays there.
type placement struct {
	queues  []placeQueue
	demands []placeDemand
	of      []int   // of each roaming class: its demand
	left    [][]int // of each roaming demand, by queue: jobs that it serves and that no class has yet
}

// placeQueue is a queue as far as it matters here.
type placeQueue struct {
	key    string
	shares []*share
	kinds  []kind // of idle agents, and then of those in flight with other tags
	counts []int  // of idle agents
	others []otherTags
}

// placeDemand is what is asked for by classes that are alike to every agent here.
type placeDemand struct {
	pending int
	may     []placeMay // by queue
}

// placeMay says who of a queue may serve a demand; zero is nobody.
type placeMay struct {
	overlays []string
	kinds    string // of each kind of agents, whether: '0' or '1'
}

func newPlacement(readers []queueReader, jobs map[string][]*class, roaming []*class, agents []Agent) *placement {
	p := &placement{of: make([]int, len(roaming))}
	may := make([][]placeMay, len(roaming))
	for n := range may {
		may[n] = make([]placeMay, len(readers))
	}
	alike := map[string]int{}
	for i, q := range readers {
		var all []*class
		from := map[*class]int{}
		for _, c := range jobs[q.key] {
			own := *c
			all = append(all, &own)
		}
		for n, c := range roaming {
			one := *c
			from[&one] = n
			all = append(all, &one)
		}
		look := q.look(all, agents)
		queue := placeQueue{key: q.key, kinds: look.kinds, counts: look.counts, others: look.others}
		o := look.observation(q.overlays)
		for _, v := range q.overlays {
			queue.shares = append(queue.shares, newShare(v, o))
		}
		p.queues = append(p.queues, queue)
		for j, c := range look.served {
			m := placeMay{overlays: c.overlays, kinds: takers(look.kinds, j)}
			if n, ok := from[c]; ok {
				may[n][i] = m
			} else if c.pending > 0 {
				mays := make([]placeMay, len(readers))
				mays[i] = m
				p.demand(alike, mays, c.pending)
			}
		}
	}
	own := len(p.demands)
	for n, c := range roaming {
		p.of[n] = p.demand(alike, may[n], c.pending)
	}
	p.serve(own, readers[0].snapshot.At)
	return p
}

// demand adds jobs to the demand of those that the same agents may serve, and returns
// its number.
func (p *placement) demand(alike map[string]int, may []placeMay, pending int) int {
	var key strings.Builder
	for i, m := range may {
		if len(m.overlays) > 0 {
			key.WriteString(strconv.Itoa(i) + "\x00" + strings.Join(m.overlays, "\x00") + "\x00" + m.kinds + "\x01")
		}
	}
	j, ok := alike[key.String()]
	if !ok {
		j = len(p.demands)
		alike[key.String()] = j
		p.demands = append(p.demands, placeDemand{may: may})
	}
	p.demands[j].pending += pending
	return j
}

// placeSource is a node of the flow that agents come from.
type placeSource struct {
	queue  int
	kind   int    // of idle agents or of those with other tags, or -1
	share  *share // whose agents they are, if they are of no kind
	agents int
}

// serve runs the flow; the first demands are the queues' own.
func (p *placement) serve(own int, now time.Time) {
	var stages [4][]placeSource // idle, in flight, for min, room
	for i, q := range p.queues {
		for k, n := range q.counts {
			stages[0] = append(stages[0], placeSource{queue: i, kind: k, agents: n})
		}
		for _, s := range q.shares {
			forMin, room := s.mayDispatch(now)
			stages[2] = append(stages[2], placeSource{queue: i, kind: -1, share: s, agents: forMin})
			stages[3] = append(stages[3], placeSource{queue: i, kind: -1, share: s, agents: room})
		}
		stages[1] = append(stages[1], q.flying(i)...)
	}
	sources := slices.Concat(stages[:]...)
	supply, want := make([]int, len(sources)), make([]int, len(p.demands))
	for j, d := range p.demands {
		want[j] = d.pending
	}
	f := newFlow(supply, want, func(i, j int) bool {
		from := sources[i]
		m := p.demands[j].may[from.queue]
		if from.kind >= 0 {
			return len(m.overlays) > 0 && m.kinds[from.kind] == '1'
		}
		return slices.Contains(m.overlays, from.share.overlay.Name)
	})
	first := 0
	for _, stage := range stages {
		for i := range stage {
			f.free[first+i] = stage[i].agents
		}
		f.serveAll(first, first+len(stage), 0, len(want))
		first += len(stage)
	}
	p.left = make([][]int, len(p.demands))
	for j := own; j < len(p.demands); j++ {
		p.left[j] = make([]int, len(p.queues))
		for i, from := range sources {
			p.left[j][from.queue] += f.moved[i][j]
		}
		p.left[j][p.fallback(j)] += f.want[j]
	}
}

// flying are the queue's agents in flight.
func (q placeQueue) flying(queue int) (all []placeSource) {
	for _, x := range flights(q.shares) {
		from := placeSource{queue: queue, kind: -1, share: q.shares[x.share], agents: x.agents}
		if x.other != nil {
			from.kind = len(q.counts) + slices.IndexFunc(q.others, func(o otherTags) bool { return o.dispatch == x.dispatch })
		}
		all = append(all, from)
	}
	return all
}

// fallback is the queue that counts what nobody can serve now: the first of which an
// overlay is not suspended, or else the first.
func (p *placement) fallback(j int) int {
	may := func(i int, s *share) bool { return slices.Contains(p.demands[j].may[i].overlays, s.overlay.Name) }
	return p.first(j, func(i int, s *share) bool { return may(i, s) && !s.suspended.Active() && !s.breaker.Open() })
}

// looking is the queue that counts the jobs that are not pending: the first of which
// an overlay looks ahead to them, or else the first.
func (p *placement) looking(j int) int {
	return p.first(j, func(i int, s *share) bool {
		return slices.Contains(p.demands[j].may[i].overlays, s.overlay.Name) && s.looksAhead()
	})
}

// first returns the first queue with a share that is so, or else the first that could
// serve the demand.
func (p *placement) first(j int, is func(i int, s *share) bool) int {
	for i, q := range p.queues {
		if slices.ContainsFunc(q.shares, func(s *share) bool { return is(i, s) }) {
			return i
		}
	}
	return slices.IndexFunc(p.demands[j].may, func(m placeMay) bool { return len(m.overlays) > 0 })
}

// place adds a class to the queues that could serve it: to each the pending jobs that
// count there, and how many count elsewhere.
func (p *placement) place(n int, c *class, jobs map[string][]*class) {
	j := p.of[n]
	ahead := p.looking(j)
	var lookedAhead time.Time
	memory := remembered{}
	for i, q := range p.queues {
		for _, s := range q.shares {
			if !slices.Contains(p.demands[j].may[i].overlays, s.overlay.Name) {
				continue
			}
			memory.add(s.overlay.State.AheadOf)
			if at := s.overlay.State.LookedAhead; at.After(lookedAhead) {
				lookedAhead = at
			}
		}
	}
	pending := c.pending
	for i, q := range p.queues {
		if len(p.demands[j].may[i].overlays) == 0 {
			continue
		}
		part := *c
		part.pending = min(pending, p.left[j][i])
		part.away = c.pending - part.pending
		part.lookedAhead, part.elsewhere = lookedAhead, memory
		pending -= part.pending
		p.left[j][i] -= part.pending
		if i != ahead {
			part.upcoming, part.limited, part.blocked, part.created = 0, 0, 0, nil
			part.countElsewhere(p.demands[j].may[i].overlays, q.shares)
		}
		if part.pending+part.away+part.upcoming+part.limited+part.blocked+len(part.staged) > 0 {
			jobs[q.key] = append(jobs[q.key], &part)
		}
	}
}
