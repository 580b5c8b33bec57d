package plan

import "time"

// cameAt is when an agent of a dispatch registered that a look is the first to show: as
// Buildkite tells (when it connected; of one that is known by a job only, when that
// started), but not before the last look, which did not show it, nor after this one. So a
// clock that is off Buildkite's puts it wrong by no more than the time between two looks.
// Where Buildkite does not tell, it is the time of this look. Zero is not known: nobody had
// looked before.
func (r *Registrations) cameAt(id string, told, look time.Time) time.Time {
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

// noteCame keeps when an index registered first.
func (e *entry) noteCame(index int, at time.Time) {
	before, known := e.came[index]
	if index < 0 || index >= MaxIndex || at.IsZero() || known && !at.Before(before) {
		return
	}
	if e.came == nil {
		e.came = map[int]time.Time{}
	}
	e.came[index] = at
}

// Boots are how long the agents of a dispatch took that have registered, from its order.
func (r *Registrations) Boots(d Dispatch) (boots Boots) {
	if e := r.known[d.ID]; e != nil {
		for index, at := range e.came {
			if index < d.Agents {
				boots.Add(at.Sub(d.At), 1)
			}
		}
	}
	return boots
}
