package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/laboratory"
	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// peer is what a command waits for. It does not answer until it is released.
type peer struct {
	reached    chan struct{} // closed when as many as needed wait
	released   chan struct{} // closed when it answers
	needed     atomic.Int64
	closes     atomic.Bool // it closes connections instead
	releaseOne sync.Once
}

func newPeer() *peer {
	h := &peer{reached: make(chan struct{}), released: make(chan struct{})}
	h.needed.Store(1)
	return h
}

// wait waits until the peer is released, and reports whether it answers.
func (h *peer) wait() bool {
	if h.needed.Add(-1) == 0 {
		close(h.reached)
	}
	<-h.released
	return !h.closes.Load()
}

func (h *peer) release() { h.releaseOne.Do(func() { close(h.released) }) }

// before returns the address of a server before another one, at which matching requests wait.
func (h *peer) before(t *testing.T, address string, match func(r *http.Request, body string) bool) string {
	t.Helper()
	to, err := url.Parse(address)
	check(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	return serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if match(r, string(body)) && !h.wait() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})).URL
}

// Sleep implements generator.Clock.
func (h *peer) Sleep(ctx context.Context, _ time.Duration) error {
	go h.wait()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-h.released:
		return nil
	}
}

// Now implements generator.Clock.
func (*peer) Now() time.Time { return start }

// Write implements io.Writer: a pipe that nobody reads.
func (h *peer) Write(text []byte) (int, error) {
	if !h.wait() {
		return 0, io.ErrClosedPipe
	}
	return len(text), nil
}

// Read implements io.Reader: a person who does not answer.
func (h *peer) Read([]byte) (int, error) {
	h.wait()
	return 0, io.EOF
}

// program returns a program that waits before it becomes another one.
func (h *peer) program(t *testing.T, then string) string {
	t.Helper()
	fifos := filepath.Join(t.TempDir(), "fifo")
	for _, name := range []string{fifos + "1", fifos + "2"} {
		check(t, syscall.Mkfifo(name, 0o600))
	}
	file := tempFile(t, "program", fmt.Sprintf("#!/bin/sh\n: > %s1\nread line < %s2\n%s\n", fifos, fifos, then))
	check(t, os.Chmod(file, 0o700))
	go func() {
		if _, err := os.ReadFile(fifos + "1"); err == nil { // the program has opened it
			h.wait()
			if f, err := os.OpenFile(fifos+"2", os.O_RDWR, 0); err == nil { // opening it does not wait for the program
				_, _ = f.WriteString("\n")
			}
		}
	}()
	return file
}

// blockingPoint is a point at which a command waits.
type blockingPoint struct {
	name, args string
	// hold makes the command wait for the peer.
	hold func(t *testing.T, h *peer, w *scenario, p *program)
	// interrupted is what standard error contains after an interrupt. If it is empty, the command ends
	// with exit code 0.
	interrupted string
	// closed is what the log contains after the connection was closed; empty without an entry.
	closed string
}

// runs reports whether the command runs until a signal.
func (b blockingPoint) runs() bool { return b.interrupted == "msg=stopped" }

// code returns the exit code after an interrupt.
func (b blockingPoint) code() int {
	switch b.interrupted {
	case "", "msg=stopped":
		return invocation.ExitOK
	case "removing the stack": // the plan was printed
		return invocation.ExitChanges
	}
	return invocation.ExitOutside
}

// point is a blockingPoint under test.
type point struct {
	t        *testing.T
	peer     *peer
	scenario *scenario
	stdout   sharedBuffer
	stderr   sharedBuffer
	hangup   chan os.Signal
	cancel   context.CancelFunc
	code     chan int
}

// begin runs a command until it waits.
func (b blockingPoint) begin(t *testing.T) *point {
	t.Helper()
	w, p, _, _ := fleetProgram(t, strings.Fields(b.args)...)
	w.addBuild(3)
	x := &point{t: t, peer: newPeer(), scenario: w, hangup: make(chan os.Signal, 1), code: make(chan int, 1)}
	p.Stdout, p.Stderr = &x.stdout, &x.stderr
	p.Hangup = func() <-chan os.Signal { return x.hangup }
	b.hold(t, x.peer, w, &p)
	ctx, cancel := context.WithCancel(t.Context())
	x.cancel = cancel
	go func() { x.code <- p.Run(ctx, programOf(p.Args)) }()
	select {
	case <-x.peer.reached:
	case code := <-x.code:
		x.end()
		t.Fatalf("exit code %d before it waits:\n%s", code, x.stderr.text())
	}
	return x
}

