package fakebuildkite_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/buildkite/go-buildkite/v3/buildkite"
	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
)

const webhookToken = "a webhook's token"

// listener notes which events arrive, when, and whether go-buildkite takes their
// signature.
type listener struct {
	server *fakebuildkite.Server
	seen   []string
}

func (l *listener) deliver(r *http.Request) {
	since := l.server.Now().Sub(time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC))
	text := fmt.Sprintf("%s %s", since, buildkite.WebHookType(r))
	body, err := buildkite.ValidatePayload(r, []byte(webhookToken))
	if err != nil {
		l.seen = append(l.seen, text+" refused")
		return
	}
	if _, err := buildkite.ParseWebHook(buildkite.WebHookType(r), body); err != nil {
		text += " " + err.Error()
	}
	var about struct {
		Event string
		Job   struct{ Type, State string }
		Build struct{ URL string }
		Agent struct{ URL string }
	}
	if err := json.Unmarshal(body, &about); err != nil || about.Event != buildkite.WebHookType(r) {
		text += fmt.Sprintf(" %v %s", err, about.Event)
	}
	if strings.HasPrefix(about.Event, "job.") {
		text += " " + about.Job.Type + " " + about.Job.State + " " + about.Build.URL[len("https://api.buildkite.com/v2/"):]
	}
	if about.Agent.URL != "" {
		text += " " + strings.Split(about.Agent.URL, "/agents/")[0][len("https://api.buildkite.com/v2/"):]
	}
	l.seen = append(l.seen, text)
}

func (l *listener) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, l.seen); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	l.seen = nil
}

// TestWebhooks: a build's events in their order, signed as go-buildkite wants it, with
// what is in them.
func TestWebhooks(t *testing.T) {
	s := newServer()
	l := &listener{server: s}
	s.AddWebhook(fakebuildkite.Webhook{Token: webhookToken, Deliver: l.deliver})
	l.want(t, "0s ping")
	id := s.CreateBuild(fakebuildkite.Build{Pipeline: "app", Steps: []fakebuildkite.Step{{Duration: time.Minute}, {Type: fakebuildkite.Block}, {Duration: time.Minute}}})
	const build = "organizations/acme/pipelines/app/builds/1"
	l.want(t, "0s job.scheduled script scheduled "+build)
	connect(t, s, agent{Tags: []string{"queue=default"}, IdleTimeout: time.Hour})
	l.want(t, "0s agent.connected organizations/acme", "0s job.started script running "+build)
	s.Advance(time.Minute)
	l.want(t, "1m0s job.finished script passed "+build)
	s.Unblock(id)
	l.want(t, "1m0s job.activated manual blocked "+build, "1m0s job.scheduled script scheduled "+build, "1m0s job.started script running "+build)
	s.Advance(2 * time.Hour)
	l.want(t, "2m0s job.finished script passed "+build, "1h2m0s agent.disconnected organizations/acme")
}

// TestWebhookFaults: lost, duplicate, delayed, expired and forged events.
func TestWebhookFaults(t *testing.T) {
	s := newServer()
	l := &listener{server: s}
	troubles := []fakebuildkite.WebhookFault{{}, {Lost: true}, {Twice: true}, {Delay: 3 * time.Minute}, {Held: 10 * time.Minute}, {Forged: true}}
	var stamps []string
	s.AddWebhook(fakebuildkite.Webhook{
		Token: webhookToken, Events: []string{"job.scheduled"},
		Deliver: func(r *http.Request) {
			stamp, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(buildkite.SignatureHeader), "timestamp="), ",")
			var at int64
			_, _ = fmt.Sscan(stamp, &at)
			stamps = append(stamps, s.Now().Sub(time.Unix(at, 0)).String())
			l.deliver(r)
		},
		Fault: func(n int) fakebuildkite.WebhookFault { return troubles[n] },
	})
	for range 5 {
		s.CreateBuild(fakebuildkite.Build{Pipeline: "app", Steps: []fakebuildkite.Step{{}}})
	}
	s.Advance(time.Hour)
	const job = "job.scheduled script scheduled organizations/acme/pipelines/app/builds/"
	l.want(t, "0s ping", "0s "+job+"2", "0s "+job+"2", "0s job.scheduled refused", "3m0s "+job+"3", "10m0s "+job+"4")
	if diff := cmp.Diff([]string{"0s", "0s", "0s", "0s", "0s", "10m0s"}, stamps); diff != "" {
		t.Errorf("how old the timestamps are: -want +got\n%s", diff)
	}
}

// TestPlainWebhook: where the user chose so, the token is sent as it is.
func TestPlainWebhook(t *testing.T) {
	s := newServer()
	var got []string
	s.AddWebhook(fakebuildkite.Webhook{Token: webhookToken, Plain: true, Deliver: func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Header.Get("X-Buildkite-Token"), r.Header.Get("X-Buildkite-Signature"), string(body[:len(`{"event":"ping"`)]))
	}})
	if diff := cmp.Diff([]string{webhookToken, "", `{"event":"ping"`}, got); diff != "" {
		t.Error(diff)
	}
}
