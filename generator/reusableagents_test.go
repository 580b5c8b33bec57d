package generator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
)

// reuse is for how long agents stay for further jobs; zero is not at all.
type reuse struct{ idle, uptime time.Duration }

func drawReuseOf(r *rand.Rand) reuse {
	uptime := time.Duration(3+r.IntN(40)) * time.Minute
	return reuse{idle: time.Duration(10+r.Int64N(min(300, int64(uptime/time.Second)-10))) * time.Second, uptime: uptime}
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

// stayed is a world of one overlay whose agents take jobs until idle for two minutes,
// for twenty at most.
func stayed(t *testing.T, change func(p *policy)) *scenario {
	t.Helper()
	return attacked(t, func(_ *shape, p *policy) {
		p.reuse = reuse{idle: 2 * time.Minute, uptime: 20 * time.Minute}
		change(p)
	})
}

// serve plays until no job waits and none runs.
func (w *scenario) serve(t *testing.T) {
	t.Helper()
	w.play(w.since()+time.Hour, func() bool { return len(w.waiting()) == 0 })
	if waiting := w.waiting(); len(waiting) > 0 {
		t.Fatalf("after an hour there wait %v\n%s", waiting, w.story())
	}
}

// TestAgentsAreReused: ten agents serve ten jobs, and then ten more without another order. They
// exit after two minutes without a job, also if the policy has changed meanwhile.
func TestAgentsAreReused(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(p *policy){
		"as it was": func(*policy) {},
		"no longer": func(p *policy) { p.reuse = reuse{} },
		"shorter":   func(p *policy) { p.reuse = reuse{idle: 10 * time.Second, uptime: time.Minute} },
	} {
		w := stayed(t, func(*policy) {})
		o := w.overlays[0]
		w.build(10, time.Minute)
		w.serve(t)
		edit(&o.spec)
		w.edit("edits reuse", branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
		w.build(10, time.Minute)
		w.serve(t)
		if got := w.sizes(); !slices.Equal(got, []int{10}) || w.audit.worked[0] != 0 {
			t.Errorf("%s: ordered %v, want 10 once, all of them still there; %d have left\n%s", name, got, w.audit.worked[0], w.story())
		}
		w.play(w.since()+3*time.Minute, nil)
		if o.kube.Connected() != 0 || w.audit.worked[0] != 10 {
			t.Errorf("%s: three minutes later %d agents are there, and %d have left\n%s", name, o.kube.Connected(), w.audit.worked[0], w.story())
		}
	}
}

// TestUptimeIsOver: agents at max whose uptime ends during their jobs are replaced when
// they have left, and not before (the audit counts them), and each has had one job.
func TestUptimeIsOver(t *testing.T) {
	t.Parallel()
	w := stayed(t, func(p *policy) { p.max = 4 })
	w.build(8, 25*time.Minute)
	w.serve(t)
	if got := w.sizes(); got[0] != 4 || w.audit.total() != 8 {
		t.Errorf("ordered %v, want 4 and then 4 for eight long jobs\n%s", got, w.story())
	}
}

// TestTemplateEditedWhileAgentsStay: the warm pool is replaced once by agents of the new
// template, as far as max leaves room; the old ones stay for as long as they were told.
func TestTemplateEditedWhileAgentsStay(t *testing.T) {
	t.Parallel()
	for most, want := range map[int][]int{10: {3, 3}, 5: {3, 2, 1}} {
		w := stayed(t, func(p *policy) { p.min, p.max = 3, most })
		w.play(10*time.Minute, nil)
		w.editTemplate(7)
		w.play(18*time.Minute, nil)
		if got, there := w.sizes(), w.overlays[0].kube.Connected(); !slices.Equal(got, want[:2]) || there != want[0]+want[1] {
			t.Errorf("max %d: eight minutes after the edit %v are ordered and %d there, want %v\n%s", most, got, there, want[:2], w.story())
		}
		w.play(24*time.Minute, nil) // the first ones' uptime is over
		if got := w.sizes(); !slices.Equal(got, want) {
			t.Errorf("max %d: ordered %v, want %v\n%s", most, got, want, w.story())
		}
	}
}