// end ends what still runs.
func (x *point) end() {
	x.cancel()
	x.peer.release()
}

// ends asserts the exit code and the end of standard error.
func (x *point) ends(want int, text string) {
	x.t.Helper()
	if code := <-x.code; code != want {
		x.t.Errorf("exit code %d, want %d", code, want)
	}
	errs := x.stderr.text()
	raw := func(line string) bool {
		return strings.Contains(line, "context canceled") && !strings.Contains(line, "level=DEBUG")
	}
	if !strings.Contains(errs, text) || slices.ContainsFunc(strings.Split(errs, "\n"), raw) {
		x.t.Errorf("standard error lacks %q, or has an error without its cause:\n%s", text, errs)
	}
}

// atGit makes requests to git wait.
func atGit(match func(r *http.Request, body string) bool) func(*testing.T, *peer, *scenario, *program) {
	return func(t *testing.T, h *peer, w *scenario, p *program) {
		p.Environ = append(p.Environ, "MUSTER_REPO="+h.before(t, w.git.URL, match)+"/fleet.git")
	}
}

func atCapabilities() func(*testing.T, *peer, *scenario, *program) {
	return atGit(func(r *http.Request, _ string) bool { return strings.HasSuffix(r.URL.Path, "/info/refs") })
}

// atRefs makes the second read of the branch wait, which requests one of many refs.
func atRefs(t *testing.T, h *peer, w *scenario, p *program) {
	const many = 120
	check(t, w.repo.AddPullRequests(many))
	atGit(func(_ *http.Request, body string) bool { return strings.Contains(body, "command=ls-refs") })(t, h, w, p)
}

func atFetch() func(*testing.T, *peer, *scenario, *program) {
	return atGit(func(r *http.Request, _ string) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-upload-pack")
	})
}

func atPush() func(*testing.T, *peer, *scenario, *program) {
	return atGit(func(r *http.Request, _ string) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack")
	})
}

// atBuildkite makes requests for paths that contain a text wait.
func atBuildkite(path string) func(*testing.T, *peer, *scenario, *program) {
	return func(t *testing.T, h *peer, w *scenario, p *program) {
		p.Environ = append(p.Environ, "MUSTER_BUILDKITE_URL="+h.before(t, w.api.URL, func(r *http.Request, _ string) bool {
			return strings.Contains(r.URL.Path, path)
		})+"/")
	}
}

// atLimit makes the command wait for Buildkite's rate limit.
func atLimit(_ *testing.T, h *peer, w *scenario, p *program) {
	w.buildkite.Fail(fakebuildkite.Fault{Path: "/agents", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"4"}}})
	p.Clock = h
}

// atStacks makes requests of the Stacks API wait.
func atStacks(path string) func(*testing.T, *peer, *scenario, *program) {
	return func(t *testing.T, h *peer, w *scenario, p *program) {
		p.Environ = append(p.Environ, "MUSTER_SOURCE=stacks", "MUSTER_AGENT_TOKEN_FILE="+agentTokenFile(t),
			"MUSTER_AGENT_ENDPOINT="+h.before(t, w.agents.URL, func(r *http.Request, _ string) bool { return strings.Contains(r.URL.Path, path) }))
	}
}

// atStackLimit makes the command wait for the rate limit of a stack.
func atStackLimit(t *testing.T, h *peer, w *scenario, p *program) {
	w.buildkite.Fail(fakebuildkite.Fault{Path: "/scheduled-jobs", Status: http.StatusTooManyRequests, Header: http.Header{"RateLimit-Reset": {"2"}}})
	p.Environ = append(p.Environ, "MUSTER_SOURCE=stacks", "MUSTER_AGENT_TOKEN_FILE="+agentTokenFile(t), "MUSTER_AGENT_ENDPOINT="+w.agents.URL)
	p.Clock = h
}

