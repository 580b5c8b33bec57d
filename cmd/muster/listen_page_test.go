package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
)

// TestPageOfRun asserts that a new process shows the earlier commits with their text, and that
// streams of events end with it.
func TestPageOfRun(t *testing.T) {
	w, p, _, stderr := fleetProgram(t, "run", "--once")
	w.addBuild(3)
	w.buildkite.AdvanceTo(start)
	if code := p.run(t.Context()); code != invocation.ExitOK {
		t.Fatal(code, stderr)
	}
	later := start.Add(time.Minute)
	w.buildkite.AdvanceTo(later)
	read := func(path string) string { return getText(t, "http://"+listenAddress(stderr.String())+path) }
	var events *http.Response
	p.Args = []string{"run", "--listen", "127.0.0.1:0", "--startup-jitter", "0s"}
	runScripted(t, p, later, func() {
		page := ""
		until(func() bool { page = read("/"); return strings.Contains(page, "default: dispatch 3 agents") })
		if !strings.Contains(page, "3 jobs pending - 3 agents in flight: 0 missing.") || !strings.Contains(page, "3 jobs are pending.") {
			t.Errorf("%s", page)
		}
		if line := read("/timeline.svg?overlay=default&hours=1"); !strings.Contains(line, "default: dispatch 3 agents") {
			t.Errorf("%s", line)
		}
		var err error
		events, err = http.Get("http://" + listenAddress(stderr.String()) + "/events") //nolint:noctx // a test
		check(t, err)
	})
	defer events.Body.Close()
	if body, err := io.ReadAll(events.Body); err != nil || !strings.HasPrefix(string(body), "retry: 5000\n\n") {
		t.Errorf("%q, %v", body, err)
	}
}
