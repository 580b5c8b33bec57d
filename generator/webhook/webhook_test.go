package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/plan"
	"muster/generator/webhook"
	"muster/gitops/leaktest"
)

// hooks is a receiver with all that it tells.
type hooks struct {
	*webhook.Receiver
	mux    *http.ServeMux
	now    time.Time
	secret string
	err    error
	log    bytes.Buffer

	mu      sync.Mutex
	results map[string]int
}

func newHooks() *hooks {
	h := &hooks{now: time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC), secret: leaktest.BuildkiteToken, mux: http.NewServeMux(), results: map[string]int{}}
	secret := func() ([]byte, error) { return []byte(h.secret), h.err }
	h.Receiver = webhook.New(webhook.Config{
		BuildkiteSecret: secret, GitSecret: secret, Organisation: "acme", Branch: "main", Now: func() time.Time { return h.now },
		Log: slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Count: func(s webhook.Source, r webhook.Result) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.results[string(s)+" "+string(r)]++
		},
	})
	h.AddTo(h.mux)
	return h
}

// ask sends a request and returns its status, and what it said.
func (h *hooks) ask(r *http.Request) (status int, said string) {
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w.Code, strings.TrimSuffix(w.Body.String(), "\n")
}

// triggered is what the loop was called for; empty: it was not.
func (h *hooks) triggered() generator.Cause {
	select {
	case cause := <-h.Calls():
		return cause
	default:
		return ""
	}
}

func sum(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, text)
	return hex.EncodeToString(mac.Sum(nil))
}

