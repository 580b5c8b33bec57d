package git_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	before := seed(t, f.Repository, write("a", "b"))
	r := open(t, git.Config{URL: f.URL()})
	_, err := r.Push(t.Context(), headOf(t, r), []branch.Draft{{Message: "Change", At: at, Changes: []branch.Change{write("a", "c")}}})
	if err == nil || !strings.Contains(err.Error(), "(report-status), which is required") || sent > 0 {
		t.Errorf("%d pushes were sent: %v", sent, err)
	}
	if head := headOf(t, r); head.Commit != before {
		t.Errorf("the branch is at %s, want %s", head.Commit, before)
	}
}
