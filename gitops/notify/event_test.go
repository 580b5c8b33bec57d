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

// TestHosts: the default kind of event.
func TestHosts(t *testing.T) {
	t.Parallel()
	secret := ",secret-file=" + file(t, leaktest.GitPassword)
	hosts := map[string]string{
		"git@github.com:acme/fleet.git": "X-Github-Event", "https://gitlab.example.com/acme/fleet": "X-Gitlab-Event", "https://codeberg.org/acme/fleet": "X-Gogs-Event",
		"https://bitbucket.example.com/scm/acme/fleet.git": "X-Event-Key", "https://bitbucket.org/acme/fleet": "X-Github-Event", "https://[::1]:3000/acme/fleet": "X-Github-Event",
	}
	for repository, header := range hosts {
		got := notified(t, push(1), "kind=argocd,repository="+repository+secret)
		if got.header.Get(header) == "" {
			t.Errorf("%s: %v", repository, got.header)
		}
		if strings.HasPrefix(repository, "git@") {
			contains(t, string(got.body), `"html_url":"https://github.com/acme/fleet"`)
		}
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
		contains(t, string(notified(t, p, "kind=argocd,as=github"+secret).body), `"commits":[]`)
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
