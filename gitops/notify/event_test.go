package notify_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/leaktest"
	"muster/gitops/notify"
)

// sent sends one push to a receiver with these fields besides its URL, and returns the
// request.
func notified(t *testing.T, p notify.Push, fields string) request {
	t.Helper()
	s := newSyncer(t, leaktest.GitPassword, nil)
	n, l := notifier(t, "url="+s.URL+"/api/webhook,"+fields)
	n.Start(t.Context())
	n.Landed(p)
	n.Close()
	if got := s.requests(); len(got) == 1 && (n.Stats()[0].Sent == 1 || strings.Contains(fields, "kind=url")) {
		return got[0]
	}
	t.Fatalf("%s: %q", fields, l.all())
	return request{}
}

// TestEveryHost asserts that Argo CD gets GitHub's event, whatever the repository's host is.
func TestEveryHost(t *testing.T) {
	t.Parallel()
	secret := ",secret-file=" + file(t, leaktest.GitPassword)
	for repository, address := range map[string]string{
		"git@github.com:acme/fleet.git": "https://github.com/acme/fleet", "https://gitlab.example.com/acme/fleet": "https://gitlab.example.com/acme/fleet",
		"https://bitbucket.example.com/scm/acme/fleet.git": "https://bitbucket.example.com/scm/acme/fleet", "https://[::1]:3000/acme/fleet": "https://[::1]/acme/fleet",
	} {
		got := notified(t, push(1), "kind=argocd,repository="+repository+secret)
		if got.header.Get("X-Github-Event") != "push" {
			t.Errorf("%s: %v", repository, got.header)
		}
		contains(t, string(got.body), `"html_url":"`+address+`"`)
	}
}

// TestUnknownFilesAreNotListed: where the files are not known, none is listed: Argo CD takes the
// manifests of an application for unchanged when none of the listed files is its own.
func TestUnknownFilesAreNotListed(t *testing.T) {
	t.Parallel()
	secret := ",secret-file=" + file(t, leaktest.GitPassword)
	unlisted := push(1)
	unlisted.Unlisted = true
	many := push(1)
	for i := range 3000 {
		many.Written = append(many.Written, fmt.Sprint(i))
	}
	for _, p := range []notify.Push{unlisted, many} {
		if !p.Unlisted {
			p = notify.NewPush(p.Before, p.After, changes(p))
		}
		contains(t, string(notified(t, p, "kind=argocd"+secret).body), `"commits":[]`)
	}
}

// TestURL: muster's own document, or a template in which nothing can break out of its
// quotes; and the headers of the file.
func TestURL(t *testing.T) {
	t.Parallel()
	p := push(1)
	p.Written = []string{`a "quoted" \ path` + "\n"}
	headers := file(t, "Authorization: Bearer "+leaktest.GitHubToken+"\nContent-Type: application/vnd.example+json\n")
	got := notified(t, p, "kind=url,header-file="+headers)
	if got.header.Get("Authorization") != "Bearer "+leaktest.GitHubToken || got.header.Get("Content-Type") != "application/vnd.example+json" {
		t.Errorf("%v", got.header)
	}
	contains(t, string(got.body), `"repository":"`+fleet+`"`, `"branch":"main"`)
	template := file(t, `{"text":"{{.Repository}} {{ .Branch }} {{.After}}","paths":{{.Paths}}}`)
	got = notified(t, p, "kind=url,template-file="+template)
	var body struct {
		Text  string
		Paths []string
	}
	if err := json.Unmarshal(got.body, &body); err != nil || body.Text != fleet+" main "+p.After || !slices.Equal(body.Paths, p.Written) {
		t.Errorf("%v: %s", err, got.body)
	}
}

// TestNewPush: a file that was written and then removed is in both lists.
func TestNewPush(t *testing.T) {
	t.Parallel()
	files := []branch.Change{{Path: "b", Content: []byte("x")}, {Path: "a"}, {Path: "b", Content: []byte("y")}, {Path: "b"}}
	got := notify.NewPush("2", "3", files)
	if got.Before != "2" || got.After != "3" || got.Unlisted || !slices.Equal(got.Written, []string{"b"}) || !slices.Equal(got.Removed, []string{"a", "b"}) {
		t.Errorf("%+v", got)
	}
}
