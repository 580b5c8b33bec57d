package fakebuildkite

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Webhook is a notification service of the kind webhook (docs
// apis/webhooks/pipelines.md). Token and Deliver are needed.
type Webhook struct {
	// Events are the events to send, as in "job.scheduled"; nil means all that the
	// simulator has.
	Events []string
	// Token is the secret. With Plain it is sent as it is, in X-Buildkite-Token;
	// otherwise it signs, in X-Buildkite-Signature: the user chooses one of the two
	// (docs apis/webhooks/_webhook_token.md, _webhook_signature.md).
	Token string
	Plain bool
	// Deliver takes a request at the simulated moment at which it arrives. It may
	// call the server.
	Deliver func(*http.Request)
	// Fault returns the fault of the nth event, from 0 on; nil injects none.
	Fault func(n int) WebhookFault

	sent int
}

// WebhookFault is the fault of one event. The zero value has no effect.
type WebhookFault struct {
	// Lost is not sent at all: no page promises that each event arrives, or that
	// one is sent again.
	Lost bool
	// Twice arrives a second time, byte by byte: a replay, against which the
	// timestamp is signed (docs apis/webhooks/_defending_against_replay_attacks.md).
	Twice bool
	// Delay is how long after the event it is sent. The signed timestamp is that of
	// sending, not of the event (docs apis/webhooks/_webhook_signature.md).
	Delay time.Duration
	// Held is its delay on the network, by which its timestamp is old on arrival.
	Held time.Duration
	// Forged is signed with another secret, as by an attacker.
	Forged bool
}

// AddWebhook sends events from now on, beginning with the ping, which announces changed settings
// (docs apis/webhooks/pipelines/ping_events.md).
func (s *Server) AddWebhook(w Webhook) {
	s.do(func() {
		s.webhooks = append(s.webhooks, &w)
		s.send(&w, "ping", map[string]any{"organization": map[string]any{"slug": s.opts.Org}})
	})
}

// sendEvent sends an event to all webhooks with it. It encodes the subject only if there are any.
func (s *Server) sendEvent(event string, about func() map[string]any) {
	for _, w := range s.webhooks {
		if w.Events == nil || slices.Contains(w.Events, event) {
			s.send(w, event, about())
		}
	}
}

func (s *Server) send(w *Webhook, event string, body map[string]any) {
	var t WebhookFault
	if w.Fault != nil {
		t = w.Fault(w.sent)
	}
	w.sent++
	if t.Lost {
		return
	}
	body["event"] = event
	body["sender"] = map[string]any{"id": "e0000000-0000-4000-8000-000000000000", "name": "A. Person"}
	at, raw := s.now.Add(t.Delay), encode(body)
	token := w.Token
	if t.Forged {
		token = "another secret than " + token
	}
	arrive := func() {
		s.after = append(s.after, func() { w.Deliver(webhookRequest(event, raw, token, w.Plain, at)) })
	}
	for range 1 + count(t.Twice) {
		if t.Delay+t.Held == 0 {
			arrive()
			continue
		}
		s.schedule(at.Add(t.Held), arrive)
	}
}

// webhookRequest is a request as Buildkite sends it at a moment. The signature is
// HMAC-SHA256 of "TIMESTAMP.BODY", in hexadecimal (docs
// apis/webhooks/_verifying_hmac_signatures.md).
func webhookRequest(event string, body []byte, token string, plain bool, at time.Time) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://webhook.invalid/webhooks/buildkite", bytes.NewReader(body))
	if err != nil {
		panic(fmt.Sprintf("fakebuildkite: %v", err))
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Buildkite-Event", event)
	if plain {
		r.Header.Set("X-Buildkite-Token", token)
		return r
	}
	mac := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	r.Header.Set("X-Buildkite-Signature", fmt.Sprintf("timestamp=%d,signature=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil))))
	return r
}

// sendJobEvent sends an event about a job (docs apis/webhooks/pipelines/job_events.md).
// The job is as REST has it. Of the build, which of its fields are sent is not
// documented: the jobs are omitted here.
func (s *Server) sendJobEvent(event string, j *job) {
	s.onEvent(event)
	if len(s.webhooks) == 0 {
		return
	}
	s.sendEvent(event, func() map[string]any {
		b := j.build
		at := "https://api.buildkite.com/v2/organizations/" + s.opts.Org + "/pipelines/" + b.spec.Pipeline
		return map[string]any{
			"job": json.RawMessage(s.encodeJob(j)),
			"build": map[string]any{
				"id": b.id, "number": b.number, "state": b.state, "branch": b.spec.Branch, "url": fmt.Sprintf("%s/builds/%d", at, b.number),
			},
			"pipeline": map[string]any{"slug": b.spec.Pipeline, "url": at},
		}
	})
}

// sendAgentEvent sends an event about an agent (docs
// apis/webhooks/pipelines/agent_events.md). Its url is that of docs
// apis/rest_api/agents.md.
func (s *Server) sendAgentEvent(event string, a *agent) {
	s.onEvent(event)
	if len(s.webhooks) == 0 {
		return
	}
	s.sendEvent(event, func() map[string]any {
		return map[string]any{"agent": struct {
			agentJSON
			URL string `json:"url"`
		}{s.agentRecordJSON(a), "https://api.buildkite.com/v2/organizations/" + s.opts.Org + "/agents/" + a.id}}
	})
}

func (s *Server) onEvent(event string) {
	if s.opts.OnEvent != nil {
		s.after = append(s.after, func() { s.opts.OnEvent(event) })
	}
}
