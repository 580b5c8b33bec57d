package git_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestNoReportStatus: to a server that would not say what became of a push, nothing is
// sent.
func TestNoReportStatus(t *testing.T) {
	t.Parallel()
	sent := 0
	f := gitserver.NewServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				sent++
			}
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte("report-status"), []byte("report-nothing")[:len("report-status")]))
		})
	}})
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	before, err := f.Commit("Begin", at, write("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, git.Config{URL: f.URL()})
	head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Push(t.Context(), head, []branch.Draft{{Message: "Change", At: at, Changes: []branch.Change{write("a", "c")}}})
	if err == nil || !strings.Contains(err.Error(), "(report-status), which is required") || sent > 0 {
		t.Errorf("%d pushes were sent: %v", sent, err)
	}
	if head, err = r.Head(t.Context()); err != nil || head.Commit != before {
		t.Errorf("the branch is at %s, want %s: %v", head.Commit, before, err)
	}
}
