package plan

import (
	"strconv"
	"time"
)

// registeredAt returns when an agent of a dispatch registered that a poll is the first to show. It
// is the time that Buildkite reports (when the agent connected; when its job started, if only a
// job is known), but not before the last poll, which did not show it, nor after this one. So a
// clock skew from Buildkite makes it wrong by at most the time between two polls. If Buildkite
// does not report a time, it is the time of this poll. Zero means unknown: there was no poll
// before.
func (r *Registrations) registeredAt(id string, told, look time.Time) time.Time {
	looked := r.live[id] // else it may have come long ago, and be forgotten
	switch {
	case told.IsZero() && !looked:
		return told
	case told.IsZero(), told.After(look):
		return look
	case looked && told.Before(r.last):
		return r.last
	}
	return told
}

// noteRegistered keeps when an index registered first.
func (e *entry) noteRegistered(index int, at time.Time) {
	before, known := e.registered[index]
	if index < 0 || index >= MaxIndex || at.IsZero() || known && !at.Before(before) {
		return
	}
	e.registered[index] = at
}

// StartupTimes are how long the agents of a dispatch took that have registered, from its order.
func (r *Registrations) StartupTimes(d Dispatch) (boots StartupTimes) {
	if e := r.known[d.ID]; e != nil {
		for index, at := range e.registered {
			if index < d.Agents {
				boots.Add(at.Sub(d.At), 1)
			}
		}
	}
	return boots
}

// slack is how far each reading of finished builds reaches back beyond what it
// is for: a build's finish may be listed a little after the time it bears, and
// that time is by Buildkite's clock, which may be behind by some minutes.
const slack = 5 * time.Minute

// Lookback remembers which finished builds were read already, so that each
// observation asks only for those that finished since. The zero value asks
// back to the oldest dispatch that is still of interest.
type Lookback struct {
	last  time.Time       // time of the last good observation
	known map[string]bool // dispatches that it covered
}

// Since returns the moment from which finished builds must be read so that no
// agent of any dispatch goes unseen; zero when none is missing.
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

// Observed notes that everything up to now was read for these overlays.
func (l *Lookback) Observed(now time.Time, overlays []Overlay) {
	l.last = now
	l.known = map[string]bool{}
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			l.known[d.ID] = true
		}
	}
}

// Registrations remembers what Buildkite has ever shown of each dispatch. It only
// saves time: what a restart loses is found again from Buildkite, or costs at
// most the rest of a lease. The zero value is empty and ready.
type Registrations struct {
	known map[string]*entry
	live  map[string]bool // dispatches in the overlays of the last Reconcile
	last  time.Time       // the last Reconcile; zero before the first
}

// entry is what is known of one dispatch.
type entry struct {
	indexes    Indexes
	worked     Indexes           // had a job
	registered map[int]time.Time // when an index registered, if it is known
	first      time.Time         // when the first index was first known; zero if unknown
	overdue    bool              // no poll had been made when the first one registered
	settled    time.Time         // when all indexes were first known
	absent     int               // how many times in a row Reconcile found it in no overlay
}

// Note adds every agent the snapshot shows: the connected ones, and those known
// from the jobs they ran.
func (r *Registrations) Note(s Snapshot) {
	end := later(s.At, s.Until)
	if s.Inferred {
		end = time.Time{} // nor is known when they came
	}
	for _, a := range s.Agents {
		_, stays := uptimeOf(a.Tags)
		told := a.Connected
		if s.Inferred {
			told = time.Time{}
		}
		r.note(a.Tags, a.State == AgentBusy || stays && !a.LastJobFinished.IsZero(), told, end)
	}
	for _, g := range s.Sightings {
		r.note(g.tags(), true, g.Started, end)
	}
}

func (r *Registrations) note(tags []string, worked bool, told, look time.Time) {
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
	e.noteRegistered(index, r.registeredAt(id, told, look))
	e.indexes.Add(index)
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
			if e.first.IsZero() && !e.overdue && e.indexes.Below(d.Agents) > 0 {
				looked := r.live[d.ID] || !r.last.IsZero() && !d.At.Before(r.last)
				if e.overdue = !looked; looked {
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

// Seen returns what is known of a dispatch, but for who is connected now.
func (r *Registrations) Seen(id string) Seen {
	e := r.known[id]
	if e == nil {
		return Seen{}
	}
	s := Seen{Registered: e.indexes.clone(), HadJob: e.worked.Below(MaxIndex)}
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

// Missing reports whether Buildkite may still tell something new about the
// dispatch: an index that was not seen, or whether any agent has worked.
func (r *Registrations) Missing(d Dispatch) bool {
	e := r.known[d.ID]
	return e == nil || e.worked.IsZero() || e.indexes.Below(d.Agents) < d.Agents
}
