package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/webhook"
	"muster/gitops/branch"
)

// pushes are the names of pushes that are not "push".
var pushes = map[webhook.Source]string{webhook.GitLab: "Push Hook", webhook.Bitbucket: "repo:push"}

// push is an event of a git host: somebody has pushed.
func (h *hooks) push(from webhook.Source, branch, after string) *http.Request {
	body := fmt.Sprintf(`{"ref":"refs/heads/%s","after":"%s"}`, branch, after)
	if from == webhook.Bitbucket {
		body = fmt.Sprintf(`{"push":{"changes":[{"new":null},{"new":{"type":"branch","name":"%s","target":{"hash":"%s"}}}]},"repository":{}}`, branch, after)
	}
	return h.gitEvent(from, pushes[from], body)
}

// gitEvent is an event of a git host; without a name it is its push.
func (h *hooks) gitEvent(from webhook.Source, event, body string) *http.Request {
	if event == "" {
		event = "push"
	}
	signature := sum(h.secret, body)
	switch from {
	case webhook.GitHub:
		return request(webhook.GitPath, body, "X-GitHub-Event", event, "X-Hub-Signature-256", "sha256="+signature)
	case webhook.GitLab:
		return request(webhook.GitPath, body, "X-Gitlab-Event", event, "X-Gitlab-Token", h.secret)
	case webhook.Bitbucket:
		return request(webhook.GitPath, body, "X-Event-Key", event, "X-Hub-Signature", "sha256="+signature)
	case webhook.Gitea: // sends GitHub's headers too
		return request(webhook.GitPath, body, "X-Gitea-Event", event, "X-Gitea-Signature", signature, "X-GitHub-Event", event, "X-Hub-Signature-256", "sha256="+signature)
	}
	return request(webhook.GitPath, body, "X-Signature", "sha256="+signature)
}

// TestPushes: a push to the branch calls, from whatever host; one to another branch and
// other events do not, nor does who does not know the secret.
func TestPushes(t *testing.T) {
	for _, from := range webhook.Sources()[1:] {
		h := newHooks()
		what := func(text string) string { return string(from) + ": " + text }
		h.want(t, what("a push"), h.push(from, "main", "a1"), 200, webhook.Triggered, generator.CauseGit)
		h.want(t, what("another branch"), h.push(from, "main2", "a2"), 200, webhook.Ignored, "")
		h.want(t, what("a tag"), h.gitEvent(from, map[webhook.Source]string{webhook.GitLab: "Tag Push Hook"}[from], `{"ref":"refs/tags/main","after":"a3"}`), 200, webhook.Ignored, "")
		forged := h.push(from, "main", "a4")
		for name := range forged.Header {
			if name == "X-Hub-Signature" || name == "X-Hub-Signature-256" || name == "X-Gitlab-Token" || name == "X-Gitea-Signature" || name == "X-Signature" {
				forged.Header.Set(name, "sha256="+sum("another", "{}"))
			}
		}
		h.want(t, what("forged"), forged, 401, webhook.Forged, "")
		for name := range forged.Header {
			forged.Header.Del(name)
		}
		h.want(t, what("unsigned"), forged, 401, webhook.Forged, "")
		if from != webhook.Generic {
			h.want(t, what("a ping"), h.gitEvent(from, "ping", `{}`), 200, webhook.Ignored, "")
		}
		h.want(t, what("a form without JSON"), h.gitEvent(from, pushes[from], "payload=%7B"), 400, webhook.Malformed, "")
		if h.results[string(from)+" triggered"] != 1 {
			t.Errorf("counted %v", h.results)
		}
	}
}

// TestPushReplayed: what a host has signed counts once. GitLab signs nothing, and what
// is generic may be the same each time.
func TestPushReplayed(t *testing.T) {
	for from, replayed := range map[webhook.Source]bool{webhook.GitHub: true, webhook.Gitea: true, webhook.Bitbucket: true, webhook.GitLab: false, webhook.Generic: false} {
		h := newHooks()
		h.want(t, string(from), h.push(from, "main", "a1"), 200, webhook.Triggered, generator.CauseGit)
		if replayed {
			h.want(t, string(from), h.push(from, "main", "a1"), 409, webhook.Replayed, "")
		} else {
			h.want(t, string(from), h.push(from, "main", "a1"), 200, webhook.Triggered, generator.CauseGit)
		}
	}
	h := newHooks()
	for range 2 {
		h.want(t, "words", h.gitEvent(webhook.Generic, "", "look"), 200, webhook.Triggered, generator.CauseGit)
	}
}

