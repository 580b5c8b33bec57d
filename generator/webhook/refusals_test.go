package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/generator/webhook"
)

// TestRefusals asserts that a few refused requests without an accepted one are a problem, whatever is
// wrong with them, and that an accepted one ends it.
func TestRefusals(t *testing.T) {
	n := 0
	good := func(h *hooks) *http.Request {
		n++
		return h.event("ping", fmt.Sprintf(`{"n":%d}`, n), h.now)
	}
	for _, c := range []struct {
		what, want string
		refused    func(*hooks) *http.Request
	}{
		{"another secret", "does not match the secret", func(h *hooks) *http.Request {
			r := good(h)
			r.Header.Set("X-Buildkite-Signature", "timestamp=1,signature=00")
			return r
		}},
		{"unsigned", "is missing", func(*hooks) *http.Request { return request(webhook.BuildkitePath, "{}", "X-Buildkite-Event", "ping") }},
		{"a clock that is off", "muster's clock by more than 5 minutes", func(h *hooks) *http.Request { return h.event("ping", "{}", h.now.Add(-time.Hour)) }},
		{"no JSON", "neither JSON nor", func(h *hooks) *http.Request { n++; return h.event("ping", fmt.Sprint("x", n), h.now) }},
		{"too large", "larger than 1048576 bytes", func(h *hooks) *http.Request { return h.event("ping", strings.Repeat("x", webhook.MaxBody+1), h.now) }},
		{"no secret", "cannot be read", func(h *hooks) *http.Request {
			h.err = errors.New("no such file")
			return good(h)
		}},
	} {
		h := newHooks()
		for i := range 20 {
			if got := len(h.Problems()); got != min(1, i/3) {
				t.Errorf("%s: %d problems after %d requests", c.what, got, i)
			}
			h.ask(c.refused(h))
		}
		p := h.Problems()
		if len(p) != 1 || p[0].Reason != "WebhooksRefused" || !strings.Contains(p[0].Message, "20 webhooks in a row to /webhooks/buildkite were refused, and none was accepted since the start; the last refused one, from buildkite: ") || !strings.Contains(p[0].Message, c.want) {
			t.Errorf("%s: %v", c.what, p)
		}
		h.err = nil
		h.ask(good(h))
		if p := h.Problems(); len(p) > 0 {
			t.Errorf("%s: still %v", c.what, p)
		}
	}
	h := newHooks()
	captured := good(h)
	h.ask(captured)
	for range 3 {
		h.now = h.now.Add(4 * time.Minute)
		r := h.event("ping", fmt.Sprintf(`{"n":%d}`, n), h.now.Add(-4*time.Minute))
		r.Header = captured.Header.Clone()
		h.ask(r)
	}
	if p := h.Problems(); len(p) != 1 {
		t.Errorf("replayed: %v", p)
	}
}

// TestForgedRequestsRaiseNothing asserts that requests from anybody raise no problem, and write nothing
// to the log, while real ones arrive, and that they say nothing about another path.
func TestForgedRequestsRaiseNothing(t *testing.T) {
	h := newHooks()
	n := 0
	for range 50 {
		n++
		h.ask(h.event("ping", fmt.Sprintf(`{"n":%d}`, n), h.now))
		for range 200 {
			h.ask(request(webhook.BuildkitePath, "{}", "X-Buildkite-Event", "ping", "X-Buildkite-Token", "guess"))
			if p := h.Problems(); len(p) > 0 {
				t.Fatalf("forged requests raise %v", p)
			}
			h.now = h.now.Add(2900 * time.Millisecond)
		}
	}
	if log := h.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=INFO") {
		t.Error("forged requests are logged")
	}
	for range 3 {
		h.ask(request(webhook.GitPath, "{}", "X-GitHub-Event", "push"))
	}
	if p := h.Problems(); len(p) != 1 || strings.Contains(p[0].Message, webhook.BuildkitePath) || !strings.Contains(p[0].Message, "3 webhooks in a row to /webhooks/git ") {
		t.Errorf("the problems are %v", p)
	}
	// Buildkite's secret was replaced: nothing is accepted any more.
	h.now = h.now.Add(time.Minute)
	for range 3 {
		h.ask(request(webhook.BuildkitePath, "{}", "X-Buildkite-Event", "ping", "X-Buildkite-Token", "old"))
		h.now = h.now.Add(6 * time.Minute)
	}
	if p := h.Problems(); len(p) != 1 || !strings.Contains(p[0].Message, webhook.BuildkitePath) || !strings.Contains(p[0].Message, "the last accepted one was at 20") {
		t.Errorf("the problems are %v", p)
	}
}
