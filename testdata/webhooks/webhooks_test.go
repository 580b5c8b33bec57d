// Package webhooks holds what muster tells syncers against their own code: what it sends
// Argo CD against the library with which Argo CD reads it (argo-cd, util/webhook/webhook.go,
// imports go-playground/webhooks v6), and what muster init writes for Flux against
// Flux's types.
package webhooks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-playground/webhooks/v6/github"

	"muster/gitops/notify"
)

const secret = "sesame"

// read is what Argo CD takes from a payload.
type read struct {
	url, ref, before, after, branch string
	files                           []string
}

// argoCD reads GitHub's events as argo-cd does: Handler selects the parser, and
// affectedRevisionInfo the fields.
type argoCD struct {
	mu   sync.Mutex
	got  []read
	errs []error
}

// ServeHTTP implements [http.Handler].
func (a *argoCD) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	payload, err := parse(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.errs = append(a.errs, err)
		http.Error(rw, "Webhook processing failed: "+err.Error(), http.StatusBadRequest)
		return
	}
	a.got = append(a.got, affected(payload))
}

func parse(r *http.Request) (any, error) {
	hook, err := github.New(github.Options.Secret(secret))
	if err != nil {
		return nil, err
	}
	return hook.Parse(r, github.PushEvent, github.PingEvent)
}

// affected returns what Argo CD takes from an event; the zero value for a ping.
func affected(payload any) read {
	p, ok := payload.(github.PushPayload)
	if !ok {
		return read{}
	}
	r := read{url: p.Repository.HTMLURL, ref: p.Ref, before: p.Before, after: p.After, branch: p.Repository.DefaultBranch}
	for _, c := range p.Commits {
		r.files = slices.Concat(r.files, c.Added, c.Modified, c.Removed)
	}
	return r
}

func notifier(t *testing.T, url, key string) *notify.Notifier {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := notify.Parse("kind=argocd,url=" + url + ",secret-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Time{} }
	n, err := notify.New(notify.Config{Repository: "git@git.example.com:acme/fleet.git", Branch: "main", Receivers: []notify.Receiver{r}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPush asserts that Argo CD reads the repository, the branch, its commits before and after the push, and the
// changed files.
func TestPush(t *testing.T) {
	t.Parallel()
	push := notify.Push{Before: "0a", After: "0b", Written: []string{"overlays/default/dispatches/new.yaml"}, Removed: []string{"overlays/default/dispatches/old.yaml"}}
	a := &argoCD{}
	server := httptest.NewServer(a)
	defer server.Close()
	n := notifier(t, server.URL, secret)
	n.Start(t.Context())
	n.Landed(push)
	n.Close()
	want := read{"https://git.example.com/acme/fleet", "refs/heads/main", "0a", "0b", "main", slices.Concat(push.Written, push.Removed)}
	if len(a.errs) > 0 || fmt.Sprint(a.got) != fmt.Sprint([]read{want}) {
		t.Errorf("Argo CD reads %v (%v), want %v", a.got, a.errs, want)
	}
}

// TestCheck asserts that Argo CD accepts what check sends with the right secret, rejects it with another,
// and refreshes no application.
func TestCheck(t *testing.T) {
	t.Parallel()
	a := &argoCD{}
	server := httptest.NewServer(a)
	defer server.Close()
	if findings := notifier(t, server.URL, secret).Check(t.Context()); len(findings) > 0 {
		t.Error(findings)
	}
	if findings := notifier(t, server.URL, "wrong").Check(t.Context()); len(findings) != 1 {
		t.Errorf("with the wrong secret: %v", findings)
	}
	if fmt.Sprint(a.got) != fmt.Sprint([]read{{}}) {
		t.Errorf("Argo CD reads %v, want one ping", a.got)
	}
}
