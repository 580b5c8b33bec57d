package git_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// diffTree is what git says that each commit changed below directories, which end with a slash.
func diffTree(t *testing.T, r gitserver.Repository, below ...string) map[string][]string {
	t.Helper()
	log := gitIn(t, r, "log", "--format=commit %H", "--diff-merges=first-parent", "--name-status", "--no-renames")
	all, commit := map[string][]string{}, ""
	for line := range strings.Lines(log) {
		status, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if id, begins := strings.CutPrefix(status, "commit "); begins {
			commit = id
		}
		if slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			all[commit] = append(all[commit], status+" "+name)
		}
	}
	return all
}

// commitsOf reads the history of the branch.
func commitsOf(t *testing.T, b *git.Branch, limit branch.Limit) []branch.Commit {
	t.Helper()
	var all []branch.Commit
	for x, err := range b.Commits(t.Context(), "", limit) {
		must(t, err)
		all = append(all, x)
	}
	return all
}

func editLines(e branch.Edits) []string {
	var all []string
	for _, f := range e.Files {
		status := "M"
		if f.Added {
			status = "A"
		} else if f.Removed {
			status = "D"
		}
		all = append(all, status+" "+f.Path)
	}
	return all
}

// TestEdits: what commits have changed, also merges and the first one, is what git
// says, on every server, and their content is that of the file.
func TestEdits(t *testing.T) {
	t.Parallel()
	contractOfPast(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 40)
		seed(t, r, write("deploy/web/a", "1"), write("deploy/web/jobs/b", "1"), write("other/x", "1"))
		seed(t, r, write("deploy/web/a", "2"), remove("deploy/web/jobs/b"), write("deploy.txt", "no"))
		seed(t, r, remove("deploy/web/a"), write("deploy/web/a/b", "a directory now"), write("deploy/big", strings.Repeat("x", 1<<20)))
		b := open(t, c)
		look := branch.Selection{Below: []string{"deploy", "f"}, Content: func(path string) bool { return strings.HasSuffix(path, "/a") }}
		commits, trees, want := commitsOf(t, b, branch.Limit{}), map[string]string{}, diffTree(t, r, "deploy/", "f/")
		for _, x := range commits {
			trees[x.ID] = x.Tree
		}
		for what, known := range map[string]map[string]string{"with all trees": trees, "with none": nil} {
			some := commits
			if known == nil {
				some = commits[:2] // the parent of the second is not known
			}
			all, err := b.Edits(t.Context(), some, known, look)
			must(t, err)
			for i, e := range all {
				if diff := cmp.Diff(want[some[i].ID], editLines(e)); diff != "" || e.Unknown != nil || e.More {
					t.Errorf("%s: commit %d (-git +got): %v %t\n%s", what, i, e.Unknown, e.More, diff)
				}
			}
			if f := all[1].Files[0]; f.Path != "deploy/web/a" || string(f.Before) != "1" || string(f.After) != "2" {
				t.Errorf("%s: %+v", what, f)
			}
			if f := all[0].Files[0]; f.Path != "deploy/big" || f.After != nil {
				t.Errorf("%s: %s has content that nobody wants", what, f.Path)
			}
		}
	})
}

// TestEditsBounds: a commit of many files says that there are more, and one whose
// parent is not in a shallow clone says so.
func TestEditsBounds(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, write("deploy/first", "1"))
	var many []branch.Change
	for i := range 300 {
		many = append(many, write(fmt.Sprintf("deploy/%03d", i), "x"))
	}
	many = append(many, write(strings.Repeat("deploy/", 30)+"x", "deep"))
	seed(t, r, many...)
	seed(t, r, write("deploy/last", "1"))
	cut := gitserver.NewRepository(t)
	gitIn(t, cut, "fetch", "--quiet", "--depth=2", "file://"+r.Dir, "main:main")
	for what, dir := range map[string]string{"whole": r.Dir, "shallow": cut.Dir} {
		b := open(t, git.Config{URL: dir})
		want := gitLog(t, gitserver.Repository{Dir: dir}, "main")
		if got := listed(t, b, "", branch.Limit{}); len(got) != len(want) {
			t.Errorf("%s: %d commits, git has %d", what, len(got), len(want))
		}
		commits := commitsOf(t, b, branch.Limit{Commits: 2})
		all, err := b.Edits(t.Context(), commits, nil, branch.Selection{Below: []string{"deploy"}})
		must(t, err)
		if got := editLines(all[0]); len(got) != 1 || got[0] != "A deploy/last" {
			t.Errorf("%s: the last commit: %v %v", what, got, all[0].Unknown)
		}
		if what == "whole" && (len(all[1].Files) != 200 || !all[1].More) || what == "shallow" && (all[1].Unknown == nil || len(all[1].Files) > 0) {
			t.Errorf("%s: %d files, more: %t, unknown: %v", what, len(all[1].Files), all[1].More, all[1].Unknown)
		}
	}
}
