package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/laboratory"
	"muster/cmd/starter"
	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"
)

// scriptedClock calls a function at each sleep, and ends the context after the last.
type scriptedClock struct {
	stoppedClock
	at   []func()
	stop context.CancelFunc
}

func (c *scriptedClock) Sleep(ctx context.Context, _ time.Duration) error {
	if len(c.at) == 0 {
		c.stop()
		return errors.New("the script is over")
	}
	c.at[0]()
	c.at = c.at[1:]
	return ctx.Err()
}

// runScripted runs a program that calls a function at each sleep, and ends after the last.
func runScripted(t *testing.T, p program, at time.Time, functions ...func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p.Clock = &scriptedClock{stoppedClock{at}, functions, stop}
	if code := p.run(ctx); code != invocation.ExitOK {
		t.Errorf("exit code %d: %s", code, p.Stderr)
	}
}

// fleetProgram returns a scenario with a starter fleet, and muster for it.
func fleetProgram(t *testing.T, args ...string) (*scenario, program, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	w := newScenario(t, t.TempDir())
	changes, err := starter.Changes(func(text []byte) []byte { return text })
	check(t, err)
	_, err = w.repo.Commit("Begin the fleet", start.Add(-time.Hour), changes...)
	check(t, err)
	w.buildkite.AdvanceTo(start)
	var stdout, stderr bytes.Buffer
	p := program{invocation.Program{Args: args, Stdout: &stdout, Stderr: &stderr, Clock: stoppedClock{start}, Environ: []string{
		"MUSTER_REPO=" + w.git.URL + "/fleet.git", "MUSTER_BUILDKITE_URL=" + w.api.URL + "/", "MUSTER_BUILDKITE_ORG=acme", "BUILDKITE_API_TOKEN=" + leaktest.BuildkiteToken,
	}}}
	return w, p, &stdout, &stderr
}

// failer is a test or a script.
type failer interface{ Fatal(args ...any) }

// tempFile returns the name of a temporary file with a text.
func tempFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// lifetime is a test or a script, with what is to be done at its end.
type lifetime interface {
	failer
	Cleanup(f func())
}

// serveHTTP serves requests until the end of a test.
func serveHTTP(t lifetime, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// serveGit serves the repositories in a directory until the end of a test.
func serveGit(t lifetime, dir string, o gitserver.Options) *gitserver.Server {
	s, err := gitserver.Serve(dir, o)
	check(t, err)
	t.Cleanup(s.Close)
	return s
}

// check fails the test if err is not nil.
func check(t failer, err error) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// execute runs a program, and returns its exit code and what it prints.
func execute(t testing.TB, p program) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p.Stdout, p.Stderr = &out, &errs
	if p.Clock == nil {
		p.Clock = stoppedClock{start}
	}
	code = p.Run(t.Context(), programOf(p.Args))
	return code, out.String(), errs.String()
}

// programOf returns the commands of muster-sim if a command line is one of its, otherwise those of muster.
func programOf(args []string) invocation.Commands {
	if len(args) > 0 && slices.Contains([]string{"demo", "live", "preview", "serve", "simulate"}, args[0]) {
		return laboratory.Commands
	}
	return allCommands
}

// responseText sends a request, and returns the body of the response.
func responseText(t *testing.T, r *http.Request) string {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// getText returns the body of the response to a GET request.
func getText(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	check(t, err)
	return responseText(t, r)
}

// listenAddress returns the address in the log that run --listen logs.
func listenAddress(log string) string {
	return regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(log)[1]
}

func (w *scenario) addBuild(jobs int) {
	w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster.BuildkiteCluster, Steps: []fakebuildkite.Step{{Label: "test", Parallelism: jobs, Duration: time.Hour}}})
}

// TestWatch asserts that without a terminal changes are printed, and that errors are reported
// and polls continue.
func TestWatch(t *testing.T) {
	w, p, stdout, stderr := fleetProgram(t, "plan", "--watch")
	runScripted(t, p, start,
		func() {}, // nothing changes
		func() { w.buildkite.Fail(fakebuildkite.Fault{Path: "/agents", Status: 403}) },
		func() { w.addBuild(2) },
	)
	if got := regexp.MustCompile(`(?m)^OVERLAY `).FindAllString(stdout.String(), -1); len(got) != 2 {
		t.Errorf("printed %d times, want 2:\n%s", len(got), stdout)
	}
	if strings.Count(stderr.String(), "(403)") != 1 {
		t.Errorf("the failed look is not reported once:\n%s", stderr)
	}
	if strings.Contains(stdout.String(), "\x1b") {
		t.Error("control sequences go to what is no terminal")
	}
}

// TestWatchOnATerminal asserts that each poll clears the screen and keeps the scrollback, and that NO_COLOR is
// respected.
func TestWatchOnATerminal(t *testing.T) {
	for _, plain := range []bool{false, true} {
		_, p, stdout, _ := fleetProgram(t, "plan", "--watch")
		p.Screen.Terminal = true
		if plain {
			p.Environ = append(p.Environ, "NO_COLOR=1")
		}
		runScripted(t, p, start, func() {})
		if got := strings.Count(stdout.String(), "\x1b[2J"); got != 2 {
			t.Errorf("the screen is cleared %d times, want 2", got)
		}
		if strings.Contains(stdout.String(), "\x1b[3J") {
			t.Error("the scrollback is erased")
		}
		if coloured := strings.Contains(stdout.String(), "\x1b[32mReady\x1b[0m"); coloured == plain {
			t.Errorf("NO_COLOR=%t, coloured: %t\n%q", plain, coloured, stdout)
		}
	}
}
