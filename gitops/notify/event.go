package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// event is one request: a body and the headers that go with it.
type event struct {
	body   []byte
	header http.Header
}

// about is what a push is a push to.
type about struct {
	repository, branch string
}

// errNoHost says that Argo CD cannot know the repository.
var errNoHost = errors.New("no host and path of the repository are known, by which Argo CD finds its applications: give repository=URL as the Application has it")

// document is the body for Flux, and the default one for a URL. A Receiver's
// resourceFilter may look into it.
type document struct {
	Repository string `json:"repository"`
	Branch     string `json:"branch"`
	Ref        string `json:"ref"`
	Before     string `json:"before"`
	After      string `json:"after"`
	// Paths is missing where it is not known which files changed.
	Paths []string `json:"paths,omitempty"`
}

func documentOf(a about, p Push) document {
	return document{Repository: a.repository, Branch: a.branch, Ref: "refs/heads/" + a.branch, Before: p.Before, After: p.After, Paths: p.paths()}
}

// fluxEvent is signed as Flux documents it (fluxcd.io/flux/components/notification/
// receivers, "generic-hmac": X-Signature is HASH=HMAC of the body, in hexadecimal).
func fluxEvent(a about, p Push, secret []byte) event {
	body := inJSON(documentOf(a, p))
	return event{body, http.Header{"X-Signature": {"sha256=" + signature(body, secret)}}}
}

// argoEvent is a push event of the kind of git host. Which fields Argo CD reads is in
// its util/webhook/webhook.go (affectedRevisionInfo), how it checks them in
// github.com/go-playground/webhooks v6, which it uses.
func argoEvent(kind string, a about, p Push, secret []byte) (event, error) {
	host, path := place(a.repository)
	if host == "" {
		return event{}, errNoHost
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	web := url.URL{Scheme: "https", Host: host, Path: "/" + path} // only host and path are compared (GetWebURLRegex)
	switch kind {
	case "gitlab":
		return gitlabEvent(web.String(), a, p, secret), nil
	case "bitbucket-server":
		return bitbucketEvent(web, a, p, secret), nil
	}
	body := inJSON(hubPush{
		Ref: "refs/heads/" + a.branch, Before: p.Before, After: p.After, Commits: commitsOf(p),
		Repository: hubRepository{HTMLURL: web.String(), CloneURL: web.String() + ".git", DefaultBranch: a.branch},
	})
	if kind == "gogs" {
		return event{body, http.Header{"X-Gogs-Event": {"push"}, "X-Gogs-Signature": {signature(body, secret)}}}, nil // gogs/gogs.go
	}
	return event{body, hubHeader("push", body, secret)}, nil
}

// hubHeader is GitHub's (docs.github.com/webhooks, "Validating webhook deliveries").
func hubHeader(name string, body, secret []byte) http.Header {
	return http.Header{"X-Github-Event": {name}, "X-Hub-Signature-256": {"sha256=" + signature(body, secret)}}
}

// hubPush is the part of GitHub's and Gogs' push event that Argo CD reads
// (docs.github.com/webhooks/webhook-events-and-payloads, "push"; gogs.io/docs/features/webhook).
type hubPush struct {
	Ref        string        `json:"ref"`
	Before     string        `json:"before"`
	After      string        `json:"after"`
	Commits    []commit      `json:"commits"`
	Repository hubRepository `json:"repository"`
}

type hubRepository struct {
	HTMLURL  string `json:"html_url"`
	CloneURL string `json:"clone_url"`
	// DefaultBranch is set to the branch that was pushed to. muster does not know the default
	// branch, and only this value notifies applications that follow HEAD.
	DefaultBranch string `json:"default_branch"`
}

// commit represents all commits of the push: Argo CD merges their lists, and handles added files
// like modified ones.
type commit struct {
	ID       string   `json:"id"`
	Added    []string `json:"added"`
	Modified []string `json:"modified"`
	Removed  []string `json:"removed"`
}

// commitsOf are none where the files are not known: then Argo CD refreshes every
// application of the branch.
func commitsOf(p Push) []commit {
	if p.Unlisted {
		return []commit{}
	}
	return []commit{{ID: p.After, Added: []string{}, Modified: list(p.Written), Removed: list(p.Removed)}}
}

// list is never null in JSON.
func list(paths []string) []string {
	if paths == nil {
		return []string{}
	}
	return paths
}

// gitlabEvent is GitLab's (docs.gitlab.com/user/project/integrations/webhook_events,
// "Push events"), whose secret is sent as it is.
func gitlabEvent(web string, a about, p Push, secret []byte) event {
	type project struct {
		WebURL        string `json:"web_url"`
		GitHTTPURL    string `json:"git_http_url"`
		DefaultBranch string `json:"default_branch"`
	}
	body := inJSON(struct {
		ObjectKind string   `json:"object_kind"`
		Ref        string   `json:"ref"`
		Before     string   `json:"before"`
		After      string   `json:"after"`
		Project    project  `json:"project"`
		Commits    []commit `json:"commits"`
	}{"push", "refs/heads/" + a.branch, p.Before, p.After, project{web, web + ".git", a.branch}, commitsOf(p)})
	return event{body, http.Header{"X-Gitlab-Event": {"Push Hook"}, "X-Gitlab-Token": {string(secret)}}}
}

// bitbucketEvent is Bitbucket Data Center's (confluence.atlassian.com/bitbucketserver/
// event-payload, "Push"). Argo CD compares the links by which it is cloned.
func bitbucketEvent(web url.URL, a about, p Push, secret []byte) event {
	type link struct {
		Href string `json:"href"`
		Name string `json:"name"`
	}
	type reference struct {
		ID        string `json:"id"`
		DisplayID string `json:"displayId"`
		Type      string `json:"type"`
	}
	type change struct {
		Ref      reference `json:"ref"`
		FromHash string    `json:"fromHash"`
		ToHash   string    `json:"toHash"`
		Type     string    `json:"type"`
	}
	ssh := url.URL{Scheme: "ssh", User: url.User("git"), Host: web.Host, Path: web.Path}
	body := inJSON(map[string]any{
		"eventKey":   "repo:refs_changed",
		"repository": map[string]any{"links": map[string][]link{"clone": {{web.String(), "http"}, {ssh.String(), "ssh"}}}},
		"changes":    []change{{reference{"refs/heads/" + a.branch, a.branch, "BRANCH"}, p.Before, p.After, "UPDATE"}},
	})
	return event{body, http.Header{"X-Event-Key": {"repo:refs_changed"}, "X-Hub-Signature": {"sha256=" + signature(body, secret)}}}
}

// signature is the HMAC-SHA256 of a body in hexadecimal.
func signature(body, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// inJSON is a value of this package in JSON, which is always possible.
func inJSON(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}
