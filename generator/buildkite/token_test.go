package buildkite_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

// TestWatchToken: the end of a token is logged once a day, from two weeks before
// on, and as an error when it is close. It costs a request a day.
func TestWatchToken(t *testing.T) {
	asked := 0
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, TokenExpires: now.Add(20*24*time.Hour + time.Hour), BeforeRequest: countRequests("/access-token", &asked)})
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
	if expires := c.Stats().TokenExpires; !expires.Equal(now.Add(20*24*time.Hour + time.Hour)) {
		t.Errorf("the token expires at %s", expires)
	}
	// If that cannot be read, everything else continues.
	s.Fail(fakebuildkite.Fault{Path: "/access-token", Status: 404, Times: -1})
	observe(t, newClient(t, buildkite.Config{HTTP: s.Transport(), WatchToken: true}), s.Now(), time.Time{})
}

// TestWatchTokenClockSetBack: a clock that was set back by days does not keep the token
// from being looked at until it has caught up.
func TestWatchTokenClockSetBack(t *testing.T) {
	asked := 0
	w := &weighed{}
	c := newClient(t, buildkite.Config{HTTP: w, WatchToken: true})
	for _, at := range []time.Time{now, now.Add(time.Hour), now.Add(-5 * 24 * time.Hour)} {
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: at, BeforeRequest: countRequests("/access-token", &asked)})
		w.RoundTripper = s.Transport()
		observe(t, c, at, time.Time{})
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
}

// TestWatchTokenRetries: after a rate limit, the token's expiry is requested at the next poll; if
// Buildkite does not return one, a day later.
func TestWatchTokenRetries(t *testing.T) {
	for status, want := range map[int]int{http.StatusTooManyRequests: 2, http.StatusNotFound: 1} {
		asked := 0
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, TokenExpires: now.Add(time.Hour), BeforeRequest: countRequests("/access-token", &asked)})
		s.Fail(fakebuildkite.Fault{Path: "/access-token", Status: status})
		var log bytes.Buffer
		c := newClient(t, buildkite.Config{HTTP: s.Transport(), WatchToken: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			_, _ = c.Snapshot(t.Context(), plan.Query{At: s.Now()}) // the first may be refused
			s.Advance(5 * time.Minute)
		}
		told := strings.Contains(log.String(), "expires in less than a day")
		if asked != want || told != (want > 1) || c.Stats().TokenExpires.IsZero() == told {
			t.Errorf("after %d: asked %d times, want %d:\n%s", status, asked, want, &log)
		}
	}
}

// TestWatchTokenResolved: that a token which was about to end has been replaced is said
// once, and since when it was said.
func TestWatchTokenResolved(t *testing.T) {
	var log bytes.Buffer
	w := &weighed{}
	c := newClient(t, buildkite.Config{HTTP: w, WatchToken: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for day, left := range []int{20, 5, 4, 3, 30, 29} {
		at := now.AddDate(0, 0, day)
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: at, TokenExpires: at.AddDate(0, 0, left)})
		if left == 3 { // not told: what was known stands
			s.Fail(fakebuildkite.Fault{Path: "/access-token", Status: http.StatusNotFound})
		}
		w.RoundTripper = s.Transport()
		observe(t, c, at, time.Time{})
	}
	if n := strings.Count(log.String(), "expires in "); n != 2 {
		t.Errorf("warned %d times:\n%s", n, &log)
	}
	if n := strings.Count(log.String(), "resolved: the Buildkite API token expires"); n != 1 || !strings.Contains(log.String(), "duration=72h0m0s") {
		t.Errorf("resolved %d times:\n%s", n, &log)
	}
}

