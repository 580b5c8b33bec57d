package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Inference infers which agents of each dispatch have registered if no API token allows listing
// agents: from the jobs that were taken and the number of connected agents. It is conservative: an
// agent that may be in flight counts as in flight until its lease expires, and every connected
// agent counts against max. The queue must have no agents except muster's; see
// docs/explanation/buildkite.md, "Inferred agents".
//
// Inference keeps what Buildkite reports only once. A restart loses it: everything in git then
// counts as in flight until its lease expires. The zero value is ready to use.
type Inference struct {
	overlays map[string]*inferred
}

// inferred is what is known about the agents of one overlay.
type inferred struct {
	polled     time.Time    // the last poll; zero before the first
	counted    time.Time    // when the last used counts were made; zero before the first
	counts     CountedQueue // the last used counts
	doubted    time.Time    // since when counts contradict each other; zero: they do not
	doubt      string       // how
	dispatches map[string]*inferredDispatch
	runs       map[string]*inferredRun // jobs that agents of the queue have now, by job
	free       []place                 // registered agents without a known job
	before     int                     // number of connected agents of no known dispatch
	idle       int                     // of free and before, by the last counts
	left       []time.Time             // end times of jobs whose agents may still be connected
	owed       []time.Time             // until when agents of dispatches that other autoscalers retired may connect
	waiting    []*inferredDispatch     // dispatches whose agents may still register, oldest first
	reusable   bool                    // some agents take more than one job
	foreign    time.Time               // when an agent that muster did not order was last seen
}

// inferredDispatch is one dispatch, and which of its agents have registered.
type inferredDispatch struct {
	Dispatch
	registered IndexSet
	worked     IndexSet // had a job and disconnected
	live       bool     // in git
}

// place is an agent: an index of a dispatch.
type place struct {
	of    *inferredDispatch
	index int
	since time.Time // when it was first known
}

// inferredRun is a job that an agent has.
type inferredRun struct {
	place           // of is nil if the dispatch is unknown
	first time.Time // the first poll that listed it
}

const (
	// lingering is how long after its job an agent may still be counted as connected:
	// [longestLinger] plus the age of the counts.
	lingering = longestLinger + countsAge
	// countsAge is the maximum age of Buildkite's counts; it is not documented.
	countsAge = 30 * time.Second
	// foreignPause is how long nothing is inferred after agents that muster did not order were
	// found in a queue.
	foreignPause = 15 * time.Minute
	// doubtFor is how long counts that contradict each other are not used, and doubtShown how long
	// muster does not report them: counts of agents may lag behind those of jobs.
	doubtFor, doubtShown = 5 * time.Minute, time.Minute
)

// Infer returns the snapshot with the agents inferred from the counts. It is called once for each
// poll, with the overlays that are decided on. It infers nothing for a queue that several of them
// serve: see [Sharing].
func (f *Inference) Infer(overlays []Overlay, s Snapshot) Snapshot {
	if s.Counted == nil {
		return s
	}
	s.Inferred = true
	if f.overlays == nil {
		f.overlays = map[string]*inferred{}
	}
	shared := Sharing(overlays)
	there := map[string]bool{}
	for _, o := range overlays {
		if shared[o.Name] != "" {
			continue
		}
		there[o.Name] = true
		q, ok := s.countedFor(o)
		if !ok {
			continue
		}
		i := f.overlays[o.Name]
		if i == nil {
			i = &inferred{dispatches: map[string]*inferredDispatch{}, runs: map[string]*inferredRun{}}
			f.overlays[o.Name] = i
		}
		i.update(o, q, s)
		if i.counted.IsZero() {
			s.Contradiction = i.doubts(q)
		} else if i.doubt != "" && s.At.Sub(i.doubted) >= doubtShown {
			s.unread(i.doubts(q))
		}
		if i.foundForeign(s.At) {
			s.unread("queue " + q.Queue + " has agents that muster did not order, or that nobody knows of any more: " +
				"without an API token they cannot be told from its own, " +
				"so that what was ordered counts as in flight until its lease is over")
		}
		agents, sightings := i.agents(o, i.counts, s.At)
		s.Agents, s.Sightings = append(s.Agents, agents...), append(s.Sightings, sightings...)
	}
	maps.DeleteFunc(f.overlays, func(name string, _ *inferred) bool { return !there[name] })
	return s
}

