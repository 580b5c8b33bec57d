package plan

import "time"

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
			if l.known[d.ID] && l.last.Add(-slack).After(from) {
				from = l.last.Add(-slack)
			}
			if oldest.IsZero() || from.Before(oldest) {
				oldest = from
			}
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
