package plan

import (
	"cmp"
	"slices"
	"time"
)

// Inference tells which agents came of each dispatch where nobody lists agents: from the
// jobs that were taken and from how many agents are connected. It goes by the safe side:
// what may be in flight still counts as in flight, until the end of its lease, and what
// is connected counts against max, whosever it is. That holds where the queue has no
// agents but muster's; see docs/design.md, "Agents that nobody lists".
//
// It saves what Buildkite does not tell twice. A restart loses it: all that is in git then
// counts as in flight until its lease is over. The zero value is ready.
type Inference struct {
	overlays map[string]*inferred
}

// inferred is what is known of one overlay's agents.
type inferred struct {
	looked     time.Time // the last look; zero: there was none
	counted    time.Time // when the counts were made that were used last
	dispatches map[string]*inferredDispatch
	runs       map[string]*inferredRun // jobs that agents of the queue have now, by job
	free       []place                 // agents that came and have no job that is known
	before     int                     // agents that are connected and of no dispatch that is known
	idle       int                     // of free and before, by the last counts
	left       []time.Time             // when agents had their job that may still be connected
	owed       []time.Time             // until when agents may be seen of dispatches that others retired
	waiting    []*inferredDispatch     // those of which agents may still come, the oldest first
	stays      bool                    // some agents take more than one job
	strangers  time.Time               // when one was last seen that muster did not order
}

// inferredDispatch is one dispatch, and which of its agents came.
type inferredDispatch struct {
	Dispatch
	came   Indexes
	worked Indexes // had a job, and left
	live   bool    // in git
}

// place is an agent: an index of a dispatch.
type place struct {
	of    *inferredDispatch
	index int
	since time.Time // when it was first known
}

// inferredRun is a job that an agent has.
type inferredRun struct {
	place           // of is nil where the agent is of no dispatch that is known
	first time.Time // the look that first showed it
}

const (
	// lingering is how long after its job an agent may still be counted as connected,
	// beyond [longestLinger] as long as counts may be old.
	lingering = longestLinger + countsAge
	// countsAge is how old counts may be that Buildkite gives; it is not documented.
	countsAge = 30 * time.Second
	// estranged is for how long nothing is inferred after a queue was seen to have agents
	// that muster did not order.
	estranged = 15 * time.Minute
)

// Infer returns the snapshot with the agents that follow from what was counted. It is
// called once for each look, with the overlays that are decided on. Of a queue that
// several of them serve nothing is inferred: see [Sharing].
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
		i.look(o, q, s)
		if i.estranged(s.At) {
			s.Unread = joinedBy(s.Unread, "; ", "queue "+q.Queue+" has agents that muster did not order, or that nobody knows of any more: without an API token "+
				"they cannot be told from its own, so that what was ordered counts as in flight until its lease is over")
		}
		agents, sightings := i.agents(o, q, s.At)
		s.Agents, s.Sightings = append(s.Agents, agents...), append(s.Sightings, sightings...)
	}
	for name := range f.overlays {
		if !there[name] {
			delete(f.overlays, name)
		}
	}
	return s
}

// Retired notes a dispatch of an overlay that another muster has ordered, or retired: its
// agents may be connected, and none of them were seen here. It is called before [Inference.Infer].
func (f *Inference) Retired(overlay string, d Dispatch) {
	if i := f.overlays[overlay]; i != nil && i.dispatches[d.ID] == nil {
		i.dispatches[d.ID] = &inferredDispatch{Dispatch: d}
	}
}

// Knows reports whether agents of an overlay are inferred.
func (f *Inference) Knows(overlay string) bool { return f.overlays[overlay] != nil }

// joinedBy is two texts, each of which may be empty.
func joinedBy(a, between, b string) string {
	if a != "" && b != "" {
		return a + between + b
	}
	return cmp.Or(a, b)
}

// Sharing says of the overlays that share a queue with another, by name, which that is: of
// whose agents one is cannot be told where nobody lists them.
func Sharing(overlays []Overlay) map[string]string {
	shared, byKey := map[string]string{}, map[string][]*Overlay{}
	for i := range overlays {
		o := &overlays[i]
		byKey[o.Policy.Queue] = append(byKey[o.Policy.Queue], o)
	}
	for i := range overlays {
		o := &overlays[i]
		for _, x := range byKey[o.Policy.Queue] {
			same := o.Policy.Cluster == x.Policy.Cluster || o.Policy.Cluster == "" || x.Policy.Cluster == ""
			if o.Name != x.Name && same {
				shared[o.Name] = x.Name
			}
		}
	}
	return shared
}

// countedFor is what was counted of an overlay's queue; false where that is not told, or
// several clusters have it.
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

// look brings what is known in line with a snapshot.
func (i *inferred) look(o Overlay, q CountedQueue, s Snapshot) {
	first := i.looked.IsZero()
	i.meet(o)
	i.left, i.owed = after(i.left, s.At.Add(-lingering)), after(i.owed, s.At)
	i.follow(o, q, s)
	i.parted(s.At)
	if !s.Counted.At.Equal(i.counted) {
		i.count(o, q, s, first)
	}
	i.looked, i.counted = s.At, s.Counted.At
}

// after are the times after another.
func after(times []time.Time, then time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return !t.After(then) })
}

// meet notes the dispatches in git. One that an edit has made larger counts as the larger.
func (i *inferred) meet(o Overlay) {
	for _, d := range i.dispatches {
		d.live = false
	}
	i.stays = o.Policy.Reuse.On()
	for _, d := range o.Dispatches {
		if known := i.dispatches[d.ID]; known == nil {
			i.dispatches[d.ID] = &inferredDispatch{Dispatch: d, live: true}
		} else {
			known.Agents, known.live = max(known.Agents, d.Agents), true
		}
	}
	i.waiting = nil
	for _, d := range i.dispatches {
		i.stays = i.stays || d.Uptime > 0
		if !o.strayed(d.Dispatch) && !d.Expired(i.looked) {
			i.waiting = append(i.waiting, d)
		}
	}
	slices.SortFunc(i.waiting, func(a, b *inferredDispatch) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
}

// parted forgets the dispatches that are not in git any more. Another muster may have
// retired one, having seen agents that were not seen here.
func (i *inferred) parted(now time.Time) {
	for id, d := range i.dispatches {
		if d.live {
			continue
		}
		if missing := d.Agents - d.came.Below(d.Agents); missing > 0 && !d.Expired(now) {
			for range missing {
				i.owed = append(i.owed, now.Add(lingering))
			}
		}
		delete(i.dispatches, id)
	}
}
