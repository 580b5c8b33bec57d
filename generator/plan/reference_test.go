package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// reference decides by docs/reference/decision.md alone: one agent and one job at a
// time, without groups and at any cost. Quotations are from that page. The circuit
// breaker is assumed to be closed, and retirements are left out.
type reference struct {
	snapshot Snapshot
	overlays []*refOverlay // in the order in which they fill
	agents   []*refAgent   // idle ones and those in flight, then those ordered
	wants    []*refWant
	others   [][2]int // overlays, and others whose agents may serve their look-ahead
	kinds    []int    // what is served now
	turn     int      // the overlay whose look-ahead or buffer is served now by agents that are there; then -1
	there    int      // agents that are there, once they have served; the others are ordered
}

// refOverlay is what is counted of one overlay.
type refOverlay struct {
	Overlay
	cluster   string // identifier of the Buildkite cluster; empty: any
	clustered bool   // the queue is in a cluster
	suspended bool
	// replacing are those of the warm pool that leave soon and were given no job.
	current, stopping, inFlight, replacing int
	room, dispatch                         int
}

// refAgent is one agent that is there or is ordered.
type refAgent struct {
	tags      []string
	cluster   string
	of        int // the overlay whose look-ahead and buffer it is part of; -1: none
	replacing bool
	ordered   bool // now
	busy      bool // it serves something
	// forJobs and forPool are set where it is asked what else the orders could be for.
	forJobs, forPool bool
}

// refWant is one thing that asks for an agent.
type refWant struct {
	kind int
	job  *Job // of a pending job
	of   int  // the overlay of look-ahead and buffer
	by   int  // the agent that serves it, or -1
}

// What is asked for.
const (
	wantJob    = iota
	wantHeld   // "look-ahead that lost an agent"
	wantFresh  // "other look-ahead"
	wantBuffer // of one overlay
	wantAgain  // "look-ahead that agents were dispatched for before"
)

func newReference(overlays []Overlay, s Snapshot) *reference {
	r := &reference{snapshot: s}
	for _, o := range overlays {
		o.Policy = refOverridden(o.Policy, s.At)
		v := &refOverlay{Overlay: o, suspended: o.Policy.Paused || o.Suspended.Active()}
		v.place(s.Queues)
		r.overlays = append(r.overlays, v)
	}
	// "the first queue by key"; overlays are "ordered by descending `priority`, then by
	// name".
	slices.SortFunc(r.overlays, func(a, b *refOverlay) int {
		return cmp.Or(cmp.Compare(a.Policy.Queue, b.Policy.Queue), cmp.Compare(b.Policy.Priority, a.Policy.Priority), cmp.Compare(a.Name, b.Name))
	})
	r.countConnected()
	r.countInFlight()
	r.decide()
	return r
}

// refOverridden: "Overrides replace `min`, `max`, `buffer`, `maxPerHour` or `paused` until a
// time each"; "The later in the list wins; a lower `max` lowers `min` with it".
func refOverridden(p Policy, now time.Time) Policy {
	for _, o := range p.Overrides {
		if !o.Until.After(now) {
			continue
		}
		if o.Min != nil {
			p.Min = *o.Min
		}
		if o.Max != nil {
			p.Max = *o.Max
		}
		if o.Buffer != nil {
			p.Buffer = *o.Buffer
		}
		if o.MaxPerHour != nil {
			p.MaxPerHour = *o.MaxPerHour
		}
		if o.Paused {
			p.Paused = true
		}
	}
	if p.Min > p.Max {
		p.Min = p.Max
	}
	return p
}

// place finds the overlay's cluster. An overlay is suspended if "the queue is paused in
// Buildkite", "the policy names a cluster that Buildkite does not list", "the named
// cluster does not have the queue", or "several clusters have the queue, and the policy
// names none".
func (o *refOverlay) place(queues []Queue) {
	var fits []Queue
	for _, q := range queues {
		o.clustered = o.clustered || q.Key == o.Policy.Queue
		if q.Key == o.Policy.Queue && slices.Contains([]string{"", q.Cluster, q.ClusterName}, o.Policy.Cluster) {
			fits = append(fits, q)
		}
	}
	switch {
	case len(fits) == 1:
		o.cluster = fits[0].Cluster
		o.suspended = o.suspended || fits[0].Paused
	case len(queues) > 0:
		o.suspended = true
		if len(fits) == 0 {
			o.cluster = o.Policy.Cluster
		}
	}
}

// refTakes: "An agent can take a job if it has each agent query rule of the job among its
// tags. The rules `key=*` and `key=` match any value of the key".
func refTakes(tags, rules []string) bool {
	for _, rule := range rules {
		has := false
		for _, tag := range tags {
			has = has || tag == rule || strings.HasSuffix(rule, "=*") && strings.HasPrefix(tag, strings.TrimSuffix(rule, "*"))
		}
		if !has {
			return false
		}
	}
	return true
}

