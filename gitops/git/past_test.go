package git_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// TestPast reads files and whole trees of earlier commits, before and after it reads the head, which
// stays as it is, and past trees.
func TestPast(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	contractOfPast(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 120)
		commits := firstParents(t, r) // the newest first; the last one wrote file 120 % 50
		b := open(t, c)
		for i := range 2 {
			for back, want := range map[int]string{0: "000120", 50: "000070", 100: "000020"} {
				if got, err := b.File(t.Context(), commits[back], "f/20.txt"); err != nil || string(got) != want {
					t.Errorf("%d commits back: %q, %v; want %q", back, got, err, want)
				}
				old, err := b.Past(t.Context(), commits[back], []string{"f", "nowhere"})
				if err != nil || old.Commit != commits[back] {
					t.Fatal(old.Commit, err)
				}
				if diff := cmp.Diff(filesAt(t, r, commits[back]), filesOf(t, old.Tree)); diff != "" {
					t.Errorf("%d commits back, reading %d (-git +got)\n%s", back, i, diff)
				}
			}
			head := headOf(t, b)
			if diff := cmp.Diff(filesAt(t, r, commits[0]), filesOf(t, head.Tree)); diff != "" {
				t.Errorf("the head (-git +got)\n%s", diff)
			}
		}
		for _, name := range []string{"f/21.txt", "f", "nowhere/x", "f/20.txt/x"} {
			if _, err := b.File(t.Context(), commits[100], name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, which does not exist: %v", name, err)
			}
		}
		for _, bad := range []string{"main", strings.Repeat("1", 40), ""} {
			if content, err := b.File(t.Context(), bad, "f/20.txt"); err == nil {
				t.Errorf("a file of %q: %q, want an error", bad, content)
			}
			if head, err := b.Past(t.Context(), bad, nil); err == nil {
				t.Errorf("%q: %v, want an error", bad, head)
			}
		}
		if _, err := b.File(t.Context(), commits[0], "../x"); err == nil {
			t.Error("a file outside: want an error")
		}
		if _, err := b.Past(t.Context(), commits[0], []string{"../x"}); err == nil {
			t.Error("a directory outside: want an error")
		}
		readPastTrees(t, pastTrees(t, c), commits)
	})
}

// firstParents are the commits of the branch without those of merged branches, the newest first.
func firstParents(t *testing.T, r gitserver.Repository) []string {
	t.Helper()
	return strings.Fields(gitIn(t, r, "rev-list", "--first-parent", "main"))
}

// filesAt are the files of a commit and the hashes of their content, as git has them.
func filesAt(t *testing.T, r gitserver.Repository, commit string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(gitIn(t, r, "ls-tree", "-r", commit)) {
		words := strings.Fields(line) // mode, kind, hash, name
		all[words[3]] = words[2]
	}
	return all
}

// filesOf reads all of a tree, whose entries have the identity and the size of the files.
func filesOf(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		must(t, err)
		info, err := d.Info()
		must(t, err)
		all[name] = git.BlobID(content)
		if id := d.(branch.Identified).Identity(); id != all[name] || info.Size() != int64(len(content)) {
			t.Errorf("%s is %s of %d bytes, its entry %s of %d", name, all[name], len(content), id, info.Size())
		}
		return nil
	}))
	return all
}
