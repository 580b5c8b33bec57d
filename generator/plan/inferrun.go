package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// follow goes by the jobs that were taken: each has an agent, and one that takes one job
// leaves after it.
func (i *inferred) follow(o Overlay, q CountedQueue, s Snapshot) {
	credit := i.idle
	if i.stays {
		credit = len(i.free) + i.before
	}
	told := map[string]bool{}
	var begun []Run
	for _, r := range s.Counted.Runs {
		known := i.runs[r.ID]
		told[r.ID] = true
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
		case told[id]:
		case slices.ContainsFunc(s.Jobs, func(j Job) bool { return j.ID == id }): // it was given back, and waits again
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

// freed is an agent that is connected and has no job, and returns how many agents it makes
// that can take one.
func (i *inferred) freed(p place) int {
	if p.of == nil {
		i.before++
	} else {
		i.free = append(i.free, p)
	}
	return 1
}

// ended is the end of a job, as freed. Of an agent of which nothing is known it is not
// known either whether it leaves: it counts until the counts show that it has.
func (i *inferred) ended(run *inferredRun, now time.Time) int {
	if run.of == nil || i.stays {
		return i.freed(run.place)
	}
	run.of.worked.Add(run.index)
	i.left = append(i.left, now)
	return 0
}

// take names the agent that has taken a job: one that is known to be there without one, as
// far as the counts showed idle ones; else the next that is in flight.
func (i *inferred) take(o Overlay, rules []string, credit int, now time.Time) (p place, left int) {
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
		i.strangers = now
	}
	return place{}, credit
}

// unfree takes an agent out of those without a job.
func (i *inferred) unfree(at int) place {
	p := i.free[at]
	i.free = slices.Delete(i.free, at, at+1)
	return p
}

// arrived is the next agent in flight that can take jobs with the rules: of the oldest
// dispatch, so that of what is left as much as can be may still come.
func (i *inferred) arrived(o Overlay, rules []string, now time.Time) (place, bool) {
	for _, d := range i.waiting {
		if d.came.Below(d.Agents) == d.Agents || !Satisfies(d.tags(o), rules) {
			continue
		}
		for index := range d.Agents {
			if !d.came.Has(index) {
				d.came.Add(index)
				return place{d, index, now}, true
			}
		}
	}
	return place{}, false
}

// count goes by how many agents are connected. What of them is explained by nothing has
// come; that which would explain more than there are has left.
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
	// Who runs a job was counted as busy, or as idle where it has just begun; who had one
	// as idle while it leaves, or as busy where that has just ended.
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
			i.strangers = s.At
		}
	}
	i.idle = min(q.Idle, len(i.free)+i.before)
}

// since is how many jobs run that ran at a moment already.
func (i *inferred) since(then time.Time) int {
	n := 0
	for _, r := range i.runs {
		if !r.first.After(then) {
			n++
		}
	}
	return n
}

// leaving is how many more agents may be connected than those that are known: they had their
// job and linger, or count as in flight. Counts may be older than the last that came.
func (i *inferred) leaving(q CountedQueue) int {
	known := len(i.free) + i.before
	return max(q.Agents-len(i.runs)-known, min(len(i.left), q.Agents-i.since(i.counted.Add(-countsAge))-known))
}

// leaver is which agent without a job is the first to leave: one for a job leaves sooner
// than one of the warm pool.
func (i *inferred) leaver() int {
	at := slices.IndexFunc(i.free, func(p place) bool { return p.of.Purpose == ForDemand })
	return max(0, at)
}

// estranged reports whether the queue has agents that muster did not order, as far as is
// known.
func (i *inferred) estranged(now time.Time) bool {
	return !i.strangers.IsZero() && now.Sub(i.strangers) < estranged
}

// tags are those of its agents but for the index.
func (d *inferredDispatch) tags(o Overlay) []string {
	if d.Tags == nil {
		return append(o.AgentTags(), d.PodTags()...)
	}
	return d.PodTags()
}

// agents are those of the queue, as the overlay's own: which are connected, and which had a
// job and left. While there are strangers none is of a dispatch.
func (i *inferred) agents(o Overlay, q CountedQueue, now time.Time) (agents []Agent, sightings []Sighting) {
	add := func(p place, state AgentState) {
		a := Agent{ID: fmt.Sprintf("%s-%d", o.Slug(), len(agents)+1), Cluster: q.Cluster, Tags: o.AgentTags(), State: state}
		if p.of != nil && !i.estranged(now) {
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
	if i.estranged(now) {
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
