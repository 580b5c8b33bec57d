package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
)

// slowPerson answers an hour after the prompt.
type slowPerson struct {
	now     time.Time
	answer  io.Reader
	started bool
}

func (s *slowPerson) Now() time.Time                                   { return s.now }
func (s *slowPerson) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }
func (s *slowPerson) Read(b []byte) (int, error) {
	if !s.started {
		s.started, s.now = true, s.now.Add(time.Hour)
	}
	return s.answer.Read(b)
}

// TestConfirmedTooLate asserts that a change which has ended before it is confirmed is not pushed.
func TestConfirmedTooLate(t *testing.T) {
	server, r, _ := manualFleet(t)
	for args, late := range map[string]bool{
		"pause default --for 30m": true, "set default max=3 --until " + start.Add(30*time.Minute).Format(time.RFC3339): true,
		"pause default --for 30m --pr": true, "pause default --for 2h": false,
	} {
		before, err := r.Git("rev-parse", "main")
		check(t, err)
		s := &slowPerson{now: start, answer: strings.NewReader("y\n")}
		code, _, errs := execute(t, program{invocation.Program{Args: append(strings.Fields(args), "--repo", server.URL+"/acme/fleet.git", "--commit-author", "Ada <ada@example.com>"),
			Clock: s, Stdin: s, Terminal: true}})
		after, err := r.Git("rev-parse", "main")
		check(t, err)
		if pushed := before != after; pushed == late || late && (code != invocation.ExitUsage || !strings.Contains(errs, "would have ended at")) {
			t.Errorf("%s: pushed %t, exit code %d: %s", args, pushed, code, errs)
		}
	}
}
