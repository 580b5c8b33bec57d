package plan

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
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

// owns: "connected agents with its identifier in their tag `muster=`", or with another one "while
// their dispatch is in the overlay's directory, unless that is a copied order"; without the tag, those "with
// the tag `overlay=` of its name".
func (o *refOverlay) owns(a Agent) bool {
	has := func(tag string) bool { return slices.Contains(a.Tags, tag) }
	switch known := slices.ContainsFunc(a.Tags, func(t string) bool { return strings.HasPrefix(t, "muster=") }); {
	case !known || o.Identity.ID == "":
		return has("overlay=" + o.Name)
	case has("muster=" + o.Identity.ID):
		return true
	}
	return slices.ContainsFunc(o.Dispatches, func(d Dispatch) bool { return has("dispatch="+d.ID) && !o.copied(d) })
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

// looksAhead is the overlay that an upcoming job counts for, or -1: "the first overlay, by priority and then name, that
// could take it, has `lookahead` above 0, is not suspended"; "If its due time is unknown, overlays with `reuse` are passed
// over". Jobs of any queue with equal rules count "for the first queue with an overlay that looks ahead to all of them,
// otherwise to some".
func (r *reference) looksAhead(j Job) int {
	first := func(unknown bool, queue string) int {
		return slices.IndexFunc(r.overlays, func(o *refOverlay) bool {
			here := queue == "" || o.Policy.Queue == queue
			return here && o.canTake(j) && o.Policy.Lookahead > 0 && !o.suspended && !(unknown && o.Policy.Reuse.On())
		})
	}
	rules := func(j Job) string { return nameOf(Job{Cluster: j.Cluster, Rules: j.Rules}) }
	some := slices.ContainsFunc(r.snapshot.Jobs, func(k Job) bool {
		return k.State == JobUpcoming && rules(k) == rules(j) && r.unknown(k)
	})
	i := first(some, "")
	if i < 0 {
		i = first(false, "")
	}
	if i < 0 {
		return -1
	}
	return first(r.unknown(j), r.overlays[i].Policy.Queue)
}

// unknown reports whether nothing is known of when an upcoming job can run.
func (r *reference) unknown(j Job) bool {
	agents, _ := r.dispatchedFor(j)
	return j.Due.IsZero() && (j.Stage == "" || agents == 0)
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

// roomOf: "room = max(0, max - current - stopping)", at most leftAtFirst and leftThisHour, and
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
	return min(room, r.leftAtFirst(o))
}

// fresh is the policy's share of the new upcoming jobs, less the agents that "are
// subtracted until the share of the others is dispatched"; and of stages, the "share less
// these agents".
func (r *reference) fresh(i int, upcoming, before []int) int {
	o := r.overlays[i]
	share := func(n int) int { return int(o.Policy.Lookahead * float64(n)) }
	part := 0
	for _, j := range r.snapshot.Jobs {
		if j.State == JobUpcoming && r.looksAhead(j) == i && r.moment(j) == momentUnknown && !r.lookedAhead(j) && !j.Created.After(o.State.Partial.Until) {
			part++
		}
	}
	_, more, _ := r.stages(i)
	return share(upcoming[i]-before[i]) - min(share(part), o.State.Partial.Agents) + more
}

// lookedAhead: "`state.yaml` remembers the creation time of the newest job that was looked
// ahead to (`lookedAhead`). What any overlay that could take the job remembers counts."
func (r *reference) lookedAhead(j Job) bool {
	return slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.canTake(j) && !j.Created.After(o.State.LookedAhead) })
}

// What is known of when an upcoming job can run.
const (
	momentUnknown = iota
	momentLater   // "Until then its jobs are not demand"
	momentDue
)

// lead: "75 seconds, with `reuse` at most the idle time-out. Once 20 start-up times are known with `lease: auto` or
// `reuse.idle: auto`, it is their 90th percentile and 8 seconds for a tick; with `reuse`, their median alone. The longest
// time of the overlays that look ahead and could take the job counts", in the queue for which the job counts.
func (r *reference) lead(j Job) (longest time.Duration) {
	first := r.looksAhead(j)
	for _, o := range r.overlays {
		if o.Policy.Lookahead == 0 || !o.canTake(j) || first >= 0 && o.Policy.Queue != r.overlays[first].Policy.Queue {
			continue
		}
		longest = max(longest, o.lead())
	}
	return longest
}

