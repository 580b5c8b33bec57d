package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"muster/generator"
)

// host is how one kind of git host sends its events.
type host struct {
	source Source
	// event is the header with the name of the event, and push its value for pushes. If event is
	// empty, every event counts.
	event, push string
	// signature is the header with HMAC-SHA256 of the body in hexadecimal, after prefix. If it
	// is empty, token is the header with the secret itself.
	signature, prefix, token string
}

// hosts are the kinds of git host. Each is recognised by its header event. Gitea precedes
// GitHub, because it sends GitHub's headers too.
var hosts = []host{
	// go-gitea/gitea services/webhook/deliver.go.
	{source: Gitea, event: "X-Gitea-Event", push: "push", signature: "X-Gitea-Signature"},
	// docs.gitlab.com/user/project/integrations/webhooks: the secret token is sent as it is.
	{source: GitLab, event: "X-Gitlab-Event", push: "Push Hook", token: "X-Gitlab-Token"},
	// docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries.
	{source: GitHub, event: "X-GitHub-Event", push: "push", signature: "X-Hub-Signature-256", prefix: "sha256="},
}

// hostOf returns the git host that sends these headers. Other hosts sign as Flux's generic-hmac
// requires (fluxcd/notification-controller/docs/spec/v1/receivers.md), with sha256 only.
func hostOf(header http.Header) host {
	for _, h := range hosts {
		if header.Get(h.event) != "" {
			return h
		}
	}
	return host{source: Generic, signature: "X-Signature", prefix: "sha256="}
}

// gitEvent contains the fields of an event's body that are used.
type gitEvent struct {
	Ref   string `json:"ref"`
	After string `json:"after"`
	// Every event of GitHub and Gitea has one of these
	// (docs.github.com/webhooks/webhook-events-and-payloads, "Webhook payload object common
	// properties" and "ping"; go-gitea/gitea modules/structs/hook.go).
	Repository json.RawMessage `json:"repository"`
	Sender     json.RawMessage `json:"sender"`
	Hook       json.RawMessage `json:"hook_id"`
}

// ofHost reports whether the body is that of a git host. The headers are not signed.
func (e gitEvent) ofHost() bool { return e.Repository != nil || e.Sender != nil || e.Hook != nil }

// git handles an event of a git host. Its age is unknown, because no host signs the time.
// Events of a user's own scripts may have equal bodies each time, and are not replays.
func (r *Receiver) git(h host, header http.Header, body, secret []byte) Result {
	sum := digest(secret, body)
	given, prefixed := strings.CutPrefix(header.Get(h.signature), h.prefix)
	known := prefixed && equalDigest(sum, given)
	if h.token != "" {
		known = equalToken(secret, header.Get(h.token))
	}
	if !known {
		return Forged
	}
	var event gitEvent
	err := json.Unmarshal(body, &event)
	ofHost := h.source != Generic || event.ofHost()
	switch {
	case h.event != "" && header.Get(h.event) != h.push:
		return Ignored // a ping, or an event that does not change the branch
	case err != nil && (h.source != Generic || bytes.HasPrefix(body, []byte("payload="))):
		return Malformed // a form, GitHub's default, cannot be verified: application/json is required
	case ofHost && (event.Ref == "" || event.After == ""):
		return Ignored // another event, with the header of a push
	case ofHost && h.token == "" && !r.isNew(sum):
		return Replayed
	case event.Ref != "" && event.Ref != "refs/heads/"+r.cfg.Branch, r.own(event.After):
		return Ignored
	}
	return r.call(generator.CauseGit)
}

// own reports whether to ignore a push: it is muster's own if the branch's head equals that of the
// last tick. A push that is reported before its tick has ended triggers another tick.
func (r *Receiver) own(after string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return after != "" && after == r.head
}

// Began implements [generator.Watcher].
func (r *Receiver) Began(time.Time) {}

// Ended implements [generator.Watcher].
func (r *Receiver) Ended(report generator.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if head := report.Result.Head.Commit; head != "" {
		r.head = head
	}
}