// TestRelabelledEvents asserts that an event that a host signed is not accepted as a push,
// or as another sender's event, under other headers: headers are not signed.
func TestRelabelledEvents(t *testing.T) {
	const more = `"repository":{"full_name":"acme/fleet"},"sender":{"login":"ada"}`
	push := `{"ref":"refs/heads/main","after":"a1",` + more + `}`
	for _, from := range []webhook.Source{webhook.GitHub, webhook.Gitea} {
		h := newHooks()
		h.want(t, string(from), h.gitEvent(from, "", push), 200, webhook.Triggered, generator.CauseGit)
		for _, as := range []webhook.Source{webhook.Generic, webhook.GitHub, webhook.Gitea} {
			h.want(t, string(from)+" as "+string(as), h.gitEvent(as, "", push), 409, webhook.Replayed, "")
		}
	}
	for name, body := range map[string]string{
		"a ping":                     `{"zen":"Design for failure.","hook_id":1,` + more + `}`,
		"an organisation's ping":     `{"zen":"Design for failure.","hook_id":1}`,
		"a workflow that is begun":   `{"ref":"refs/heads/main","workflow":"a.yml",` + more + `}`,
		"an issue that is commented": `{"action":"created",` + more + `}`,
	} {
		h := newHooks()
		for _, as := range []webhook.Source{webhook.GitHub, webhook.Gitea, webhook.Bitbucket, webhook.Generic} {
			h.want(t, name+" as a push of "+string(as), h.gitEvent(as, pushes[as], body), 200, webhook.Ignored, "")
		}
	}
	h := newHooks()
	for range 2 { // what a script signs is the same each time
		h.want(t, "{}", h.gitEvent(webhook.Generic, "", "{}"), 200, webhook.Triggered, generator.CauseGit)
	}
}

// TestOwnPush asserts that the head of the last tick triggers nothing, also after a failed tick,
// and that another head does.
func TestOwnPush(t *testing.T) {
	h := newHooks()
	ended := func(head string) {
		var r generator.Report
		r.Result.Head = branch.Head{Commit: head}
		h.Ended(r)
	}
	ended("b1")
	h.want(t, "own", h.push(webhook.GitLab, "main", "b1"), 200, webhook.Ignored, "")
	h.want(t, "a person's", h.push(webhook.GitHub, "main", "b2"), 200, webhook.Triggered, generator.CauseGit)
	ended("")
	h.want(t, "own, after a failed tick", h.push(webhook.GitHub, "main", "b1"), 200, webhook.Ignored, "")
}

// TestForms asserts that an event in a form is read, whether the host signs the form or the JSON in it,
// and that JSON which looks like a form is JSON.
func TestForms(t *testing.T) {
	form := func(json string) string { return url.Values{"payload": {json}}.Encode() }
	push := func(branch, after string) string {
		return fmt.Sprintf(`{"ref":"refs/heads/%s","after":"%s","repository":{"full_name":"acme/fleet"},"head_commit":{"message":"a+b & 100%%"}}`, branch, after)
	}
	h := newHooks()
	for _, from := range []webhook.Source{webhook.GitHub, webhook.Gitea} {
		h.want(t, string(from), h.gitEvent(from, "", form(push("main", string(from)+"1"))), 200, webhook.Triggered, generator.CauseGit)
		h.want(t, string(from)+" again, as JSON", h.gitEvent(from, "", push("main", string(from)+"1")), 409, webhook.Replayed, "")
		h.want(t, string(from)+" of another branch", h.gitEvent(from, "", form(push("other", string(from)+"2"))), 200, webhook.Ignored, "")
		h.want(t, string(from)+" ping", h.gitEvent(from, "ping", form(`{"zen":"Design for failure.","hook_id":1}`)), 200, webhook.Ignored, "")
		changed := h.gitEvent(from, "", form(push("main", string(from)+"3")))
		changed.Body = io.NopCloser(strings.NewReader(form(push("main", string(from)+"4"))))
		h.want(t, string(from)+" changed", changed, 401, webhook.Forged, "")
	}
	body := push("main", "p1")
	payloadSigned := request(webhook.GitPath, form(body), "X-Gogs-Event", "push", "X-GitHub-Event", "push", "X-Gogs-Signature", sum(h.secret, body))
	h.want(t, "a signed payload", payloadSigned, 200, webhook.Triggered, generator.CauseGit)
	h.want(t, "a form as a script's", h.gitEvent(webhook.Generic, "", form(push("main", "p1"))), 409, webhook.Replayed, "")
	hidden := `{"ref":"refs/heads/other","after":"q1","repository":{},"message":"x&payload=` + url.QueryEscape(push("main", "q2")) + `&y"}`
	h.want(t, "JSON with a field of a form", h.gitEvent(webhook.GitHub, "", hidden), 200, webhook.Ignored, "")
}

