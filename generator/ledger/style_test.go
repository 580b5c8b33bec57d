package ledger_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// styledOperation is an order of two dispatches.
func styledOperation() ledger.Operation {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	d := plan.Decision{Overlay: "linux", Queue: "large", Sum: plan.Sum{Pending: 7, Missing: 7, Desired: 7, Max: 10, Room: 10, Dispatch: 7, Demand: 7},
		Dispatch:    []plan.Dispatch{{ID: "linux-a", Agents: 5}, {ID: "linux-b", Agents: 2}},
		Observation: plan.Observation{At: at, Queue: "large", Jobs: []plan.Demand{{Overlays: []string{"linux"}, Pending: 7}}, Overlays: []plan.Supply{{Overlay: "linux"}}}}
	return ledger.Operation{Kind: ledger.Dispatch, Path: "overlays/linux", Decision: d}
}

// TestStyle: people and marker are in the message, git finds all trailers, and Parse
// returns what was written.
func TestStyle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		style           ledger.Style
		trailers, never string
	}{
		{"people", ledger.Style{SignOff: "Ada <ada@example.com>", CoAuthors: []string{"Bob <bob@example.com>", "Eve <eve@example.com>"}, Skip: "skip-checks:true"}, "Signed-off-by: Ada <ada@example.com>\nCo-authored-by: Bob <bob@example.com>\nCo-authored-by: Eve <eve@example.com>\nCI: skip-checks:true\n", "[skip ci]"},
		{"no marker", ledger.Style{NoSkip: true}, "Muster: v1\n", "CI:"},
	} {
		if err := c.style.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		message := c.style.Message(styledOperation(), "v1")
		e, err := ledger.Parse(message)
		if err != nil {
			t.Errorf("%s: %v of\n%s", c.name, err, message)
			continue
		}
		if e.Subject != "linux: dispatch 7 agents" || !strings.HasPrefix(e.Prose, "7 jobs are pending. ") || e.Agents != 7 || len(e.Dispatches) != 2 || !cmp.Equal(e.Observation, styledOperation().Decision.Observation) {
			t.Errorf("%s is read as %q, %q, %d agents", c.name, e.Subject, e.Prose, e.Agents)
		}
		if e.Summary != "dispatch 7 agents" {
			t.Errorf("%s: what was done is read as %q", c.name, e.Summary)
		}
		if !strings.HasSuffix(message, c.trailers) || c.never != "" && strings.Contains(message, c.never) {
			t.Errorf("%s ends otherwise, or has %q:\n%s", c.name, c.never, message)
		}
		git := exec.Command("git", "interpret-trailers", "--parse", "--no-divider")
		git.Stdin = strings.NewReader(message)
		out, err := git.Output()
		if want := message[strings.LastIndex(message, "\n\n")+2:]; err != nil || string(out) != want {
			t.Errorf("%s: git finds the trailers\n%s%v, want\n%s", c.name, out, err, want)
		}
	}
}

// TestStyleMistakes: Check rejects people and markers that a trailer cannot contain.
func TestStyleMistakes(t *testing.T) {
	t.Parallel()
	for _, s := range []ledger.Style{{SignOff: "Ada"}, {CoAuthors: []string{"Ada <ada@x>\nOperation: retire"}}, {Skip: "a\nb"}, {Skip: " x"}, {Skip: "x", NoSkip: true}} {
		if s.Check() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