// unread adds a sentence to what could not be read.
func (s *Snapshot) unread(text string) {
	if s.Unread != "" {
		s.Unread += "; "
	}
	s.Unread += text
}

// doubts returns a sentence about counts that contradict each other.
func (i *inferred) doubts(q CountedQueue) string {
	return fmt.Sprintf("Buildkite's metrics of queue %s contradict each other (%s): muster ignores them until %s, then assumes the largest number of agents they allow",
		q.Queue, i.doubt, i.doubted.Add(doubtFor).UTC().Format(time.RFC3339))
}

// Retired records a dispatch of an overlay that another muster ordered or retired: agents of it that
// this process has not seen may be connected. It must be called before [Inference.Infer].
func (f *Inference) Retired(overlay string, d Dispatch) {
	if i := f.overlays[overlay]; i != nil && i.dispatches[d.ID] == nil {
		i.dispatches[d.ID] = &inferredDispatch{Dispatch: d}
	}
}

// Knows reports whether agents of an overlay are inferred.
func (f *Inference) Knows(overlay string) bool { return f.overlays[overlay] != nil }

// Sharing returns, for each overlay that shares its queue, the name of another overlay of that
// queue. Without an agent list, muster cannot assign the agents of such a queue to their overlays.
func Sharing(overlays []Overlay) map[string]string {
	shared, byKey := map[string]string{}, map[string][]*Overlay{}
	for i := range overlays {
		o := &overlays[i]
		byKey[o.Policy.Queue] = append(byKey[o.Policy.Queue], o)
	}
	for i := range overlays {
		o := &overlays[i]
		for _, x := range slices.Backward(byKey[o.Policy.Queue]) {
			if o.Name != x.Name && sameCluster(o.Policy.Cluster, x.Policy.Cluster) {
				shared[o.Name] = x.Name
				break
			}
		}
	}
	return shared
}

// countedFor returns the counts of an overlay's queue; false if they are unknown, or if several
// clusters have the queue.
func (s Snapshot) countedFor(o Overlay) (found CountedQueue, ok bool) {
	for _, q := range s.Counted.Queues {
		if q.Queue != o.Policy.Queue || o.Policy.Cluster != "" && o.Policy.Cluster != q.Cluster {
			continue
		}
		if ok {
			return CountedQueue{}, false
		}
		found, ok = q, true
	}
	return found, ok
}

// update updates the inferred agents to a snapshot.
func (i *inferred) update(o Overlay, q CountedQueue, s Snapshot) {
	i.addDispatches(o)
	i.left, i.owed = after(i.left, s.At.Add(-lingering)), after(i.owed, s.At)
	i.follow(o, q, s)
	i.removeDispatches(s.At)
	i.polled = s.At
	if s.Counted.At.Equal(i.counted) {
		return
	}
	ran := i.since(s.Counted.At.Add(-countsAge))
	switch i.doubt = q.contradiction(ran); {
	case i.doubt == "":
		i.doubted = time.Time{}
	case i.doubted.IsZero():
		i.doubted = s.At
	}
	if i.doubt != "" {
		if s.At.Sub(i.doubted) < doubtFor {
			return
		}
		q = q.largest(ran)
	}
	i.count(o, q, s, i.counted.IsZero())
	i.counts, i.counted = q, s.Counted.At
}

// after returns the times after another.
func after(times []time.Time, then time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return !t.After(then) })
}