// lead is how long before a job can run the overlay orders an agent for it.
func (o *refOverlay) lead() time.Duration {
	lead, seconds := 75*time.Second, o.remembered()
	if o.Policy.Reuse.Auto {
		lead = 20 * time.Second
	} else if o.Policy.Reuse.On() && o.Policy.Reuse.Idle < lead {
		lead = o.Policy.Reuse.Idle
	}
	if (o.Policy.LeaseAuto || o.Policy.Reuse.Auto) && len(seconds) >= 20 {
		lead = time.Duration(seconds[(90*len(seconds)+99)/100-1]+8) * time.Second
		if o.Policy.Reuse.On() {
			lead = time.Duration(seconds[(50*len(seconds)+99)/100-1]) * time.Second
		}
	}
	return lead
}

// moment: a stage "is looked ahead to when it is due within start-up and transport", and
// "Once agents were dispatched for a stage, it stays due".
func (r *reference) moment(j Job) int {
	agents, _ := r.dispatchedFor(j)
	switch {
	case r.unknown(j):
		return momentUnknown
	case j.Stage != "" && agents > 0, j.Due.Sub(r.snapshot.At) <= r.lead(j):
		return momentDue
	}
	return momentLater
}

// nameOf is what `state.yaml` calls the jobs of a stage that are alike.
func nameOf(j Job) string {
	return (&class{cluster: j.Cluster, rules: slices.Compact(slices.Sorted(slices.Values(j.Rules)))}).stageName(j.Stage)
}

// dispatchedFor: "What any overlay that could take the jobs remembers counts."
func (r *reference) dispatchedFor(j Job) (agents int, since time.Time) {
	for _, o := range r.overlays {
		for _, a := range o.State.AheadOf {
			if o.canTake(j) && a.Stage == nameOf(j) {
				agents += a.Agents
				if a.At.After(since) {
					since = a.At
				}
			}
		}
	}
	return agents, since
}

// stages says how many agents the stages that an overlay looks ahead to ask for; how many
// of them nothing was dispatched for; and how many were, so shortly ago that "none can
// have idled out".
func (r *reference) stages(i int) (jobs, newJobs, reserved int) {
	o := r.overlays[i]
	first, count := map[string]Job{}, map[string]int{}
	for _, j := range r.snapshot.Jobs {
		if j.State == JobUpcoming && r.looksAhead(j) == i && r.moment(j) == momentDue {
			first[nameOf(j)] = j
			if !j.Freed || !o.Policy.Reuse.On() { // "an agent of an earlier job of its build"
				count[nameOf(j)]++
			}
		}
	}
	for name, j := range first {
		chance := sha256.Sum256([]byte(strings.TrimSpace(name)))
		share := int(o.Policy.Lookahead*float64(count[name]) + float64(chance[0])/256)
		agents, since := r.dispatchedFor(j)
		jobs += share
		newJobs += max(0, share-agents)
		// "Until an idle time-out after that order"; "While the overlay has that order in git, this lasts longer by its
		// time for start-up and transport". Here no agent has exited without a job.
		until := since.Add(o.Policy.DemandIdleTimeout())
		if slices.ContainsFunc(o.Dispatches, func(d Dispatch) bool { return d.At.Equal(since) }) {
			until = until.Add(o.lead())
		}
		if r.snapshot.At.Before(until) {
			reserved += min(share, agents)
		}
	}
	return jobs, newJobs, reserved
}

// lookAhead asks for what the overlays look ahead to.
func (r *reference) lookAhead(upcoming, before []int) {
	for i, o := range r.overlays {
		jobs, _, reserved := r.stages(i)
		newJobs := r.fresh(i, upcoming, before)
		r.ask(wantHeld, i, reserved)
		r.ask(wantFresh, i, newJobs)
		r.ask(wantAgain, i, int(o.Policy.Lookahead*float64(upcoming[i]))+jobs-newJobs-reserved)
	}
}

// serveThere: "Agents that are connected or in flight serve in this order": "pending jobs",
// "look-ahead that lost an agent", "buffers", "look-ahead that agents were dispatched for
// before", "other look-ahead". Then "unused agents of another overlay of the queue that could
// take every job to which this overlay looks ahead serve its look-ahead, of step 2 first".
func (r *reference) serveThere() {
	for _, kind := range []int{wantJob, wantHeld, wantBuffer, wantAgain, wantFresh} {
		for r.turn = range r.overlays { // "by queue, priority and name"
			r.stage(0, len(r.agents), kind)
		}
	}
	for i := range r.overlays {
		for k := range r.overlays {
			if i != k && r.overlays[i].Policy.Queue == r.overlays[k].Policy.Queue && r.takesAllAhead(i, k) {
				r.others = append(r.others, [2]int{i, k})
			}
		}
	}
	for _, kind := range []int{wantHeld, wantFresh, wantBuffer} {
		for r.turn = range r.overlays { // "by queue, priority and name"
			r.stage(0, len(r.agents), kind)
		}
	}
	r.others = nil
	r.there, r.turn = len(r.agents), -1
}

