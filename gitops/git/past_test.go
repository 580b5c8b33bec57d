package git_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestPastFile reads files as they were at earlier commits, from every server, and
// leaves what is read of the head as it is.
func TestPastFile(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 120)
		b := open(t, c)
		tip, err := b.Tip(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Git("rev-list", "--first-parent", "main")
		if err != nil {
			t.Fatal(err)
		}
		commits := strings.Fields(out) // the newest first, the last of which wrote file 120 % 50
		for back, want := range map[int]string{0: "000120", 50: "000070", 100: "000020"} {
			got, err := b.File(t.Context(), commits[back], fmt.Sprintf("f/%d.txt", 20))
			if err != nil || string(got) != want {
				t.Errorf("%d commits back: %q, %v; want %q", back, got, err, want)
			}
		}
		for _, name := range []string{"f/21.txt", "f", "nowhere/x", "f/20.txt/x"} {
			if _, err := b.File(t.Context(), commits[100], name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, which is not there: %v", name, err)
			}
		}
		for _, bad := range [][2]string{{"main", "f/20.txt"}, {commits[0], "../x"}, {strings.Repeat("1", 40), "f/20.txt"}} {
			if content, err := b.File(t.Context(), bad[0], bad[1]); err == nil {
				t.Errorf("%s of %s: %q, want an error", bad[1], bad[0], content)
			}
		}
		if got, err := fs.ReadFile(tip.Tree, "f/20.txt"); err != nil || string(got) != "000120" {
			t.Errorf("of the head: %q, %v", got, err)
		}
	})
}