// TestExpiry: how urgent the end of a token is, to the instant.
func TestExpiry(t *testing.T) {
	for _, c := range []struct {
		expires time.Time
		level   slog.Level
		text    string
	}{
		{time.Time{}, slog.LevelDebug, ""},
		{now.Add(buildkite.ExpiryWarning), slog.LevelDebug, ""},
		{now.Add(buildkite.ExpiryWarning - 1), slog.LevelWarn, "the Buildkite API token expires in 13 days, at "},
		{now.Add(buildkite.ExpiryError), slog.LevelWarn, "the Buildkite API token expires in 2 days, at "},
		{now.Add(buildkite.ExpiryError - 1), slog.LevelError, "the Buildkite API token expires in 1 day, at "},
		{now.Add(24*time.Hour - 1), slog.LevelError, "the Buildkite API token expires in less than a day, at "},
		{now.Add(1), slog.LevelError, "the Buildkite API token expires in less than a day, at "},
		{now, slog.LevelError, "the Buildkite API token expired at "},
		{now.Add(-time.Hour), slog.LevelError, "the Buildkite API token expired at "},
	} {
		level, text := buildkite.Token{Expires: c.expires}.Expiry(now)
		if level != c.level || !strings.HasPrefix(text, c.text) || (text == "") != (c.text == "") {
			t.Errorf("%s after now: %s, %q", c.expires.Sub(now), level, text)
		}
	}
}

// TestWatchAgentTokens asserts that the expiry of an agent token of a served cluster is
// logged once a day from two weeks before to a day after it, at the cost of one request a
// day for each served cluster.
func TestWatchAgentTokens(t *testing.T) {
	asked := map[string]int{}
	var log bytes.Buffer
	s, ci, gpu := twoClusters(fakebuildkite.Options{BeforeRequest: func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tokens") {
			asked[r.URL.Path]++
		}
	}})
	s.AddAgentToken(ci, "for ever")
	s.ExpireAgentToken(leaktest.AgentToken, now.Add(20*24*time.Hour+time.Hour))
	s.ExpireAgentToken("bkct_gpu", now.Add(time.Hour)) // of a cluster that is not served
	c := &serving{newClient(t, buildkite.Config{HTTP: s.Transport(), WatchToken: true, Log: slog.New(slog.NewTextHandler(&log, nil))}), ofQueues("default")}
	for day := range 25 {
		s.AdvanceTo(now.AddDate(0, 0, day))
		for range 3 {
			observe(t, c, s.Now(), time.Time{})
			s.Advance(time.Minute)
		}
	}
	if len(asked) != 1 || asked["/v2/organizations/acme/clusters/"+ci+"/tokens"] != 25 {
		t.Errorf("asked %v (%s is not served)", asked, gpu)
	}
	const warning = `msg="the agent token \"Agents of ci\" of the Buildkite cluster \"ci\" `
	if w, e := strings.Count(log.String(), "level=WARN "+warning), strings.Count(log.String(), "level=ERROR "+warning); w != 12 || e != 3 {
		t.Errorf("%d warnings and %d errors, want 12 and 3:\n%s", w, e, &log)
	}
	for _, want := range []string{"expires in 13 days, at 2026-01-25T09:00:00Z: agents cannot register with it", "expired at 2026-01-25T09:00:00Z", "resolved: an agent token expires"} {
		if strings.Count(log.String(), want) == 0 {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
	// If the tokens cannot be read, everything else works.
	s.Fail(fakebuildkite.Fault{Path: "/tokens", Status: http.StatusNotFound, Times: -1})
	observe(t, newClient(t, buildkite.Config{HTTP: s.Transport(), WatchToken: true}), s.Now(), time.Time{})
}

// weighed counts what a server's answers hold.
type weighed struct {
	http.RoundTripper
	bytes int64
}

func (w *weighed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(response.Body)
	w.bytes += int64(len(content))
	response.Body = io.NopCloser(bytes.NewReader(content))
	return response, err
}

// TestReceived: what was read of answers is counted.
func TestReceived(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
	w := &weighed{RoundTripper: s.Transport()}
	c := newClient(t, buildkite.Config{HTTP: w})
	for range 2 {
		observe(t, c, s.Now(), time.Time{})
		if got := c.Stats().Received; got != w.bytes || got == 0 {
			t.Errorf("%d bytes are counted of %d", got, w.bytes)
		}
		s.Advance(time.Minute)
	}
}
