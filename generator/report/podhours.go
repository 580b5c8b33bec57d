package report

import (
	"slices"
	"time"

	"muster/generator/history"
)

// maxAhead is how far in the future the time of a poll may be, because clocks differ. Samples with a
// later time are ignored.
const maxAhead = time.Hour

// replay adds up the periods between the samples of each overlay, oldest first.
func (m *maker) replay() {
	var r history.Sampler
	between := map[string]*gap{}
	for _, e := range slices.Backward(m.operations) {
		r.Add(e, func(s history.Sample) {
			m.know(s.Overlay)
			if !m.wants(s.Overlay) || s.At.After(m.Now.Add(maxAhead)) {
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

// gap is the state between two samples of an overlay.
type gap struct {
	last  history.Sample
	begun bool
	// registered is the number of agents that may have registered since the last sample, by the
	// samples with an earlier time.
	registered int
}

// sample adds a sample of the period; the first follows the last sample before the period.
func (o *Overlay) sample(g *gap, s history.Sample) {
	if len(o.Samples) == 0 && g.begun {
		o.Samples = append(o.Samples, g.last)
	}
	o.Samples = append(o.Samples, s)
}

// between adds the period from the last sample to this one. At least those connected agents that did not
// register since were connected throughout. At most the agents of the last sample and those that
// registered since were.
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
				x.Min += float64(least) * end.Sub(from).Hours()
				x.Max += float64(most) * end.Sub(from).Hours()
			}
			from = end
		}
	}
	g.last, g.begun, g.registered = s, true, 0
}
