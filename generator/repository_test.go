package generator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// TestLogRoundTrip: the entries in the log equal the committed operations.
func TestLogRoundTrip(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	first, err := f.Commit("Begin", at.Add(-time.Hour), branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	r, err := gitops.New(gitops.Config{URL: f.URL()})
	if err != nil {
		t.Fatal(err)
	}
	loaded := generator.Fleet{Writer: r, Version: "v1"}
	head, err := loaded.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	op := ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/default", Base: "c0ffee", Changes: []branch.Change{{Path: "overlays/default/dispatches/x.yaml", Content: []byte("x")}}}
	op.Decision = plan.Decision{Overlay: "default", Figures: plan.Figures{Dispatch: 3}, Dispatch: []plan.Dispatch{{ID: "x", Agents: 3}}, Observation: plan.Observation{At: at, Queue: "q"}}
	if head, err = loaded.Commit(t.Context(), head, []ledger.Draft{op}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for c, err := range ledger.Read("overlays", loaded.Commits(t.Context(), head.Commit, branch.Limit{})) {
		if err != nil {
			t.Fatal(err)
		}
		what := c.Commit.Author
		if e := c; e.ByMuster() {
			what = fmt.Sprint(e.Author, e.At.Equal(at), e.Path, e.Kind, e.Dispatches(), e.Agents(), e.Version)
		}
		got = append(got, c.Commit.ID+" "+what)
	}
	if want := []string{head.Commit + " mustertrueoverlays/defaultdispatch[x] 3v1", first + " Grace"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}
