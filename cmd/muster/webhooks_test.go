package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/leaktest"
)

// TestWebhookToNotification asserts that a webhook of Buildkite triggers a tick, that the tick
// commits, and that the receiver is notified of that commit after it is the head; that run reads
// a replaced secret; and that it counts webhooks. The interval is a day, so that only webhooks
// can trigger the ticks.
func TestWebhookToNotification(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	head := func() string {
		text, err := os.ReadFile(filepath.Join(k.repo.Dir, "refs/heads/main"))
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(text))
	}
	notified := make(chan [2]string, 16) // the commit, and the head at that time
	receiver := serveHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var push struct{ After string }
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &push)
		notified <- [2]string{push.After, head()}
	}))
	file := filepath.Join(t.TempDir(), "secret")
	replace := func(secret string) {
		t.Helper()
		check(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	}
	replace("one")
	k.start([]string{"MUSTER_BUILDKITE_WEBHOOK_SECRET_FILE=" + file}, "--listen", "127.0.0.1:0", "--git-webhook-secret-file", file, "--webhook-interval", "1s",
		"--log-level", "debug", "--notify", "kind=flux,url="+receiver.URL+"/hook/1,secret-file="+file)
	k.says("nothing to do")
	address := listenAddress(k.process.text())
	k.buildkite.AdvanceTo(time.Now())
	triggered, want := 0, 0
	for _, c := range []struct {
		secret string
		jobs   int
	}{{"one", 3}, {"two", 5}} {
		replace(c.secret)
		k.buildkite.AddWebhook(fakebuildkite.Webhook{Events: []string{"job.scheduled"}, Token: c.secret, Deliver: func(r *http.Request) {
			r.URL.Scheme, r.URL.Host = "http", address
			if responseText(t, r) == "triggered\n" {
				triggered++
			}
		}})
		k.addBuild(c.jobs)
		if want += c.jobs; triggered != want { // webhooks with the old secret are rejected
			t.Fatalf("%d webhooks triggered a tick", triggered)
		}
		k.says(fmt.Sprintf("agents=%d", c.jobs))
		if got := <-notified; got[0] != got[1] {
			t.Errorf("notified of %s while the head was %s", got[0], got[1])
		}
		if subject, err := k.repo.Git("log", "-1", "--format=%s", head()); err != nil || !strings.HasPrefix(subject, fmt.Sprintf("default: dispatch %d agents", c.jobs)) {
			t.Errorf("the commit has the subject %q, %v", subject, err)
		}
	}
	metrics := getText(t, "http://"+address+"/metrics")
	for _, want := range []string{
		`muster_webhooks_total{result="ignored",source="buildkite"} 2`, `muster_webhooks_total{result="triggered",source="github"} 0`,
		`muster_triggers_total{cause="start"} 1`, `muster_triggers_total{cause="buildkite"} 2`, `muster_triggers_total{cause="interval"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	k.stop()
}

// TestRunBeforeSecretsExist asserts that run starts without the files of the agent token and of a receiver, logs
// each once, and notifies the receiver once its file exists.
func TestRunBeforeSecretsExist(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	notified := make(chan string, 16)
	receiver := serveHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { notified <- r.URL.Path }))
	secret, token := filepath.Join(t.TempDir(), "secret"), filepath.Join(t.TempDir(), "agent-token")
	k.start([]string{"MUSTER_AGENT_TOKEN_FILE=" + token}, "--agent-endpoint", k.api.URL+"/v3", "--notify", "kind=flux,url="+receiver.URL+",secret-file="+secret)
	k.says(`level=WARN msg="` + noAgentTokenText + `"`)
	k.says(`level=WARN msg="a syncer cannot be notified of pushes`)
	check(t, os.WriteFile(secret, []byte("sesame"), 0o600))
	k.addBuild(2)
	k.signal(syscall.SIGHUP)
	k.says("agents=2")
	if path, want := <-notified, "/hook/16db2c30ddd1d9b1f2768e2d1b5dc2d4b54f9678898cc5c5ff21e4ebdc2f1b38"; path != want {
		t.Errorf("the path is %s, want %s", path, want)
	}
	k.says(`level=INFO msg="resolved: a syncer cannot be notified of pushes`)
	k.stop()
	if text := k.process.text(); strings.Count(text, "level=WARN") != 2 || strings.Count(text, "secret: no such file") != 1 {
		t.Errorf("the log is\n%s", text)
	}
}

// TestAwaitedMetrics asserts that the metrics trigger nothing until the agent token exists, and that afterwards a
// missing token is an error.
func TestAwaitedMetrics(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: time.Now()})
	s.AddAgentToken(s.AddCluster("ci"), leaktest.AgentToken)
	missing, log := fmt.Errorf("open token: %w", fs.ErrNotExist), &bytes.Buffer{}
	metrics, err := buildkite.NewMetrics(buildkite.AgentConfig{Org: "acme", HTTP: s.Transport(), Clock: s, Tokens: []func() (string, error){
		func() (string, error) { return leaktest.AgentToken, missing },
	}})
	check(t, err)
	m := &awaitedMetrics{Metrics: metrics, log: slog.New(slog.NewTextHandler(log, nil))}
	for i, c := range []struct {
		missing error
		counted bool
	}{{missing, false}, {nil, true}, {missing, false}} {
		missing = c.missing
		at := s.Now().Add(time.Duration(i) * 2 * time.Minute)
		s.AdvanceTo(at)
		counts, err := m.Counts(t.Context(), at)
		if counts.At.IsZero() == c.counted || (err != nil) != (i == 2) {
			t.Errorf("%d: %+v, %v", i, counts, err)
		}
	}
	if text := log.String(); strings.Count(text, "resolved: "+noAgentTokenText) != 1 {
		t.Errorf("the log is %s", text)
	}
}

// TestTriggered: jobs trigger no ticks while the file of the agent token does not exist.
func TestTriggered(t *testing.T) {
	s := &settings{trigger: &buildkite.Metrics{}, program: program{invocation.Program{Clock: fakebuildkite.New(fakebuildkite.Options{Now: time.Now()})}}}
	for _, awaited := range []bool{false, true} {
		if s.agent.awaited = awaited; s.statusConfig(runFlags{}, nil).Muster.Triggered == awaited {
			t.Errorf("awaited %t: triggered %t", awaited, !awaited)
		}
	}
}