// refCluster reports whether two clusters are one, as far as is known.
func refCluster(a, b string) bool { return a == "" || b == "" || a == b }

// tags are "the policy's queue and tags" and "`overlay=<name>`".
func (o *refOverlay) tags() []string {
	return append([]string{"queue=" + o.Policy.Queue, "overlay=" + o.Name}, o.Policy.Tags...)
}

// canTake reports whether agents of the overlay could take the job; not jobs "in no
// Buildkite cluster while the queue is in one".
func (o *refOverlay) canTake(j Job) bool {
	here := o.cluster == "" || o.cluster == j.Cluster
	return here && (j.Cluster != "" || !o.clustered) && refTakes(o.tags(), j.Rules)
}

// owns: "connected agents with the tag `overlay=`"; "Agents with another fleet's tag
// `muster=<hash>` are not its own".
func (o *refOverlay) owns(a Agent) bool {
	return slices.Contains(a.Tags, "overlay="+o.Name) && !slices.ContainsFunc(a.Tags, func(t string) bool {
		return strings.HasPrefix(t, "muster=") && o.Fleet != "" && t != "muster="+o.Fleet
	})
}

// here: agents "In another queue or cluster than the policy's" are not.
func (o *refOverlay) here(a Agent) bool {
	return slices.Contains(a.Tags, "queue="+o.Policy.Queue) && refCluster(a.Cluster, o.cluster)
}

// runs: "Listed as idle, but runs a job by the time the jobs are read: busy."
func (r *reference) runs(a Agent) bool {
	return slices.ContainsFunc(r.snapshot.Sightings, func(g Sighting) bool { return g.Running && g.Agent == a.ID })
}

// stops: "Has a dispatch, is not reusable, and finished a job less than 90 seconds ago:
// stopping"; a reusable agent "that has finished a job is idle at once", and "Reusable, idle,
// and its uptime has expired: stopping". "Stopping agents do not serve, but still count
// against `max`."
func (r *reference) stops(a Agent) bool {
	leaves := refTakes(a.Tags, []string{"overlay=*"}) && !a.LastJobFinished.IsZero() && r.snapshot.At.Sub(a.LastJobFinished) < 90*time.Second
	if left, stays := r.uptimeLeft(a); stays {
		leaves = left <= 0
	}
	return a.State == AgentStopping || a.State == AgentIdle && !r.runs(a) && leaves
}

func (r *reference) idle(a Agent) bool { return a.State == AgentIdle && !r.runs(a) && !r.stops(a) }

// decide: "The assignment is one maximum flow from agents to what asks for them". The
// agents are the "idle agents", "agents in flight", "agents that `min` asks for" and "the
// room below `max`, by priority and evenly within one priority".
func (r *reference) decide() {
	upcoming, before := r.askForJobs()
	// "They are given pending jobs first": idle agents that are being replaced.
	slices.SortStableFunc(r.agents, func(a, b *refAgent) int {
		if a.replacing == b.replacing {
			return 0
		} else if a.replacing {
			return -1
		}
		return 1
	})
	r.lookAhead(upcoming, before)
	for i, o := range r.overlays {
		r.ask(wantBuffer, i, o.Policy.Buffer)
	}
	r.serveThere()
	for _, a := range r.agents {
		if a.replacing && !a.busy {
			r.overlays[a.of].replacing++
		}
	}
	r.order()
}

// takesAllAhead reports whether agents of one overlay could take every job that
// another looks ahead to.
func (r *reference) takesAllAhead(of, other int) bool {
	return !slices.ContainsFunc(r.snapshot.Jobs, func(j Job) bool {
		return j.State == JobUpcoming && r.looksAhead(j) == of && r.moment(j) != momentLater && !r.overlays[other].canTake(j)
	})
}

// looksAhead is the overlay that an upcoming job counts for, or -1.
func (r *reference) looksAhead(j Job) int {
	return slices.IndexFunc(r.overlays, func(o *refOverlay) bool {
		return o.canTake(j) && o.Policy.Lookahead > 0 && !o.suspended
	})
}

// askForJobs asks for the pending jobs, and counts for each overlay the upcoming
// ones, and those of them that were looked ahead to before.
func (r *reference) askForJobs() (upcoming, before []int) {
	upcoming, before = make([]int, len(r.overlays)), make([]int, len(r.overlays))
	for k := range r.snapshot.Jobs {
		j := &r.snapshot.Jobs[k]
		served := slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.canTake(*j) })
		ahead := r.looksAhead(*j)
		switch {
		case !served: // "is unmatched: never counted"
		case j.State == JobPending:
			r.wants = append(r.wants, &refWant{kind: wantJob, job: j, by: -1})
		case j.State == JobUpcoming && ahead >= 0 && r.moment(*j) != momentUnknown:
		case j.State == JobUpcoming && ahead >= 0:
			upcoming[ahead]++
			if r.lookedAhead(*j) {
				before[ahead]++
			}
		default: // "Limited, blocked, platform-limited and reserved jobs are not demand."
		}
	}
	return upcoming, before
}

