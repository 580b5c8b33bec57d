package github_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/git/remote"
	"muster/gitops/github"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
)

// TestLimitInGraphQL: a rate limit with status 200 is recognized.
func TestLimitInGraphQL(t *testing.T) {
	t.Parallel()
	_, _, s, w, head := opened(t)
	// docs.github.com/graphql, "Rate limits and query limits for the GraphQL API".
	s.Refuse("API rate limit exceeded for installation ID 42.")
	_, err := w.Push(t.Context(), head, commit("a", []byte("a")))
	var wait interface{ RetryAfter() time.Duration }
	if !errors.As(err, &wait) || wait.RetryAfter() != time.Minute {
		t.Errorf("%v, want to wait a minute", err)
	}
}

// TestRevokedToken: a token that ends before its time is replaced at its first refusal,
// for the API and for git.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	r, c := seeded(t), newClock()
	s := serve(t, r, c)
	a := app(s, c)
	repository := overGit(t, r, s, a)
	w := writerOf(t, github.Config{Repository: repository, API: s.URL, Now: c.Now, Token: a.Token, Refused: a.Refused})
	head, err := w.Head(t.Context())
	must(t, err)
	s.Revoke()
	if _, err := w.Push(t.Context(), head, commit("a", []byte("a"))); err != nil {
		t.Fatalf("Push with a revoked token: %v", err)
	}
	s.Revoke()
	if _, err := repository.Head(t.Context()); err != nil {
		t.Errorf("Tip with a revoked token: %v", err)
	}
	if s.Issued() != 3 {
		t.Errorf("%d tokens were issued, want 3", s.Issued())
	}
	s.Revoke()
	if err := repository.Writable(t.Context()); err != nil {
		t.Errorf("Writable with a revoked token: %v", err)
	}
}

// overGit is the repository over git, whose passwords are the App's tokens.
func overGit(t *testing.T, r gitserver.Repository, s *githubtest.Server, a *github.App) *gitops.Repository {
	t.Helper()
	host, err := gitserver.Serve(filepath.Dir(r.Dir), gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if name, token, _ := request.BasicAuth(); name != "x-access-token" || !s.Valid(token) {
				w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
				http.Error(w, "Invalid username or token.", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, request)
		})
	}})
	must(t, err)
	t.Cleanup(host.Close)
	repository, err := gitops.New(gitops.Config{URL: host.URL + "/fleet.git", Credentials: remote.Credentials{Password: a.Password(), Refused: a.Refused}})
	must(t, err)
	return repository
}

// TestRenamedRepository: requests follow GitHub's redirect to the renamed repository.
func TestRenamedRepository(t *testing.T) {
	t.Parallel()
	r, _, s, w, head := opened(t)
	s.Rename()
	_, err := w.Push(t.Context(), head, commit("a", []byte("a")))
	must(t, err)
	if got, err := r.ReadFile("overlays/a"); err != nil || string(got) != "a" {
		t.Errorf("content = %q, %v", got, err)
	}
}

// TestMovedToAnotherHost: no token goes to another host.
func TestMovedToAnotherHost(t *testing.T) {
	t.Parallel()
	r, c := seeded(t), newClock()
	s := serve(t, r, c)
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(other.Close)
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusMovedPermanently)
	}))
	t.Cleanup(here.Close)
	w := writerOf(t, github.Config{Repository: fromDisk(t, r), API: here.URL, Now: c.Now, Token: app(s, c).Token})
	head, err := w.Head(t.Context())
	must(t, err)
	if _, err := w.Push(t.Context(), head, commit("a", []byte("a"))); err == nil || asked > 0 {
		t.Errorf("the other host was asked %d times: %v", asked, err)
	}
}

