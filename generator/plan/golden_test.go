package plan_test

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/generator/ledger"
	"muster/generator/plan"
)

var golden = flag.Bool("golden", false, "run the tests of make golden, which compare output with testdata/golden")

// TestGoldenDecisions compares the steps and the commit messages of all cases' decisions with
// testdata/golden/decisions.txt. TestDecide compares the decisions themselves.
func TestGoldenDecisions(t *testing.T) {
	if !*golden {
		t.Skip("run make golden")
	}
	all := plan.CaseDecisions(t, 0)
	var got strings.Builder
	for _, file := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&got, "# %s\n\n", strings.TrimSuffix(filepath.Base(file), ".txtar"))
		for _, d := range all[file] {
			writeDecision(&got, d)
		}
	}
	const file = "../../testdata/golden/decisions.txt"
	if plan.UpdateCases() {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("decisions.txt (-want +got):\n%s", diff)
	}
}

// writeDecision writes the steps and the limits of a decision, and the messages of its commits.
func writeDecision(w io.Writer, d plan.Decision) {
	fmt.Fprintf(w, "%s: %s\n", d.Overlay, d.Why(true))
	for _, s := range d.Steps() {
		fmt.Fprintf(w, "  %s = %d: %s; bounds: %v; active: %v\n", s.Name, s.Value, s, s.Bounds, s.ActiveBounds())
	}
	for _, l := range d.Limits() {
		fmt.Fprintf(w, "  limit %s leaves out %d: %s\n", l.Name, l.Agents, l.Why)
	}
	fmt.Fprintln(w)
	for _, kind := range ledger.Kinds() {
		op := ledger.Draft{Kind: kind, Path: "overlays/" + d.Overlay, Decision: d}
		if len(op.Operation("v0").Orders) > 0 {
			fmt.Fprintln(w, ledger.Message(op, "v0"))
		}
	}
}
