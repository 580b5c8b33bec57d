package generator_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// drawAuto lets the lease of a third of the overlays go by boots, from dice of its own.
func drawAuto(s *shape) {
	r := rand.New(rand.NewPCG(s.seed, 12))
	for _, o := range s.overlays {
		o.spec.auto = r.IntN(3) == 0
	}
	if people := s.theme == "people" || s.theme == "everything"; people && r.IntN(3) == 0 {
		s.rates.autos = upTo(r, 4)
	}
}

// beginAuto plans what people edit of it.
func (w *scenario) beginAuto() {
	r := rand.New(rand.NewPCG(w.seed, 13))
	w.work.each(w, r, w.rates.autos, func() func() {
		return func() {
			o := w.overlays[r.IntN(len(w.overlays))]
			o.spec.auto = !o.spec.auto
			o.note(w.since())
			if o.broken == 0 { // else who restores it writes what it says then
				w.edit(fmt.Sprintf("policy of %s: %+v", o.name, o.spec), branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
			}
		}
	})
}

// leaseText is the lease as scaling.yaml says it.
func (p policy) leaseText() string {
	if p.auto {
		return "auto"
	}
	return p.lease.String()
}

// overdueAfter is from when on agents are overdue by what was learned: "from twice
// the 99th percentile after its order on, after a minute at the earliest and 15 minutes at the
// latest" (docs/reference/decision.md, "Overdue agents"). Zero: fewer than 20 start-up times are
// known.
func overdueAfter(startupTimes string) time.Duration {
	var took []int
	for _, part := range strings.Fields(startupTimes) {
		var seconds, agents int
		fmt.Sscanf(part, "%d:%d", &seconds, &agents)
		took = append(took, slices.Repeat([]int{seconds}, agents)...)
	}
	if len(took) < 20 {
		return 0
	}
	slices.Sort(took)
	return min(max(time.Minute, 2*time.Duration(took[(99*len(took)+99)/100-1])*time.Second), 15*time.Minute)
}

// notCountedOn returns the maximum number of overdue agents that do not count, by dispatch. It computes
// them from what a muster had seen, and from the states before and after its push. A decision has learned
// from retirements that wait, too.
func (a *audit) notCountedOn(m *muster, o plan.Overlay, after plan.State, pushed []*commit) map[string]int {
	learned := after.StartupTimes.String()
	observed := map[string]plan.Observed{} // by the decision of the overlay's queue
	for _, c := range pushed {
		maps.Copy(observed, c.operation.Decision.Observation.Capacity(o.Name).Dispatches)
	}
	for _, d := range o.Dispatches {
		if seen := observed[d.ID]; seen.Registered.Below(d.Agents) == d.Agents {
			learned += " " + seen.StartupTimes.String()
		}
	}
	late := time.Duration(0)
	for _, text := range []string{after.StartupTimes.String(), o.State.StartupTimes.String(), learned} {
		if x := overdueAfter(text); late == 0 || x > 0 && x < late {
			late = x
		}
	}
	all := map[string]int{}
	if !o.Policy.LeaseAuto || late == 0 {
		return all
	}
	dispatches := a.promised(o.Dispatches, a.w.byPath("overlays/"+o.Name))
	registered := func(at time.Time) (known, agents int) {
		for _, d := range dispatches {
			if d.At.Equal(at) {
				known, agents = known+min(d.Agents, len(m.known[d.ID])), agents+d.Agents
			}
		}
		return known, agents
	}
	for _, d := range dispatches {
		// "if a newer order was served": the audit has no times of registration. An order counts as
		// served if half of its agents have registered.
		served := d.At.Before(o.State.ServedAt) || d.At.Before(after.ServedAt) || slices.ContainsFunc(dispatches, func(x plan.Dispatch) bool {
			known, agents := registered(x.At)
			return x.At.After(d.At) && 2*known >= agents
		})
		if served && m.snapshot.At.Truncate(time.Second).Sub(d.At) >= late && !m.snapshot.At.After(d.NotAfter.Add(plan.Grace)) {
			all[d.ID] = d.Agents - min(d.Agents, len(m.known[d.ID]))
		}
	}
	return all
}

// giveUp enters the agents that are not counted on because they are late, and returns how
// many of them would be of use. What is ordered in their stead is one too many for each that
// comes after all.
func (a *audit) giveUp(m *muster, o plan.Overlay, after plan.State, pushed []*commit) (useful int) {
	of := ofUse(o)
	late := a.notCountedOn(m, o, after, pushed)
	for _, d := range a.promised(o.Dispatches, a.w.byPath("overlays/"+o.Name)) {
		n := late[d.ID]
		if n == 0 {
			continue
		}
		if of(d) {
			useful += n
		}
		if x := a.dispatches[d.ID]; x != nil && x.given < n {
			x.given = n
			for index := range x.registered {
				if !m.known[d.ID][index] {
					a.overdue++
				}
			}
		}
	}
	return useful
}

// TestOverdueAgents: muster replaces agents that do not register before their lease expires, also with
// two processes that are killed repeatedly, and every commit verifies.
func TestOverdueAgents(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	s := quietNight()
	s.seed, s.length, s.every = 5, 5*time.Hour, 30*time.Second
	s.musters, s.stagger = 2, 15*time.Second
	p := &s.overlays[0].spec
	p.min, p.buffer, p.auto = 0, 0, true
	s.work = work{builds: 30, job: 2 * time.Minute}
	s.rates.noShow, s.rates.kill = 0.1, 0.02
	w := playPlain(t, s)
	w.conclude()
	replaced := 0
	for _, c := range w.fleet.history() {
		if c.operation != nil && c.operation.Kind == ledger.Dispatch && c.operation.Decision.Figures.Overdue > 0 {
			replaced++
		}
	}
	if replaced < 3 {
		t.Errorf("%d orders because of overdue agents", replaced)
	}
	verifyAll(t, w.fleet)
}
