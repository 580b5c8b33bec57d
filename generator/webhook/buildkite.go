package webhook

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/buildkite/go-buildkite/v3/buildkite"

	"muster/generator"
)

// buildkite handles an event of Buildkite (buildkite/docs
// pages/apis/webhooks/pipelines.md). Its user chooses whether the secret signs, or is
// sent itself.
//
// ValidatePayload of go-buildkite v3.13.0 is not used: it reads a body of any size, checks no
// age, accepts replays, and panics if a header has no "=".
func (r *Receiver) buildkite(header http.Header, body, secret []byte) Result {
	signature := header.Get(buildkite.SignatureHeader)
	timestamp, hexadecimal := stamped(signature)
	sum := digest(secret, []byte(timestamp+"."), body)
	switch {
	case signature == "":
		// Without a signed time, the age is unknown, and replays are not recognised.
		if !equalToken(secret, header.Get("X-Buildkite-Token")) {
			return Forged
		}
	case !equalDigest(sum, hexadecimal):
		return Forged
	case !recent(timestamp, r.cfg.Now()):
		return Outdated
	case !r.isNew(sum):
		return Replayed
	}
	if !json.Valid(body) {
		return Malformed
	}
	if !r.matters(header.Get(buildkite.EventTypeHeader), body) {
		return Ignored
	}
	return r.call(generator.CauseBuildkite)
}

// matters reports whether an event may let an overlay order agents now. An event whose fields have
// unexpected types may. Others, such as the end of a job, change at most what is retired, which waits for
// the next regular tick: polls are limited. A job behind a step, or in a concurrency group, is scheduled
// when it can run (buildkite/docs pages/apis/webhooks/pipelines/job_events.md).
func (r *Receiver) matters(event string, body []byte) bool {
	switch event {
	case "job.scheduled":
	case "agent.connected", "agent.disconnected", "agent.lost", "agent.stopped":
		if !r.agentsMissing() {
			return false
		}
	default:
		return false
	}
	var e struct {
		Job struct {
			Type string `json:"type"`
		} `json:"job"`
		Build struct {
			URL string `json:"url"`
		} `json:"build"`
		Agent struct {
			URL string `json:"url"`
		} `json:"agent"`
	}
	if json.Unmarshal(body, &e) != nil {
		return true
	}
	// Agents run jobs of the type script only (buildkite/docs pages/apis/rest_api/builds.md).
	script := e.Job.Type == "script" || e.Job.Type == ""
	return script && r.ours(e.Build.URL) && r.ours(e.Agent.URL)
}

// agentsMissing reports whether limits withheld agents in the last tick that decided.
func (r *Receiver) agentsMissing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missing
}

// ours reports whether an address of the REST API belongs to this organisation, as in
// https://api.buildkite.com/v2/organizations/acme/pipelines/app/builds/1. An address that
// is empty or contains no organisation counts as ours.
func (r *Receiver) ours(address string) bool {
	_, rest, found := strings.Cut(address, "/organizations/")
	slug, _, _ := strings.Cut(rest, "/")
	return !found || slug == r.cfg.Organisation
}
