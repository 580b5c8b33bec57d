package git_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestHooksSeeNoSecret: a hook of a repository on this machine gets what git
// needs of the environment, and not the tokens in it.
func TestHooksSeeNoSecret(t *testing.T) {
	t.Setenv("BUILDKITE_API_TOKEN", "bkua-secret")
	t.Setenv("MUSTER_GIT_PASSWORD", "git-secret")
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	out := filepath.Join(t.TempDir(), "environment")
	hook(t, r, "pre-receive", "env >"+out+"\n")
	repository := open(t, git.Config{URL: r.Dir})
	if _, err := repository.Push(t.Context(), headOf(t, repository), one("a")); err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(seen), "secret") || !strings.Contains(string(seen), "PATH=") {
		t.Errorf("the hook sees\n%s", seen)
	}
}

// TestWebPage: a host that answers with a page is said to, by the page's title.
func TestWebPage(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><head><TITLE lang=en>Sign in &middot;\n\u009b31mAcme\u202e</title></head>"))
	}))
	t.Cleanup(s.Close)
	repository := open(t, git.Config{URL: s.URL + "/acme/fleet"})
	_, err := repository.Head(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the host answered with a web page (Sign in · 31mAcme) and not as a git server does") {
		t.Error(err)
	}
}

// TestTokenInQuery: what stands behind a question mark is shown nowhere.
func TestTokenInQuery(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	address := s.URL
	s.Close()
	repository := open(t, git.Config{URL: address + "/acme/fleet?v=1&token=s3%20cret"})
	_, err := repository.Head(t.Context())
	if err == nil || strings.Contains(err.Error(), "s3") || strings.Contains(repository.String(), "s3") {
		t.Errorf("%s: %v", repository, err)
	}
}
