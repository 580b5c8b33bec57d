package generator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/generator"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// historian is a bench whose repository can be read back in time.
type historian struct {
	*bench
	log []branch.Commit // without the head, which changed nothing
	err error           // of reading what came last
	// from and limit are what was asked for last, and asked how often.
	from  string
	limit branch.Limit
	asked int
}

func (h *historian) Commits(_ context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	h.from, h.limit, h.asked = from, limit, h.asked+1
	return func(yield func(branch.Commit, error) bool) {
		if h.err != nil && limit.Commits > 0 {
			yield(branch.Commit{}, h.err)
			return
		}
		log := slices.Insert(slices.Clone(h.log), 0, branch.Commit{ID: from, Message: repairMessage(h.bench, "b")})
		for i, c := range log {
			switch first := strings.Repeat("0", 40); {
			case i+1 < len(log):
				c.Parents = []string{log[i+1].ID}
			case from != first:
				c.Parents = []string{first}
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// repairMessage is that of a repair which was made now.
func repairMessage(b *bench, overlay string) string {
	op := ledger.Operation{Kind: ledger.Repair, Path: "overlays/" + overlay}
	op.Decision.Overlay, op.Decision.Observation.At = overlay, b.now
	return ledger.Message(op, "v0")
}

// TestRepairNamesItsCause: a repair says which file was at fault, and which
// commits of others came since muster's last to that overlay.
func TestRepairNamesItsCause(t *testing.T) {
	for _, test := range []struct {
		name string
		log  func(b *bench) []branch.Commit
		err  error
		want ledger.Operation
	}{
		{name: "an unreadable history", err: errors.New("no answer"), want: ledger.Operation{SuspectsUnknown: true}},
		{name: "commits of two people, and of muster to another overlay", log: func(b *bench) []branch.Commit {
			return []branch.Commit{
				{ID: "5", Author: "Jane", Message: "Clean up\n\nThere was a mess.\n"},
				{ID: "4", Author: "muster", Message: repairMessage(b, "b")},
				{ID: "3", Author: "John", Message: "\nUpdate the image"},
				{ID: "2", Author: "muster", Message: repairMessage(b, "a")},
				{ID: "1", Author: "Ann", Message: "Begin\n"},
			}
		}, want: ledger.Operation{Suspects: []ledger.Suspect{{Commit: "5", Author: "Jane", Subject: "Clean up"}, {Commit: "3", Author: "John", Subject: "Update the image"}}}},
		{name: "no commit of muster's", log: func(*bench) []branch.Commit {
			return []branch.Commit{{ID: "1", Author: "Ann", Message: "Begin\n"}}
		}, want: ledger.Operation{Suspects: []ledger.Suspect{{Commit: "1", Author: "Ann", Subject: "Begin"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench("a")
			h := &historian{bench: b, err: test.err}
			if test.log != nil {
				h.log = test.log(b)
			}
			g := b.generator(func(c *generator.Config) {
				c.Repository = h
			})
			tick(t, g)
			tick(t, g)
			began := h.asked // a process that begins reads the log once
			if began > 1 {
				t.Errorf("the log was read %d times, and there was nothing to repair", began)
			}
			b.fleet.edit("a person",
				branch.Change{Path: "overlays/a/dispatches/kustomization.yaml"},
				branch.Change{Path: "overlays/a/dispatches/kustomization.yml", Content: []byte("resources: []\n")},
				branch.Change{Path: "overlays/a/dispatches/state.yaml", Content: []byte("kind: Nonsense\n")})
			at := b.fleet.head().id
			ops := tick(t, g).Operations
			if len(ops) != 1 || ops[0].Kind != ledger.Repair {
				t.Fatalf("operations %q", kinds(ops))
			}
			test.want.Faults = []ledger.Fault{
				{File: "kustomization.yaml", Problem: "was missing or empty"},
				{File: "kustomization.yml", Problem: "was next to kustomization.yaml; kustomize reads only one of them"},
				{File: "state.yaml", Problem: `was not valid (its kind is "Nonsense" of "", not OverlayState of muster.dev/v1alpha1), so that the circuit breaker counts as closed`},
			}
			got := ledger.Operation{Faults: ops[0].Faults, Suspects: ops[0].Suspects, SuspectsUnknown: ops[0].SuspectsUnknown}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if asked := h.asked - began; h.from != at || asked != 2 || h.limit.Commits != 50 {
				t.Errorf("asked %d times from %s for %+v", asked, h.from, h.limit)
			}
		})
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
