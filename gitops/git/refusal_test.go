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

// TestWhatBecameOfARace: where the server's report says that the branch was not moved,
// nothing more is asked. Where there is no report, and the commits since cannot be read,
// it is said that nobody knows.
func TestWhatBecameOfARace(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	reads, away := 0, false
	config := serveStrict(t, r, gitserver.Strict{
		Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
			reads++
			if away {
				gitserver.Response{Status: http.StatusBadGateway}.Write(w)
				return
			}
			next.ServeHTTP(w, q)
		},
		Receive: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
			seed(t, r, write("deploy/web/jobs/theirs", strings.Repeat("x", reads+1)))
			if away {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, q)
		},
	})
	b := open(t, config)
	head := headOf(t, b)
	reads = 0
	if _, err := b.Push(t.Context(), head, one("a")); !errors.Is(err, branch.ErrMoved) || errors.Is(err, branch.ErrUnsettled) {
		t.Errorf("a race of which the server tells: %v", err)
	}
	if reads > 0 {
		t.Errorf("%d requests to read after it", reads)
	}
	head = headOf(t, b)
	away = true
	if _, err := b.Push(t.Context(), head, one("a")); !errors.Is(err, branch.ErrMoved) || !errors.Is(err, branch.ErrUnsettled) {
		t.Errorf("a race of which nobody tells: %v", err)
	}
}

// TestAHostThatRefusesChanges: one that refuses a request for what has changed since a
// commit is asked so once.
func TestAHostThatRefusesChanges(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	reads := 0
	config := serveStrict(t, r, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		reads++
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		// "shallow" without "deepen" (dulwich 0.21, server.py, _handle_shallow_request).
		if text := string(body); strings.Contains(text, "shallow ") && !strings.Contains(text, "deepen ") {
			gitserver.Response{Status: http.StatusInternalServerError, Words: "Internal Server Error"}.Write(w)
			return
		}
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, q)
	}})
	b := open(t, config)
	headOf(t, b)
	for i, want := range []int{2, 1, 1} {
		reads = 0
		head := seed(t, r, write("deploy/web/jobs/theirs", strings.Repeat("x", i+1)))
		if tip := headOf(t, b); tip.Commit != head || reads != want {
			t.Errorf("the tip is %s after %d requests, want %s after %d", tip.Commit, reads, head, want)
		}
	}
}
