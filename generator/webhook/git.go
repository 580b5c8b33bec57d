package webhook

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"muster/generator"
	"muster/generator/plan"
)

// host is how one kind of git host sends its events.
type host struct {
	source Source
	// event is the header with the name of the event, and pushes are its values for pushes. If event
	// is empty, every event counts.
	event  string
	pushes []string
	// signature is the header with HMAC-SHA256 of the body in hexadecimal, after prefix. token is the
	// header with the secret itself; empty: none.
	signature, prefix, token string
}

// hosts are the kinds of git host. Each is recognised by its header event. Gitea, Forgejo and Gogs
// precede GitHub, because they send GitHub's headers too.
var hosts = []host{
	// go-gitea/gitea services/webhook/deliver.go, and Forgejo's fork of it.
	{source: Gitea, event: "X-Gitea-Event", pushes: []string{"push"}, signature: "X-Gitea-Signature"},
	{source: Gitea, event: "X-Forgejo-Event", pushes: []string{"push"}, signature: "X-Forgejo-Signature"},
	// gogs/gogs internal/database/webhook.go.
	{source: Gitea, event: "X-Gogs-Event", pushes: []string{"push"}, signature: "X-Gogs-Signature"},
	// docs.gitlab.com/user/project/integrations/webhooks: the secret token is sent as it is. A signing
	// token signs as signedByStandard requires.
	{source: GitLab, event: "X-Gitlab-Event", pushes: []string{"Push Hook"}, token: "X-Gitlab-Token"},
	// Cloud: support.atlassian.com/bitbucket-cloud/docs/event-payloads. Data Center:
	// confluence.atlassian.com/bitbucketserver/event-payload-938025882.html.
	{source: Bitbucket, event: "X-Event-Key", pushes: []string{"repo:push", "repo:refs_changed", "mirror:repo_synchronized"}, signature: "X-Hub-Signature", prefix: "sha256="},
	// docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries.
	{source: GitHub, event: "X-GitHub-Event", pushes: []string{"push"}, signature: "X-Hub-Signature-256", prefix: "sha256="},
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

// bitbucketEvent contains the fields of a push of Bitbucket Cloud, and of Bitbucket Data Center.
type bitbucketEvent struct {
	Push struct {
		Changes []struct {
			New struct { // null if a branch was deleted
				Type   string `json:"type"`
				Name   string `json:"name"`
				Target struct {
					Hash string `json:"hash"`
				} `json:"target"`
			} `json:"new"`
		} `json:"changes"`
	} `json:"push"`
	Changes []struct {
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
		ToHash string `json:"toHash"`
	} `json:"changes"`
}

// git handles an event of a git host. Its age is unknown unless a standard signature contains it.
// Events of a user's own scripts may have equal bodies each time, and are not replays.
func (r *Receiver) git(h host, header http.Header, body, secret []byte) Result {
	payload, form := payloadOf(body)
	signed := signedBy(header, h, body, secret) || form && signedBy(header, h, payload, secret)
	switch at, ok := signedByStandard(header, body, secret); {
	case ok && !recent(at, r.cfg.Now()):
		return Outdated
	case ok:
		signed = true
	case !signed && (h.token == "" || !equalToken(secret, header.Get(h.token))):
		return Forged
	}
	if h.event != "" && !slices.Contains(h.pushes, header.Get(h.event)) {
		return Ignored // a ping, or an event that does not change the branch
	}
	isNew := func() bool { return !signed || r.isNew(digest(secret, payload)) }
	if h.source == Bitbucket {
		return r.bitbucket(payload, isNew)
	}
	var event gitEvent
	err := json.Unmarshal(payload, &event)
	ofHost := h.source != Generic || event.ofHost()
	switch {
	case err != nil && (h.source != Generic || form):
		return Malformed
	case ofHost && (event.Ref == "" || event.After == ""):
		return Ignored // another event, with the header of a push
	case ofHost && !isNew():
		return Replayed
	case event.Ref != "" && event.Ref != "refs/heads/"+r.cfg.Branch, r.own(event.After):
		return Ignored
	}
	return r.call(generator.CauseGit)
}

// bitbucket handles a push of Bitbucket, which may change several branches.
func (r *Receiver) bitbucket(payload []byte, isNew func() bool) Result {
	var event bitbucketEvent
	if json.Unmarshal(payload, &event) != nil {
		return Malformed
	}
	matters := false
	for _, c := range event.Push.Changes {
		matters = matters || c.New.Type == "branch" && c.New.Name == r.cfg.Branch && !r.own(c.New.Target.Hash)
	}
	for _, c := range event.Changes {
		matters = matters || c.Ref.ID == "refs/heads/"+r.cfg.Branch && !r.own(c.ToHash)
	}
	switch {
	case len(event.Push.Changes)+len(event.Changes) == 0:
		return Ignored // another event, with the header of a push
	case !isNew():
		return Replayed
	case !matters:
		return Ignored
	}
	return r.call(generator.CauseGit)
}

// payloadOf returns the JSON of an event's body, and whether the body is a form that contains it in
// the field payload: the default of GitHub, and a choice of Gitea and Gogs
// (docs.github.com/webhooks/using-webhooks/creating-webhooks). The header Content-Type is not signed.
func payloadOf(body []byte) (payload []byte, form bool) {
	if json.Valid(body) {
		return body, false
	}
	fields, err := url.ParseQuery(string(body))
	if err != nil || !fields.Has("payload") {
		return body, false
	}
	return []byte(fields.Get("payload")), true
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
	if report.Err == nil {
		r.missing = plan.AgentsMissing(report.Result.Decisions)
	}
}
