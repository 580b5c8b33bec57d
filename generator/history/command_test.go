package history

import (
	"testing"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// TestCommand recognizes commands of muster by the files that they change, and nothing else.
func TestCommand(t *testing.T) {
	const (
		dir   = "overlays/a/dispatches/"
		kinds = "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\n"
		open  = kinds + "breaker: {failures: 3, cause: never-registered}\n"
	)
	list := branch.Edit{Path: dir + "kustomization.yaml"}
	from := func(id string) branch.Edit { return branch.Edit{Path: dir + id + ".yaml", Removed: true} }
	to := func(id string) branch.Edit { return branch.Edit{Path: dir + "withdrawn/" + id + ".yaml", Added: true} }
	state := func(before, after string) branch.Edit {
		return branch.Edit{Path: dir + "state.yaml", Before: []byte(before), After: []byte(after), Removed: after == ""}
	}
	for name, test := range map[string]struct {
		files []branch.Edit
		op    ledger.Kind
		why   string
	}{
		"cancel":                 {[]branch.Edit{from("x"), list, to("x")}, ledger.Cancel, "cancels x"},
		"cancel five":            {[]branch.Edit{from("a"), from("b"), from("c"), from("d"), from("e"), to("a"), to("b"), to("c"), to("d"), to("e")}, ledger.Cancel, "cancels a, b, c, and 2 more"},
		"only removed":           {files: []branch.Edit{from("x"), list}},
		"another one added":      {files: []branch.Edit{from("x"), to("y")}},
		"with a new list":        {files: []branch.Edit{from("x"), to("x"), {Path: list.Path, Added: true}}},
		"with another file":      {files: []branch.Edit{from("x"), to("x"), {Path: dir + "README.md", Added: true}}},
		"with state":             {files: []branch.Edit{from("x"), to("x"), state(open, kinds)}},
		"close the breaker":      {[]branch.Edit{state(open+"servedAt: \"2026-11-21T02:15:00Z\"\n", kinds+"servedAt: \"2026-11-21T02:15:00Z\"\n")}, ledger.CloseBreaker, "closes the circuit breaker after 3 failed orders"},
		"close it, nothing left": {[]branch.Edit{state(open, "")}, ledger.CloseBreaker, "closes the circuit breaker after 3 failed orders"},
		"close it, forget more":  {files: []branch.Edit{state(open+"servedAt: \"2026-11-21T02:15:00Z\"\n", "")}},
		"fewer failed orders":    {files: []branch.Edit{state(open, kinds+"breaker: {failures: 1}\n")}},
		"no breaker before":      {files: []branch.Edit{state(kinds, "")}},
		"invalid state":          {files: []branch.Edit{state("a: b: c", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			if op, why := Command(test.files); op != test.op || why != test.why {
				t.Errorf("got %q, %q, want %q, %q", op, why, test.op, test.why)
			}
		})
	}
}