func request(path, body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// event is one of Buildkite's, signed at a moment.
func (h *hooks) event(event, body string, at time.Time) *http.Request {
	stamp := fmt.Sprint(at.Unix())
	return request(webhook.BuildkitePath, body, "X-Buildkite-Event", event,
		"X-Buildkite-Signature", "timestamp="+stamp+",signature="+sum(h.secret, stamp+"."+body))
}

// want sends a request and compares what becomes of it.
func (h *hooks) want(t *testing.T, what string, r *http.Request, status int, said webhook.Result, cause generator.Cause) {
	t.Helper()
	if code, text := h.ask(r); code != status || text != string(said) {
		t.Errorf("%s: %d %q, want %d %q", what, code, text, status, said)
	}
	if got := h.triggered(); got != cause {
		t.Errorf("%s: called for %q, want %q", what, got, cause)
	}
}

const job = `{"job":{"id":"%s","type":"script"},"build":{"url":"https://api.buildkite.com/v2/organizations/acme/pipelines/app/builds/1"}}`

// TestBuildkiteEvents asserts which events trigger: scheduled jobs, and agents that register or exit while
// limits withhold agents.
func TestBuildkiteEvents(t *testing.T) {
	h := newHooks()
	ended := func(missing, ordered int, err error) {
		r := generator.Report{Err: err}
		r.Result.Decisions = []plan.Decision{{}, {Figures: plan.Figures{Missing: missing, Dispatch: ordered}}}
		h.Ended(r)
	}
	const build = `"build":{"url":"https://api.buildkite.com/v2/organizations/acme/pipelines/app/builds/1"}`
	for i, c := range []struct {
		event, body string
		calls       bool
	}{
		{"job.scheduled", `{"job":{"type":"script"},` + build + `}`, true},
		{"job.scheduled", `{}`, true},
		{"job.scheduled", `null`, true},
		{"job.scheduled", `{"job":{"type":"script"},"build":{"author":"A. Person <person@example.com>"}}`, true},
		{"job.scheduled", `{"job":{"type":7}}`, true},
		{"job.scheduled", `{"job":{"type":"trigger"},` + build + `}`, false},
		{"job.finished", `{"job":{"type":"script"},` + build + `}`, false},
		{"job.activated", `{"job":{"type":"manual"},` + build + `}`, false}, {"agent.stopping", `{}`, false},
		{"job.started", `{"job":{"type":"script"},` + build + `}`, false},
		{"job.scheduled", `{"job":{"type":"script"},"build":{"url":"https://api.buildkite.com/v2/organizations/other/pipelines/app/builds/1"}}`, false},
		{"ping", `{}`, false}, {"build.finished", `{}`, false}, {"agent.blocked", `{}`, false}, {"cluster_token.registration_blocked", `{}`, false}, {"", `{}`, false},
	} {
		result, cause := webhook.Ignored, generator.Cause("")
		if c.calls {
			result, cause = webhook.Triggered, generator.CauseBuildkite
		}
		h.want(t, c.event+" "+c.body, h.event(c.event, c.body, h.now.Add(time.Duration(i)*time.Second)), 200, result, cause)
	}
	for i, c := range []struct {
		what             string
		missing, ordered int
		err              error
		calls            bool
	}{
		{"all agents are ordered", 3, 3, nil, false},
		{"a limit withholds one", 3, 2, nil, true},
		{"the next tick fails", 0, 0, errors.New("the git server is down"), true},
		{"the next one needs none", 0, 0, nil, false},
	} {
		ended(c.missing, c.ordered, c.err)
		result, cause := webhook.Ignored, generator.Cause("")
		if c.calls {
			result, cause = webhook.Triggered, generator.CauseBuildkite
		}
		for j, event := range []string{"agent.connected", "agent.disconnected", "agent.lost", "agent.stopped"} {
			h.want(t, c.what+": "+event, h.event(event, `{"agent":{"url":"https://api.buildkite.com/v2/organizations/acme/agents/1"}}`, h.now.Add(time.Duration(10*i+j)*time.Second)), 200, result, cause)
		}
		h.want(t, c.what+": another organisation", h.event("agent.connected", `{"agent":{"url":"https://api.buildkite.com/v2/organizations/acme-2/agents/1"}}`, h.now.Add(time.Duration(10*i)*time.Second)), 200, webhook.Ignored, "")
	}
}

// TestBuildkiteSignatures: who does not know the secret, comes late or comes again
// changes nothing, however the header is written.
func TestBuildkiteSignatures(t *testing.T) {
	h := newHooks()
	body := fmt.Sprintf(job, "1")
	with := func(header string) *http.Request {
		return request(webhook.BuildkitePath, body, "X-Buildkite-Event", "job.scheduled", "X-Buildkite-Signature", header)
	}
	stamp := fmt.Sprint(h.now.Unix())
	right := sum(h.secret, stamp+"."+body)
	for _, header := range []string{
		"timestamp=" + stamp + ",signature=" + sum("another", stamp+"."+body), "timestamp=" + stamp + ",signature=" + right[:62],
		"timestamp=" + stamp + ",signature=", "timestamp=" + stamp, "signature=" + right, "timestamp", "=", ",", "x", "timestamp=0" + stamp + ",signature=" + right,
		"timestamp=" + stamp + ",signature=" + strings.Repeat("z", 64), "sha256=" + sum(h.secret, body),
	} {
		h.want(t, header, with(header), 401, webhook.Forged, "")
	}
	h.want(t, "no header", request(webhook.BuildkitePath, body, "X-Buildkite-Event", "job.scheduled"), 401, webhook.Forged, "")
	h.want(t, "a changed body", func() *http.Request {
		r := h.event("job.scheduled", body, h.now)
		r.Body = io.NopCloser(strings.NewReader(body + " "))
		return r
	}(), 401, webhook.Forged, "")
	for age, result := range map[time.Duration]webhook.Result{
		-5 * time.Minute: webhook.Triggered, 5 * time.Minute: webhook.Triggered, -301 * time.Second: webhook.Outdated, 301 * time.Second: webhook.Outdated, 1e6 * time.Hour: webhook.Outdated,
	} {
		status, cause := 401, generator.Cause("")
		if result == webhook.Triggered {
			status, cause = 200, generator.CauseBuildkite
		}
		h.want(t, age.String(), h.event("job.scheduled", body, h.now.Add(-age)), status, result, cause)
	}
	signedWords := "timestamp=soon,signature=" + sum(h.secret, "soon."+body)
	h.want(t, "a time in words", with(signedWords), 401, webhook.Outdated, "")
	h.want(t, "spaces and another order", with("signature="+strings.ToUpper(right)+", timestamp="+stamp), 200, webhook.Triggered, generator.CauseBuildkite)
	h.want(t, "again, written otherwise", with("timestamp="+stamp+",signature="+right), 409, webhook.Replayed, "")
	h.want(t, "no JSON", h.event("job.scheduled", "{", h.now), 400, webhook.Malformed, "")
	for _, leak := range leaktest.Leaks(h.log.String()) {
		t.Errorf("the log has %s", leak)
	}
}

// TestPlainToken: the token as it is, where the user of Buildkite chose that.
func TestPlainToken(t *testing.T) {
	h := newHooks()
	with := func(token string) *http.Request {
		return request(webhook.BuildkitePath, fmt.Sprintf(job, "1"), "X-Buildkite-Event", "job.scheduled", "X-Buildkite-Token", token)
	}
	h.want(t, "the token", with(h.secret), 200, webhook.Triggered, generator.CauseBuildkite)
	for _, wrong := range []string{"", "x", h.secret + "x", h.secret[:4]} {
		h.want(t, wrong, with(wrong), 401, webhook.Forged, "")
	}
	both := with(h.secret)
	both.Header.Set("X-Buildkite-Signature", "timestamp=1,signature=00")
	h.want(t, "with a wrong signature", both, 401, webhook.Forged, "")
}

// TestBounds: the method, the size, an own secret that cannot be read or is empty.
func TestBounds(t *testing.T) {
	h := newHooks()
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodHead, http.MethodOptions} {
		for _, path := range []string{webhook.BuildkitePath, webhook.GitPath} {
			if code, _ := h.ask(httptest.NewRequest(method, path, http.NoBody)); code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
	full := `{"x":"` + strings.Repeat("x", webhook.MaxBody-8) + `"}`
	h.want(t, "the largest", h.event("job.scheduled", full, h.now), 200, webhook.Triggered, generator.CauseBuildkite)
	h.want(t, "one byte more", h.event("job.scheduled", full+" ", h.now), 413, webhook.Oversized, "")
	good := func() *http.Request {
		return h.event("job.scheduled", fmt.Sprintf(job, fmt.Sprint(h.now.UnixNano())), h.now)
	}
	rotated := good()
	h.secret = "another"
	h.want(t, "signed with the secret of before", rotated, 401, webhook.Forged, "")
	h.want(t, "signed with the secret of now", good(), 200, webhook.Triggered, generator.CauseBuildkite)
	for range 3 {
		h.err = errors.New("no such file")
		h.want(t, "no secret", good(), 503, webhook.Failed, "")
		h.err, h.secret = nil, ""
		h.want(t, "an empty secret", good(), 503, webhook.Failed, "")
	}
	h.secret = "a third"
	h.want(t, "a secret again", good(), 200, webhook.Triggered, generator.CauseBuildkite)
	if n := strings.Count(h.log.String(), "level=ERROR"); n != 1 || strings.Count(h.log.String(), "resolved: ") != 1 {
		t.Errorf("%d errors\n%s", n, &h.log)
	}
}

// TestServedWithASecret: a path without a secret is not there.
func TestServedWithASecret(t *testing.T) {
	secret := func() ([]byte, error) { return []byte("x"), nil }
	for path, c := range map[string]webhook.Config{webhook.BuildkitePath: {GitSecret: secret}, webhook.GitPath: {BuildkiteSecret: secret}} {
		c.Now = time.Now
		mux := http.NewServeMux()
		webhook.New(c).AddTo(mux)
		w := httptest.NewRecorder()
		if mux.ServeHTTP(w, request(path, "{}")); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestConcurrentRequests: a limited number of requests wait for their bodies; others are refused at
// once, and later ones succeed.
func TestConcurrentRequests(t *testing.T) {
	h := newHooks()
	reading := make(chan bool)
	release := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := request(webhook.BuildkitePath, "")
			r.Body = io.NopCloser(&held{reading: reading, release: release})
			h.ask(r)
		})
		<-reading
	}
	h.want(t, "the ninth", h.event("job.scheduled", "{}", h.now), 503, webhook.Busy, "")
	close(release)
	all.Wait()
	h.want(t, "afterwards", h.event("job.scheduled", "{}", h.now), 200, webhook.Triggered, generator.CauseBuildkite)
	want := map[string]int{"buildkite forged": 8, "buildkite busy": 1, "buildkite triggered": 1}
	if !maps.Equal(h.results, want) {
		t.Errorf("%v, want %v", h.results, want)
	}
}

// held is a body that says when it is read, and ends when it is released.
type held struct {
	reading chan bool
	release chan struct{}
}

func (b *held) Read([]byte) (int, error) {
	b.reading <- true
	<-b.release
	return 0, io.EOF
}

// TestSeenIsBounded: what was seen is remembered for as long as it is recent, and does
// not grow with the number of events.
func TestSeenIsBounded(t *testing.T) {
	h := newHooks()
	first := h.event("ping", "{}", h.now)
	again := func() *http.Request { return h.event("ping", "{}", h.now) }
	h.want(t, "the first", first, 200, webhook.Ignored, "")
	begun := h.now
	for i := range 8000 { // fewer than are remembered
		if code, _ := h.ask(h.event("ping", fmt.Sprintf(`{"n":%d}`, i), h.now)); code != 200 {
			t.Fatal(i, code)
		}
	}
	h.want(t, "the first again", again(), 409, webhook.Replayed, "")
	late := h.event("ping", "{}", begun.Add(5*time.Minute)) // of a clock that is ahead
	h.want(t, "from ahead", late, 200, webhook.Ignored, "")
	h.now = begun.Add(10 * time.Minute)
	h.want(t, "from ahead, ten minutes later", h.event("ping", "{}", begun.Add(5*time.Minute)), 409, webhook.Replayed, "")
}

// TestConcurrent: requests of all kinds at once. One event that comes many times at the
// same time is new once.
func TestConcurrent(t *testing.T) {
	h := newHooks()
	var all sync.WaitGroup
	codes := make([]int, 40)
	for i := range codes {
		all.Go(func() {
			for {
				codes[i], _ = h.ask(h.event("job.scheduled", "{}", h.now))
				if codes[i] != http.StatusServiceUnavailable {
					return
				}
			}
		})
		all.Go(func() {
			h.Began(h.now)
			h.ask(h.push(webhook.GitHub, "main", fmt.Sprint(i)))
			h.Ended(generator.Report{})
		})
	}
	all.Wait()
	fresh := 0
	for _, code := range codes {
		if code == 200 {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of %d were new", fresh, len(codes))
	}
}
