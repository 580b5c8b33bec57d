package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPageOfRun asserts that a new process shows the earlier commits with their text, and that
// streams of events end with it.
func TestPageOfRun(t *testing.T) {
	w, p, _, stderr := fleetProgram(t, "run", "--once")
	w.addBuild(3)
	w.buildkite.AdvanceTo(start)
	if code := p.run(t.Context()); code != exitOK {
		t.Fatal(code, stderr)
	}
	later := start.Add(time.Minute)
	w.buildkite.AdvanceTo(later)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read := func(path string) string { return getText(t, "http://"+listenAddress(stderr.String())+path) }
	said := make(chan string, 1)
	p.args = []string{"run", "--listen", "127.0.0.1:0", "--startup-jitter", "0s"}
	p.clock = &scriptedClock{stoppedClock{later}, []func(){func() {
		page := ""
		until(func() bool { page = read("/"); return strings.Contains(page, "default: dispatch 3 agents") })
		if !strings.Contains(page, "3 jobs pending - 3 agents in flight: 0 missing.") || !strings.Contains(page, "3 jobs are pending.") {
			t.Errorf("%s", page)
		}
		if line := read("/timeline.svg?overlay=default&hours=1"); !strings.Contains(line, "default: dispatch 3 agents") {
			t.Errorf("%s", line)
		}
		begun := make(chan bool)
		go func() {
			r, err := http.Get("http://" + listenAddress(stderr.String()) + "/events") //nolint:noctx // a test
			close(begun)
			if err != nil {
				said <- err.Error()
				return
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			said <- fmt.Sprint(string(body), err)
		}()
		<-begun
	}}, stop}
	if code := p.run(ctx); code != exitOK {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if events := <-said; !strings.HasPrefix(events, "retry: 5000\n\n") || !strings.HasSuffix(events, "<nil>") {
		t.Errorf("%q", events)
	}
}
