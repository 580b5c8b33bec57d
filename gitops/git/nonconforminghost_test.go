package git_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// TestAHostThatSaysYesToAll: one that does not name its program, and tells a writer that
// was not first that it moved the branch, is not believed.
func TestAHostThatSaysYesToAll(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	lost := ""
	config := serveStrict(t, r, gitserver.Strict{Hides: append(gitserver.Dulwich().Hides, "agent", "side-band-64k"), Receive: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if lost == "" {
			next.ServeHTTP(w, q)
			return
		}
		_, _ = io.Copy(io.Discard, q.Body)
		seed(t, r, write("deploy/web/jobs/"+lost, lost))
		w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		_, _ = io.WriteString(w, "000eunpack ok\n0017ok refs/heads/main\n0000")
	}})
	b := open(t, config)
	tip, err := b.Push(t.Context(), headOf(t, b), one("a"))
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := r.Head(); head != tip.Commit {
		t.Errorf("the branch is at %s, want %s", head, tip.Commit)
	}
	lost = "theirs"
	if _, err := b.Push(t.Context(), tip, one("b")); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("a race that was lost: %v", err)
	}
}

// TestABranchThatMovesWhileItIsRead: a host that sends only what the branch is at by then
// is asked again.
func TestABranchThatMovesWhileItIsRead(t *testing.T) {
	t.Parallel()
	f := gitserver.NewRepository(t)
	seed(t, f, files()...)
	moves := 0
	config := serveStrict(t, f, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if moves > 0 {
			moves--
			seed(t, f, write("deploy/web/jobs/theirs", strings.Repeat("x", moves+1)))
			gitserver.Response{Status: http.StatusInternalServerError, Words: "Client wants invalid object"}.Write(w)
			return
		}
		next.ServeHTTP(w, q)
	}})
	for _, moves = range []int{1, 2} {
		b := open(t, config)
		tip := headOf(t, b)
		if head, _ := f.Head(); head != tip.Commit {
			t.Errorf("the tip is %s, want %s", tip.Commit, head)
		}
	}
	moves = 1000
	if _, err := open(t, config).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid object") || moves < 990 {
		t.Errorf("%v, after %d reads", err, 1000-moves)
	}
}

// TestThePastOfAHostThatRefusesByStatus: one that sends only what the branch is at, and
// says so by a status, is read from there, and where that has moved it is said.
func TestThePastOfAHostThatRefusesByStatus(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	before := seed(t, r, files()...)
	seed(t, r, write("deploy/web/settings.yaml", "new\n"))
	moves := false
	config := serveStrict(t, r, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if moves {
			moves = false
			seed(t, r, write("deploy/web/jobs/theirs", "x"))
		}
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		if head, _ := r.Head(); !strings.Contains(string(body), "want "+head) {
			gitserver.Response{Status: http.StatusInternalServerError, Words: "Internal Server Error"}.Write(w)
			return
		}
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, q)
	}})
	b := open(t, config)
	headOf(t, b)
	if content, err := b.File(t.Context(), before, "deploy/web/settings.yaml"); err != nil || string(content) != "settings\n" {
		t.Errorf("%q, %v", content, err)
	}
	moves = true
	if _, err := b.File(t.Context(), before, "deploy/web/settings.yaml"); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("a branch that has moved: %v", err)
	}
	moves = true
	for _, err := range b.Commits(t.Context(), "", branch.Limit{}) {
		if !errors.Is(err, branch.ErrMoved) {
			t.Errorf("the history of a branch that has moved: %v", err)
		}
	}
	// A directory that was not in use, in which something has changed: its commit is read again.
	for _, name := range []string{"notes/1", "notes/2"} {
		seed(t, r, write(name, name))
		headOf(t, b)
	}
	head := headOf(t, b)
	moves = true
	if _, err := b.Push(t.Context(), head, []branch.Draft{{Message: "note\n", At: at, Changes: []branch.Change{write("notes/3", "x")}}}); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("a commit on a branch that has moved: %v", err)
	}
}
