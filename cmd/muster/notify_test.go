package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// syncers are what a script's pushes are told to: a Receiver of Flux's and Argo CD, which
// know the secret "sesame". How each checks it is in gitops/notify's tests with its
// sources.
type syncers struct {
	flux, argocd *httptest.Server
	mu           sync.Mutex
	lines        []string
}

func newSyncers(t lifetime) *syncers {
	s := &syncers{}
	s.flux = serveHTTP(t, s.receiver("X-Signature", func(*http.Request) string { return "flux" }, ""))
	event := func(r *http.Request) string { return "github " + r.Header.Get("X-Github-Event") }
	s.argocd = serveHTTP(t, s.receiver("X-Hub-Signature-256", event, "Webhook processing failed: HMAC verification failed"))
	return s
}

func (s *syncers) receiver(header string, event func(*http.Request) string, refusal string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte("sesame"))
		mac.Write(body)
		if r.Header.Get(header) != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(rw, refusal)
			return
		}
		var push struct {
			Ref, Before, After string
			Paths              []string
			Repository         any // its address, or GitHub's description of it
		}
		_ = json.Unmarshal(body, &push)
		if described, ok := push.Repository.(map[string]any); ok {
			push.Repository = described["clone_url"]
		}
		line := fmt.Sprintf("%s: %v %s %s..%s %s", event(r), push.Repository, strings.TrimPrefix(push.Ref, "refs/heads/"), push.Before, push.After, strings.Join(push.Paths, " "))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, strings.TrimSpace(line))
	})
}

// cmdNotified prints what the syncers were told since it was last called.
func cmdNotified(ts *testscript.TestScript, _ bool, _ []string) {
	s := scenarioOf(ts).syncers
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		fmt.Fprintln(ts.Stdout(), line)
	}
	s.lines = nil
}
