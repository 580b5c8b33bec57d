package generator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"testing"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/verification"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// recurred recomputes every decision of a simulation from its commits, and calls each with the true
// decision.
func (w *scenario) again(t *testing.T, each func(c *commit, r verification.Result)) {
	t.Helper()
	log := w.fleet.history()
	commits := map[string]*commit{}
	for _, c := range log {
		commits[c.id] = c
	}
	config := verification.Replayer{Overlays: "overlays", Loader: fleet.NewLoader("overlays").InFleet(w.fleetTag), Tree: func(_ context.Context, id string, _ []string) (fs.FS, error) {
		return commits[id].tree, nil
	}}
	end := func(p verification.Push) {
		for i, r := range p.Records {
			result, err := config.Decide(t.Context(), p, i)
			if err != nil {
				t.Fatal(err)
			}
			each(commits[r.Commit.ID], result)
		}
	}
	var p verification.Push
	for r, err := range ledger.Read(w.fleet.commits(log[len(log)-1].id, branch.Limit{})) {
		if err != nil {
			t.Fatal(err)
		}
		if !p.Add(r) {
			end(p)
			p = verification.Push{}
			p.Add(r)
		}
	}
	end(p)
}

// sameDecision reports whether two decisions order and retire the same by the same
// arithmetic, and remember the same.
func sameDecision(t *testing.T, a, b plan.Decision) bool {
	t.Helper()
	text := func(d plan.Decision) []byte {
		d.Observation = plan.Observation{}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return bytes.Equal(text(a), text(b))
}

// TestRecomputedDecisions: decisions of simulations without faults are recomputed from the commits,
// figure by figure; with faults, all but a few, and orders that do not follow are reported.
func TestRecomputedDecisions(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	eachReplay(t, func(t *testing.T, w *scenario) {
		same, other := 0, 0
		w.again(t, func(c *commit, r verification.Result) {
			switch {
			case sameDecision(t, r.Decision, c.operation.Decision) && len(r.Differences) == 0 && !r.Doubtful:
				same++
			case w.theme == "plain":
				t.Errorf("%s %s %s: %v", c.at, c.operation.Decision.Overlay, c.operation.Kind, r.Differences)
			default:
				other++
				if len(r.Differences) == 0 && !r.Doubtful && c.operation.Kind == ledger.Dispatch {
					t.Errorf("%s %s: %+v, again %+v, and nothing is said", c.at, c.operation.Decision.Overlay, c.operation.Decision.Sum, r.Decision.Sum)
				}
			}
		})
		t.Logf("%s: %d of %d commits are decided again", w.theme, same, same+other)
		if other > same/10 {
			t.Errorf("%d of %d commits are not decided again", other, same+other)
		}
	})
}
