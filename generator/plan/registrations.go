package plan

import (
	"strconv"
	"time"
)

// Registrations remembers which agents of each dispatch Buildkite has ever listed. After a restart,
// Buildkite still lists most of them; the others count as in flight until their lease expires. It also
// remembers the gaps between jobs. The zero value is empty and ready to use.
type Registrations struct {
	traces map[string]*trace // by overlay
	known  map[string]*entry
	live   map[string]bool // dispatches in the overlays of the last Reconcile
	last   time.Time       // the last Reconcile; zero before the first
}

// entry is what is known of one dispatch.
type entry struct {
	indexes    IndexSet
	worked     IndexSet          // had a job
	used       IndexSet          // had a job, or is connected
	registered map[int]time.Time // when an index registered, if it is known
	first      time.Time         // when the first index was first known; zero if unknown
	unknown    bool              // the first one had registered before the first poll
	settled    time.Time         // when all indexes were first known
	absent     int               // how many times in a row Reconcile found it in no overlay
}

// registeredAt returns when an agent of a dispatch registered that a poll is the first to show. It
// is the time that Buildkite reports (when the agent connected; when its job started, if only a
// job is known), but not before the last poll, which did not show it, nor after this one. So a
// clock skew from Buildkite makes it wrong by at most the time between two polls. If Buildkite
// does not report a time (reported is zero), it is the time of this poll. Zero means unknown: there
// was no poll before.
func (r *Registrations) registeredAt(id string, reported, poll time.Time) time.Time {
	polled := r.live[id] // otherwise it may have registered long ago
	switch {
	case reported.IsZero() && !polled:
		return reported
	case reported.IsZero(), reported.After(poll):
		return poll
	case polled && reported.Before(r.last):
		return r.last
	}
	return reported
}

// noteRegistered records the earliest known time of the registration of an index.
func (e *entry) noteRegistered(index int, at time.Time) {
	before, known := e.registered[index]
	if index < 0 || index >= MaxIndex || at.IsZero() || known && !at.Before(before) {
		return
	}
	e.registered[index] = at
}

// StartupTimes returns the times from the order of a dispatch to the registrations of its agents.
func (r *Registrations) StartupTimes(d Dispatch) (times StartupTimes) {
	if e := r.known[d.ID]; e != nil {
		for index, at := range e.registered {
			if index < d.Agents {
				times.Add(at.Sub(d.At), 1)
			}
		}
	}
	return times
}

// slack extends the period for which finished builds are read: Buildkite may list a finished build
// with a delay, and its clock may be slow by some minutes.
const slack = 5 * time.Minute

// Lookback remembers which finished builds were read, so that each poll requests only those that
// finished since. The zero value requests all since the oldest dispatch with missing information.
type Lookback struct {
	last  time.Time       // time of the last complete poll
	known map[string]bool // dispatches that it covered
}

// Since returns the time from which finished builds must be read so that no agent of a dispatch is
// missed; zero if no information is missing.
func (l *Lookback) Since(now time.Time, overlays []Overlay, r *Registrations) time.Time {
	var oldest time.Time
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			if !r.Missing(d) || d.Stale(now) {
				continue
			}
			from := d.At.Add(-slack)
			if l.known[d.ID] {
				from = later(l.last.Add(-slack), from)
			}
			oldest = earlier(from, oldest)
		}
	}
	return oldest
}

// Observed records that everything up to now was read for these overlays.
func (l *Lookback) Observed(now time.Time, overlays []Overlay) {
	l.last = now
	l.known = map[string]bool{}
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			l.known[d.ID] = true
		}
	}
}

// Note adds all agents of the snapshot: connected ones, and those that are known by their jobs.
func (r *Registrations) Note(s Snapshot) {
	end := later(s.At, s.Until)
	if s.Inferred {
		end = time.Time{} // the time of their registration is unknown
	}
	for _, e := range r.known {
		e.used = e.worked.clone()
	}
	for _, a := range s.Agents {
		_, stays := uptimeOf(a.Tags)
		connected := a.Connected
		if s.Inferred {
			connected = time.Time{}
		}
		r.note(a.Tags, a.State == AgentBusy || stays && !a.LastJobFinished.IsZero(), connected, end)
	}
	for _, g := range s.Sightings {
		r.note(g.tags(), true, g.Started, end)
	}
}

func (r *Registrations) note(tags []string, worked bool, reported, poll time.Time) {
	id, ok := TagValue(tags, TagDispatch)
	if !ok {
		return
	}
	text, _ := TagValue(tags, TagIndex)
	index, err := strconv.Atoi(text)
	if err != nil {
		return
	}
	if r.known == nil {
		r.known = map[string]*entry{}
	}
	if r.known[id] == nil {
		r.known[id] = &entry{registered: map[int]time.Time{}}
	}
	e := r.known[id]
	e.noteRegistered(index, r.registeredAt(id, reported, poll))
	e.indexes.Add(index)
	e.used.Add(index)
	if worked {
		e.worked.Add(index)
	}
}

// Reconcile updates the registrations to the overlays of the head commit. It notes which
// dispatches have settled, and forgets those that are in no overlay and were in none the time
// before. (An agent may be seen before the commit that ordered it is.) A dispatch that has settled
// when it is first seen, as after a restart, counts as settled since it was ordered.
func (r *Registrations) Reconcile(overlays []Overlay, now time.Time) {
	live := map[string]bool{}
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			live[d.ID] = true
			e := r.known[d.ID]
			if e == nil {
				continue
			}
			if e.settled.IsZero() && e.indexes.Below(d.Agents) == d.Agents {
				e.settled = now.UTC().Truncate(time.Second)
				if !r.live[d.ID] {
					e.settled = d.At
				}
			}
			if e.first.IsZero() && !e.unknown && e.indexes.Below(d.Agents) > 0 {
				polled := r.live[d.ID] || !r.last.IsZero() && !d.At.Before(r.last)
				if e.unknown = !polled; polled {
					e.first = now.UTC().Truncate(time.Second)
				}
			}
		}
	}
	r.live, r.last = live, now
	for id, e := range r.known {
		switch {
		case live[id]:
			e.absent = 0
		case e.absent > 0:
			delete(r.known, id)
		default:
			e.absent++
		}
	}
}

// Observed returns what is known about a dispatch, except its connected agents.
func (r *Registrations) Observed(id string) Observed {
	e := r.known[id]
	if e == nil {
		return Observed{}
	}
	s := Observed{Registered: e.indexes.clone(), HadJob: e.worked.Below(MaxIndex)}
	s.ExitedUnused = s.Registered.Below(MaxIndex) - e.used.Below(MaxIndex)
	if !e.first.IsZero() {
		s.FirstAt = new(e.first)
	}
	if !e.settled.IsZero() {
		s.RegisteredAt = new(e.settled)
	}
	return s
}

// All reports whether every agent of a dispatch has been seen.
func (r *Registrations) All(d Dispatch) bool {
	e := r.known[d.ID]
	return e != nil && e.indexes.Below(d.Agents) == d.Agents
}

// Missing reports whether information about the dispatch is missing: an index has not been seen, or
// no agent is known to have had a job.
func (r *Registrations) Missing(d Dispatch) bool {
	e := r.known[d.ID]
	return e == nil || e.worked.IsZero() || e.indexes.Below(d.Agents) < d.Agents
}
