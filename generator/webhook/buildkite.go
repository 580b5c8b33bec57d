package webhook

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/buildkite/go-buildkite/v3/buildkite"

	"muster/generator"
)

// buildkite judges an event of Buildkite's (buildkite/docs
// pages/apis/webhooks/pipelines.md). Its user chooses whether the secret signs, or is
// sent as it is.
//
// Of go-buildkite v3.13.0 the names of the headers and the reading of events are used.
// ValidatePayload is not: it reads a body of any size, looks at no age, takes what
// came before, and panics at a header without "=".
func (r *Receiver) buildkite(header http.Header, body, secret []byte) Result {
	signature := header.Get(buildkite.SignatureHeader)
	timestamp, hexadecimal := stamped(signature)
	sum := digest(secret, []byte(timestamp+"."), body)
	switch {
	case signature == "":
		// Without a signed time there is no age, and nothing that tells a replay.
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

// matters reports whether an event may change the next decision. The library refuses an
// event if one field has an unexpected type, such as an author that is a string
// (go-buildkite #218): such an event may matter.
func (r *Receiver) matters(event string, body []byte) bool {
	switch event {
	case "job.scheduled", "job.finished", "job.activated", "agent.connected", "agent.disconnected", "agent.lost", "agent.stopped", "agent.stopping":
	default: // the job takes an agent that counted for it, or the event is of a build or a token
		return false
	}
	payload, err := buildkite.ParseWebHook(event, body)
	if err != nil {
		return true
	}
	switch e := payload.(type) {
	case *buildkite.JobScheduledEvent:
		return r.jobMatters(e.JobEvent)
	case *buildkite.JobFinishedEvent:
		return r.jobMatters(e.JobEvent)
	case *buildkite.JobActivatedEvent: // of a block step: what is behind it begins
		return r.ours(buildURL(e.Build))
	case *buildkite.AgentConnectedEvent:
		return r.agentMatters(e.AgentEvent)
	case *buildkite.AgentDisconnectedEvent:
		return r.agentMatters(e.AgentEvent)
	case *buildkite.AgentLostEvent:
		return r.agentMatters(e.AgentEvent)
	case *buildkite.AgentStoppedEvent:
		return r.agentMatters(e.AgentEvent)
	case *buildkite.AgentStoppingEvent:
		return r.agentMatters(e.AgentEvent)
	}
	return true
}

// jobMatters reports whether a job runs on an agent of this organisation: of the types
// of job, script alone does (buildkite/docs pages/apis/rest_api/builds.md).
func (r *Receiver) jobMatters(e buildkite.JobEvent) bool {
	if e.Job != nil && e.Job.Type != nil && *e.Job.Type != "script" {
		return false
	}
	return r.ours(buildURL(e.Build))
}

func (r *Receiver) agentMatters(e buildkite.AgentEvent) bool {
	return e.Agent == nil || r.ours(e.Agent.URL)
}

func buildURL(b *buildkite.Build) *string {
	if b == nil {
		return nil
	}
	return b.URL
}

// ours reports whether an address of the REST API belongs to this organisation, as in
// https://api.buildkite.com/v2/organizations/acme/pipelines/app/builds/1. An address that
// is nil or contains no organisation counts as ours.
func (r *Receiver) ours(address *string) bool {
	if address == nil {
		return true
	}
	_, rest, found := strings.Cut(*address, "/organizations/")
	slug, _, _ := strings.Cut(rest, "/")
	return !found || slug == r.cfg.Organisation
}

// isNew reports whether a digest was not seen before, and remembers it.
func (r *Receiver) isNew(sum []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.add(sum, r.cfg.Now())
}