func (r *reference) ask(kind, of, n int) {
	for range n {
		r.wants = append(r.wants, &refWant{kind: kind, of: of, by: -1})
	}
}

// mayServe reports whether the agent is of use for what is asked for.
func (r *reference) mayServe(a *refAgent, w *refWant) bool {
	switch {
	case w.by < 0 && (!slices.Contains(r.kinds, w.kind) || w.job == nil && r.turn >= 0 && w.of != r.turn):
		return false // it is another's turn
	case a.forJobs && w.kind == wantBuffer, a.forPool && w.kind != wantBuffer:
		return false
	case w.kind == wantJob:
		return refTakes(a.tags, w.job.Rules) && (a.cluster == "" || a.cluster == w.job.Cluster) && r.servedBeside(a, *w.job)
	case a.ordered && w.kind == wantAgain:
		return false
	case !a.ordered && w.kind == wantFresh && r.there > 0:
		return false // it "is served by dispatched agents only"
	case slices.Contains(r.others, [2]int{w.of, a.of}):
		return w.kind != wantBuffer && w.kind != wantAgain && !a.replacing
	}
	return a.of == w.of && !a.replacing
}

// servedBeside: a job of any queue counts for one "that has an overlay which could serve it".
func (r *reference) servedBeside(a *refAgent, j Job) bool {
	return slices.ContainsFunc(r.overlays, func(o *refOverlay) bool {
		return slices.Contains(a.tags, "queue="+o.Policy.Queue) && o.canTake(j)
	})
}

// employ finds something to serve for an agent, if need be by passing on to
// others what they serve. Who serves something goes on serving something, and
// what is served stays served.
func (r *reference) employ(agent int) bool {
	tried := map[*refWant]bool{}
	var find func(agent int) bool
	find = func(agent int) bool {
		for _, w := range r.wants {
			if tried[w] || !r.mayServe(r.agents[agent], w) {
				continue
			}
			tried[w] = true
			if w.by < 0 || find(w.by) {
				w.by = agent
				return true
			}
		}
		return false
	}
	a := r.agents[agent]
	a.busy = a.busy || find(agent)
	return a.busy
}

// order adds agents one by one: "agents that `min` asks for", then "the room below `max`,
// by priority and evenly within one priority".
func (r *reference) order() {
	r.kinds = []int{wantJob, wantHeld, wantFresh, wantBuffer}
	for i, o := range r.overlays {
		o.room = r.roomOf(o)
		// "dispatch = min(desired - (current - replacing - late), room, ...)", "desired = max(min, ...)"
		for range min(o.room, max(0, o.Policy.Min-(o.current-o.replacing))) {
			r.orderOne(i)
			r.employ(len(r.agents) - 1)
		}
	}
	useless := map[*refOverlay]bool{} // another agent of it would serve nothing
	for {
		next := -1
		for i, o := range r.overlays {
			switch {
			case o.room == 0 || useless[o]:
			case next < 0,
				// Evenly: the one that has fewest agents, with those just ordered.
				o.Policy.Queue == r.overlays[next].Policy.Queue && o.Policy.Priority == r.overlays[next].Policy.Priority && o.current+o.dispatch < r.overlays[next].current+r.overlays[next].dispatch:
				next = i
			}
		}
		if next < 0 {
			return
		}
		r.orderOne(next)
		if !r.employ(len(r.agents) - 1) {
			useless[r.overlays[next]] = true
			r.agents = r.agents[:len(r.agents)-1]
			r.overlays[next].dispatch--
			r.overlays[next].room++
		}
	}
}

func (r *reference) orderOne(overlay int) {
	o := r.overlays[overlay]
	o.dispatch++
	o.room--
	r.agents = append(r.agents, &refAgent{tags: o.tags(), cluster: o.cluster, of: overlay, ordered: true})
}

// roomOf: "room = max(0, max - current - stopping)", at most leftThisHour, and
// "0 while suspended".
func (r *reference) roomOf(o *refOverlay) int {
	room := max(0, o.Policy.Max-o.current-o.stopping)
	if o.Policy.MaxPerHour > 0 {
		left := o.Policy.MaxPerHour // "bounds the agents ordered in any hour"
		for _, x := range o.State.Ordered {
			if r.snapshot.At.Sub(x.At) < time.Hour {
				left -= x.Agents
			}
		}
		room = min(room, max(0, left))
	}
	if o.suspended {
		return 0
	}
	return room
}
