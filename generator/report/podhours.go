package report

import (
	"slices"
	"time"

	"muster/generator/history"
)

// replay goes through the entries, the oldest first, and sums up what lies between
// the samples of each overlay.
func (m *maker) replay() {
	r := history.Replay{Overlays: m.Overlays}
	between := map[string]*gap{}
	for _, e := range slices.Backward(m.entries) {
		r.Add(e, func(s history.Sample) {
			m.know(s.Overlay)
			if !m.wants(s.Overlay) {
				return
			}
			g := between[s.Overlay]
			if g == nil {
				g = &gap{}
				between[s.Overlay] = g
			}
			if m.within(s.At) {
				o := m.overlay(s.Overlay)
				o.sample(g, s)
				if !s.Oldest.IsZero() {
					wait := s.At.Sub(s.Oldest)
					o.Wait, m.day(s.At).Wait = max(o.Wait, wait), max(m.day(s.At).Wait, wait)
				}
			}
			m.between(g, s)
		})
	}
}

// gap is what is known on the way from one sample of an overlay to the next.
type gap struct {
	last  history.Sample
	begun bool
	// registered is the number of agents that may have registered since the last sample, by the
	// samples with an earlier time.
	registered int
}

// sample adds one to what is drawn, behind the one before the time that is reported.
func (o *Overlay) sample(g *gap, s history.Sample) {
	if len(o.Samples) == 0 && g.begun {
		o.Samples = append(o.Samples, g.last)
	}
	o.Samples = append(o.Samples, s)
}

// between sums up the time from the last sample to this one. Of the agents that are
// connected now, those that did not come since were there all the while. And no more
// can have been there than those of the last sample and those that came.
func (m *maker) between(g *gap, s history.Sample) {
	g.registered += s.Registered + s.Unasked
	if g.begun && s.At.Before(g.last.At) {
		return // a clock that was set back
	}
	from, to := g.last.At, s.At
	if from.Before(m.report.From) {
		from = m.report.From
	}
	if !m.To.IsZero() && to.After(m.To) {
		to = m.To
	}
	if g.begun && from.Before(to) {
		o := m.overlay(s.Overlay)
		if o.Since.IsZero() {
			o.Since = from
		}
		o.Until = to
		least, most := max(0, s.Connected-g.registered), g.last.Connected+g.registered
		for from.Before(to) {
			end := from.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
			if end.After(to) {
				end = to
			}
			for _, x := range []*Range{&o.Connected, &m.day(from).Connected} {
				x.Min += time.Duration(least) * end.Sub(from)
				x.Max += time.Duration(most) * end.Sub(from)
			}
			from = end
		}
	}
	g.last, g.begun, g.registered = s, true, 0
}
