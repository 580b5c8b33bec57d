package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/canarytest"
)

// TestWebhooksOfARun: the program as it is serves webhooks beside its page, orders for a
// job that Buildkite tells of, takes a secret that was replaced, and counts. Its interval
// is a day: what orders is the webhook, or the test does not end.
func TestWebhooksOfARun(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	file := filepath.Join(t.TempDir(), "secret")
	write := func(secret string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	k.start([]string{"MUSTER_BUILDKITE_WEBHOOK_SECRET_FILE=" + file}, "--listen", "127.0.0.1:0", "--git-webhook-secret-file", file, "--log-level", "debug")
	k.says("nothing to do")
	address := "http://" + regexp.MustCompile(`webhooks" address=(\S+)`).FindStringSubmatch(k.process.text())[1]
	ask := func(r *http.Request) string {
		t.Helper()
		r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(address, "http://")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	webhook := func(secret string) {
		k.buildkite.AddWebhook(fakebuildkite.Webhook{Token: secret, Deliver: func(r *http.Request) { ask(r) }})
	}
	k.buildkite.AdvanceTo(time.Now())
	webhook("one")
	k.addBuild(3)
	k.says("agents=3")
	write("two")
	webhook("two")
	k.addBuild(5)
	k.says("agents=5")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	metrics := ask(r)
	for _, want := range []string{`muster_webhooks_total{result="ignored",source="buildkite"} 2`, `muster_webhooks_total{result="triggered",source="github"} 0`, `muster_triggers_total{cause="start"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	k.stop()
}

// TestWebhookFlags: what does not go together, and secrets that cannot be read.
func TestWebhookFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	repository := " --repo https://git.invalid/fleet.git --buildkite-org acme"
	for args, want := range map[string]string{
		"--git-webhook-secret-file x":                                                       "on the address of --listen: give one",
		"--listen 127.0.0.1:0 --webhook-interval 999ms":                                     "--webhook-interval is below one second",
		"--listen 127.0.0.1:0 --buildkite-webhook-secret-file /nowhere" + repository:        "reading the secret of Buildkite's webhook: open /nowhere: no such file",
		"--listen 127.0.0.1:0 --git-webhook-secret-file " + empty + repository:              "reading the secret of the git host's webhook: " + empty + " is empty",
		"--once --listen 127.0.0.1:0 --buildkite-webhook-secret-file " + empty + repository: "--once ends after one tick",
	} {
		var out bytes.Buffer
		p := program{
			args: append([]string{"run"}, strings.Fields(args)...), stdout: io.Discard, stderr: &out, clock: stoppedClock{start},
			environ: []string{"BUILDKITE_API_TOKEN=" + canarytest.BuildkiteToken},
		}
		if code := p.run(t.Context()); code != exitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("run %s: %d %s", args, code, fmt.Sprint(&out))
		}
	}
}
