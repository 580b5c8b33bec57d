package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestWritable: whether the server's rules let this user push is known without a push
// that changes anything, or that anybody is told of.
func TestWritable(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		seed(t, r, files()...)
		told := filepath.Join(t.TempDir(), "told")
		hook(t, r, "post-receive", "echo told >"+told+"\n")
		b := open(t, c)
		if err := b.Writable(t.Context()); !errors.Is(err, branch.ErrUnproven) {
			t.Errorf("a branch of one commit: %v", err)
		}
		tip := headOf(t, b)
		if _, err := b.Push(t.Context(), tip, one("x")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(told); err != nil {
			t.Fatal(err)
		}
		head, err := r.Head()
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string]*git.Branch{"one that has pushed": b, "one that reads": open(t, c)} {
			if err := b.Writable(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, script := range map[string]string{
			"pre-receive": "while read old new ref; do [ $ref != refs/heads/main ] || { echo 'main is protected' >&2; exit 1; }; done\n",
			"update":      "[ $1 != refs/heads/main ] || { echo 'main is protected' >&2; exit 1; }\n",
		} {
			hook(t, r, name, script)
			var refused *branch.Refused
			if err := b.Writable(t.Context()); !errors.As(err, &refused) || !strings.Contains(refused.Message, "main is protected") {
				t.Errorf("%s refuses: %v", name, err)
			}
			if err := os.Remove(filepath.Join(r.Dir, "hooks", name)); err != nil {
				t.Fatal(err)
			}
		}
		if now, err := r.Head(); err != nil || now != head {
			t.Errorf("the branch is at %s, %v; it was at %s", now, err, head)
		}
		if _, err := os.Stat(told); err == nil {
			t.Error("somebody was told of a push")
		}
	})
}