// TestMayWrite: an App without write access is an error before the first commit.
func TestMayWrite(t *testing.T) {
	t.Parallel()
	r, c := seeded(t), newClock()
	s := serve(t, r, c)
	for contents, want := range map[string]string{"write": "", "read": "may not write (permission contents: read)", "none": "may not write (permission contents: none)"} {
		s.Permit(contents)
		a := app(s, c)
		w := writerOf(t, github.Config{Repository: overGit(t, r, s, a), API: s.URL, Now: c.Now, Token: a.Token, MayWrite: a.MayWrite})
		err := w.Writable(t.Context())
		if want == "" && !errors.Is(err, branch.ErrUnproven) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("an App that may %s: %v", contents, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := app(s, c).MayWrite(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("MayWrite with a context that is over: %v", err)
	}
}

// TestUnsignedCommitsAreLogged: unsigned commits through GitHub's API are logged once.
func TestUnsignedCommitsAreLogged(t *testing.T) {
	t.Parallel()
	r, c := seeded(t), newClock()
	s := serve(t, r, c)
	var log bytes.Buffer
	a := app(s, c)
	w := writerOf(t, github.Config{Repository: fromDisk(t, r), API: s.URL, Now: c.Now, Token: a.Token, Log: slog.New(slog.NewTextHandler(&log, nil))})
	head, err := w.Head(t.Context())
	must(t, err)
	if head, err = w.Push(t.Context(), head, commit("a", []byte("a"))); err != nil || log.Len() > 0 {
		t.Fatalf("%v; of a signed commit the log says %s", err, log.String())
	}
	s.LeaveUnsigned()
	for _, drafts := range [][]branch.Draft{commit("b", []byte("b")), append(commit("c", []byte("c")), commit("d", []byte("d"))...)} {
		head, err = w.Push(t.Context(), head, drafts)
		must(t, err)
	}
	if n := strings.Count(log.String(), `msg="GitHub does not sign the commits"`); n != 1 || !strings.Contains(log.String(), "reason=unsigned") {
		t.Errorf("said %d times: %s", n, log.String())
	}
}

// TestTokenHoldsUpNobody asserts that a token is available while GitHub does not answer an earlier
// request for one.
func TestTokenHoldsUpNobody(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := serve(t, seeded(t), c)
	hanging, release := make(chan struct{}), make(chan struct{})
	var requests atomic.Int32
	target, err := url.Parse(s.URL)
	must(t, err)
	next := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			close(hanging)
			<-release
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	a := app(s, c)
	a.API = front.URL + "/"
	first := make(chan error, 1)
	go func() {
		_, err := a.Token(t.Context())
		first <- err
	}()
	<-hanging
	token, err := a.Token(t.Context())
	if err != nil || !s.Valid(token) {
		t.Errorf("the token is %q, %v", token, err)
	}
	select {
	case <-first:
		t.Error("the first request ended before the second")
	default:
	}
	close(release)
	must(t, <-first)
}

// TestAPIResponsesThatAreNotJSON asserts that a successful response of another kind is named as what it is, at
// each request for a token, a single commit and a chain of commits, and that the next push succeeds.
func TestAPIResponsesThatAreNotJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer gitserver.Response
		want   string
	}{
		"page":       {gitserver.Response{Status: 200, Type: "text/html; charset=utf-8", Words: "<!DOCTYPE html><html><head><title>Sign in</title></head></html>"}, "a web page (Sign in)"},
		"created":    {gitserver.Response{Status: 201, Type: "text/html", Words: "\n<html><title>Sign in</title></html>"}, "a web page (Sign in)"},
		"text":       {gitserver.Response{Status: 203, Type: "text/plain", Words: "blocked by policy"}, `content of the type "text/plain" (blocked by policy)`},
		"no content": {gitserver.Response{Status: 204}, "an empty response (204 No Content)"},
		"empty":      {gitserver.Response{Status: 200, Type: "application/json"}, "an empty response (200 OK)"},
	} {
		single, chain := commit("a", []byte("a")), append(commit("a", []byte("\xff")), commit("b", []byte("b"))...)
		for _, commits := range map[bool][][]branch.Draft{true: {single, chain}, false: {single}}[name == "page"] {
			r, clock := seeded(t), newClock()
			s := serve(t, r, clock)
			upstream, err := url.Parse(s.URL)
			must(t, err)
			next, failing, requests := httputil.NewSingleHostReverseProxy(upstream), 0, 0
			here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests == failing {
					c.answer.Write(w)
					return
				}
				next.ServeHTTP(w, r)
			}))
			t.Cleanup(here.Close)
			for failing = 1; ; failing++ {
				a := app(s, clock)
				a.API = here.URL
				w := writerOf(t, github.Config{Repository: fromDisk(t, r), API: here.URL, Now: clock.Now, Token: a.Token})
				head, err := w.Head(t.Context())
				must(t, err)
				requests = 0
				_, err = w.Push(t.Context(), head, commits)
				if requests < failing {
					must(t, err)
					break
				}
				if want := "the host answered with " + c.want + " instead of JSON: "; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %d commits, request %d: %v, want %s", name, len(commits), failing, err, want)
				}
			}
			if failing < 3 {
				t.Errorf("%s: a push made %d requests", name, failing)
			}
		}
	}
}