// TestHosts asserts that the pushes of other hosts are read as their documentation shows them.
func TestHosts(t *testing.T) {
	const cloud = `{"push":{"changes":[{"old":{"type":"branch","name":"main"},"new":{"type":"branch","name":"main","target":{"type":"commit","hash":"%s"}},"forced":false}]},"repository":{"full_name":"acme/fleet"},"actor":{}}`
	const dataCenter = `{"eventKey":"repo:refs_changed","actor":{},"repository":{"slug":"fleet"},"changes":[{"ref":{"id":"refs/heads/main","displayId":"main","type":"BRANCH"},"refId":"refs/heads/main","fromHash":"0a","toHash":"%s","type":"UPDATE"}]}`
	const tag = `{"push":{"changes":[{"new":{"type":"tag","name":"main","target":{"hash":"t1"}}}]},"repository":{}}`
	const plain = `{"ref":"refs/heads/main","before":"0a","after":"%s","repository":{"full_name":"acme/fleet"}}`
	h := newHooks()
	bitbucket := func(event, body string) *http.Request { return h.gitEvent(webhook.Bitbucket, event, body) }
	for what, r := range map[string]*http.Request{
		"Bitbucket Cloud":       bitbucket("repo:push", fmt.Sprintf(cloud, "c1")),
		"Bitbucket Data Center": bitbucket("repo:refs_changed", fmt.Sprintf(dataCenter, "d1")),
		"a mirror":              bitbucket("mirror:repo_synchronized", fmt.Sprintf(dataCenter, "d2")),
		"Forgejo":               request(webhook.GitPath, fmt.Sprintf(plain, "f1"), "X-Forgejo-Event", "push", "X-Forgejo-Signature", sum(h.secret, fmt.Sprintf(plain, "f1"))),
		"Gogs":                  request(webhook.GitPath, fmt.Sprintf(plain, "g1"), "X-Gogs-Event", "push", "X-GitHub-Event", "push", "X-Gogs-Signature", sum(h.secret, fmt.Sprintf(plain, "g1"))),
	} {
		h.want(t, what, r, 200, webhook.Triggered, generator.CauseGit)
	}
	for what, r := range map[string]*http.Request{
		"a ping": bitbucket("diagnostics:ping", `{"test":true}`), "a pull request": bitbucket("pr:merged", `{}`), "a tag": bitbucket("repo:push", tag),
		"a deleted branch": bitbucket("repo:push", `{"push":{"changes":[{"new":null}]}}`), "another event": bitbucket("repo:push", `{"repository":{},"changes":[]}`),
	} {
		h.want(t, what, r, 200, webhook.Ignored, "")
	}
	h.want(t, "no push", bitbucket("repo:push", `{"changes":{}}`), 400, webhook.Malformed, "")
	old := bitbucket("repo:push", fmt.Sprintf(cloud, "c2"))
	old.Header.Set("X-Hub-Signature", strings.Replace(old.Header.Get("X-Hub-Signature"), "sha256=", "sha1=", 1))
	h.want(t, "another digest", old, 401, webhook.Forged, "")
}

// TestStandardSignature asserts that GitLab's signing tokens are verified, with their signed time.
func TestStandardSignature(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	h := newHooks()
	h.secret = "whsec_" + base64.StdEncoding.EncodeToString(key)
	with := func(key []byte, id, body string, at time.Time, others string) *http.Request {
		stamp := fmt.Sprint(at.Unix())
		mac := hmac.New(sha256.New, key)
		_, _ = io.WriteString(mac, id+"."+stamp+"."+body)
		return request(webhook.GitPath, body, "X-Gitlab-Event", "Push Hook", "webhook-id", id, "webhook-timestamp", stamp, "webhook-signature", others+"v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	push := func(after string) string { return `{"ref":"refs/heads/main","after":"` + after + `"}` }
	h.want(t, "a push", with(key, "1", push("a1"), h.now, ""), 200, webhook.Triggered, generator.CauseGit)
	h.want(t, "again", with(key, "1", push("a1"), h.now, ""), 409, webhook.Replayed, "")
	h.want(t, "with two secrets", with(key, "2", push("a2"), h.now, "v1,AAAA v1a,BBBB "), 200, webhook.Triggered, generator.CauseGit)
	h.want(t, "too old", with(key, "3", push("a3"), h.now.Add(-webhook.MaxAge-time.Second), ""), 401, webhook.Outdated, "")
	h.want(t, "with another key", with([]byte("another"), "4", push("a4"), h.now, ""), 401, webhook.Forged, "")
	h.want(t, "with an empty key", with(nil, "4", push("a4"), h.now, ""), 401, webhook.Forged, "")
	changed := with(key, "5", push("a5"), h.now, "")
	changed.Header.Set("webhook-id", "6")
	h.want(t, "with another ID", changed, 401, webhook.Forged, "")
	h.secret = "whsec_"
	h.want(t, "a secret without a key", with(nil, "7", push("a7"), h.now, ""), 401, webhook.Forged, "")
	h.secret = "plain"
	h.want(t, "a plain secret", with([]byte("plain"), "8", push("a8"), h.now, ""), 200, webhook.Triggered, generator.CauseGit)
}
