package notify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/gitops/leaktest"
	"muster/gitops/notify"
)

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// syncer is a real HTTP server that checks signatures with code of its own, and keeps
// what it was sent.
type syncer struct {
	*httptest.Server
	mu         sync.Mutex
	secret     string
	got        []request
	registered chan struct{} // one for each request, before it is answered
	answer     func(n int, rw http.ResponseWriter, r *http.Request) bool
}

type request struct {
	method string
	header http.Header
	body   []byte
}

// newSyncer returns one that takes what is signed with a secret. answer, which may be
// nil, may answer the n-th request in its place.
func newSyncer(t *testing.T, secret string, answer func(n int, rw http.ResponseWriter, r *http.Request) bool) *syncer {
	t.Helper()
	s := &syncer{secret: secret, registered: make(chan struct{}, 1000), answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *syncer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.got = append(s.got, request{r.Method, r.Header.Clone(), body})
	n, secret := len(s.got), s.secret
	s.mu.Unlock()
	s.registered <- struct{}{}
	if s.answer != nil && s.answer(n, rw, r) {
		return
	}
	if wrong := verify(r.Header, body, secret); wrong != "" {
		http.Error(rw, "Webhook processing failed: "+wrong, http.StatusBadRequest)
	}
}

// verify checks a signature as the syncer's own code does: notification-controller,
// internal/server/receiver_handlers.go (X-Signature); argo-cd, util/webhook/scm.go with
// go-playground/webhooks v6 (the others). testdata/webhooks tests the events with that library itself.
func verify(h http.Header, body []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	sum := hex.EncodeToString(mac.Sum(nil))
	is := func(header, want string) string {
		if subtle.ConstantTimeCompare([]byte(h.Get(header)), []byte(want)) == 1 {
			return ""
		}
		return "HMAC verification failed"
	}
	switch {
	case h.Get("X-Signature") != "":
		return is("X-Signature", "sha256="+sum)
	case h.Get("X-Github-Event") == "push", h.Get("X-Github-Event") == "ping":
		return is("X-Hub-Signature-256", "sha256="+sum)
	}
	return "event not defined to be parsed"
}

func (s *syncer) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// wait waits for n requests.
func (s *syncer) wait(n int) {
	for range n {
		<-s.registered
	}
}

// log keeps what is logged, and fails the test where a secret is in it.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// clock is a second later each time that it is asked.
func clock() func() time.Time {
	var asked atomic.Int64
	return func() time.Time {
		return time.Date(2026, time.November, 21, 2, 15, int(asked.Add(1)), 0, time.UTC)
	}
}

const fleet = "ssh://git@git.example.com:2222/acme/fleet.git"

// notifier returns one that is not started, and its log.
func notifier(t *testing.T, receivers ...string) (*notify.Notifier, *log) {
	t.Helper()
	l := &log{}
	logger := leaktest.Log(func(text string) { t.Error(text) }, slog.New(slog.NewTextHandler(l, nil)))
	cfg := notify.Config{Repository: fleet, Branch: "main", Log: logger, Now: clock()}
	for _, text := range receivers {
		r, err := notify.Parse(text)
		must(t, err)
		cfg.Receivers = append(cfg.Receivers, r)
	}
	n, err := notify.New(cfg)
	must(t, err)
	return n, l
}

// flux is a receiver of Flux's at a syncer.
func flux(t *testing.T, s *syncer) string {
	t.Helper()
	return fmt.Sprintf("kind=flux,url=%s/hook/0123,secret-file=%s,name=flux", s.URL, file(t, s.secret+"\n"))
}

// push is the n-th of a chain of pushes.
func push(n int) notify.Push {
	return notify.Push{Before: fmt.Sprintf("%040x", n-1), After: fmt.Sprintf("%040x", n), Written: []string{fmt.Sprintf("overlays/default/dispatches/d%d.yaml", n)}}
}

// after is the head that a request tells of.
func after(t *testing.T, r request) string {
	t.Helper()
	var body struct{ After string }
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	return body.After
}

// clean fails where a text has a secret.
func clean(t *testing.T, text string) {
	t.Helper()
	if leaks := leaktest.Leaks(text); len(leaks) > 0 {
		t.Errorf("%q: %s", leaks, text)
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
}
