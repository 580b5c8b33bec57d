package github_test

import (
	"errors"
	"strings"
	"testing"

	"muster/gitops/branch"
)

// TestChain: several commits at once, which go by the tree API, land all or none, as one
// does: after a lost answer, on a branch that was set back, and where GitHub refuses.
func TestChain(t *testing.T) {
	t.Parallel()
	r, _, s, w, first := opened(t)
	two := func(a, b string) []branch.Draft { return append(commit(a, []byte(a)), commit(b, []byte(b))...) }
	s.LoseNext(true, nil)
	tip, err := w.Push(t.Context(), first, two("a", "b"))
	if err != nil {
		t.Fatalf("the branch has moved, but: %v", err)
	}
	if head, _ := r.Head(); head != tip.Commit {
		t.Errorf("the branch is at %s, Push returned %s", head, tip.Commit)
	}
	if _, err := r.Git("update-ref", "refs/heads/main", first.Commit); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Push(t.Context(), tip, two("c", "d")); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("on a branch that was set back: %v, want ErrMoved", err)
	}
	if head, _ := r.Head(); head != first.Commit {
		t.Errorf("the branch is at %s, want %s", head, first.Commit)
	}
	s.Refuse("the branch is protected")
	_, err = w.Push(t.Context(), first, two("e", "f"))
	var refused *branch.Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "the branch is protected") {
		t.Errorf("Push: %v, want a Refused with GitHub's words", err)
	}
	if got, want := made(s), "6 commits, 6 trees, 3 updateRefs"; got != want {
		t.Errorf("it wrote %s, want %s", got, want)
	}
}
