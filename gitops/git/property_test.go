package git_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// byGit applies changes to a commit with git's own index and returns the tree
// that git writes, or an error where git would have to guess.
func byGit(r gitserver.Repository, commit string, changes []branch.Change) (string, error) {
	index := filepath.Join(r.Dir, "property-index")
	defer os.Remove(index)
	run := func(input []byte, args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = r.Dir, bytes.NewReader(input)
		cmd.Env = append(cmd.Environ(), "GIT_INDEX_FILE="+index)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("git %v: %w: %s", args, err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	if _, err := run(nil, "read-tree", commit); err != nil {
		return "", err
	}
	listing, err := run(nil, "ls-files", "-s", "-z")
	if err != nil {
		return "", err
	}
	modes := map[string]string{}
	for line := range strings.SplitSeq(listing, "\x00") {
		if stage, name, ok := strings.Cut(line, "\t"); ok {
			modes[name] = stage[:6]
		}
	}
	var removed bytes.Buffer
	written := []string{"update-index", "--add"}
	for _, c := range changes {
		if c.Content == nil {
			fmt.Fprintf(&removed, "0 %040d\t%s\n", 0, c.Path)
		} else {
			written = append(written, "--cacheinfo", cmp.Or(modes[c.Path], "100644")+","+git.BlobID(c.Content)+","+c.Path)
		}
	}
	if _, err := run(removed.Bytes(), "update-index", "--index-info"); err != nil {
		return "", err
	}
	if _, err := run(nil, written...); err != nil {
		return "", err
	}
	return run(nil, "write-tree", "--missing-ok")
}

// TestPushBuildsWhatGitBuilds draws commits and compares every tree with the
// one that git makes of the same changes.
func TestPushBuildsWhatGitBuilds(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	r := gitserver.NewRepository(t)
	stream := "commit refs/heads/main\ncommitter a <a@example.com> 1700000000 +0000\ndata 1\nx\nM 100755 inline deploy/run\ndata 1\nx\nM 100644 inline deploy/ab\ndata 1\nx\n"
	fastImport(t, r, stream)
	repository := open(t, git.Config{URL: r.Dir})
	head := headOf(t, repository)
	// Few names, so that they meet: names that are prefixes of each other
	// and sort around the slash.
	dirs, files := []string{"a", "a-", "b", "ü"}, []string{"a.b", "a0", "ab", "run", "deploy"}
	path := rapid.Custom(func(t *rapid.T) string {
		last := files
		if rapid.IntRange(0, 15).Draw(t, "mixed") == 0 {
			last = dirs
		}
		parts := rapid.SliceOfN(rapid.SampledFrom(dirs), 0, 3).Draw(t, "parts")
		return strings.Join(append(parts, rapid.SampledFrom(last).Draw(t, "last")), "/")
	})
	var alike bytes.Buffer
	for i := range 40 {
		fmt.Fprintf(&alike, "line %d of a file that others are like\n", i)
	}
	change := rapid.Custom(func(t *rapid.T) branch.Change {
		c := branch.Change{Path: "deploy/" + path.Draw(t, "path")}
		if rapid.IntRange(0, 2).Draw(t, "kind") > 0 {
			c.Content = []byte(rapid.SampledFrom([]string{"", "x", "y\n", strings.Repeat("long\n", 100)}).Draw(t, "content"))
			if rapid.Bool().Draw(t, "alike") { // mostly what the file beside it has
				text := alike.Bytes()
				at := rapid.IntRange(0, len(text)-40).Draw(t, "at")
				c.Content = slices.Concat(text[:at], c.Content, text[at+rapid.IntRange(0, 40).Draw(t, "less"):])
			}
		}
		return c
	})
	commits, conflicts := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		changes := rapid.SliceOfNDistinct(change, 1, 6, func(c branch.Change) string { return c.Path }).Draw(t, "changes")
		want, wantErr := byGit(r, head.Commit, changes)
		next, err := repository.Push(t.Context(), head, []branch.Draft{{Message: "x", At: at, Changes: changes}})
		if (wantErr != nil) != (err != nil) {
			t.Fatalf("Push: %v, but git: %v", err, wantErr)
		}
		if err != nil { // a file where a directory is
			conflicts++
			return
		}
		got, err := r.Git("rev-parse", next.Commit+"^{tree}")
		if err != nil || strings.TrimSpace(got) != want {
			t.Fatalf("tree is %s, git builds %s (%v)", strings.TrimSpace(got), want, err)
		}
		if next.Commit != head.Commit {
			commits++
		}
		head = next
	})
	if commits < 10 || conflicts == 0 {
		t.Errorf("%d commits and %d conflicts were drawn: too few to tell anything", commits, conflicts)
	}
	fsck(t, r)
}