// stage lets the agents from first to last serve what is asked for of these kinds. What is
// served of other kinds stays served.
func (r *reference) stage(first, last int, kinds ...int) {
	r.kinds = kinds
	for i := first; i < last; i++ {
		r.employ(i)
	}
}

// countConnected goes through the agents that Buildkite shows.
func (r *reference) countConnected() {
	var nobodys []*refAgent
	for _, a := range r.snapshot.Agents {
		if r.idle(a) && !slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.owns(a) }) {
			nobodys = append(nobodys, &refAgent{tags: a.Tags, cluster: a.Cluster, of: r.standsIn(a)})
		}
	}
	for i, o := range r.overlays {
		for _, a := range r.snapshot.Agents {
			switch {
			case !o.owns(a):
				continue
			case r.stops(a) || !o.here(a):
				o.stopping++ // "In another queue or cluster than the policy's, as after an edit: stopping"
			default:
				o.current++
			}
			if !r.idle(a) {
				continue
			}
			agent := &refAgent{tags: a.Tags, cluster: a.Cluster, of: -1, replacing: r.replacing(o, a)}
			if o.here(a) && refTakes(a.Tags, o.Policy.Tags) { // the overlay may have been renamed
				agent.of = i
			}
			r.agents = append(r.agents, agent)
		}
	}
	r.agents = append(r.agents, nobodys...)
}

// standsIn: "Agents that muster did not start lower `missing`", of the first overlay "in
// whose cluster it is and whose tags it has". Those that another muster started take jobs,
// and are part of no buffer here.
func (r *reference) standsIn(a Agent) int {
	return slices.IndexFunc(r.overlays, func(o *refOverlay) bool {
		return o.here(a) && refTakes(a.Tags, o.Policy.Tags) && !refTakes(a.Tags, []string{"overlay=*"})
	})
}

// uptimeLeft is for how long a reusable agent takes jobs: "The uptime (tag
// `muster-uptime=<seconds>`) begins when the agent connected. If Buildkite does not report
// when, the agent counts as idle until it disconnects."
func (r *reference) uptimeLeft(a Agent) (left time.Duration, stays bool) {
	for _, t := range a.Tags {
		var seconds int
		if n, _ := fmt.Sscanf(t, "muster-uptime=%d", &seconds); n == 1 {
			if a.Connected.IsZero() {
				return time.Hour * 24 * 365, true
			}
			return time.Duration(seconds)*time.Second - r.snapshot.At.Sub(a.Connected), true
		}
	}
	return 0, false
}

// leaves is how long a warm agent still waits for a job: "The time-out is that of the agent
// (tag `muster-warm=<seconds>`)". "For a reusable agent the end of its uptime counts instead
// where that ends before."
func (r *reference) leaves(o *refOverlay, a Agent) (left, timeout time.Duration, warm bool) {
	for _, t := range a.Tags {
		var seconds int
		if n, _ := fmt.Sscanf(t, "muster-warm=%d", &seconds); n == 1 && o.owns(a) && o.here(a) && r.idle(a) {
			timeout = time.Duration(seconds) * time.Second
			left = timeout - r.snapshot.At.Sub(a.IdleSince)
			if ends, stays := r.uptimeLeft(a); stays && !a.Connected.IsZero() {
				left, timeout = min(left, ends), 30*time.Minute // all have this uptime
			}
			return left, timeout, true
		}
	}
	return 0, 0, false
}

