package generator

import (
	"time"

	"muster/generator/plan"
)

// slack is how far back each reading of finished builds reaches beyond what it
// is for: a build's finish may be listed a little after the time it bears, and
// that time is by Buildkite's clock, which may be behind by some minutes.
const slack = 5 * time.Minute

// window remembers which finished builds were read already, so that each
// observation asks only for those that finished since. The zero value asks
// back to the oldest dispatch that is still of interest.
type window struct {
	last  time.Time       // time of the last good observation
	known map[string]bool // dispatches that it covered
}

// since returns the moment from which finished builds must be read so that no
// agent of any dispatch goes unseen; zero when none is missing.
func (w *window) since(now time.Time, overlays []plan.Overlay, r *plan.Registrations) time.Time {
	var oldest time.Time
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			if !r.Missing(d) || d.Stale(now) {
				continue
			}
			from := d.At.Add(-slack)
			if w.known[d.ID] && w.last.Add(-slack).After(from) {
				from = w.last.Add(-slack)
			}
			if oldest.IsZero() || from.Before(oldest) {
				oldest = from
			}
		}
	}
	return oldest
}

// observed notes that everything up to now was read for these overlays.
func (w *window) observed(now time.Time, overlays []plan.Overlay) {
	w.last = now
	w.known = map[string]bool{}
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			w.known[d.ID] = true
		}
	}
}
