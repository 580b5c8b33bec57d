package generator_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"muster/generator/explanation"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// readback is a fleet repository as those read it who look back.
type readback struct {
	fleetRepository *fleetRepository
	commits         map[string]*commit
}

func newReadback(f *fleetRepository) readback {
	a := readback{f, map[string]*commit{}}
	for _, c := range f.history() {
		a.commits[c.id] = c
	}
	return a
}

// Commits implements explanation.Repository.
func (a readback) Commits(_ context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	if from == "" {
		from = a.fleetRepository.head().id
	}
	return a.fleetRepository.commits(from, limit)
}

// Past implements explanation.Repository.
func (a readback) Past(_ context.Context, id string, _ []string) (branch.Head, error) {
	if c := a.commits[id]; c != nil {
		return c.head(), nil
	}
	return branch.Head{}, errUnreachable
}

// Edits implements explanation.Repository.
func (a readback) Edits(_ context.Context, commits []branch.Commit, _ map[string]string, look branch.Selection) ([]branch.Edits, error) {
	return a.fleetRepository.edits(commits, look)
}

// explain asks about a world's history.
func (w *scenario) explain(t *testing.T, a readback, q explanation.Question) []explanation.Explanation {
	t.Helper()
	c := explanation.Config{Repository: a, Overlays: "overlays", Loader: fleet.NewLoader("overlays").InFleet(w.fleetTag), Now: w.server.Now()}
	all, err := c.Explain(t.Context(), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return all
}

// TestExplained: in simulated worlds, what is explained of each order is what was
// decided and what became of it in truth; of each moment, what was in git then.
func TestExplained(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for seed := *first; seed < *first+uint64(*replays); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := drawShape(seed)
			s.length = min(s.length, time.Hour)
			w := newScenario(s, func(string) {})
			w.play(s.length, nil)
			a := newReadback(w.fleet)
			random := rand.New(rand.NewPCG(seed, 5))
			orders, moments := 0, 0
			for _, c := range w.fleet.history() {
				if c.operation != nil && random.IntN(3) == 0 {
					orders++
					w.compareOrder(t, c, w.explain(t, a, explanation.Question{Name: c.id[:12]})[0])
				}
			}
			for range 20 {
				at := scenarioStart().Add(time.Minute + time.Duration(random.Int64N(int64(s.length))))
				for _, x := range w.explain(t, a, explanation.Question{At: at}) {
					w.compareMoment(t, x)
					moments++
				}
			}
			t.Logf("%s: %d orders and %d moments", s.theme, orders, moments)
			if moments < 20 || orders == 0 && w.audit.total() > 10 {
				t.Errorf("%d orders and %d moments: this shows little", orders, moments)
			}
		})
	}
}

// compareOrder holds the explanation of a commit of muster's to what was decided.
func (w *scenario) compareOrder(t *testing.T, c *commit, x explanation.Explanation) {
	t.Helper()
	d := c.operation.Decision
	if x.Commit == nil || x.Commit.Commit != c.id || x.Overlay != d.Overlay || len(x.Steps) > 0 == (len(x.Notes) > 0) && w.theme == "plain" {
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
			if index < o.first {
				came++
			}
		}
		lost += dispatch.Agents
		retired = retired && o.retired
	}
	if out := x.Commit.Outcome; retired && w.theme == "plain" && out.Registered != came {
		t.Errorf("%s: %d of %d came, and it says %d", c.id, came, lost, out.Registered)
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
	if got := x.Policy.Changes[0].Commit; got != last {
		t.Errorf("%s: its policy was last changed in %s, and it says %s", c.id, last, got)
	}
}

// compareMoment holds the explanation of a moment to what was in git.
func (w *scenario) compareMoment(t *testing.T, x explanation.Explanation) {
	t.Helper()
	var then *commit
	for _, c := range w.fleet.history() {
		if !c.at.After(x.At) {
			then = c
		}
	}
	if x.Commit != nil { // an act at that moment
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
	if len(x.Why) < 2 || inFlight > most {
		t.Errorf("%s at %s: %d in flight, and %d ordered: %v", x.Overlay, x.At, inFlight, most, x.Why)
	}
	paused := strings.HasPrefix(x.Why[0], "It was paused")
	if want := o.Policy.Paused && !o.Suspended.Active() && !o.Refused.Active(); paused != want {
		t.Errorf("%s at %s: paused is %t, and it says %q", x.Overlay, x.At, o.Policy.Paused, x.Why[0])
	}
	for _, s := range x.Steps {
		if s.Name == "room" && !o.Suspended.Active() {
			if p, _ := o.Policy.During(x.At); s.Terms[0] != (plan.Term{Name: "max", Value: p.Max}) {
				t.Errorf("%s at %s: %v, and max was %d", x.Overlay, x.At, s.Terms, p.Max)
			}
		}
	}
}