// replacing: "When the first credited one of an overlay is within five minutes of its idle
// time-out, it and those that follow within a sixth of that time-out are *replacing*: counted
// neither for `min` nor for `buffer`". So is "A credited idle reusable agent whose template
// (tag `muster-template`) is not the overlay's".
func (r *reference) replacing(o *refOverlay, a Agent) bool {
	old := refTakes(a.Tags, []string{"muster-template=*"}) && o.Template != "" && !slices.Contains(a.Tags, "muster-template="+o.Template)
	if old && r.idle(a) && o.here(a) && refTakes(a.Tags, o.tags()) {
		return true
	}
	left, _, warm := r.leaves(o, a)
	first, after := left, time.Duration(0)
	for _, other := range r.snapshot.Agents {
		if left, timeout, warm := r.leaves(o, other); warm && (left < first || left == first && timeout/6 > after) {
			first, after = left, timeout/6
		}
	}
	return warm && first <= 5*time.Minute && left <= first+after
}

// countInFlight: "Σ over dispatches within lease (agents − registered)".
func (r *reference) countInFlight() {
	for i, o := range r.overlays {
		late := r.overdue(o)
		for _, d := range o.Dispatches {
			// "An index that has not registered is *lost* two minutes after its lease"
			if r.snapshot.At.After(d.NotAfter.Add(2 * time.Minute)) {
				continue
			}
			for index := range d.Agents {
				seen := func(a Agent) bool {
					return slices.Contains(a.Tags, "dispatch="+d.ID) && slices.Contains(a.Tags, fmt.Sprint("index=", index))
				}
				switch {
				case slices.ContainsFunc(r.snapshot.Agents, seen):
				case d.Cluster != "*" && d.Cluster != o.Policy.Cluster:
					// "A dispatch for a queue or cluster that the policy no longer names counts
					// as stopping."
					o.stopping++
				default:
					o.current++
					o.inFlight++
					if late[d.ID] > 0 { // "neither for jobs and look-ahead nor for `min` and `buffer`, but against `max`"
						late[d.ID]--
						o.replacing++
						continue
					}
					// "Agents in flight count like agents that are ordered now".
					r.agents = append(r.agents, &refAgent{tags: o.tags(), cluster: o.cluster, of: i})
				}
			}
		}
	}
}

// drawStartupTimes gives some overlays `lease: auto` and start-up times.
func drawStartupTimes(t *rapid.T, o *Overlay, now time.Time) {
	if rapid.IntRange(0, 2).Draw(t, "lease: auto") > 0 {
		return
	}
	o.Policy.LeaseAuto = true
	if rapid.IntRange(0, 2).Draw(t, "no agent has registered") == 0 {
		return
	}
	known := rapid.SampledFrom([]string{"30:20", "46:20", "60:100 113:10", "215:40", "312:25", "30:19", ""}).Draw(t, "boots")
	if err := o.State.StartupTimes.UnmarshalText([]byte(known)); err != nil {
		t.Fatal(err)
	}
	if ago := rapid.SampledFrom([]int{0, 1, 10, 16, 60}).Draw(t, "served"); ago > 0 {
		o.State.ServedAt = now.Add(-time.Duration(ago) * time.Minute)
	}
}

// orderOf returns how many agents of an order have been seen, and how many it has. over reports whether
// muster waits for none of them.
func (r *reference) orderOf(o *refOverlay, at time.Time) (came, agents int, over bool) {
	over = true
	for _, d := range o.Dispatches {
		if !d.At.Equal(at) {
			continue
		}
		seen := len(r.indexes(d))
		came, agents = came+seen, agents+d.Agents
		former := slices.Contains(d.Tags, "muster=former") && !o.copied(d) // it "stays in git until it has expired"
		if seen == d.Agents && !former {
			over = over && !r.compared(o, d)
		} else {
			over = over && r.snapshot.At.After(d.NotAfter.Add(2*time.Minute))
		}
	}
	return came, agents, over
}

// compared reports whether a dispatch stays in git although all its agents have registered: an older one
// has agents in flight, and this one is not yet one and a half times the percentile old.
func (r *reference) compared(o *refOverlay, d Dispatch) bool {
	percentile, known := refPercentile(o.remembered())
	return o.Policy.LeaseAuto && known && 2*r.snapshot.At.Sub(d.At) < 3*percentile && slices.ContainsFunc(o.Dispatches, func(x Dispatch) bool {
		return x.At.Before(d.At) && r.missing(o, x) > 0
	})
}

// missing is how many agents of a dispatch are in flight.
func (r *reference) missing(o *refOverlay, d Dispatch) int {
	if d.Cluster != "*" && d.Cluster != o.Policy.Cluster || r.snapshot.At.After(d.NotAfter.Add(2*time.Minute)) {
		return 0
	}
	return d.Agents - len(r.indexes(d))
}

