package git_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"muster/gitops/git"
	"muster/gitops/git/remote"
)

// TestPushWithoutAReport: a push is done only when the server says so of the
// branch itself, and not when it says nothing, or speaks of another.
func TestPushWithoutAReport(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]string{
		"of no branch":      "000eunpack ok\n0000",
		"of another branch": "000eunpack ok\n001aok refs/heads/another\n0000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
				_, _ = io.WriteString(w, sideband(report))
				return true
			})
			repository := open(t, git.Config{URL: s.URL()})
			head := headOf(t, repository)
			_, err := repository.Push(t.Context(), head, one("a"))
			if err == nil || !strings.Contains(err.Error(), "the server did not say what became of the push") {
				t.Errorf("the push ends with %v", err)
			}
			if tip := headOf(t, repository); tip.Commit != head.Commit {
				t.Errorf("the tip is %s, want %s", tip.Commit, head.Commit)
			}
		})
	}
}

// sideband is a report as it is sent beside messages: in a packet of channel 1.
func sideband(report string) string {
	return fmt.Sprintf("%04x\x01%s0000", len(report)+5, report)
}

// TestRedirectElsewhere: another port of the same host may be another person's
// server: it serves what it serves to anybody, and sees no credentials.
func TestRedirectElsewhere(t *testing.T) {
	t.Parallel()
	var seen, asked atomic.Int32
	there := intercept(t, func(_ http.ResponseWriter, r *http.Request) bool {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			seen.Add(1)
		}
		return false
	})
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, there.Server.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	t.Cleanup(here.Close)
	repository := open(t, git.Config{URL: here.URL + "/fleet.git", Credentials: remote.Credentials{Password: remote.StaticPassword("robot", "s3cret")}})
	head, err := repository.Head(t.Context())
	if err == nil {
		_, err = repository.Push(t.Context(), head, one("a"))
	}
	if seen.Load() > 0 || asked.Load() == 0 {
		t.Errorf("of %d requests there, %d had credentials (%v)", asked.Load(), seen.Load(), err)
	}
}

// TestHeaderIsASecret: a server that says back the header that the password came
// in gives no more away than one that says the password.
func TestHeaderIsASecret(t *testing.T) {
	t.Parallel()
	s := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			return false
		}
		http.Error(w, "bad: "+r.Header.Get("Authorization"), http.StatusBadRequest)
		return true
	})
	repository := open(t, git.Config{URL: s.URL(), Credentials: remote.Credentials{Password: remote.StaticPassword("someone", "s3cret")}})
	_, err := repository.Push(t.Context(), headOf(t, repository), one("a"))
	if err == nil || !strings.Contains(err.Error(), "bad: Basic [secret]") {
		t.Errorf("the push ends with %v", err)
	}
}
