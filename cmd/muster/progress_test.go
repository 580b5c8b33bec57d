package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator/buildkite/fakebuildkite"
)

// awaited is a terminal that reports when a text appears.
type awaited struct {
	sharedBuffer
	awaits string
	seen   chan struct{}
	once   sync.Once
}

func (a *awaited) Write(text []byte) (int, error) {
	_, _ = a.sharedBuffer.Write(text)
	if strings.Contains(a.text(), a.awaits) {
		a.once.Do(func() { close(a.seen) })
	}
	return len(text), nil
}

// TestProgressLine asserts that a terminal shows what plan waits for and that the line is
// removed; without a terminal there is none.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	w, p, stdout, stderr := fleetProgram(t, "plan")
	screen := &awaited{awaits: "reading Buildkite ... ", seen: make(chan struct{})}
	slow := serveHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-screen.seen:
		case <-r.Context().Done():
			return
		}
		w.buildkite.ServeHTTP(rw, r)
	}))
	q := p
	q.Environ = append(q.Environ, "MUSTER_BUILDKITE_URL="+slow.URL+"/")
	q.Stderr, q.Screen.Progress = screen, true
	if code := q.run(t.Context()); code != invocation.ExitOK {
		t.Fatalf("exit code %d: %s", code, screen.text())
	}
	const erase = "\r\x1b[K"
	if all := screen.text(); !strings.HasSuffix(all, erase) || strings.Contains(all, "\n") {
		t.Errorf("the terminal is left with %q", all)
	}
	if !strings.Contains(stdout.String(), "The next tick commits nothing.") || strings.Contains(stdout.String(), "\x1b") {
		t.Errorf("printed %q", stdout)
	}
	if code := p.run(t.Context()); code != invocation.ExitOK || stderr.Len() > 0 {
		t.Errorf("exit code %d, and what is no terminal got %q", code, stderr)
	}
}

// sleepsUntilSeen is a stopped clock that sleeps until a terminal shows a text.
type sleepsUntilSeen struct {
	stoppedClock
	scenario *scenario
	screen   *awaited
}

func (c *sleepsUntilSeen) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-c.screen.seen:
	case <-ctx.Done():
	}
	c.now = c.now.Add(d)
	c.scenario.buildkite.AdvanceTo(c.now)
	return ctx.Err()
}

// TestProgressOfARateLimit asserts that the terminal shows what plan waits for while
// Buildkite answers 429, and that plan then continues.
func TestProgressOfARateLimit(t *testing.T) {
	t.Parallel()
	w, p, stdout, _ := fleetProgram(t, "plan")
	w.buildkite.Fail(fakebuildkite.Fault{Path: "/builds", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}})
	screen := &awaited{awaits: "waiting 8s for Buildkite's rate limit ... ", seen: make(chan struct{})}
	p.Stderr, p.Screen.Progress, p.Clock = screen, true, &sleepsUntilSeen{stoppedClock{start}, w, screen}
	if code := p.run(t.Context()); code != invocation.ExitOK || !strings.Contains(stdout.String(), "The next tick commits nothing.") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	if !strings.Contains(screen.text(), "level=INFO msg=waiting seconds=8 ") {
		t.Errorf("the log does not say what plan waits for: %q", screen.text())
	}
}