// remembered are the start-up times of the state, in seconds.
func (o *refOverlay) remembered() (seconds []int) {
	for _, part := range strings.Fields(o.State.StartupTimes.String()) {
		var took, agents int
		fmt.Sscanf(part, "%d:%d", &took, &agents)
		seconds = append(seconds, slices.Repeat([]int{took}, agents)...)
	}
	return seconds
}

// refPercentile is the 99th percentile of start-up times, if 20 are known.
func refPercentile(seconds []int) (time.Duration, bool) {
	if len(seconds) < 20 {
		return 0, false
	}
	slices.Sort(seconds)
	return time.Duration(seconds[(99*len(seconds)+99)/100-1]) * time.Second, true
}

// refBound is the bound by which a time is counted: "each a tenth above the one before or a second".
func refBound(took time.Duration) int {
	bound := 1
	for time.Duration(bound)*time.Second < took {
		bound += max(1, bound/10)
	}
	return bound
}

// indexes are those of a dispatch that were seen, and how long after the order they came;
// negative where that is not told.
func (r *reference) indexes(d Dispatch) map[int]time.Duration {
	all := map[int]time.Duration{}
	for index := range d.Agents {
		for _, a := range r.snapshot.Agents {
			if !slices.Contains(a.Tags, "dispatch="+d.ID) || !slices.Contains(a.Tags, fmt.Sprint("index=", index)) {
				continue
			}
			took, known := all[index]
			switch {
			case a.Connected.IsZero() && !known:
				all[index] = -1
			case !a.Connected.IsZero() && (!known || took < 0 || a.Connected.Sub(d.At) < took):
				all[index] = max(0, a.Connected.Sub(d.At))
			}
		}
	}
	return all
}

// startupTimes are the seconds that agents took: those that the state remembers, and of each
// dispatch that leaves git now "those of its agents that registered", by the histogram's
// bounds.
func (r *reference) startupTimes(o *refOverlay) (seconds []int) {
	seconds = o.remembered()
	for _, d := range o.Dispatches {
		if _, _, over := r.orderOf(o, d.At); !over || o.Suspended.Active() {
			continue
		}
		for _, took := range r.indexes(d) {
			if took >= 0 {
				seconds = append(seconds, refBound(took))
			}
		}
	}
	return seconds
}

// copied reports whether a dispatch is "a copied order".
func (o *refOverlay) copied(d Dispatch) bool {
	return o.Identity.CopiedFrom != "" && slices.Contains(d.Tags, "muster=former")
}

// leftAtFirst is the limit "Until an agent of the overlay has registered".
func (r *reference) leftAtFirst(o *refOverlay) int {
	registered := len(r.startupTimes(o)) > 0 || !o.State.ServedAt.IsZero()
	for _, a := range r.snapshot.Agents {
		registered = registered || o.owns(a)
	}
	inFlight, bad := 0, false
	for _, d := range o.Dispatches {
		came, _, over := r.orderOf(o, d.At)
		registered = registered || came > 0
		switch {
		case over: // "or has failed"
			bad = bad || !o.Suspended.Active() && !o.copied(d) // "has no outcome"
		case d.Cluster != o.Policy.Cluster: // "counts as stopping"
		case r.snapshot.At.Sub(d.At) >= 4*time.Minute: // "overdue (here after four minutes)"
			bad = true
		default:
			inFlight += d.Agents
		}
	}
	switch {
	case !o.Policy.LeaseAuto || registered:
		return math.MaxInt
	case bad: // "at most one is, besides the overdue ones"
		return max(0, 1-inFlight)
	}
	return max(0, 10-inFlight) // "at most ten are in flight"
}

// overdue is how many of each dispatch are `overdue`: "An index is overdue from twice the 99th
// percentile after its order on, at the earliest after a minute and at the latest after 15
// minutes." "Overdue agents do not count if a newer order was served".
func (r *reference) overdue(o *refOverlay) map[string]int {
	all := map[string]int{}
	percentile, known := refPercentile(r.startupTimes(o))
	if !o.Policy.LeaseAuto || !known {
		return all
	}
	after := min(max(time.Minute, 2*percentile), 15*time.Minute)
	before, knew := refPercentile(o.remembered())
	newest := o.State.ServedAt
	for _, d := range o.Dispatches {
		_, _, over := r.orderOf(o, d.At)
		retired := over && !o.Suspended.Active() && r.served(o, d.At, before, knew)
		old := 2*r.snapshot.At.Sub(d.At) >= 3*percentile && r.served(o, d.At, percentile, true)
		if (retired || old) && d.At.After(newest) {
			newest = d.At
		}
	}
	for _, d := range o.Dispatches {
		if r.snapshot.At.Sub(d.At) >= after && d.At.Before(newest) {
			all[d.ID] = r.missing(o, d)
		}
	}
	return all
}

