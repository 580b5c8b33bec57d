package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/leaktest"
)

// daylong is muster run as a process, with the machine's clock, beside a simulated Buildkite.
// Its interval is a day: after the first tick, only triggers start ticks.
type daylong struct {
	*scenario
	t       *testing.T
	process *process
	ended   chan error
}

// thisClock returns a scenario whose Buildkite has the machine's clock.
func thisClock(t *testing.T) daylong {
	t.Helper()
	w, _, _, _ := fleetProgram(t)
	w.buildkite = fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), Token: leaktest.BuildkiteToken, MetricsPoll: -1})
	w.cluster.BuildkiteCluster = w.buildkite.AddCluster("ci")
	w.buildkite.AddQueue(w.cluster.BuildkiteCluster, "default")
	w.buildkite.AddAgentToken(w.cluster.BuildkiteCluster, leaktest.AgentToken)
	w.api = serveHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.buildkite.AdvanceTo(time.Now())
		w.buildkite.ServeHTTP(rw, r)
	}))
	return daylong{scenario: w, t: t, ended: make(chan error, 1)}
}

// start starts muster run with additional or other variables, and flags.
func (k *daylong) start(environ []string, flags ...string) {
	k.t.Helper()
	own := []string{"MUSTER_REPO=" + k.git.URL + "/fleet.git", "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL=" + k.api.URL + "/", "BUILDKITE_API_TOKEN=" + leaktest.BuildkiteToken}
	k.process = started(k.t, append(own, environ...), append([]string{"run", "--interval", "24h", "--startup-jitter", "0s"}, flags...)...)
	go func() { k.ended <- k.process.Wait() }()
}

// says waits until the log contains a text. A template that takes long to build is used by a later tick, which it
// triggers.
func (k *daylong) says(text string) {
	k.t.Helper()
	triggered := time.Now()
	until(func() bool {
		select {
		case err := <-k.ended:
			k.t.Fatalf("it has ended: %v, and had not said %q:\n%s", err, text, k.process.text())
		default:
		}
		if end, ok := k.t.Deadline(); ok && time.Until(end) < 10*time.Second {
			k.t.Fatalf("it has not said %q until the end of the test:\n%s", text, k.process.text())
		}
		log := k.process.text()
		if strings.Contains(log, "is not built yet") && time.Since(triggered) > time.Second {
			triggered = time.Now()
			k.signal(syscall.SIGHUP)
		}
		return strings.Contains(log, text)
	})
}

// signal sends a signal.
func (k *daylong) signal(s syscall.Signal) {
	k.t.Helper()
	check(k.t, k.process.Process.Signal(s))
}

// stop ends the process with SIGTERM.
func (k *daylong) stop() {
	k.t.Helper()
	k.signal(syscall.SIGTERM)
	if err := <-k.ended; err != nil {
		k.t.Errorf("%v\n%s", err, k.process.text())
	}
}

// process is muster as a separate process.
type process struct {
	*exec.Cmd
	sharedBuffer // what it prints
}

// sharedBuffer is a buffer for several goroutines.
type sharedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *sharedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *sharedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// started starts muster.
func started(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	program, err := os.Executable()
	check(t, err)
	p := &process{Cmd: exec.Command(program, args...)}
	p.Env = append(environ, realVariable+"=1", "GOCOVERDIR="+t.TempDir()) // for go test -cover
	p.Stdout, p.Stderr = p, p
	check(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// until waits until a condition is true.
func until(is func() bool) {
	for !is() {
		time.Sleep(5 * time.Millisecond)
	}
}

// TestSIGHUPTriggersTick asserts that SIGHUP triggers a tick. The interval is a day.
func TestSIGHUPTriggersTick(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	k.addBuild(3)
	k.start(nil)
	k.says("agents=3")
	k.addBuild(5)
	k.signal(syscall.SIGHUP)
	k.says("agents=5")
	k.stop()
}
