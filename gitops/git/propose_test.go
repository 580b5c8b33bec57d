package git_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestPropose puts commits into a new branch, on every host, and leaves the branch
// that is read where it is.
func TestPropose(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 3)
		b := open(t, c)
		head := headOf(t, b)
		draft := []branch.Draft{{Message: "Raise max\n", At: time.Unix(1e9, 0), Changes: []branch.Change{{Path: "f/new.txt", Content: []byte("new")}}}}
		commit, _, err := b.Propose(t.Context(), head, draft, "muster/raise-max")
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Git("log", "-1", "--format=%H %P %s", "muster/raise-max")
		if want := commit + " " + head.Commit + " Raise max"; err != nil || strings.TrimSpace(out) != want {
			t.Errorf("the branch is at %q, %v; want %q", out, err, want)
		}
		if now, err := b.Head(t.Context()); err != nil || now.Commit != head.Commit {
			t.Errorf("the branch that is read is at %s, %v; want %s", now.Commit, err, head.Commit)
		}
		var refused *branch.Refused
		if _, _, err := b.Propose(t.Context(), head, draft, "muster/raise-max"); err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "the branch muster/raise-max is there already") {
			t.Errorf("a second time: %v", err)
		}
		if _, _, err := b.Propose(t.Context(), head, draft, "muster/..raise"); err == nil {
			t.Error("a name that git refuses is taken")
		}
		if _, err := b.Push(t.Context(), head, draft); err != nil {
			t.Errorf("a push after that: %v", err)
		}
		if _, _, err := b.Propose(t.Context(), head, draft, "muster/late"); !errors.Is(err, branch.ErrMoved) {
			t.Errorf("on a commit that is not the tip any more: %v", err)
		}
	})
}
