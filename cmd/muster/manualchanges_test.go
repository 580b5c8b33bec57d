package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/cmd/invocation"
	"muster/gitops/branch"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
)

// manualFleet returns a fleet with one policy on a git server, and GitHub's API for it.
func manualFleet(t *testing.T) (*gitserver.Server, gitserver.Repository, *githubtest.Server) {
	t.Helper()
	policy := readText(t, "overlays/default/scaling.yaml")
	return githubFleet(t, branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte(policy)})
}

// githubFleet returns a repository with files on a git server, and GitHub's API for it.
func githubFleet(t *testing.T, files ...branch.Change) (*gitserver.Server, gitserver.Repository, *githubtest.Server) {
	t.Helper()
	dir := t.TempDir()
	r, err := gitserver.Init(filepath.Join(dir, githubtest.Owner, githubtest.Name+".git"))
	check(t, err)
	_, err = r.Commit("Begin\n", start, files...)
	check(t, err)
	server := serveGit(t, dir, gitserver.Options{})
	api, err := githubtest.Serve(r, t.TempDir(), stoppedClock{start}.Now)
	check(t, err)
	t.Cleanup(api.Close)
	return server, r, api
}

// TestManualPrompts asserts that the commit is shown on a terminal, and pushed only after a
// confirmation.
func TestManualPrompts(t *testing.T) {
	server, r, _ := manualFleet(t)
	for _, test := range []struct {
		answer string
		pushed bool
	}{{"", false}, {"\n", false}, {"n\n", false}, {"no way\n", false}, {"y\n", true}, {"YES\n", true}} {
		before, err := r.Git("rev-parse", "main")
		check(t, err)
		max := map[string]string{"y\n": "31", "YES\n": "32"}[test.answer]
		if max == "" {
			max = "30"
		}
		code, out, errs := execute(t, program{invocation.Program{Args: []string{"set", "default", "max=" + max, "--repo", server.URL + "/acme/fleet.git", "--commit-author", "Ada <ada@example.com>"},
			Stdin: strings.NewReader(test.answer), Terminal: true}})
		if code != invocation.ExitOK {
			t.Fatalf("%q: exit code %d: %s", test.answer, code, errs)
		}
		if want := "Push this to main of " + server.URL + "/acme/fleet.git as Ada <ada\\u0040example.com>? [y/N] "; !strings.Contains(out, want) && !strings.Contains(out, strings.ReplaceAll(want, "\\u0040", "@")) {
			t.Errorf("%q: it does not ask:\n%s", test.answer, out)
		}
		after, err := r.Git("rev-parse", "main")
		check(t, err)
		if pushed := before != after; pushed != test.pushed || pushed == strings.Contains(out, "not pushed") {
			t.Errorf("%q: pushed %t:\n%s", test.answer, pushed, out)
		}
	}
}

// TestManualChangeWhoseResponseIsLost asserts that a change which is in the branch is reported as pushed
// and notified once, and that one whose result stays unknown is reported as that.
func TestManualChangeWhoseResponseIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		made, others bool
		unread       int // requests that fail after it
		away         bool
		want         string // of the error; empty: the change is pushed
	}{
		"landed":                              {made: true},
		"landed and others on top":            {made: true, others: true},
		"landed and unread at first":          {made: true, unread: 1},
		"landed and others on top and unread": {made: true, others: true, unread: 1},
		"not landed":                          {},
		"not landed but others":               {others: true},
		"landed and unreachable":              {made: true, away: true, want: "the change may be in the branch"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := gitserver.Init(filepath.Join(dir, "fleet.git"))
			check(t, err)
			_, err = r.Commit("Begin\n", start, branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte(readText(t, "overlays/default/scaling.yaml"))})
			check(t, err)
			var mu sync.Mutex
			lost, failures := false, 0
			server := serveGit(t, dir, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if failures--; failures >= 0 || lost && c.away {
						panic(http.ErrAbortHandler)
					}
					if lost || !strings.HasSuffix(q.URL.Path, "/git-receive-pack") {
						next.ServeHTTP(w, q)
						return
					}
					lost, failures = true, c.unread
					if c.made {
						next.ServeHTTP(httptest.NewRecorder(), q)
					}
					if c.others {
						_, err := r.Commit("theirs\n", start, branch.Change{Path: "README.md", Content: []byte("x")})
						check(t, err)
					}
					panic(http.ErrAbortHandler)
				})
			}})
			syncers := newSyncers(t)
			secret := filepath.Join(t.TempDir(), "secret")
			check(t, os.WriteFile(secret, []byte("sesame"), 0o600))
			code, out, errs := execute(t, program{invocation.Program{Args: []string{"pause", "default", "--yes", "--repo", server.URL + "/fleet.git", "--commit-author", "Ada <ada@example.com>", "--notify", "kind=flux,url=" + syncers.flux.URL + ",secret-file=" + secret}}})
			commits, err := r.Git("log", "--format=%h %s", "main")
			check(t, err)
			if n := strings.Count(commits, "default: pause"); n != 1 {
				t.Errorf("the branch has the change %d times:\n%s", n, commits)
			}
			if c.want != "" {
				if code == invocation.ExitOK || strings.Contains(errs, "another writer") || !strings.Contains(errs, c.want) {
					t.Errorf("exit code %d: %s", code, errs)
				}
				return
			}
			_, pushed, _ := strings.Cut(out, "pushed ")
			pushed, _, _ = strings.Cut(pushed, " ")
			if code != invocation.ExitOK || pushed == "" || !strings.Contains(commits, pushed+" default: pause") {
				t.Errorf("exit code %d, pushed %q: %s\n%s", code, pushed, errs, commits)
			}
			if len(syncers.lines) != 1 || !strings.Contains(syncers.lines[0], ".."+pushed) {
				t.Errorf("notified %q", syncers.lines)
			}
		})
	}
}