// atBuild makes the builds of kustomize wait. The time that other overlays wait for them does not end.
func atBuild(t *testing.T, h *peer, _ *scenario, p *program) {
	self, err := os.Executable()
	check(t, err)
	p.Executable = h.program(t, fmt.Sprintf("exec %q %s", self, invocation.BuildArgument))
	p.Clock = endlessClock{}
}

// endlessClock is a clock whose sleeps end with the context alone.
type endlessClock struct{}

func (endlessClock) Now() time.Time { return start }

func (endlessClock) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// atSleep makes sleeps wait.
func atSleep(_ *testing.T, h *peer, _ *scenario, p *program) { p.Clock = h }

// atReceiver makes the receiver of notifications wait.
func atReceiver(t *testing.T, h *peer, w *scenario, p *program) {
	address := h.before(t, w.git.URL, func(*http.Request, string) bool { return true })
	p.Environ = append(p.Environ, "MUSTER_NOTIFY=kind=flux,url="+address+"/hook/0123,secret-file="+tempFile(t, "secret", "0123456789"))
}

// atOutput makes writes to standard output wait.
func atOutput(_ *testing.T, h *peer, _ *scenario, p *program) { p.Stdout = h }

// atInput makes reads of standard input wait.
func atInput(_ *testing.T, h *peer, _ *scenario, p *program) { p.Stdin, p.Terminal = h, true }

// atFile makes the file that a flag names wait for its writer.
func atFile(flag string) func(*testing.T, *peer, *scenario, *program) {
	return func(t *testing.T, h *peer, _ *scenario, p *program) {
		pipe := namedPipe(t)
		p.Args = append(p.Args, flag, pipe)
		go func() {
			if f, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil { // the command has opened it
				h.wait()
				f.Close()
			}
		}()
	}
}

func namedPipe(t *testing.T) string {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	check(t, syscall.Mkfifo(pipe, 0o600))
	return pipe
}

