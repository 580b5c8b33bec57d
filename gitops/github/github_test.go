package github_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/github"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
	"muster/gitops/writertest"
)

// clock is a clock that is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func serve(t *testing.T, r gitserver.Repository, c *clock) *githubtest.Server {
	t.Helper()
	s, err := githubtest.Serve(r, t.TempDir(), c.Now)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func app(s *githubtest.Server, c *clock) *github.App {
	return &github.App{ID: s.AppID, Installation: s.Installation, PrivateKeyFile: s.KeyFile, API: s.URL, Now: c.Now}
}

// writer returns a writer that reads the repository from disk.
func writer(t *testing.T, r gitserver.Repository, s *githubtest.Server, a *github.App) *github.Writer {
	t.Helper()
	return writerOf(t, github.Config{Repository: fromDisk(t, r), API: s.URL, Token: a.Token, Now: a.Now})
}

// fromDisk returns the repository, which is read from disk.
func fromDisk(t *testing.T, r gitserver.Repository) *gitops.Repository {
	t.Helper()
	repository, err := gitops.New(gitops.Config{URL: r.Dir})
	must(t, err)
	return repository
}

// writerOf returns a writer of the repository of a [githubtest.Server].
func writerOf(t *testing.T, c github.Config) *github.Writer {
	t.Helper()
	c.Owner, c.Name = githubtest.Owner, githubtest.Name
	w, err := github.NewWriter(c)
	must(t, err)
	return w
}

// opened returns a seeded repository, behind GitHub's API, a writer and what it has read.
func opened(t *testing.T) (r gitserver.Repository, c *clock, s *githubtest.Server, w *github.Writer, head branch.Head) {
	t.Helper()
	r, c = seeded(t), newClock()
	s = serve(t, r, c)
	w = writer(t, r, s, app(s, c))
	head, err := w.Head(t.Context())
	must(t, err)
	return r, c, s, w, head
}

func TestWriter(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	servers := map[string]*githubtest.Server{}
	server := func(t *testing.T, r gitserver.Repository) *githubtest.Server {
		mu.Lock()
		defer mu.Unlock()
		if servers[r.Dir] == nil {
			servers[r.Dir] = serve(t, r, newClock())
		}
		return servers[r.Dir]
	}
	writertest.Run(t, writertest.Harness{
		Open: func(t *testing.T, r gitserver.Repository) branch.Writer {
			s := server(t, r)
			return writer(t, r, s, app(s, newClock()))
		},
		Refuse: func(t *testing.T, r gitserver.Repository, words string) { server(t, r).Refuse(words) },
		Lose:   func(r gitserver.Repository, made bool, then func()) { server(t, r).LoseNext(made, then) },
		Away:   func(r gitserver.Repository, away bool) { server(t, r).Away(away) },
	})
}

func seeded(t *testing.T) gitserver.Repository {
	t.Helper()
	r := gitserver.NewRepository(t)
	_, err := r.Commit("seed", time.Unix(1_700_000_000, 0), branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte("x")})
	must(t, err)
	return r
}

func commit(name string, content []byte) []branch.Draft {
	return []branch.Draft{{Message: name + "\n", Changes: []branch.Change{{Path: "overlays/" + name, Content: content}}}}
}

func TestTokenIsReplacedInTime(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := serve(t, seeded(t), c)
	a := app(s, c)
	for _, step := range []struct {
		after  time.Duration
		issued int
	}{{0, 1}, {30 * time.Minute, 1}, {24 * time.Minute, 1}, {2 * time.Minute, 2}, {50 * time.Minute, 2}, {time.Hour, 3}} {
		c.advance(step.after)
		token, err := a.Token(t.Context())
		must(t, err)
		if s.Issued() != step.issued {
			t.Errorf("at %s %d tokens were issued, want %d", c.Now(), s.Issued(), step.issued)
		}
		if !s.Valid(token) {
			t.Error("the token has ended")
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	r, c := seeded(t), newClock()
	s := serve(t, r, c)
	other := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(other, []byte("no key"), 0o600))
	for name, test := range map[string]struct {
		change func(*github.App)
		want   string
	}{
		"unknown installation": {func(a *github.App) { a.Installation = 1 }, "404"},
		"another App":          {func(a *github.App) { a.ID = "1" }, "401"},
		"no key file":          {func(a *github.App) { a.PrivateKeyFile = "/none" }, "reading the GitHub App's key"},
		"not a key":            {func(a *github.App) { a.PrivateKeyFile = other }, "not a PEM file"},
		"bad address":          {func(a *github.App) { a.API = "github" }, "not a URL"},
	} {
		a := app(s, c)
		test.change(a)
		if _, err := a.Token(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	// A token that was revoked: told, and nothing half written.
	a := app(s, c)
	w := writer(t, r, s, a)
	head, err := w.Head(t.Context())
	must(t, err)
	_, err = a.Token(t.Context())
	must(t, err)
	s.Revoke()
	_, err = w.Push(t.Context(), head, commit("a", []byte("a")))
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "ghs_") {
		t.Errorf("Push with a revoked token: %v", err)
	}
}
