package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/canary"
)

// TestHangupTicksNow: SIGHUP reaches the program as it is, and means that it ticks
// now. Its interval is a day: what a job that came after the first tick is ordered by
// is the signal, or the test does not end.
func TestHangupTicksNow(t *testing.T) {
	t.Parallel()
	w, _, _, _ := fleetProgram(t)
	now := fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), Token: canary.BuildkiteToken})
	w.cluster.BuildkiteCluster = now.AddCluster("ci")
	now.AddQueue(w.cluster.BuildkiteCluster, "default")
	w.buildkite = now
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		now.AdvanceTo(time.Now()) // the program has the machine's clock
		now.ServeHTTP(rw, r)
	}))
	t.Cleanup(api.Close)
	w.addBuild(3)
	p := started(t, []string{"MUSTER_REPO=" + w.git.URL + "/fleet.git", "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL=" + api.URL + "/",
		"BUILDKITE_API_TOKEN=" + canary.BuildkiteToken}, "run", "--interval", "24h", "--startup-jitter", "0s")
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	says := func(text string) {
		t.Helper()
		until(func() bool {
			select {
			case err := <-ended:
				t.Fatalf("it has ended: %v, and had not said %q:\n%s", err, text, p.text())
			default:
			}
			return strings.Contains(p.text(), text)
		})
	}
	says("agents=3")
	w.addBuild(5)
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	says("agents=5")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, p.text())
	}
}