// TestInterruptedWrite asserts that the write of a file that nobody reads ends with the context.
func TestInterruptedWrite(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := program{invocation.Program{Ctx: ctx}}
	written := make(chan error, 1)
	go func() { written <- p.WriteFile(namedPipe(t), []byte("text")) }()
	cancel()
	if err := <-written; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestPipesRefused asserts that files which are read repeatedly are not pipes.
func TestPipesRefused(t *testing.T) {
	pipe := namedPipe(t)
	for _, c := range []struct{ args, environ, flag string }{
		{"plan --git-password-file " + pipe, "", "--git-password-file"},
		{"status", "MUSTER_GIT_CA_FILE=" + pipe, "--git-ca-file"},
		{"check --agent-token-file " + tempFile(t, "token", "x") + " --agent-token-file " + pipe, "", "--agent-token-file"},
	} {
		_, p, _, stderr := fleetProgram(t, strings.Fields(c.args)...)
		p.Environ = append(p.Environ, c.environ)
		if code := p.run(t.Context()); code != invocation.ExitUsage || !strings.Contains(stderr.String(), "muster: "+c.flag+": "+pipe+" is a pipe") {
			t.Errorf("%s: exit code %d, printed %s", c.args, code, stderr)
		}
	}
}

// atSSH makes the ssh program wait.
func atSSH(t *testing.T, h *peer, _ *scenario, p *program) {
	p.Environ = append(p.Environ, "MUSTER_REPO=ssh://git@host.invalid/fleet.git", "GIT_SSH="+h.program(t, "exit 1"), "PATH="+os.Getenv("PATH"))
}

// atHelper makes git's credential helper wait.
func atHelper(t *testing.T, h *peer, w *scenario, p *program) {
	w.git.SetPassword("hunter2")
	settings := tempFile(t, "settings", "[credential]\n\thelper = "+h.program(t, "exit 1")+"\n")
	p.Environ = append(p.Environ, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+settings, "PATH="+os.Getenv("PATH"))
}

// atGitHub makes GitHub's API wait.
func atGitHub(t *testing.T, h *peer, _ *scenario, p *program) {
	server, _, api := manualFleet(t)
	address := h.before(t, api.URL, func(*http.Request, string) bool { return true })
	p.Environ = append(p.Environ, "MUSTER_REPO="+server.URL+"/"+githubtest.Owner+"/"+githubtest.Name+".git", "MUSTER_GITHUB_API_URL="+address, "GITHUB_TOKEN="+githubtest.PersonalToken)
}

// atVerification makes a worker of verify wait.
func atVerification(t *testing.T, h *peer, w *scenario, p *program) {
	addCommits(t, w.repo, 256*(runtime.GOMAXPROCS(0)+2))
	atGit(func(_ *http.Request, body string) bool {
		return strings.Contains(body, "want ") && !strings.Contains(body, "tree:0")
	})(t, h, w, p)
}

// addCommits adds commits of a person.
func addCommits(t *testing.T, r gitserver.Repository, n int) {
	t.Helper()
	var commits strings.Builder
	head, err := r.Head()
	check(t, err)
	for i := range n {
		from := ""
		if i == 0 {
			from = "from " + head + "\n"
		}
		fmt.Fprintf(&commits, "commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\n%sM 100644 inline f\ndata <<E\n%d\nE\n", start.Unix()+int64(i), from, i)
	}
	_, err = r.GitInput([]byte(commits.String()), "fast-import", "--quiet", "--force")
	check(t, err)
}

// TestVerifyInterruptedInClone asserts that verify ends although git answers none of its workers.
func TestVerifyInterruptedInClone(t *testing.T) {
	w, p, _, _ := fleetProgram(t, "verify")
	workers := runtime.GOMAXPROCS(0)
	addCommits(t, w.repo, 64*(workers+2))
	git, err := exec.LookPath("git")
	check(t, err)
	asked := filepath.Join(t.TempDir(), "asked")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*cat-file\\ --batch) echo >> %s; exec cat > /dev/null;;\nesac\nexec %s \"$@\"\n", asked, git)
	file := tempFile(t, "git", script)
	check(t, os.Chmod(file, 0o700))
	t.Setenv("PATH", filepath.Dir(file)+":"+os.Getenv("PATH"))
	var stderr sharedBuffer
	p.Environ, p.Stderr = []string{"MUSTER_REPO=" + w.repo.Dir}, &stderr
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- p.run(ctx) }()
	until(func() bool {
		text, _ := os.ReadFile(asked)
		return len(text) == workers
	})
	cancel()
	if c := <-code; c != invocation.ExitOutside || !strings.Contains(stderr.text(), "interrupted: not all commits were verified") {
		t.Errorf("exit code %d, printed\n%s", c, stderr.text())
	}
}

const manualAuthor = " --commit-author Ada<ada@example.com>"

