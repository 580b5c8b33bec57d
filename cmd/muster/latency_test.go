package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/canarytest"
)

var waits = flag.Int("waits", 1, "jobs of which TestFromJobToReceiver prints how long each took")

// heard is what a receiver was told: the head of a push, and what the branch's was then.
type heard struct {
	at          time.Time
	after, head string
}

// notifying is the program as it is between a webhook of Buildkite's and a receiver, with git
// over HTTP.
type notifying struct {
	daylong
	page      string // the address of --listen
	heard     chan heard
	triggered int
}

// newNotifying starts it, and waits for its first tick. Its interval is a day.
func newNotifying(t *testing.T) *notifying {
	t.Helper()
	k := &notifying{daylong: thisClock(t), heard: make(chan heard, 16)}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h := heard{at: time.Now(), head: k.head()}
		var push struct{ After string }
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &push)
		h.after = push.After
		k.heard <- h
	}))
	t.Cleanup(receiver.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(canarytest.GitPassword), 0o600); err != nil {
		t.Fatal(err)
	}
	k.start(nil, "--listen", "127.0.0.1:0", "--buildkite-webhook-secret-file", secret, "--webhook-interval", "1s", "--log-level", "debug", "--notify", "kind=flux,url="+receiver.URL+"/hook/1,secret-file="+secret)
	k.says("nothing to do")
	k.page = "http://" + regexp.MustCompile(`webhooks" address=(\S+)`).FindStringSubmatch(k.process.text())[1]
	k.buildkite.AddWebhook(fakebuildkite.Webhook{Events: []string{"job.scheduled"}, Token: canarytest.GitPassword, Deliver: func(r *http.Request) {
		r.URL.Host = strings.TrimPrefix(k.page, "http://")
		said, job := k.ask(r), r.Header.Get("X-Buildkite-Event") == "job.scheduled"
		if job {
			k.triggered++
		}
		if (said == "triggered\n") != job { // the first is a ping
			t.Errorf("%s is %q", r.Header.Get("X-Buildkite-Event"), said)
		}
	}})
	return k
}

func (k *notifying) ask(r *http.Request) string {
	k.t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Error(err)
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		k.t.Error(err)
	}
	return string(body)
}

// head is the branch's.
func (k *notifying) head() string {
	text, err := os.ReadFile(filepath.Join(k.repo.Dir, "refs/heads/main"))
	if err != nil {
		k.t.Error(err)
	}
	return strings.TrimSpace(string(text))
}

// steps are the seconds that the steps of ticks have taken.
func (k *notifying) steps() map[string]float64 {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, k.page+"/metrics", http.NoBody)
	if err != nil {
		k.t.Fatal(err)
	}
	all := map[string]float64{}
	text := k.ask(r)
	for _, found := range regexp.MustCompile(`(?m)^muster_tick_step_seconds_sum\{step="(\w+)"\} (\S+)`).FindAllStringSubmatch(text, -1) {
		all[found[1]], _ = strconv.ParseFloat(found[2], 64)
	}
	for _, found := range regexp.MustCompile(`(?m)^muster_triggers_total\{cause="(\w+)"\} (\S+)`).FindAllStringSubmatch(text, -1) {
		all["cause "+found[1]], _ = strconv.ParseFloat(found[2], 64)
	}
	return all
}

// TestFromJobToReceiver: a job is scheduled, Buildkite's webhook tells of it, the commit
// lands, and then the receiver hears of that very commit: the program as it is, over
// HTTP, with a git server, and with an interval of a day, so that nothing else can have
// begun the tick. How long each took is printed, and is no reason to fail.
//
//	go test ./cmd/muster -run FromJobToReceiver -v -waits 10
func TestFromJobToReceiver(t *testing.T) {
	k := newNotifying(t)
	var commits, notices []time.Duration
	for i := range *waits {
		time.Sleep(1100 * time.Millisecond) // the interval of webhooks, by which a tick after another waits
		before, old := k.steps(), k.head()
		k.buildkite.AdvanceTo(time.Now())
		job := time.Now()
		k.addBuild(1)
		if k.triggered != i+1 {
			t.Fatalf("job %d: %d webhooks were sent", i, k.triggered)
		}
		for k.head() == old {
			time.Sleep(time.Millisecond)
		}
		commit, head := time.Since(job), k.head()
		h := <-k.heard
		if h.after != head || h.head != head {
			t.Errorf("the receiver is told of %s, and the branch is at %s then; the commit is %s", h.after, h.head, head)
		}
		message, err := k.repo.Git("log", "-1", "--format=%s", head)
		if err != nil || strings.TrimSpace(message) != "default: dispatch 1 agent" {
			t.Errorf("the commit says %q, %v", message, err)
		}
		commits, notices = append(commits, commit), append(notices, h.at.Sub(job))
		t.Logf("job %d: the commit after %s, the receiver after %s; %s", i, commit.Round(time.Millisecond), h.at.Sub(job).Round(time.Millisecond), took(before, k.steps()))
	}
	if causes := k.steps(); causes["cause buildkite"] != float64(*waits) || causes["cause interval"] != 0 || causes["cause signal"] != 0 {
		t.Errorf("ticks began for other causes: %v", causes)
	}
	slices.Sort(commits)
	slices.Sort(notices)
	t.Logf("of %d: the commit after %s in the middle and %s at worst, the receiver after %s and %s", *waits,
		commits[len(commits)/2], commits[len(commits)-1], notices[len(notices)/2], notices[len(notices)-1])
	http.DefaultClient.CloseIdleConnections()
	k.stop()
}

// took is how long the steps of a tick took.
func took(before, after map[string]float64) string {
	var all []string
	for name, seconds := range after {
		if ms := 1000 * (seconds - before[name]); ms >= 1 && !strings.HasPrefix(name, "cause ") {
			all = append(all, fmt.Sprintf("%s %.0f ms", name, ms))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
