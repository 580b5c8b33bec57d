package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
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