// blockingPoints are the points at which commands wait for others.
func blockingPoints() []blockingPoint {
	const stopped = "msg=stopped"
	all := []blockingPoint{
		{"git capabilities", "run", atCapabilities(), stopped, "ended the connection"},
		{"git refs", "run --interval 1s --startup-jitter 0s --log-level debug", atRefs, stopped, "EOF"},
		{"git fetch", "run", atFetch(), stopped, "ended the connection"},
		{"git push", "run", atPush(), stopped, "ended the connection"},
		{"agents", "run", atBuildkite("/agents"), stopped, "ended the connection"},
		{"builds", "run", atBuildkite("/builds"), stopped, "ended the connection"},
		{"queues", "run", atBuildkite("/queues"), stopped, "ended the connection"},
		{"stack", "run", atStacks("/stacks/register"), stopped, "ended the connection"},
		{"stack's rate limit", "run", atStackLimit, stopped, ""},
		{"kustomize", "run", atBuild, stopped, ""},
		{"receiver", "run", atReceiver, stopped, ""},
		{"git push", "run --once", atPush(), "interrupted: the tick was not completed; muster history shows what it pushed; run it again", "ended the connection"},
		{"rate limit", "run --once", atLimit, "interrupted: the tick was not completed", ""},
		{"git push", "pause default --yes" + manualAuthor, atPush(), "interrupted during the push, which may have succeeded: muster history shows it", "ended the connection"},
		{"confirmation", "pause default" + manualAuthor, atInput, "interrupted: nothing was pushed; run it again", ""},
		{"pull request", "pause default --yes --pr" + manualAuthor, atGitHub, "interrupted: the commit is in the branch muster/default--pause-", "ended the connection"},
		{"prompt", "init " + filepath.Join(os.TempDir(), "muster-interrupted"), atInput, "interrupted: files may be missing; run it again", ""},
		{"rate limit", "plan", atLimit, "interrupted: nothing was decided; run it again", ""},
		{"stack that is left", "plan", atStacks("/deregister"), "removing the stack", "removing the stack"},
		{"receiver", "check", atReceiver, "interrupted: the files are not checked", ""},
		{"rate limit", "check", atLimit, "interrupted: the files are not checked", ""},
		{"watch", "plan --watch", atSleep, "", ""},
		{"watch", "status --watch", atSleep, "", ""},
		{"follow", "history --follow", atSleep, "", ""},
		{"ssh", "status", atSSH, "interrupted: the fleet was not read; run it again", ""},
		{"credential helper", "status", atHelper, "interrupted: the fleet was not read; run it again", ""},
		{"file", "simulate", atFile("--policy"), "interrupted: the simulation was not completed; run it again (--policy)", ""},
		{"file", "simulate", atFile("--csv"), "interrupted: the simulation was not completed; run it again (--csv)", ""},
		{"workers", "verify", atVerification, "interrupted: not all commits were verified; run it again", "ended the connection"},
	}
	for _, c := range [][2]string{
		{"plan", "nothing was decided"}, {"status", "the fleet was not read"}, {"history", "the history was not read to its end"},
		{"explain default", "nothing was explained"}, {"report", "no report was written"}, {"verify", "not all commits were verified"},
		{"check", "the files are not checked"}, {"simulate --history", "the simulation was not completed"}, {"set default max=3 --yes" + manualAuthor, "nothing was pushed"},
		{"run --once", "the tick was not completed"},
	} {
		for name, hold := range map[string]func(*testing.T, *peer, *scenario, *program){"git capabilities": atCapabilities(), "git fetch": atFetch()} {
			all = append(all, blockingPoint{name, c[0], hold, "interrupted: " + c[1], "ended the connection"})
		}
		switch c[0] {
		case "plan", "check", "run --once":
			for _, path := range []string{"/agents", "/builds", "/queues"} {
				all = append(all, blockingPoint{path, c[0], atBuildkite(path), "interrupted: " + c[1], "ended the connection"})
			}
			fallthrough
		case "status", "set default max=3 --yes" + manualAuthor:
			all = append(all, blockingPoint{"kustomize", c[0], atBuild, "interrupted: " + c[1], ""})
		}
		if c[0] != "run --once" && c[0] != "explain default" && c[0] != "simulate --history" { // which print nothing: no commit is muster's
			all = append(all, blockingPoint{"output", c[0], atOutput, "interrupted: " + c[1], "writing to standard output: io: read/write on closed pipe"})
		}
	}
	for _, args := range []string{"schema", "version", "help", "completion bash"} {
		all = append(all, blockingPoint{"output", args, atOutput, "interrupted: the output is incomplete; run it again", "writing to standard output"})
	}
	return all
}

// eachBlockingPoint runs a test for some of the blocking points.
func eachBlockingPoint(t *testing.T, some func(blockingPoint) bool, test func(t *testing.T, b blockingPoint)) {
	unraced.Only(t)
	for _, b := range blockingPoints() {
		if !some(b) {
			continue
		}
		t.Run(b.args+"/"+b.name, func(t *testing.T) {
			if b.args == "run" {
				b.args = "run --interval 24h --startup-jitter 0s --log-level debug"
			}
			t.Parallel()
			test(t, b)
		})
	}
}

// TestInterrupted asserts that an interrupt ends every command at every point at which it waits,
// although the peer never answers.
func TestInterrupted(t *testing.T) {
	every := func(blockingPoint) bool { return true }
	eachBlockingPoint(t, every, func(t *testing.T, b blockingPoint) {
		x := b.begin(t)
		defer x.end()
		x.cancel()
		x.ends(b.code(), b.interrupted)
	})
}

