package report

import (
	"math"

	"muster/generator/history"
)

// gaps are the times between the samples of an overlay.
type gaps struct {
	last  history.Sample
	begun bool
	// registered is the number of agents that may have registered since the last sample, by the
	// samples with an earlier time.
	registered int
	all        []gap
}

// gap is the time between two samples, in hours. Share is the part that is in the period.
type gap struct {
	hours, share float64
	// before agents were connected at its beginning. Of them and the registered ones, survived were at its end.
	// The registered ones were connected for at most since hours.
	before, registered, survived, since float64
	// least is the lower bound of the agents that were connected throughout.
	least float64
}

// between adds the gap from the last sample to this one.
func (m *maker) between(g *gaps, s history.Sample) {
	g.registered += s.Registered + s.Unasked
	if g.begun && s.At.Before(g.last.At) {
		return // a clock that was set back
	}
	from, to := g.last.At, s.At
	if from.Before(m.From) {
		from = m.From
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
		hours := s.At.Sub(g.last.At).Hours()
		x := gap{
			hours: hours, share: to.Sub(from).Hours() / hours, since: hours / 2, before: float64(g.last.Connected),
			registered: float64(g.registered), least: float64(max(0, s.Connected-g.registered)),
		}
		known, since := 0.0, 0.0
		for _, r := range s.Registrations {
			middle := r.First.Add(r.Last.Sub(r.First) / 2)
			known += float64(r.Agents)
			since += float64(r.Agents) * min(max(0, s.At.Sub(middle).Hours()), hours)
		}
		if known > 0 {
			x.since = since / known
		}
		x.survived = min(float64(s.Connected), x.before+x.registered)
		g.all = append(g.all, x)
	}
	g.last, g.begun, g.registered = s, true, 0
}

// connected returns the agent-hours of the gaps. At least those connected agents that did not register in a gap
// were connected throughout. At most those at its beginning and those that registered were. The estimate
// assumes that agents exit at a constant rate, and finds the rate by expectation maximization.
func (g *gaps) connected() Range {
	var r Range
	exits, whole := 0.0, 0.0
	for _, x := range g.all {
		r.Min += x.share * x.hours * x.least
		r.Max += x.share * x.hours * (x.before + x.registered)
		exits += x.before + x.registered - x.survived
		whole += x.hours * (x.before + x.registered)
	}
	rate := 0.0
	if whole > 0 {
		rate = exits / whole
	}
	for range 50 {
		sum := 0.0
		r.About = 0
		for _, x := range g.all {
			hours := x.expected(rate)
			sum += hours
			r.About += x.share * hours
		}
		if sum > 0 {
			rate = exits / sum
		}
	}
	r.About = min(max(r.Min, r.About), r.Max)
	return r
}

// expected returns the expected agent-hours of a gap if agents exit at the given rate per hour.
func (x gap) expected(rate float64) float64 {
	old, young := x.before*math.Exp(-rate*x.hours), x.registered*math.Exp(-rate*x.since)
	if old+young == 0 {
		old, young = x.before, x.registered
	}
	if old+young == 0 {
		return 0
	}
	old = min(x.before, x.survived*old/(old+young))
	young = min(x.registered, x.survived-old)
	old = min(x.before, x.survived-young)
	return old*x.hours + (x.before-old)*exited(rate, x.hours) + young*x.since + (x.registered-young)*exited(rate, x.since)
}

// exited returns the expected time until the exit of an agent that exits within the given hours.
func exited(rate, hours float64) float64 {
	if rate*hours < 1e-6 {
		return hours / 2
	}
	return 1/rate - hours/math.Expm1(rate*hours)
}
