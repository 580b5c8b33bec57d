package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
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
