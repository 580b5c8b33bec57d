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

// archive opens an archive that ends with the test.
func archive(t *testing.T, c git.Config) *git.Archive {
	t.Helper()
	a, err := open(t, c).Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// TestArchive reads and compares many commits, from every server, with and without
// their being fetched ahead.
func TestArchive(t *testing.T) {
	t.Parallel()
	contractOfPast(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 120)
		out, err := r.Git("rev-list", "--first-parent", "main")
		if err != nil {
			t.Fatal(err)
		}
		commits := strings.Fields(out) // the newest first, the last of which wrote file 120 % 50
		a := archive(t, c)
		if err := a.Ahead(t.Context(), commits[:60], []string{"f"}); err != nil {
			t.Fatal(err)
		}
		for back := range 66 { // the last ones are not announced
			tree, err := a.Tree(t.Context(), commits[back])
			if err != nil {
				t.Fatal(err)
			}
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
		if _, err := a.Tree(t.Context(), "main"); err == nil {
			t.Error("a commit of that name is read")
		}
		if _, err := a.Tree(t.Context(), strings.Repeat("1", 40)); err == nil {
			t.Error("a commit that is not there is read")
		}
	})
}

// TestArchiveDifferences compares what is not often seen: modes, a file that becomes a
// directory, names that are none, a name twice.
func TestArchiveDifferences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gitserver.Repository{Dir: dir}
	if _, err := r.Git("init", "--quiet", "--bare", "--initial-branch=main"); err != nil {
		t.Fatal(err)
	}
	hash := func(arguments ...string) string {
		out, err := r.Git(append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, arguments...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	object := func(kind, text string) string {
		file := filepath.Join(t.TempDir(), "object")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return hash("hash-object", "-w", "--literally", "-t", kind, file)
	}
	entry := func(mode, name, id string) string {
		var raw []byte
		if _, err := fmt.Sscanf(id, "%x", &raw); err != nil {
			t.Fatal(err)
		}
		return mode + " " + name + "\x00" + string(raw)
	}
	commit := func(tree string) string { return hash("commit-tree", "-m", "x", object("tree", tree)) }
	x := object("blob", "x\n")
	inside := object("tree", entry("100644", "x", x))
	before := commit(entry("100644", "a", x) + entry("100644", "b", x))
	blob := func(mode uint32) branch.Blob { return branch.Blob{ID: x, Mode: mode} }
	c := git.Config{URL: dir, Branch: "main", AuthorName: "A", AuthorEmail: "a@example.com"}
	hash("update-ref", "refs/heads/main", before)
	a := archive(t, c)
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

// TestArchiveMissing: missing objects of a clone are an error.
func TestArchiveMissing(t *testing.T) {
	t.Parallel()
	r := gitserver.Repository{Dir: t.TempDir()}
	if _, err := r.Git("init", "--quiet", "--bare", "--initial-branch=main"); err != nil {
		t.Fatal(err)
	}
	past(t, r, 5)
	clone := filepath.Join(t.TempDir(), "clone")
	if _, err := r.Git("clone", "--quiet", "--bare", "--depth=2", "file://"+r.Dir, clone); err != nil {
		t.Fatal(err)
	}
	a := archive(t, git.Config{URL: clone, Branch: "main", AuthorName: "A", AuthorEmail: "a@example.com"})
	out, err := r.Git("rev-list", "--first-parent", "main")
	if err != nil {
		t.Fatal(err)
	}
	commits := strings.Fields(out)
	if _, err := a.Differences(t.Context(), commits[1], commits[0], ""); err != nil {
		t.Error(err)
	}
	if _, err := a.Differences(t.Context(), commits[2], commits[1], ""); !errors.Is(err, branch.ErrMissing) {
		t.Errorf("got %v", err)
	}
}

// TestExplicitBareRepositories: a bare repository that is named is read where git is told
// to use none that it comes upon.
func TestExplicitBareRepositories(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(settings, []byte("[safe]\n\tbareRepository = explicit\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := gitserver.Init(t.TempDir() + "/fleet.git")
	if err != nil {
		t.Fatal(err)
	}
	past(t, r, 3)
	t.Setenv("GIT_CONFIG_GLOBAL", settings)
	c := git.Config{URL: r.Dir}
	commits := listed(t, open(t, c), "", branch.Limit{})
	if len(commits) == 0 {
		t.Fatal("no history")
	}
	newest, _, _ := strings.Cut(commits[0], "|")
	if _, err := archive(t, c).Tree(t.Context(), newest); err != nil {
		t.Error(err)
	}
}

// TestPartialCloneWithoutHints: a file that a partial clone lacks is not fetched, and the error
// has what git reports of it, without advice about what muster has set.
func TestPartialCloneWithoutHints(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	past(t, r, 2)
	if err := r.Configure("uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "partial.git")
	if _, err := r.Git("clone", "--quiet", "--bare", "--filter=blob:none", "file://"+r.Dir, dir); err != nil {
		t.Fatal(err)
	}
	a := archive(t, git.Config{URL: dir})
	head, err := r.Git("rev-parse", "main")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := a.Tree(t.Context(), strings.TrimSpace(head))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(tree, "f/2.txt"); err == nil || !strings.Contains(err.Error(), "promisor") || strings.Contains(err.Error(), "hint") {
		t.Errorf("a file that is not here: %v", err)
	}
}
