package generator_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"muster/gitops/branch"
)

// reuse is for how long agents stay for further jobs; zero is not at all.
type reuse struct {
	idle, uptime time.Duration
	auto         bool // muster chooses the idle time
}

// text is the value of the field of a policy.
func (r reuse) text() string {
	idle := r.idle.String()
	if r.auto {
		idle = "auto"
	}
	return fmt.Sprintf("{idle: %s, uptime: %s}", idle, r.uptime)
}

func drawReuseOf(r *rand.Rand) reuse {
	uptime := time.Duration(3+r.IntN(40)) * time.Minute
	idle := 10 + r.Int64N(min(300, int64(uptime/time.Second)-10))
	return reuse{idle: time.Duration(idle) * time.Second, uptime: uptime, auto: idle%3 == 0} // without a further draw
}

// drawReuse lets agents stay in a third of the worlds, from dice of its own: the others
// stay what they were, and the rest of these worlds too.
func drawReuse(s *shape) {
	r := rand.New(rand.NewPCG(s.seed, 7))
	if r.IntN(3) > 0 {
		return
	}
	for _, o := range s.overlays {
		if said := drawReuseOf(r); r.IntN(4) > 0 {
			o.spec.reuse = said
		}
	}
	if people := s.theme == "people" || s.theme == "everything"; people && r.IntN(2) == 0 {
		s.rates.reuses, s.rates.templates = upTo(r, 6), upTo(r, 3)
	}
}

// beginReuse plans what people edit of it.
func (w *scenario) beginReuse() {
	r := rand.New(rand.NewPCG(w.seed, 8))
	w.work.each(w, r, w.rates.reuses, func() func() { return func() { w.editReuse(r) } })
	w.work.each(w, r, w.rates.templates, func() func() { return func() { w.editTemplate(r.IntN(1000)) } })
}

// editReuse is a person who lets agents stay, for another time, or no longer.
func (w *scenario) editReuse(r *rand.Rand) {
	o := w.overlays[r.IntN(len(w.overlays))]
	o.spec.reuse = reuse{}
	if said := drawReuseOf(r); r.IntN(3) > 0 {
		o.spec.reuse = said
	}
	o.note(w.since())
	if o.broken == 0 { // else who restores it writes what it says then
		w.edit(fmt.Sprintf("policy of %s: %+v", o.name, o.spec), branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
	}
}

// editTemplate is a person who changes the base of all overlays: agents that stay are
// replaced where they are kept for min and buffer.
func (w *scenario) editTemplate(tag int) {
	for _, o := range w.overlays {
		o.note(w.since())
	}
	text := strings.Replace(agentJob, "buildkite/agent:3", fmt.Sprintf("buildkite/agent:3.%d", tag), 1)
	w.edit("edits the base", branch.Change{Path: "base/job.yaml", Content: []byte(text)})
}

// coming counts the agents of an overlay that are in flight.
func (a *audit) coming(o *overlay) (n int) {
	for _, x := range a.orders {
		if x.overlay == o && !x.retired && !x.exited && !a.w.server.Now().After(x.NotAfter) {
			n += x.Agents - len(x.registered)
		}
	}
	return n
}
