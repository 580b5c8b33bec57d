package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// event is the body and the headers of a request.
type event struct {
	body   []byte
	header http.Header
	path   string // instead of the receiver's own; optional
}

// about is the repository and the branch of a push.
type about struct {
	repository, branch string
}

// errNoHost is returned if Argo CD cannot identify the repository.
var errNoHost = errors.New("no host and path of the repository are known, by which Argo CD finds its applications: give repository=URL as the Application has it")

// document is the body for Flux, and the default one for a URL. A Receiver's
// resourceFilter may look into it.
type document struct {
	Repository string `json:"repository"`
	Branch     string `json:"branch"`
	Ref        string `json:"ref"`
	Before     string `json:"before"`
	After      string `json:"after"`
	// Paths is absent if the changed files are unknown.
	Paths []string `json:"paths,omitempty"`
}

func documentOf(a about, p Push) document {
	return document{Repository: a.repository, Branch: a.branch, Ref: "refs/heads/" + a.branch, Before: p.Before, After: p.After, Paths: p.paths()}
}

// fluxEvent returns an event with Flux's signature (fluxcd.io/flux/components/notification/
// receivers, "generic-hmac": X-Signature is HASH=HMAC of the body, in hexadecimal).
func fluxEvent(a about, p Push, secret []byte) event {
	body := inJSON(documentOf(a, p))
	return event{body: body, header: http.Header{"X-Signature": {"sha256=" + signature(body, secret)}}}
}

// fluxPath returns the path of the Receiver muster in flux-system, which muster init writes: "/hook/", and
// the SHA-256 of token, name and namespace (fluxcd/notification-controller, api/v1/receiver_types.go,
// GetWebhookPath).
func fluxPath(token string) string {
	return fmt.Sprintf("/hook/%x", sha256.Sum256([]byte(token+"muster"+"flux-system")))
}

// argoEvent returns GitHub's push event (docs.github.com/webhooks/webhook-events-and-payloads, "push"), with
// the fields that Argo CD reads. Argo CD finds applications by the address in the event, whatever their git
// host is (argo-cd, util/webhook/webhook.go, affectedRevisionInfo).
//
// The default branch is set to the branch that was pushed to: muster does not know the default
// branch, and only this value notifies applications that follow HEAD.
func argoEvent(a about, p Push, secret []byte) (event, error) {
	host, path := place(a.repository)
	if host == "" {
		return event{}, errNoHost
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	web := url.URL{Scheme: "https", Host: host, Path: "/" + path} // only host and path are compared (GetWebURLRegex)
	address := web.String()
	body := inJSON(map[string]any{
		"ref": "refs/heads/" + a.branch, "before": p.Before, "after": p.After, "commits": commitsOf(p),
		"repository": map[string]string{"html_url": address, "clone_url": address + ".git", "default_branch": a.branch},
	})
	return event{body: body, header: hubHeader("push", body, secret)}, nil
}

// hubHeader returns the headers of GitHub's events (docs.github.com/webhooks, "Validating webhook deliveries").
func hubHeader(name string, body, secret []byte) http.Header {
	return http.Header{"X-Github-Event": {name}, "X-Hub-Signature-256": {"sha256=" + signature(body, secret)}}
}

// commitsOf returns one commit that represents all of the push: Argo CD merges their lists, and
// handles added files like modified ones. It returns none if the files are unknown: Argo CD then
// refreshes every application of the branch.
func commitsOf(p Push) []map[string]any {
	if p.Unlisted {
		return []map[string]any{}
	}
	return []map[string]any{{"id": p.After, "added": []string{}, "modified": list(p.Written), "removed": list(p.Removed)}}
}

// list returns paths as a slice that JSON does not write as null.
func list(paths []string) []string { return append([]string{}, paths...) }

// signature returns the HMAC-SHA256 of a body in hexadecimal.
func signature(body, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// inJSON returns a value of this package in JSON.
func inJSON(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}
