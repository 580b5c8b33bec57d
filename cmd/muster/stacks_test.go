package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator/buildkite/fakebuildkite"
)

// firstPause is a simulated Buildkite's clock that stops a run at its first long pause.
type firstPause struct {
	*fakebuildkite.Server
	stop func()
}

func (c firstPause) Sleep(ctx context.Context, d time.Duration) error {
	if d > 2*time.Second {
		c.stop()
		return context.Canceled
	}
	return c.Server.Sleep(ctx, d)
}

// TestStacks asserts that every command decides with the Stacks API, with and without an API
// token. TestStackPace asserts the rate of requests.
func TestStacks(t *testing.T) {
	w, p, stdout, stderr := fleetProgram(t)
	stacks := []string{"--source", "stacks", "--agent-token-file", agentTokenFile(t), "--agent-endpoint", w.agents.URL}
	for i, command := range []string{"check", "plan", "run --once", "run --startup-jitter 0s"} {
		stdout.Reset()
		stderr.Reset()
		w.addBuild(1)
		w.buildkite.Advance(time.Minute) // the stack's last requests, by another process, are long ago
		ctx, stop := context.WithCancel(t.Context())
		q := p
		q.Args = append(strings.Fields(command), stacks...)
		q.Clock = firstPause{w.buildkite, stop}
		if i%2 == 1 {
			q.Environ = append(q.Environ, "BUILDKITE_API_TOKEN=")
		}
		want, orders := invocation.ExitOK, 0
		switch {
		case command == "plan":
			want = invocation.ExitChanges
		case strings.HasPrefix(command, "run"):
			orders = 1
		}
		code := q.run(ctx)
		stop()
		if code != want || strings.Count(stderr.String(), "msg=dispatched") != orders {
			t.Errorf("%s: exit code %d:\n%s%s", command, code, stdout, stderr)
		}
	}
}
