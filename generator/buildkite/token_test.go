package buildkite_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
)

// TestWatchToken: the end of a token is logged once a day, from two weeks before
// on, and as an error when it is close. It costs a request a day.
func TestWatchToken(t *testing.T) {
	asked := 0
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, TokenExpires: now.Add(20*24*time.Hour + time.Hour), BeforeRequest: func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/access-token") {
			asked++
		}
	}})
	var log bytes.Buffer
	c := newClient(t, buildkite.Config{HTTP: s.Transport(), WatchToken: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for s.Now().Before(now.Add(21 * 24 * time.Hour)) {
		observe(t, c, s.Now(), time.Time{})
		s.Advance(time.Hour)
	}
	if asked != 21 {
		t.Errorf("asked %d times in 21 days", asked)
	}
	warnings, errors := strings.Count(log.String(), "level=WARN msg=\"the Buildkite API token expires in"), strings.Count(log.String(), "level=ERROR msg=\"the Buildkite API token expires in")
	if warnings != 12 || errors != 2 {
		t.Errorf("%d warnings and %d errors, want 12 and 2:\n%s", warnings, errors, &log)
	}
	for _, want := range []string{"expires in 13 days, at 2026-01-25T09:00:00Z", "days=13", "expires in 1 day, at", "expires in less than a day, at", "days=0"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
	// Where that cannot be read, all else goes on.
	s.Fail(fakebuildkite.Fault{Path: "/access-token", Status: 404, Times: -1})
	observe(t, newClient(t, buildkite.Config{HTTP: s.Transport(), WatchToken: true}), s.Now(), time.Time{})
}
