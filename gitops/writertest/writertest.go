// Package writertest tests the contract of [branch.Writer].
package writertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// Harness is a kind of writer.
type Harness struct {
	// New makes an empty repository; nil makes one of git's own on disk.
	New func(t *testing.T) gitserver.Repository
	// Open returns a new writer on the branch main of a repository.
	Open func(t *testing.T, r gitserver.Repository) branch.Writer
	// Refuse makes the server refuse every further push to the repository, with this message.
	Refuse func(t *testing.T, r gitserver.Repository, words string)
	// Lose makes the server close the connection instead of responding to the next push, which it
	// processes only if made is true. then is called before that. Away makes every further request
	// fail, or none. If they are nil, the tests of lost responses are skipped.
	Lose func(r gitserver.Repository, made bool, then func())
	Away func(r gitserver.Repository, away bool)
	// Few lets three writers compete with two commits each, instead of four with three. It is for
	// hosts that decide conflicts themselves.
	Few bool
}

var at = time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)

const dir = "overlays/default/dispatches/"

func write(path, content string) branch.Change {
	return branch.Change{Path: path, Content: []byte(content)}
}

func commit(message string, changes ...branch.Change) branch.Draft {
	return branch.Draft{Message: message + "\n", At: at, Changes: changes}
}

// Run runs the contract's tests.
func Run(t *testing.T, h Harness) {
	for name, test := range map[string]func(*testing.T, Harness, gitserver.Repository){
		"chain":    chain,
		"nothing":  nothing,
		"modes":    modes,
		"conflict": conflict,
		"writers":  writers,
		"refusal":  refusal,
		"lost":     lost,
		"several":  several,
		"branches": branches,
		"many":     many,
		"paths":    paths,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := h.repository(t)
			seed(t, r, write("base/job.yaml", "job\n"), write("overlays/default/scaling.yaml", "policy\n"), write(dir+"kustomization.yaml", "resources: []\n"))
			test(t, h, r)
			if out, err := r.Git("fsck", "--strict", "--full"); err != nil {
				t.Errorf("fsck: %v\n%s", err, out)
			}
		})
	}
}

func (h Harness) repository(t *testing.T) gitserver.Repository {
	if h.New != nil {
		return h.New(t)
	}
	return gitserver.NewRepository(t)
}

func seed(t *testing.T, r gitserver.Repository, changes ...branch.Change) {
	t.Helper()
	if _, err := r.Commit("seed", at.Add(-time.Hour), changes...); err != nil {
		t.Fatal(err)
	}
}

func headOf(t *testing.T, w branch.Writer) branch.Head {
	t.Helper()
	headID, err := w.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return headID
}

func push(t *testing.T, w branch.Writer, headID branch.Head, commits ...branch.Draft) branch.Head {
	t.Helper()
	headID, err := w.Push(t.Context(), headID, commits)
	if err != nil {
		t.Fatal(err)
	}
	return headID
}

func subjects(t *testing.T, r gitserver.Repository) string {
	t.Helper()
	out, err := r.Git("log", "--reverse", "--format=%s", "main")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out), " ")
}

