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

	bitbucketserver "github.com/go-playground/webhooks/v6/bitbucket-server"
	"github.com/go-playground/webhooks/v6/github"
	"github.com/go-playground/webhooks/v6/gitlab"
	"github.com/go-playground/webhooks/v6/gogs"
	gogsclient "github.com/gogits/go-gogs-client"

	"muster/gitops/notify"
)

const secret = "sesame"

// read is what Argo CD takes from a payload.
type read struct {
	urls                       []string
	ref, before, after, branch string
	files                      []string
}

// argoCD reads requests as argo-cd does: Handler chooses the parser in this order, and
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
	switch {
	case r.Header.Get("X-Gogs-Event") != "":
		hook, _ := gogs.New(gogs.Options.Secret(secret))
		return hook.Parse(r, gogs.PushEvent)
	case r.Header.Get("X-GitHub-Event") != "":
		hook, _ := github.New(github.Options.Secret(secret))
		return hook.Parse(r, github.PushEvent, github.PingEvent)
	case r.Header.Get("X-Gitlab-Event") != "":
		hook, _ := gitlab.New(gitlab.Options.Secret(secret))
		return hook.Parse(r, gitlab.PushEvents, gitlab.TagEvents, gitlab.SystemHookEvents)
	case r.Header.Get("X-Event-Key") != "":
		hook, _ := bitbucketserver.New(bitbucketserver.Options.Secret(secret))
		return hook.Parse(r, bitbucketserver.RepositoryReferenceChangedEvent, bitbucketserver.DiagnosticsPingEvent)
	}
	return nil, fmt.Errorf("unknown webhook event")
}

func affected(payload any) read {
	var r read
	list := func(lists ...[]string) { r.files = append(r.files, slices.Concat(lists...)...) }
	switch p := payload.(type) {
	case github.PushPayload:
		r = read{urls: []string{p.Repository.HTMLURL}, ref: p.Ref, before: p.Before, after: p.After, branch: p.Repository.DefaultBranch}
		for _, c := range p.Commits {
			list(c.Added, c.Modified, c.Removed)
		}
	case gitlab.PushEventPayload:
		r = read{urls: []string{p.Project.WebURL}, ref: p.Ref, before: p.Before, after: p.After, branch: p.Project.DefaultBranch}
		for _, c := range p.Commits {
			list(c.Added, c.Modified, c.Removed)
		}
	case gogsclient.PushPayload:
		r = read{urls: []string{p.Repo.HTMLURL}, ref: p.Ref, before: p.Before, after: p.After, branch: p.Repo.DefaultBranch}
		for _, c := range p.Commits {
			list(c.Added, c.Modified, c.Removed)
		}
	case bitbucketserver.RepositoryReferenceChangedPayload:
		for _, l := range p.Repository.Links["clone"].([]any) {
			r.urls = append(r.urls, l.(map[string]any)["href"].(string))
		}
		r.ref, r.before, r.after = p.Changes[0].Reference.ID, p.Changes[0].FromHash, p.Changes[0].ToHash
	}
	return r
}

func notifier(t *testing.T, url, as, key string) *notify.Notifier {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := notify.Parse("kind=argocd,as=" + as + ",url=" + url + ",secret-file=" + file)
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

func kinds() []string { return []string{"github", "gitlab", "gogs", "bitbucket-server"} }

// TestPush: Argo CD reads of each kind which branch of which repository went from where to
// where, and which files changed; Bitbucket does not tell files.
func TestPush(t *testing.T) {
	t.Parallel()
	push := notify.Push{Before: "0a", After: "0b", Written: []string{"overlays/default/dispatches/new.yaml"}, Removed: []string{"overlays/default/dispatches/old.yaml"}}
	for _, as := range kinds() {
		a := &argoCD{}
		server := httptest.NewServer(a)
		defer server.Close()
		n := notifier(t, server.URL, as, secret)
		n.Start(t.Context())
		n.Landed(push)
		n.Close()
		if len(a.got) != 1 || len(a.errs) > 0 {
			t.Errorf("%s: %v, %v", as, a.got, a.errs)
			continue
		}
		want := read{[]string{"https://git.example.com/acme/fleet"}, "refs/heads/main", "0a", "0b", "main", append(slices.Clone(push.Written), push.Removed...)}
		if as == "bitbucket-server" {
			want = read{append(want.urls, "ssh://git@git.example.com/acme/fleet"), want.ref, "0a", "0b", "", nil}
		}
		if fmt.Sprint(a.got[0]) != fmt.Sprint(want) {
			t.Errorf("%s: it reads %v, want %v", as, a.got[0], want)
		}
	}
}

// TestCheck: what check sends is taken with the right secret and refused with another, and
// names no repository that an application could have.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, as := range kinds() {
		a := &argoCD{}
		server := httptest.NewServer(a)
		defer server.Close()
		if findings := notifier(t, server.URL, as, secret).Check(t.Context()); len(findings) > 0 {
			t.Errorf("%s: %v", as, findings)
		}
		if findings := notifier(t, server.URL, as, "wrong").Check(t.Context()); len(findings) != 1 {
			t.Errorf("%s with the wrong secret: %v", as, findings)
		}
		for _, r := range a.got {
			for _, url := range r.urls {
				if url != "https://muster.invalid/check" && url != "ssh://git@muster.invalid/check" {
					t.Errorf("%s: %s", as, url)
				}
			}
		}
	}
}
