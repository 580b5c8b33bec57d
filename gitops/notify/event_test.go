package notify_test

import (
	"encoding/json"
	"errors"
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
		var landed notify.Push // as the writer of the push would hand it on
		l := notify.Landing{Landed: func(p notify.Push) { landed = p }}
		l.Pushed(p.Before, p.After, changes(p), nil)
		if !p.Unlisted {
			p = landed
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

// TestLanding: what has landed is handed on once, also where the answer was lost.
func TestLanding(t *testing.T) {
	t.Parallel()
	var got []notify.Push
	l := notify.Landing{Landed: func(p notify.Push) { got = append(got, p) }}
	lost := errors.New("the connection broke off")
	files := []branch.Change{{Path: "b", Content: []byte("x")}, {Path: "a"}, {Path: "b", Content: []byte("y")}}

	l.Seen("1")
	l.Pushed("1", "", files, branch.ErrMoved)
	l.Pushed("1", "", files, &branch.Refused{Message: "no"})
	l.Pushed("1", "", files, branch.ErrInvalid)
	l.Seen("1")
	l.Seen("2") // somebody else's
	if len(got) > 0 {
		t.Fatalf("nothing has landed, and %v is handed on", got)
	}
	l.Pushed("2", "3", files, nil)
	l.Pushed("3", "", files, lost)
	l.Seen("3") // it may still come
	l.Seen("4")
	l.Seen("5")
	l.Pushed("5", "", files, lost)
	l.Pushed("5", "6", files, nil) // so it had not landed
	l.Seen("6")
	want := []notify.Push{
		{Before: "2", After: "3", Written: []string{"b"}, Removed: []string{"a"}},
		{Before: "3", After: "4", Unlisted: true},
		{Before: "5", After: "6", Written: []string{"b"}, Removed: []string{"a"}},
	}
	same := func(a, b notify.Push) bool {
		return a.Before == b.Before && a.After == b.After && a.Unlisted == b.Unlisted && slices.Equal(a.Written, b.Written) && slices.Equal(a.Removed, b.Removed)
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("%+v, want %+v", got, want)
	}
	new(notify.Landing).Pushed("1", "2", files, nil) // tells nobody
}
