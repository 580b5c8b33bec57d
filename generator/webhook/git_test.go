package webhook_test

import (
	"fmt"
	"net/http"
	"testing"

	"muster/generator"
	"muster/generator/webhook"
	"muster/gitops/branch"
)

// push is an event of a git host: somebody has pushed.
func (h *hooks) push(from webhook.Source, branch, after string) *http.Request {
	return h.gitEvent(from, map[webhook.Source]string{webhook.GitLab: "Push Hook"}[from], fmt.Sprintf(`{"ref":"refs/heads/%s","after":"%s"}`, branch, after))
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
			if name == "X-Hub-Signature-256" || name == "X-Gitlab-Token" || name == "X-Gitea-Signature" || name == "X-Signature" {
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
		h.want(t, what("a form"), h.gitEvent(from, map[webhook.Source]string{webhook.GitLab: "Push Hook"}[from], "payload=%7B%7D"), 400, webhook.Malformed, "")
		if h.results[string(from)+" triggered"] != 1 {
			t.Errorf("counted %v", h.results)
		}
	}
}

// TestPushReplayed: what a host has signed counts once. GitLab signs nothing, and what
// is generic may be the same each time.
func TestPushReplayed(t *testing.T) {
	for from, replayed := range map[webhook.Source]bool{webhook.GitHub: true, webhook.Gitea: true, webhook.GitLab: false, webhook.Generic: false} {
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
		for _, as := range []webhook.Source{webhook.GitHub, webhook.Gitea, webhook.Generic} {
			h.want(t, name+" as a push of "+string(as), h.gitEvent(as, "", body), 200, webhook.Ignored, "")
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