// addDispatches adds the dispatches in git. If an edit changed a dispatch, the larger number of agents
// counts.
func (i *inferred) addDispatches(o Overlay) {
	for _, d := range i.dispatches {
		d.live = false
	}
	i.reusable = o.Policy.Reuse.On()
	for _, d := range o.Dispatches {
		if known := i.dispatches[d.ID]; known == nil {
			i.dispatches[d.ID] = &inferredDispatch{Dispatch: d, live: true}
		} else {
			known.Agents, known.live = max(known.Agents, d.Agents), true
		}
	}
	i.waiting = nil
	for _, d := range i.dispatches {
		i.reusable = i.reusable || d.Uptime > 0
		if !o.otherQueue(d.Dispatch) && !d.Expired(i.polled) {
			i.waiting = append(i.waiting, d)
		}
	}
	slices.SortFunc(i.waiting, func(a, b *inferredDispatch) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
}

// removeDispatches removes the dispatches that are no longer in git. Another muster may have
// retired one because it has seen agents that this process has not.
func (i *inferred) removeDispatches(now time.Time) {
	for id, d := range i.dispatches {
		if d.live {
			continue
		}
		if missing := d.Agents - d.registered.Below(d.Agents); missing > 0 && !d.Expired(now) {
			for range missing {
				i.owed = append(i.owed, now.Add(lingering))
			}
		}
		delete(i.dispatches, id)
	}
}

// follow infers agents from the jobs that were taken: each has an agent, and an agent that is not
// reusable disconnects after it.
func (i *inferred) follow(o Overlay, q CountedQueue, s Snapshot) {
	credit := i.idle
	if i.reusable {
		credit = len(i.free) + i.before
	}
	listed := map[string]bool{}
	var begun []Run
	for _, r := range s.Counted.Runs {
		known := i.runs[r.ID]
		listed[r.ID] = true
		switch {
		case known != nil && !r.Running:
			credit += i.ended(known, s.At)
			delete(i.runs, r.ID)
		case known == nil && r.Queue == q.Queue && r.Cluster == q.Cluster:
			begun = append(begun, r)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(i.runs)) {
		switch {
		case listed[id]:
		case slices.ContainsFunc(s.Jobs, func(j Job) bool { return j.ID == id }): // the job was returned and is pending again
			credit += i.freed(i.runs[id].place)
			delete(i.runs, id)
		default:
			credit += i.ended(i.runs[id], s.At)
			delete(i.runs, id)
		}
	}
	slices.SortFunc(begun, func(a, b Run) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range begun {
		run := &inferredRun{first: s.At}
		run.place, credit = i.take(o, r.Rules, credit, s.At)
		if r.Running {
			i.runs[r.ID] = run
		} else {
			credit += i.ended(run, s.At)
		}
	}
}

// freed records that a connected agent has no job, and returns how many agents that can take a job
// this adds.
func (i *inferred) freed(p place) int {
	if p.of == nil {
		i.before++
	} else {
		i.free = append(i.free, p)
	}
	return 1
}

// ended records the end of a job, and returns how many agents became available, as freed does. An
// unknown agent may stay: it counts until the counts show that it has disconnected.
func (i *inferred) ended(run *inferredRun, now time.Time) int {
	if run.of == nil || i.reusable {
		return i.freed(run.place)
	}
	run.of.worked.Add(run.index)
	i.left = append(i.left, now)
	return 0
}

// take returns the agent that took a job: one that is connected without a job, if the counts
// showed an idle one; otherwise the next agent in flight. left is the number of idle agents in the
// counts that are not yet assigned. Before the first counts, any agent may have been connected already.
func (i *inferred) take(o Overlay, rules []string, credit int, now time.Time) (p place, left int) {
	if i.counted.IsZero() {
		return place{}, credit
	}
	able := func(p place) bool { return Satisfies(p.of.tags(o), rules) }
	at := slices.IndexFunc(i.free, able)
	if credit > 0 && at >= 0 {
		return i.unfree(at), credit - 1
	}
	if credit > 0 && i.before > 0 {
		i.before--
		return place{}, credit - 1
	}
	if len(i.owed) > 0 {
		i.owed = i.owed[1:]
		return place{}, credit
	}
	if p, ok := i.arrived(o, rules, now); ok {
		return p, credit
	}
	switch {
	case at >= 0:
		return i.unfree(at), credit
	case i.before > 0:
		i.before--
	default:
		i.foreign = now
	}
	return place{}, credit
}

// unfree removes and returns an agent without a known job.
func (i *inferred) unfree(at int) place {
	p := i.free[at]
	i.free = slices.Delete(i.free, at, at+1)
	return p
}

// arrived returns the next agent in flight that can take jobs with the rules: one of the oldest
// dispatch, so that as many as possible of the remaining agents may still register.
func (i *inferred) arrived(o Overlay, rules []string, now time.Time) (place, bool) {
	for _, d := range i.waiting {
		if d.registered.Below(d.Agents) == d.Agents || !Satisfies(d.tags(o), rules) {
			continue
		}
		for index := range d.Agents {
			if !d.registered.Has(index) {
				d.registered.Add(index)
				return place{d, index, now}, true
			}
		}
	}
	return place{}, false
}

// count infers agents from the number of connected agents. Unexplained agents have registered;
// expected agents that are missing have disconnected.
func (i *inferred) count(o Overlay, q CountedQueue, s Snapshot, first bool) {
	recent := s.Counted.At.Add(-countsAge)
	sure := i.since(recent)
	busy := q.Agents - q.Idle
	excess := len(i.free) + i.before - max(0, q.Agents-sure)
	fewer := max(0, min(excess, i.before))
	i.before -= fewer
	for range excess - fewer {
		i.unfree(i.leaver())
	}
	// The counts may be older than the jobs: an agent with a job is counted as busy, or as idle if
	// the job has just begun; an agent that had a job as idle, or as busy if it has just ended.
	others := max(0, busy-len(i.runs)-len(after(i.left, recent))) + max(0, q.Idle-len(i.left)-(len(i.runs)-sure))
	extra := max(others, q.Agents-len(i.runs)-len(i.left)) - len(i.free) - i.before
	for range max(0, extra) {
		if first {
			i.before++
		} else if len(i.owed) > 0 {
			i.owed = i.owed[1:]
			i.before++
		} else if p, ok := i.arrived(o, nil, s.At); ok {
			i.free = append(i.free, p)
		} else {
			i.before++
			i.foreign = s.At
		}
	}
	i.idle = min(q.Idle, len(i.free)+i.before)
}

// since returns the number of running jobs that already ran at a time.
func (i *inferred) since(then time.Time) int {
	n := 0
	for _, r := range i.runs {
		if !r.first.After(then) {
			n++
		}
	}
	return n
}

// leaving returns how many agents may be connected in addition to the known ones: they have finished
// their job, or count as in flight. Counts may be older than the newest registration.
func (i *inferred) leaving(q CountedQueue) int {
	known := len(i.free) + i.before
	return max(q.Agents-len(i.runs)-known, min(len(i.left), q.Agents-i.since(i.counted.Add(-countsAge))-known))
}

// leaver returns the agent without a job that exits first: one ordered for a job exits sooner than
// one of the warm pool.
func (i *inferred) leaver() int {
	at := slices.IndexFunc(i.free, func(p place) bool { return p.of.Purpose == ForDemand })
	return max(0, at)
}

// foundForeign reports whether muster recently found agents in the queue that it did not order.
func (i *inferred) foundForeign(now time.Time) bool {
	return !i.foreign.IsZero() && now.Sub(i.foreign) < foreignPause
}

// tags returns the tags of its agents, except the index.
func (d *inferredDispatch) tags(o Overlay) []string {
	if d.Tags == nil {
		return append(o.AgentTags(), d.PodTags()...)
	}
	return d.PodTags()
}

// agents returns the agents of the queue as the overlay's own: the connected ones, and sightings of
// those that disconnected after a job. They have no dispatch while there are foreign agents.
func (i *inferred) agents(o Overlay, q CountedQueue, now time.Time) (agents []Agent, sightings []Sighting) {
	add := func(p place, state AgentState) {
		a := Agent{ID: fmt.Sprintf("%s-%d", o.Slug(), len(agents)+1), Cluster: q.Cluster, Tags: o.AgentTags(), State: state}
		if p.of != nil && !i.foundForeign(now) {
			a.Tags, a.Connected = append(p.of.tags(o), fmt.Sprintf("%s=%d", TagIndex, p.index)), p.since
		}
		if state == AgentIdle {
			a.IdleSince = a.Connected
		}
		agents = append(agents, a)
	}
	for _, id := range slices.Sorted(maps.Keys(i.runs)) {
		add(i.runs[id].place, AgentBusy)
	}
	for n := range len(i.free) + i.before {
		p, state := place{}, AgentIdle
		if n < len(i.free) {
			p = i.free[n]
		}
		if n >= i.idle {
			state = AgentBusy
		}
		add(p, state)
	}
	for range i.leaving(q) {
		add(place{}, AgentStopping)
	}
	if i.foundForeign(now) {
		return agents, nil
	}
	for _, id := range slices.Sorted(maps.Keys(i.dispatches)) {
		d := i.dispatches[id]
		for index := range d.Agents {
			if d.worked.Has(index) {
				name := fmt.Sprintf("%s-%d", d.ID, index)
				sightings = append(sightings, Sighting{Agent: name, Name: name, Tags: append(d.tags(o), fmt.Sprintf("%s=%d", TagIndex, index))})
			}
		}
	}
	return agents, sightings
}
