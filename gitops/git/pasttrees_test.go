package git_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// pastTrees opens past trees that are closed at the end of the test.
func pastTrees(t *testing.T, c git.Config) *git.PastTrees {
	t.Helper()
	a, err := open(t, c).PastTrees(t.Context())
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

// readPastTrees reads and compares many commits, with and without their being fetched ahead.
func readPastTrees(t *testing.T, a *git.PastTrees, commits []string) {
	t.Helper()
	must(t, a.Ahead(t.Context(), commits[:60], []string{"f"}))
	for back := range 66 { // the last ones are not announced
		tree, err := a.Tree(t.Context(), commits[back])
		must(t, err)
		number := 120 - back
		name := fmt.Sprintf("f/%d.txt", number%50)
		got, err := fs.ReadFile(tree, name)
		if want := fmt.Sprintf("%06d", number); err != nil || string(got) != want {
			t.Fatalf("%d commits back: %q, %v; want %q", back, got, err, want)
		}
		if _, err := fs.ReadFile(tree, "nowhere/x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what is not there: %v", err)
		}
		all, err := a.Differences(t.Context(), commits[back+1], commits[back], "")
		if err != nil || len(all) != 1 || all[0].Path != name || all[0].After != (branch.Blob{ID: git.BlobID(got), Mode: branch.PlainFile}) {
			t.Fatalf("%d commits back: %+v, %v", back, all, err)
		}
		if all, err := a.Differences(t.Context(), commits[back+1], commits[back], "g"); err != nil || len(all) > 0 {
			t.Errorf("elsewhere: %+v, %v", all, err)
		}
	}
	for _, bad := range []string{"main", strings.Repeat("1", 40)} {
		if _, err := a.Tree(t.Context(), bad); err == nil {
			t.Errorf("a commit %s is read", bad)
		}
	}
}

// TestPastTreesDifferences compares what is not often seen: modes, a file that becomes a
// directory, names that are none, a name twice.
func TestPastTreesDifferences(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	hash := func(arguments ...string) string {
		return gitIn(t, r, append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, arguments...)...)
	}
	object := func(kind, text string) string {
		out, err := r.GitInput([]byte(text), "hash-object", "-w", "--literally", "-t", kind, "--stdin")
		must(t, err)
		return strings.TrimSpace(out)
	}
	entry := func(mode, name, id string) string {
		var raw []byte
		_, err := fmt.Sscanf(id, "%x", &raw)
		must(t, err)
		return mode + " " + name + "\x00" + string(raw)
	}
	commit := func(tree string) string { return hash("commit-tree", "-m", "x", object("tree", tree)) }
	x := object("blob", "x\n")
	inside := object("tree", entry("100644", "x", x))
	before := commit(entry("100644", "a", x) + entry("100644", "b", x))
	blob := func(mode uint32) branch.Blob { return branch.Blob{ID: x, Mode: mode} }
	hash("update-ref", "refs/heads/main", before)
	a := pastTrees(t, git.Config{URL: r.Dir})
	for name, test := range map[string]struct {
		after string
		want  []branch.Difference
	}{
		"the same":    {entry("100644", "a", x) + entry("100644", "b", x), nil},
		"a mode":      {entry("100755", "a", x) + entry("120000", "b", x), []branch.Difference{{Path: "a", Before: blob(0o100644), After: blob(0o100755)}, {Path: "b", Before: blob(0o100644), After: blob(0o120000)}}},
		"a directory": {entry("40000", "a", inside) + entry("100644", "b", x), []branch.Difference{{Path: "a", Before: blob(0o100644)}, {Path: "a/x", After: blob(0o100644)}}},
		"no name":     {entry("100644", "a", x) + entry("100644", "b", x) + entry("100644", "c/d", x), []branch.Difference{{Path: `"c/d"`, After: blob(0o100644)}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := a.Differences(t.Context(), before, commit(test.after), "")
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	twice := commit(entry("100644", "a", x) + entry("100644", "a", object("blob", "y\n")) + entry("100644", "b", x))
	if got, err := a.Differences(t.Context(), before, twice, ""); !errors.Is(err, branch.ErrMalformed) {
		t.Errorf("a name twice: %+v, %v", got, err)
	}
}

// TestPastTreesMissing: missing objects of a clone are an error.
func TestPastTreesMissing(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	past(t, r, 5)
	clone := filepath.Join(t.TempDir(), "clone")
	gitIn(t, r, "clone", "--quiet", "--bare", "--depth=2", "file://"+r.Dir, clone)
	a, commits := pastTrees(t, git.Config{URL: clone}), firstParents(t, r)
	_, err := a.Differences(t.Context(), commits[1], commits[0], "")
	must(t, err)
	if _, err := a.Differences(t.Context(), commits[2], commits[1], ""); !errors.Is(err, branch.ErrMissing) {
		t.Errorf("got %v", err)
	}
}

// TestExplicitBareRepositories: a bare repository that is named is read where git is told
// to use none that it comes upon.
func TestExplicitBareRepositories(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "gitconfig")
	must(t, os.WriteFile(settings, []byte("[safe]\n\tbareRepository = explicit\n"), 0o600))
	r := gitserver.NewRepository(t)
	past(t, r, 3)
	t.Setenv("GIT_CONFIG_GLOBAL", settings)
	c := git.Config{URL: r.Dir}
	newest, _, _ := strings.Cut(listed(t, open(t, c), "", branch.Limit{})[0], "|")
	_, err := pastTrees(t, c).Tree(t.Context(), newest)
	must(t, err)
}

// TestPartialCloneWithoutHints: a file that a partial clone lacks is not fetched, and the error
// has what git reports of it, without advice about what muster has set.
func TestPartialCloneWithoutHints(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	past(t, r, 2)
	dir := filepath.Join(t.TempDir(), "partial.git")
	gitIn(t, r, "clone", "--quiet", "--bare", "--filter=blob:none", "file://"+r.Dir, dir)
	tree, err := pastTrees(t, git.Config{URL: dir}).Tree(t.Context(), gitIn(t, r, "rev-parse", "main"))
	must(t, err)
	if _, err := fs.ReadFile(tree, "f/2.txt"); err == nil || !strings.Contains(err.Error(), "promisor") || strings.Contains(err.Error(), "hint") {
		t.Errorf("a file that is not here: %v", err)
	}
}
