package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/canarytest"
)

// daylong is the program as it is, on the machine's clock, beside a simulated Buildkite
// on the same. Its interval is a day: after its first tick, only what ends the pause
// makes it tick.
type daylong struct {
	*scenario
	t       *testing.T
	process *process
	ended   chan error
}

// thisClock gives a world a Buildkite that has the machine's clock.
func thisClock(t *testing.T) daylong {
	t.Helper()
	w, _, _, _ := fleetProgram(t)
	w.buildkite = fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), Token: canarytest.BuildkiteToken, MetricsPoll: -1})
	w.cluster.BuildkiteCluster = w.buildkite.AddCluster("ci")
	w.buildkite.AddQueue(w.cluster.BuildkiteCluster, "default")
	w.buildkite.AddAgentToken(w.cluster.BuildkiteCluster, canarytest.AgentToken)
	w.api = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.buildkite.AdvanceTo(time.Now())
		w.buildkite.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.api.Close)
	return daylong{scenario: w, t: t, ended: make(chan error, 1)}
}

// start starts muster run, with more of an environment and more flags.
func (k *daylong) start(environ []string, flags ...string) {
	k.t.Helper()
	environ = append(environ, "MUSTER_REPO="+k.git.URL+"/fleet.git", "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL="+k.api.URL+"/", "BUILDKITE_API_TOKEN="+canarytest.BuildkiteToken)
	k.process = started(k.t, environ, append([]string{"run", "--interval", "24h", "--startup-jitter", "0s"}, flags...)...)
	go func() { k.ended <- k.process.Wait() }()
}

// says waits until the log has a text.
func (k *daylong) says(text string) {
	k.t.Helper()
	until(func() bool {
		select {
		case err := <-k.ended:
			k.t.Fatalf("it has ended: %v, and had not said %q:\n%s", err, text, k.process.text())
		default:
		}
		return strings.Contains(k.process.text(), text)
	})
}

// signal sends it a signal.
func (k *daylong) signal(s syscall.Signal) {
	k.t.Helper()
	if err := k.process.Process.Signal(s); err != nil {
		k.t.Fatal(err)
	}
}

// stop ends it, as Kubernetes does.
func (k *daylong) stop() {
	k.t.Helper()
	k.signal(syscall.SIGTERM)
	if err := <-k.ended; err != nil {
		k.t.Errorf("%v\n%s", err, k.process.text())
	}
}

// process is muster as it is, in a process of its own.
type process struct {
	*exec.Cmd
	mu     sync.Mutex
	output bytes.Buffer
}

// Write implements io.Writer for what it prints.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(text)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// started starts muster.
func started(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(program, args...)}
	p.Env = append(environ, realVariable+"=1")
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// until waits for something that comes about or the test does not end.
func until(is func() bool) {
	for !is() {
		time.Sleep(5 * time.Millisecond)
	}
}

// TestHangupTicksNow: SIGHUP reaches the program as it is, and means that it ticks
// now. Its interval is a day: what a job that came after the first tick is ordered by
// is the signal, or the test does not end.
func TestHangupTicksNow(t *testing.T) {
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

// TestHangupEndsTheSleep: SIGHUP means that the next tick comes now.
func TestHangupEndsTheSleep(t *testing.T) {
	wake := make(chan os.Signal, 1)
	wake <- syscall.SIGHUP
	if err := (wallClock{interrupt: wake}).Sleep(t.Context(), time.Hour*24*365); err != nil {
		t.Error(err)
	}
}