// TestInterruptedChangeThatLanded asserts that a manual change that a signal interrupts never claims that
// nothing was pushed if the branch has it, or may have it.
func TestInterruptedChangeThatLanded(t *testing.T) {
	for name, c := range map[string]struct {
		answered int // requests that are answered after the push
		want     string
	}{
		"landed and read":        {9, "interrupted, but the change is in the branch: pushed "},
		"landed, and not read":   {0, "interrupted during the push, which may have succeeded: muster history shows it"},
		"landed, read only once": {1, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := gitserver.Init(filepath.Join(dir, "fleet.git"))
			check(t, err)
			_, err = r.Commit("Begin\n", start, branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte(readText(t, "overlays/default/scaling.yaml"))})
			check(t, err)
			ctx, signal := context.WithCancel(t.Context())
			var mu sync.Mutex
			pushed, answered := false, 0
			server := serveGit(t, dir, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case pushed:
						if answered++; answered > c.answered {
							panic(http.ErrAbortHandler)
						}
						next.ServeHTTP(w, q)
					case strings.HasSuffix(q.URL.Path, "/git-receive-pack"):
						pushed = true
						next.ServeHTTP(httptest.NewRecorder(), q)
						signal()
						panic(http.ErrAbortHandler)
					default:
						next.ServeHTTP(w, q)
					}
				})
			}})
			var out, errs bytes.Buffer
			p := program{invocation.Program{Args: []string{"pause", "default", "--yes", "--repo", server.URL + "/fleet.git", "--commit-author", "Ada <ada@example.com>"}, Clock: stoppedClock{start}, Stdout: &out, Stderr: &errs}}
			code := p.run(ctx)
			if code != invocation.ExitOutside || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), "nothing was pushed") {
				t.Errorf("exit code %d: %s", code, &errs)
			}
		})
	}
}

// TestChangesWithoutEnd asserts that a time that has no length, or has passed, is not read as a flag
// that is absent: the change would be permanent.
func TestChangesWithoutEnd(t *testing.T) {
	server, r, _ := manualFleet(t)
	for _, command := range []string{"pause default", "set default max=20"} {
		for _, end := range []string{"--for 0s", "--for 0", "--for -0s", "--for 1ns", "--for -1h", "--for 2", "--for=", "--until=", "--until 0001-01-01T00:00:00Z", "--until 2026-11-21T02:15Z", "--until 1970-01-01"} {
			args := strings.Fields(command + " --yes --commit-author Ada<ada@example.com> --repo " + server.URL + "/acme/fleet.git " + end)
			if code, out, errs := execute(t, program{invocation.Program{Args: args}}); code != invocation.ExitUsage || out != "" || !strings.HasPrefix(errs, "muster: --") {
				t.Errorf("%s %s: exit code %d, printed %s%s", command, end, code, out, errs)
			}
		}
	}
	args := strings.Fields("pause default --yes --commit-author Ada<ada@example.com> --repo " + server.URL + "/acme/fleet.git")
	if code, _, errs := execute(t, program{invocation.Program{Args: args, Environ: []string{"MUSTER_FOR=0s"}}}); code != invocation.ExitUsage {
		t.Errorf("with a variable: exit code %d, printed %s", code, errs)
	}
	if n, err := r.Git("rev-list", "--count", "main"); err != nil || strings.TrimSpace(n) != "1" {
		t.Errorf("main has %s commits, %v", n, err)
	}
}

// TestManualPullRequest asserts that --pr pushes to a new branch and opens a pull request on
// GitHub.
func TestManualPullRequest(t *testing.T) {
	server, r, api := manualFleet(t)
	reason := "the registry is down"
	run := func(environ ...string) string {
		t.Helper()
		code, out, errs := execute(t, program{invocation.Program{Args: []string{"pause", "default", "--reason", reason, "--pr", "--yes", "--github-api-url", api.URL, "--repo", server.URL + "/acme/fleet.git", "--commit-author", "Ada <ada@example.com>"},
			Environ: environ}})
		if code != invocation.ExitOK {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		return out
	}
	if out := run("GITHUB_TOKEN=" + githubtest.PersonalToken); !strings.HasSuffix(out, "https://github.com/acme/fleet/pull/1\n") {
		t.Errorf("it prints\n%s", out)
	}
	said := api.Pull(1)
	for _, want := range []string{"muster/default--pause", " -> main: default: pause\n", "paused false -> true", "Reason: the registry is down", "muster orders no more agents here."} {
		if !strings.Contains(said, want) {
			t.Errorf("the pull request lacks %q:\n%s", want, said)
		}
	}
	if n, err := r.Git("rev-list", "--count", "main"); err != nil || strings.TrimSpace(n) != "1" {
		t.Errorf("main has %s commits, %v", n, err)
	}
	if out, err := r.Git("for-each-ref", "--format=%(authorname): %(subject)", "refs/heads/muster"); err != nil || out != "Ada: default: pause\n" {
		t.Errorf("the branch has %q, %v", out, err)
	}
	// For another reason, and without a token: another branch, and what to do with it.
	reason = "it still is"
	if out := run(); !strings.Contains(out, "into main there (on GitHub muster does, with GITHUB_TOKEN or the App)\n") {
		t.Errorf("without a token it prints\n%s", out)
	}
}