func head(t *testing.T, r gitserver.Repository) string {
	t.Helper()
	h, err := r.Head()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// chain pushes commits that build on each other.
func chain(t *testing.T, h Harness, r gitserver.Repository) {
	w := h.Open(t, r)
	headID := push(t, w, headOf(t, w),
		commit("one", write(dir+"a.yaml", "a\n"), write(dir+"kustomization.yaml", "resources: [a.yaml]\n")),
		commit("two", branch.Change{Path: dir + "a.yaml"}, write("overlays/new/deep/b.yaml", "b\n")),
		commit("three", branch.Change{Path: "overlays/new/deep/b.yaml"}),
	)
	if headID.Commit != head(t, r) {
		t.Errorf("Push returned %s, the branch is at %s", headID.Commit, head(t, r))
	}
	if got := subjects(t, r); got != "seed one two three" {
		t.Errorf("the log is %q", got)
	}
	for _, gone := range []string{dir + "a.yaml", "overlays/new"} {
		if _, err := fs.Stat(headID.Tree, gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it does not exist", gone, err)
		}
	}
	if got, err := fs.ReadFile(headID.Tree, dir+"kustomization.yaml"); err != nil || string(got) != "resources: [a.yaml]\n" {
		t.Errorf("the list = %q, %v", got, err)
	}
}

// nothing pushes commits that change nothing.
func nothing(t *testing.T, h Harness, r gitserver.Repository) {
	w := h.Open(t, r)
	headID := headOf(t, w)
	same := push(t, w, headID, commit("same", write("overlays/default/scaling.yaml", "policy\n"), branch.Change{Path: "overlays/none"}), commit("empty"))
	if same.Commit != headID.Commit || head(t, r) != headID.Commit {
		t.Errorf("nothing made commit %s", head(t, r))
	}
	push(t, w, headID, commit("same", write("overlays/default/scaling.yaml", "policy\n")), commit("some", write(dir+"a", "a")))
	if got := subjects(t, r); got != "seed some" {
		t.Errorf("the log is %q", got)
	}
}

// modes keeps a file executable.
func modes(t *testing.T, h Harness, r gitserver.Repository) {
	const script = "overlays/default/run.sh"
	stream := fmt.Sprintf("commit refs/heads/main\ncommitter a <a@example.com> 1700000000 +0000\ndata 4\nmode\nfrom refs/heads/main^0\nM 100755 inline %s\ndata 1\nx\n", script)
	if _, err := r.GitInput([]byte(stream), "fast-import", "--quiet"); err != nil {
		t.Fatal(err)
	}
	w := h.Open(t, r)
	push(t, w, headOf(t, w), commit("again", write(script, "y"), write("overlays/default/plain", "z")))
	out, err := r.Git("ls-tree", "main", script, "overlays/default/plain")
	if err != nil || strings.Count(out, "100755") != 1 || strings.Count(out, "100644") != 1 {
		t.Errorf("the modes are %s (%v)", out, err)
	}
}

// conflict pushes onto a head that is stale.
func conflict(t *testing.T, h Harness, r gitserver.Repository) {
	w := h.Open(t, r)
	headID := headOf(t, w)
	seed(t, r, write(dir+"theirs", "theirs"))
	before := head(t, r)
	if _, err := w.Push(t.Context(), headID, []branch.Draft{commit("late", write(dir+"ours", "ours"))}); !errors.Is(err, branch.ErrMoved) {
		t.Fatalf("Push: %v, want ErrMoved", err)
	}
	if head(t, r) != before {
		t.Error("something was written")
	}
	headID = headOf(t, w)
	if _, err := fs.Stat(headID.Tree, dir+"theirs"); err != nil {
		t.Errorf("the other writer's file: %v", err)
	}
	push(t, w, headID, commit("ours", write(dir+"ours", "ours")))
	if got := subjects(t, r); got != "seed seed ours" {
		t.Errorf("the log is %q", got)
	}
}

// writers lets several writers push concurrently until all commits have landed.
func writers(t *testing.T, h Harness, r gitserver.Repository) {
	many, each := 4, 3
	if h.Few {
		many, each = 3, 2
	}
	var group sync.WaitGroup
	for i := range many {
		w := h.Open(t, r)
		group.Go(func() {
			for j := range each {
				name := fmt.Sprintf("w%d-%d", i, j)
				if err := land(t.Context(), w, commit(name, write(dir+name, name))); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
	if got := len(strings.Fields(subjects(t, r))); got != 1+many*each {
		t.Errorf("the log has %d commits, want %d", got, 1+many*each)
	}
	for i := range many {
		for j := range each {
			if _, err := r.ReadFile(fmt.Sprintf("%sw%d-%d", dir, i, j)); err != nil {
				t.Error(err)
			}
		}
	}
}

// land pushes a commit until it has landed. Every conflict means that another writer's commit has landed,
// so it ends.
func land(ctx context.Context, w branch.Writer, c branch.Draft) error {
	for {
		headID, err := w.Head(ctx)
		if err != nil {
			return err
		}
		if _, err = w.Push(ctx, headID, []branch.Draft{c}); !errors.Is(err, branch.ErrMoved) {
			return err
		}
	}
}

// refusal asserts that a refused push is not a conflict, and has the server's message.
func refusal(t *testing.T, h Harness, r gitserver.Repository) {
	w := h.Open(t, r)
	headID := headOf(t, w)
	h.Refuse(t, r, "the branch is protected, says the server")
	_, err := w.Push(t.Context(), headID, []branch.Draft{commit("no", write(dir+"a", "a"))})
	var refused *branch.Refused
	if !errors.As(err, &refused) || errors.Is(err, branch.ErrMoved) {
		t.Fatalf("Push: %v, want a Refused", err)
	}
	if !strings.Contains(refused.Message, "the branch is protected, says the server") {
		t.Errorf("the server's words are missing: %s", refused.Message)
	}
	if head(t, r) != headID.Commit {
		t.Error("the branch moved")
	}
}

// lost asserts that the result of a push whose response is lost is found out by Push, or otherwise by
// [branch.Unsettled.Landed] once the server can be reached again.
func lost(t *testing.T, h Harness, r gitserver.Repository) {
	if h.Lose == nil {
		t.Skip("the responses of this host cannot be lost")
	}
	w := h.Open(t, r)
	for i, c := range []struct{ made, others, away bool }{
		{made: true}, {made: true, others: true}, {made: true, away: true}, {made: true, others: true, away: true},
		{}, {others: true}, {away: true}, {others: true, away: true},
	} {
		name := fmt.Sprintf("%+v", c)
		file := fmt.Sprintf("%slost-%d", dir, i)
		before := headOf(t, w)
		h.Lose(r, c.made, func() {
			if c.others {
				seed(t, r, write(dir+"theirs", name))
				seed(t, r, write(dir+"theirs", name+" again"))
			}
			h.Away(r, c.away)
		})
		drafts := []branch.Draft{commit(fmt.Sprintf("lost-%d", i), write(file, name))}
		got, err := w.Push(t.Context(), before, drafts)
		var unsettled *branch.Unsettled
		unknown := errors.As(err, &unsettled)
		switch h.Away(r, false); {
		case unknown != (c.away || !c.made && !c.others):
			t.Errorf("%s: Push: %v", name, err)
		case unknown && unsettled.Before != before.Commit:
			t.Errorf("%s: the push was from %s, not %s", name, before.Commit, unsettled.Before)
		case unknown:
			now := headOf(t, w)
			landed, err := unsettled.Landed(t.Context(), w, now.Commit)
			if (landed != "") != c.made || (err != nil) != (!c.made && !c.others) {
				t.Errorf("%s: Landed returned %q, %v", name, landed, err)
			}
			got.Commit = landed
		case c.made && err != nil, !c.made && !errors.Is(err, branch.ErrMoved):
			t.Errorf("%s: Push: %v", name, err)
		}
		if c.made {
			if out, err := r.Git("log", "-1", "--format=%P %s", got.Commit); err != nil || out != before.Commit+" "+strings.TrimSpace(drafts[0].Message)+"\n" {
				t.Errorf("%s: the result is commit %s: %s (%v)", name, got.Commit, out, err)
			}
		} else {
			push(t, w, headOf(t, w), drafts...)
		}
		if at := headOf(t, w); at.Commit != head(t, r) {
			t.Errorf("%s: Head returns %s, the branch is at %s", name, at.Commit, head(t, r))
		}
		if content, err := r.ReadFile(file); err != nil || string(content) != name || strings.Count(subjects(t, r)+" ", fmt.Sprintf(" lost-%d ", i)) != 1 {
			t.Errorf("%s: the branch has %q (%v); its log is %s", name, content, err, subjects(t, r))
		}
	}
}

// several asserts that the results of pushes in a row are found out once the server can be reached again,
// also if the first of them had not landed, a merge is on top, and commits have dates in the future.
func several(t *testing.T, h Harness, r gitserver.Repository) {
	if h.Lose == nil {
		t.Skip("the responses of this host cannot be lost")
	}
	w := h.Open(t, r)
	older := headOf(t, w).Commit
	git := func(args ...string) string {
		t.Helper()
		out, err := r.Git(args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	if _, err := r.Commit("future", at.AddDate(10, 0, 0), write(dir+"theirs", "x")); err != nil {
		t.Fatal(err)
	}
	var pushes []*branch.Unsettled
	for i, made := range []bool{false, false, true} {
		before := headOf(t, w)
		h.Lose(r, made, func() { h.Away(r, true) })
		_, err := w.Push(t.Context(), before, []branch.Draft{commit(fmt.Sprint("push-", i), write(dir+"ours", fmt.Sprint(i)))})
		h.Away(r, false)
		var u *branch.Unsettled
		if !errors.As(err, &u) {
			t.Fatalf("push %d: %v", i, err)
		}
		pushes = append(pushes, u)
	}
	future, landed := pushes[0].Before, head(t, r)
	settled := func(where, head string, want ...string) {
		t.Helper()
		for i, u := range pushes {
			switch got, err := u.Landed(t.Context(), w, head); {
			case want[i] == "unknown" && (got != "" || !errors.Is(err, u)), want[i] != "unknown" && (got != want[i] || err != nil):
				t.Errorf("%s: push %d: Landed returned %q, %v, want %q", where, i, got, err, want[i])
			}
		}
	}
	settled("at the head before", future, "unknown", "unknown", "unknown")
	settled("at an older head", older, "unknown", "unknown", "unknown")
	settled("at the head after", landed, "", "", landed)
	tree := git("rev-parse", landed+"^{tree}")
	stream := fmt.Sprintf("commit refs/heads/side\nmark :1\ncommitter a <a@example.com> %d +0000\ndata 4\nside\nfrom %s\n", at.AddDate(11, 0, 0).Unix(), future)
	if _, err := r.GitInput([]byte(stream), "fast-import", "--quiet"); err != nil {
		t.Fatal(err)
	}
	merge := git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit-tree", tree, "-p", landed, "-p", "side", "-m", "merge")
	git("update-ref", "refs/heads/main", merge)
	if now := headOf(t, w); now.Commit != merge {
		t.Fatalf("the head is %s, want %s", now.Commit, merge)
	}
	settled("below a merge", merge, "", "", landed)
	other := git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit-tree", tree, "-p", older, "-m", "rewritten")
	git("update-ref", "refs/heads/main", other)
	settled("after the branch was rewritten", headOf(t, w).Commit, "unknown", "unknown", "unknown")
}

// branches asserts that HasBranch finds branches alone, by their full names, as they are now.
func branches(t *testing.T, h Harness, r gitserver.Repository) {
	w := h.Open(t, r)
	has := func(want bool, names ...string) {
		t.Helper()
		for _, name := range names {
			if got, err := w.HasBranch(t.Context(), name); got != want || err != nil {
				t.Errorf("HasBranch(%q) = %t, %v, want %t", name, got, err, want)
			}
		}
	}
	git := func(args ...string) {
		t.Helper()
		if _, err := r.Git(args...); err != nil {
			t.Fatal(err)
		}
	}
	git("tag", "v1", "main")
	git("update-ref", "refs/remotes/origin/far", "main")
	git("branch", "team/main", "main")
	for range 2 {
		has(true, "main", "team/main")
		has(false, "east", "mai", "main2", "team", "main/team", "Main", "v1", "HEAD", "refs/heads/main", "refs/remotes/origin/far", "refs/tags/v1", "origin/far",
			"", "*", "ma*", "a b", "../main", "main\n", "main\x00", "/main", "main/")
		var refs strings.Builder // a long list, which clients do not read with each head
		for i := range 120 {
			fmt.Fprintf(&refs, "update refs/pull/%d/head %s\n", i, head(t, r))
		}
		if _, err := r.GitInput([]byte(refs.String()), "update-ref", "--stdin"); err != nil {
			t.Fatal(err)
		}
		headOf(t, w)
	}
	git("branch", "east", "main")
	has(true, "east")
	git("branch", "-D", "team/main")
	has(false, "team/main")
	headID := headOf(t, w)
	push(t, w, headID, commit("after", write(dir+"a", "a"))) // the writer still works
	if h.Away != nil {
		h.Away(r, true)
		if got, err := w.HasBranch(t.Context(), "main"); !got && err == nil {
			t.Error("without a server, HasBranch found no branch main")
		}
		h.Away(r, false)
	}
}

// many files are written and removed in one commit each; some are binary.
func many(t *testing.T, h Harness, r gitserver.Repository) {
	w := h.Open(t, r)
	var there, gone []branch.Change
	for i := range 170 { // more than GitHub's API takes in one request
		name := fmt.Sprintf("%sm%03d", dir, i)
		there, gone = append(there, write(name, fmt.Sprint(i))), append(gone, branch.Change{Path: name})
	}
	there[7].Content = []byte("\xff\x00")
	headID := push(t, w, headOf(t, w), commit("many", there...))
	if got, err := r.ReadFile(there[7].Path); err != nil || string(got) != "\xff\x00" {
		t.Errorf("binary content became %q, %v", got, err)
	}
	push(t, w, headID, commit("gone", append(gone, write(dir+"left", "x"))...))
	if out, err := r.Git("diff", "--name-only", "main~2", "main"); err != nil || strings.TrimSpace(out) != dir+"left" {
		t.Errorf("the two commits leave %q (%v)", out, err)
	}
	if got := subjects(t, r); got != "seed many gone" {
		t.Errorf("the log is %q", got)
	}
}

// paths that git forbids are not written, and none twice.
func paths(t *testing.T, h Harness, r gitserver.Repository) {
	w := h.Open(t, r)
	headID := headOf(t, w)
	for _, paths := range [][]string{
		{""}, {"/a"}, {"../a"}, {"a/../../b"}, {"./a"}, {"a//b"}, {".git/config"}, {"a/.GIT/b"}, {"a/.git. /b"},
		{"a/git~1/b"}, {"a\x00b"}, {`a\b`}, {"a", "a"}, {"base/job.yaml/x"}, {"base"},
	} {
		var changes []branch.Change
		for _, path := range paths {
			changes = append(changes, write(path, "x"))
		}
		_, err := w.Push(t.Context(), headID, []branch.Draft{commit("bad", changes...)})
		if !errors.Is(err, branch.ErrInvalid) {
			t.Errorf("writing %q: %v, want ErrInvalid", paths, err)
		}
	}
	if head(t, r) != headID.Commit {
		t.Error("the branch moved")
	}
}
