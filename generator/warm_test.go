package generator_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/forecast"
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// warm is what a policy's forecast is for; zero is that there is none.
type warm struct {
	wait      time.Duration
	share     float64
	idleHours int
}

func drawWarmOf(r *rand.Rand) warm {
	return warm{wait: time.Duration(1+r.IntN(60)) * time.Second, share: float64(1+r.IntN(99)) / 100, idleHours: 1 + r.IntN(200)}
}

// drawWarm gives overlays a forecast in a quarter of the worlds, from dice of its own: the
// others stay what they were.
func drawWarm(s *shape) {
	r := rand.New(rand.NewPCG(s.seed, 11))
	if r.IntN(4) > 0 {
		return
	}
	for _, o := range s.overlays {
		if said := drawWarmOf(r); r.IntN(4) > 0 {
			o.spec.warm = said
			if r.IntN(4) > 0 {
				o.learned = drawLearned(r)
			}
		}
	}
	if people := s.theme == "people" || s.theme == "everything"; people && r.IntN(2) == 0 {
		s.rates.warms = upTo(r, 4)
	}
}

// drawLearned is what was learned in the days before: jobs at any time, and a pulse each
// so many minutes, as [rates.jobs] has neither.
func drawLearned(r *rand.Rand) forecast.Profile {
	c := forecast.Count{From: worldStart().Truncate(24*time.Hour).AddDate(0, 0, -7)}
	often, every, size := 1+r.IntN(20), 5*(1+r.IntN(12)), r.IntN(12)
	for i := range 5 * 24 * 60 {
		n := 0
		if r.IntN(often) == 0 {
			n = 1 + r.IntN(3)
		}
		if i%every == 0 {
			n += size
		}
		c.Jobs = append(c.Jobs, n)
	}
	var p forecast.Profile
	return p.After(c, c.From.AddDate(0, 0, 5))
}

// stateText is dispatches/state.yaml of an overlay in the beginning; nil: there is none.
func (o *overlay) stateText() []byte {
	x := manifest.Overlay{Path: o.path()}
	for _, c := range x.WriteState(plan.State{Warm: o.learned}) {
		return c.Content
	}
	return nil
}

// beginWarm plans what people edit of it.
func (w *world) beginWarm() {
	r := rand.New(rand.NewPCG(w.seed, 12))
	w.work.each(w, r, w.rates.warms, func() func() { return func() { w.editWarm(r) } })
}

// editWarm is a person who wants another forecast, or none.
func (w *world) editWarm(r *rand.Rand) {
	o := w.overlays[r.IntN(len(w.overlays))]
	o.spec.warm = warm{}
	if said := drawWarmOf(r); r.IntN(3) > 0 {
		o.spec.warm = said
	}
	o.note(w.since())
	if o.broken == 0 { // else who restores it writes what it says then
		w.edit(fmt.Sprintf("policy of %s: %+v", o.name, o.spec), branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
	}
}

// foreseen is how many agents are kept for each overlay because of its forecast, by the
// decisions of a push and those that came to nothing: what one keeps, another one orders
// jobs' agents for. How many these should be, no book can say but the forecast's own: it is
// held to its bounds in package forecast, and made again from git in TestVerified.
func foreseen(pushed []*commit, overlays map[string]plan.Overlay) map[string]int {
	keep := map[string]int{}
	if !slices.ContainsFunc(slices.Collect(maps.Values(overlays)), func(o plan.Overlay) bool { return o.Policy.Warm.On() }) {
		return keep
	}
	all := slices.Collect(maps.Values(overlays))
	for _, c := range pushed {
		for _, d := range plan.Decide("", all, c.act.Decision.Observation) {
			if overlays[d.Overlay].Policy.Warm.On() { // a suspended one keeps what is on its way, too
				keep[d.Overlay] = max(keep[d.Overlay], d.Sum.Buffer)
			}
		}
	}
	return keep
}
