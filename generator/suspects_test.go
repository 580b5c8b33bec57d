package generator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/generator"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// lastLost is an archive whose last commits cannot be read.
type lastLost struct{ *archive }

func (l lastLost) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	if limit.Commits > 0 {
		return func(yield func(branch.Commit, error) bool) { yield(branch.Commit{}, errors.New("no answer")) }
	}
	return l.archive.Commits(ctx, from, limit)
}

// TestRepairNamesItsCause: a repair says which files were at fault, and which of the last 50 commits
// were others', since muster's last to that overlay.
func TestRepairNamesItsCause(t *testing.T) {
	a := &archive{bench: newBench("a", "b")}
	removeList := func(who, overlay string) {
		a.fleet.edit(who, branch.Change{Path: "overlays/" + overlay + "/dispatches/kustomization.yaml"})
	}
	g := a.generator()
	tick(t, g)
	removeList("Ann", "a")
	tick(t, g)
	a.fleet.edit("John", branch.Change{Path: "README.md", Content: []byte("x")})
	john := a.fleet.head().id
	removeList("Paul", "b")
	paul := a.fleet.head().id
	tick(t, g)
	const jane = "Clean up\n\nThere was a mess."
	a.fleet.edit(jane,
		branch.Change{Path: "overlays/a/dispatches/kustomization.yaml"},
		branch.Change{Path: "overlays/a/dispatches/kustomization.yml", Content: []byte("resources: []\n")},
		branch.Change{Path: "overlays/a/dispatches/state.yaml", Content: []byte("kind: Nonsense\n")})
	want := ledger.Draft{
		Suspects: []ledger.Suspect{
			{Commit: a.fleet.head().id, Author: jane, Subject: "Clean up"},
			{Commit: paul, Author: "Paul", Subject: "Paul"}, {Commit: john, Author: "John", Subject: "John"},
		},
		Faults: []ledger.Fault{
			{File: "kustomization.yaml", Problem: "was missing or empty"},
			{File: "kustomization.yml", Problem: "was next to kustomization.yaml; kustomize reads only one of them"},
			{File: "state.yaml", Problem: `was not valid (its kind is "Nonsense" of "", not OverlayState of muster.dev/v1alpha1), so that the circuit breaker counts as closed`},
		},
	}
	r := tick(t, g)
	if got := kinds(r.Operations); got != "a: repair" {
		t.Fatalf("operations %q", got)
	}
	op := r.Operations[0]
	got := ledger.Draft{Faults: op.Faults, Suspects: op.Suspects, SuspectsUnknown: op.SuspectsUnknown}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	removeList("Ann", "a")
	a.fleet.crowd(60)
	if r := tick(t, g); kinds(r.Operations) != "a: repair" || len(r.Operations[0].Suspects) != 50 {
		t.Errorf("behind many commits: %q, %+v", kinds(r.Operations), r.Operations)
	}
	removeList("Ann", "a")
	r = tick(t, a.bench.generator(func(c *generator.Config) { c.Repository = lastLost{a} }))
	if kinds(r.Operations) != "a: repair" || len(r.Operations[0].Suspects) > 0 || !r.Operations[0].SuspectsUnknown {
		t.Errorf("an unreadable history: %q, %+v", kinds(r.Operations), r.Operations)
	}
}

// TestFaultsOfTheList: the repair names what a person changed in the list.
func TestFaultsOfTheList(t *testing.T) {
	const header = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	b := newBench("a")
	b.jobs("a", 3)
	g := b.generator()
	id := tick(t, g).Operations[0].Decision.Dispatch[0].ID
	for _, test := range []struct{ list, want string }{
		{"", "was missing or empty"},
		{"a: [", "could not be read"},
		{"a: 1\n", "was not a list of the dispatches"},
		{header + "resources: [{a: 1}]\n", "was not a list of the dispatches"},
		{header + "resources: []\n", "did not list " + id + ".yaml"},
		{header + "resources: [" + id + ".yaml, other.yaml]\n", `listed "other.yaml", which is not a dispatch`},
		{header + fmt.Sprintf("resources: [%[1]s.yaml, %[1]s.yaml]\n", id), "listed dispatches in another order, or twice"},
	} {
		b.fleet.edit("a person", branch.Change{Path: "overlays/a/dispatches/kustomization.yaml", Content: []byte(test.list)})
		ops := tick(t, g).Operations
		if len(ops) == 0 || len(ops[0].Faults) != 1 || ops[0].Faults[0].File != "kustomization.yaml" || !strings.HasPrefix(ops[0].Faults[0].Problem, test.want) {
			t.Errorf("of %q: %+v, want %q", test.list, ops, test.want)
		}
	}
}