// served reports whether "at least half of its agents registered within the 99th percentile", or
// at all while that is unknown.
func (r *reference) served(o *refOverlay, at time.Time, percentile time.Duration, known bool) bool {
	registered, agents := 0, 0
	for _, d := range o.Dispatches {
		if !d.At.Equal(at) {
			continue
		}
		agents += d.Agents
		for _, took := range r.indexes(d) {
			if !known || took >= 0 && time.Duration(refBound(took))*time.Second <= percentile {
				registered++
			}
		}
	}
	return 2*registered >= agents
}

// TestReference compares what is decided with what the reference decides, for
// each overlay.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		r := newReference(d.overlays, d.snapshot)
		demand := make([]int, len(r.overlays))
		for _, x := range d.decide() {
			i := slices.IndexFunc(r.overlays, func(o *refOverlay) bool { return o.Name == x.Overlay })
			o, sum := r.overlays[i], x.Figures
			demand[i] = sum.Demand
			if x.State.Breaker.Open() || x.Suspended.Active() != o.suspended {
				t.Fatalf("%s is suspended: %q, the breaker is %+v\n%s", o.Name, x.Suspended, x.State.Breaker, d)
			}
			got := [5]int{sum.Current, sum.Stopping, sum.InFlight, sum.Replacing + sum.Overdue, sum.Dispatch}
			if want := [5]int{o.current, o.stopping, o.inFlight, o.replacing, o.dispatch}; got != want {
				t.Fatalf("%s: current, stopping, in flight, replacing and dispatch are %v, the reference has %v\n%s", o.Name, got, want, d)
			}
		}
		if !r.allows(demand) {
			t.Fatalf("agents for jobs: %v of %d\n%s", demand, r.dispatched(), d)
		}
		// With several overlays, either buffer may be served. A single overlay orders no more
		// agents for jobs than it must.
		if len(demand) == 1 && demand[0] > 0 && r.allows([]int{demand[0] - 1}) {
			t.Fatalf("agents for jobs: %v, and one less would do\n%s", demand, d)
		}
	})
}

func (r *reference) dispatched() (n int) {
	for _, o := range r.overlays {
		n += o.dispatch
	}
	return n
}

// allows reports whether the orders can be split so: "The agents that jobs and
// look-ahead ask for are Jobs of the purpose `demand`, the rest `warm-pool`."
// Agents for jobs must all serve jobs or look-ahead, and the others must not,
// while as many of them serve, and as much is served of each kind.
func (r *reference) allows(demand []int) bool {
	s, other := r.again(demand), r.again(nil)
	for _, a := range s.agents {
		if a.forJobs && !a.busy {
			return false
		}
	}
	return s.counts() == other.counts()
}

// again serves with what was ordered, where demand says how many of each overlay are for
// jobs, the rest for buffers; nil: for any of it. "Agents that are dispatched serve pending
// jobs, then look-ahead of step 2, then other look-ahead, then buffers."
func (r *reference) again(demand []int) *reference {
	s := &reference{snapshot: r.snapshot, overlays: r.overlays}
	for _, a := range r.agents[:r.there] {
		s.agents = append(s.agents, &refAgent{tags: a.tags, cluster: a.cluster, of: a.of, replacing: a.replacing})
	}
	for _, w := range r.wants {
		s.wants = append(s.wants, &refWant{kind: w.kind, job: w.job, of: w.of, by: -1})
	}
	s.serveThere()
	for i, o := range r.overlays {
		for n := range o.dispatch {
			a := &refAgent{tags: o.tags(), cluster: o.cluster, of: i, ordered: true}
			if demand != nil {
				a.forJobs, a.forPool = n < demand[i], n >= demand[i]
			}
			s.agents = append(s.agents, a)
		}
	}
	for _, kind := range []int{wantJob, wantHeld, wantFresh, wantBuffer} {
		s.stage(s.there, len(s.agents), kind)
	}
	return s
}

// counts counts what is served of each kind.
func (r *reference) counts() (n [wantAgain + 1]int) {
	for _, w := range r.wants {
		if w.by >= 0 {
			n[w.kind]++
		}
	}
	return n
}