// TestConnectionsClosed asserts that every command ends with the reason, and that run logs it and
// continues, if the peer closes the connection at a point at which a command waits.
func TestConnectionsClosed(t *testing.T) {
	connected := func(b blockingPoint) bool { return b.closed != "" }
	eachBlockingPoint(t, connected, func(t *testing.T, b blockingPoint) {
		x := b.begin(t)
		defer x.end()
		x.peer.closes.Store(true)
		x.peer.release()
		if b.runs() {
			until(func() bool { return strings.Contains(x.stderr.text(), b.closed) })
			x.cancel()
			x.ends(invocation.ExitOK, "msg=stopped")
			return
		}
		x.ends(max(b.code(), invocation.ExitChanges), "")
		if both := x.stdout.text() + x.stderr.text(); !strings.Contains(both, b.closed) {
			t.Errorf("it does not say %q:\n%s", b.closed, both)
		}
	})
}

// TestSIGHUPEndsOnlyPause asserts that SIGHUP ends nothing that run waits for during a tick, and that
// another tick follows. The interval is a day.
func TestSIGHUPEndsOnlyPause(t *testing.T) {
	eachBlockingPoint(t, blockingPoint.runs, func(t *testing.T, b blockingPoint) {
		x := b.begin(t)
		defer x.end()
		x.hangup <- syscall.SIGHUP
		x.peer.release()
		until(func() bool { return strings.Contains(x.stderr.text(), `msg="nothing to do"`) })
		if log := x.stderr.text(); !strings.Contains(log, "msg=dispatched") || strings.Contains(log, "suspended") {
			t.Errorf("the first tick does not dispatch, or suspends:\n%s", log)
		}
		x.cancel()
		x.ends(invocation.ExitOK, "msg=stopped")
	})
}

// TestInterruptedBeforeBegin asserts what commands print if they are interrupted at once.
func TestInterruptedBeforeBegin(t *testing.T) {
	dir := t.TempDir()
	for _, args := range []string{
		"cancel default-x --yes" + manualAuthor, "check", "close-breaker default --yes" + manualAuthor, "explain default", "history", "pause default --yes" + manualAuthor, "plan", "report",
		"resume default --yes" + manualAuthor, "revert 12345678 --yes" + manualAuthor, "run --once", "set default max=1 --yes" + manualAuthor, "simulate --workload steady --length 1h", "status", "verify", "demo " + dir + "/demo",
	} {
		_, p, _, stderr := fleetProgram(t, strings.Fields(args)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code := p.Run(ctx, programOf(p.Args)); code != invocation.ExitOutside || !strings.Contains(stderr.String(), programOf(p.Args).Name+": interrupted") || strings.Contains(stderr.String(), "context canceled") {
			t.Errorf("%s: exit code %d, printed %s", args, code, stderr)
		}
	}
}

// TestInterruptedWithBlockedError asserts that a process ends although nobody reads its standard error.
func TestInterruptedWithBlockedError(t *testing.T) {
	h := newPeer()
	defer h.release()
	_, p, _, _ := fleetProgram(t, "run")
	p.Stderr, p.StopTime = h, time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- p.run(ctx) }()
	<-h.reached
	cancel()
	if c := <-code; c != invocation.ExitOutside {
		t.Errorf("exit code %d", c)
	}
}

// TestUnfinishedCommands asserts that every command that reads or writes more than standard output has
// a text for interrupts.
func TestUnfinishedCommands(t *testing.T) {
	known := map[string]bool{}
	unfinished := maps.Clone(allCommands.Unfinished)
	maps.Copy(unfinished, laboratory.Commands.Unfinished)
	for _, c := range slices.Concat(allCommands.Root(invocation.Program{}).Commands(), laboratory.Commands.Root(invocation.Program{}).Commands()) {
		known[c.Name()] = true
		output := map[string]bool{"schema": true, "version": true, "man": true}
		if unfinished[c.Name()] == "" && !output[c.Name()] {
			t.Errorf("%s has no text", c.Name())
		}
	}
	for name := range unfinished {
		if !known[name] {
			t.Errorf("there is no command %s", name)
		}
	}
}
