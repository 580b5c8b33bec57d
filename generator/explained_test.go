package generator_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"muster/generator/condition"
	"muster/generator/explanation"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

// explain asks about a world's history.
func (w *scenario) explain(t *testing.T, q explanation.Question) []explanation.Explanation {
	t.Helper()
	c := explanation.Config{Repository: remote{fleet: w.fleet}, Overlays: "overlays", Loader: fleet.NewLoader("overlays"), Now: w.server.Now()}
	all, err := c.Explain(t.Context(), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return all
}

// TestExplained: in simulations, the explanation of each order equals its decision and true outcome, and
// that of each moment what was in git then.
func TestExplained(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	eachReplay(t, func(t *testing.T, w *scenario) {
		random := rand.New(rand.NewPCG(w.seed, 5))
		orders, moments := 0, 0
		for _, c := range w.fleet.history() {
			if c.operation != nil && random.IntN(3) == 0 {
				orders++
				w.compareOrder(t, c, w.explain(t, explanation.Question{Name: c.id[:12]})[0])
			}
		}
		for range 20 {
			at := scenarioStart().Add(time.Minute + time.Duration(random.Int64N(int64(w.length))))
			for _, x := range w.explain(t, explanation.Question{At: at}) {
				w.compareMoment(t, x)
				moments++
			}
		}
		t.Logf("%s: %d orders and %d moments", w.theme, orders, moments)
		if moments < 20 || orders == 0 && w.audit.total() > 10 {
			t.Errorf("%d orders and %d moments: this shows little", orders, moments)
		}
	})
}

// compareOrder compares the explanation of a commit by muster with its decision.
func (w *scenario) compareOrder(t *testing.T, c *commit, x explanation.Explanation) {
	t.Helper()
	d := c.operation.Decision
	if x.Commit == nil || x.Commit.ID != c.id || x.Overlay != d.Overlay || len(x.Steps) > 0 == (len(x.Notes) > 0) && w.theme == "plain" {
		t.Errorf("%s: %+v", c.id, x)
		return
	}
	for i, s := range d.Steps() {
		if len(x.Notes) == 0 && x.Steps[i].Value != s.Value {
			t.Errorf("%s %s of %s at %s: %s is %d, and was %d", c.operation.Kind, c.id, d.Overlay, d.At(), s.Name, x.Steps[i].Value, s.Value)
		}
	}
	if c.operation.Kind != ledger.Dispatch {
		return
	}
	came, lost, retired := 0, 0, true
	for _, dispatch := range d.Dispatch {
		o := w.audit.dispatches[dispatch.ID]
		for index := range o.registered {
			if index < o.Agents {
				came++
			}
		}
		lost += dispatch.Agents
		retired = retired && o.retired
	}
	if out := x.Commit.Outcome; retired && w.theme == "plain" && out.Registered != came {
		t.Errorf("%s: %d of %d registered, and it says %d", c.id, came, lost, out.Registered)
	}
	if x.Policy == nil || len(x.Policy.Changes) == 0 {
		t.Errorf("%s: nobody wrote its policy: %+v", c.id, x.Policy)
		return
	}
	last := ""
	for at := c.parent; at != nil; at = at.parent {
		file := "overlays/" + d.Overlay + "/scaling.yaml"
		if at.operation == nil && (at.parent == nil || !bytes.Equal(at.tree.files[file], at.parent.tree.files[file])) {
			last = at.id
			break
		}
	}
	if got := x.Policy.Changes[0].ID; got != last {
		t.Errorf("%s: its policy was last changed in %s, and it says %s", c.id, last, got)
	}
}

// compareMoment compares the explanation of a moment with git.
func (w *scenario) compareMoment(t *testing.T, x explanation.Explanation) {
	t.Helper()
	var then *commit
	for _, c := range w.fleet.history() {
		if !c.at.After(x.At) {
			then = c
		}
	}
	if x.Commit != nil { // an operation at that moment
		return
	}
	if x.DecidedOn != then.id {
		t.Errorf("%s at %s: it goes by %s, and the newest was %s", x.Overlay, x.At, x.DecidedOn, then.id)
	}
	o := w.audit.load(then.tree)[x.Overlay]
	most := 0
	for _, d := range o.Dispatches {
		if !d.Expired(x.At) {
			most += d.Agents
		}
	}
	inFlight := 0
	for _, d := range x.InFlight {
		inFlight += d.Agents
	}
	if len(x.Conditions)+len(x.Why) < 2 || inFlight > most {
		t.Errorf("%s at %s: %d in flight, and %d ordered: %v", x.Overlay, x.At, inFlight, most, x.Why)
	}
	paused := slices.ContainsFunc(x.Conditions, func(c condition.Condition) bool { return c.Reason == string(plan.Paused) })
	if want := o.Policy.Paused && !o.Suspended.Active() && !o.Refused.Active(); paused != want {
		t.Errorf("%s at %s: paused is %t, and it says %v", x.Overlay, x.At, o.Policy.Paused, x.Conditions)
	}
	for _, s := range x.Steps {
		if s.Name == "room" && !o.Suspended.Active() {
			if p, _ := o.Policy.During(x.At); s.Terms[0] != (plan.Term{Name: "max", Value: p.Max}) {
				t.Errorf("%s at %s: %v, and max was %d", x.Overlay, x.At, s.Terms, p.Max)
			}
		}
	}
}
