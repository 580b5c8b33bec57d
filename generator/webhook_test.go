package generator_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/webhook"
)

const webhookSecret = "a webhook's secret"

// notifying is the real loop, with the real client and the real receiver of webhooks, in a
// bubble of synctest.
type notifying struct {
	t         *testing.T
	buildkite *fakebuildkite.Server
	receiver  *webhook.Receiver
	mux       *http.ServeMux
	fleet     *fleetRepository
	log       bytes.Buffer
	begun     time.Time
	metrics   generator.Metrics

	mu      sync.Mutex
	ticks   []generator.Report
	results map[string]int
	asked   []time.Time // of REST
	counted []time.Time // of the metrics
}

// Began and Ended implement generator.Watcher.
func (w *notifying) Began(at time.Time) { w.receiver.Began(at) }

func (w *notifying) Ended(r generator.Report) {
	w.receiver.Ended(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks = append(w.ticks, r)
}

// newNotifying returns a loop that has not begun, and Buildkite's webhook with its faults.
func newNotifying(t *testing.T, opts fakebuildkite.Options, trouble func(n int) fakebuildkite.WebhookFault) *notifying {
	w := &notifying{t: t, begun: time.Now(), mux: http.NewServeMux(), results: map[string]int{}}
	opts.Now = w.begun
	opts.BeforeRequest = func(r *http.Request) {
		w.buildkite.AdvanceTo(time.Now())
		w.mu.Lock()
		defer w.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/v3/") {
			w.counted = append(w.counted, time.Now())
			return
		}
		w.asked = append(w.asked, time.Now())
	}
	w.buildkite = fakebuildkite.New(opts)
	w.fleet = newFleet(time.Now, files(newBench("a").overlays))
	secret := func() ([]byte, error) { return []byte(webhookSecret), nil }
	w.receiver = webhook.New(webhook.Config{
		BuildkiteSecret: secret, GitSecret: secret, Organisation: "acme", Branch: "main", Now: time.Now,
		Count: func(s webhook.Source, r webhook.Result) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.results[string(s)+" "+string(r)]++
		},
	})
	w.receiver.AddTo(w.mux)
	w.buildkite.AddWebhook(fakebuildkite.Webhook{Token: webhookSecret, Fault: trouble, Deliver: w.deliver})
	return w
}

func (w *notifying) deliver(r *http.Request) { w.mux.ServeHTTP(httptest.NewRecorder(), r) }

// run lets the loop run while f does what happens; then it ends.
func (w *notifying) run(interval time.Duration, f func()) {
	client := newClient(w.t, w.buildkite)
	g := generator.New(generator.Config{
		Repository: remote{w.fleet, "muster"}, Buildkite: client, Clock: bubbleClock{}, Overlays: "overlays", Watch: w,
		Triggers: &generator.Triggers{Calls: w.receiver.Calls(), Gather: 250 * time.Millisecond, Every: 3 * time.Second, Spare: client.Spare, Metrics: w.metrics},
		Log:      slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ctx, stop := context.WithCancel(w.t.Context())
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := g.Run(ctx, interval, 0); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
	f()
	stop()
	loop.Wait()
}

// pass lets time pass, in Buildkite too, event by event.
func (w *notifying) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		next, ok := w.buildkite.Next()
		if !ok || next.After(end) {
			next = end
		}
		time.Sleep(time.Until(next))
		w.buildkite.AdvanceTo(time.Now())
		synctest.Wait()
	}
}

func (w *notifying) build(jobs int) {
	w.buildkite.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=a"}, Parallelism: jobs, Duration: time.Minute}}})
}

// want compares when there were ticks since the beginning, and what for.
func (w *notifying) want(want ...string) {
	w.t.Helper()
	var got []string
	for _, r := range w.ticks {
		text := fmt.Sprintf("%s %s", r.Began.Sub(w.begun), r.Cause)
		for _, a := range r.Result.Operations {
			text += " " + string(a.Kind)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("ticks\n %s\nwant\n %s\n%v", strings.Join(got, "\n "), strings.Join(want, "\n "), w.results)
	}
}

// TestTriggeredTicks: when ticks begin, and what for.
func TestTriggeredTicks(t *testing.T) {
	troubles := map[int]fakebuildkite.WebhookFault{4: {Lost: true}, 5: {Twice: true}, 6: {Delay: 2 * time.Minute}}
	for name, test := range map[string]struct {
		metrics  bool // that trigger, and no webhooks
		interval time.Duration
		play     func(w *notifying)
		want     []string
	}{
		// From job.scheduled to the commit it is what is waited for others to come, whatever the
		// interval is. What comes meanwhile is in that commit, what comes after it waits until a second
		// after it; an event that was lost costs the interval, one that comes twice costs nothing, one
		// that is sent late comes late.
		"webhooks": {interval: 4 * time.Minute, play: func(w *notifying) {
			w.pass(10 * time.Second)
			w.build(1) // event 1
			w.pass(100 * time.Millisecond)
			w.build(1) // 2
			w.pass(time.Second)
			w.build(1) // 3
			w.pass(time.Minute)
			w.build(1) // 4
			w.pass(5 * time.Minute)
			w.build(1) // 5
			w.pass(time.Minute)
			w.build(1) // 6
			w.pass(3*time.Minute + 10*time.Second)
		}, want: []string{
			"0s start", "10.25s buildkite dispatch", "11.35s buildkite dispatch",
			"4m11.35s interval dispatch", "6m11.35s buildkite dispatch", "9m11.35s buildkite dispatch",
		}},
		"a person's push, and muster's own": {interval: time.Hour, play: func(w *notifying) {
			w.pass(time.Minute)
			w.build(1)
			w.pass(time.Minute)
			w.deliver(signedPush(w.fleet.head().id))
			w.pass(time.Minute)
			w.deliver(signedPush("a person's"))
			w.pass(time.Minute)
		}, want: []string{"0s start", "1m0.25s buildkite dispatch", "3m0.25s git"}},
		// Triggers do not shorten the interval after a failed tick; the next tick includes them.
		"after a failed tick": {interval: time.Minute, play: func(w *notifying) {
			w.pass(59 * time.Second)
			w.buildkite.Fail(fakebuildkite.Fault{Status: http.StatusBadGateway, Times: -1})
			w.pass(2 * time.Second)
			w.buildkite.Recover()
			w.build(1)
			w.pass(90 * time.Second)
		}, want: []string{"0s start", "1m0s interval", "2m0s interval dispatch"}},
		"the end while it waits after a call": {interval: time.Hour, play: func(w *notifying) {
			w.pass(time.Minute)
			w.build(1)
			w.pass(100 * time.Millisecond)
		}, want: []string{"0s start"}},
		// One of the jobs runs, and two are scheduled.
		"jobs beside a connected agent": {metrics: true, interval: time.Minute, play: func(w *notifying) {
			if _, err := w.buildkite.Connect(fakebuildkite.Agent{Tags: []string{"queue=a"}}); err != nil {
				w.t.Error(err)
			}
			w.pass(10 * time.Second)
			w.build(3)
			w.pass(5 * time.Second)
		}, want: []string{"0s start", "12.25s metrics dispatch"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newNotifying(t, fakebuildkite.Options{}, func(n int) fakebuildkite.WebhookFault { return troubles[n] })
				if test.metrics {
					w = newCounted(t, fakebuildkite.Options{MetricsPoll: -1})
				}
				w.run(test.interval, func() { test.play(w) })
				w.want(test.want...)
			})
		})
	}
}

// TestWebhookStorm: ten thousand events in a minute cost as many ticks as one in three
// seconds and a few at its beginning, no two within a second, and leave no goroutine: the bubble would not end.
func TestWebhookStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNotifying(t, fakebuildkite.Options{}, nil)
		w.run(time.Hour, func() {
			w.pass(time.Minute)
			for i := range 10_000 {
				if i%100 == 0 {
					w.build(1)
					w.pass(600 * time.Millisecond)
				}
				w.deliver(signedPush(fmt.Sprint("a person's ", i)))
			}
			w.pass(3 * time.Minute) // then a poll shows agents in flight
		})
		if n := w.results["gitlab triggered"] + w.results["gitlab ignored"]; n != 10_000 || w.results["buildkite triggered"] != 100 {
			t.Errorf("%v", w.results)
		}
		if n := len(w.ticks); n < 20 || n > 2+4+60/3 {
			t.Errorf("%d ticks", n)
		}
		for i, r := range w.ticks[1:] {
			if between := r.Began.Sub(w.ticks[i].Began); between < time.Second {
				t.Errorf("%s between two ticks", between)
			}
		}
	})
}

// TestWebhooksWithinTheLimit: with an event each second, no poll of the interval waits for Buildkite's
// rate limit; triggered polls are fewer, and their deferral is logged.
func TestWebhooksWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNotifying(t, fakebuildkite.Options{UserLimit: 50}, nil)
		for range 150 {
			w.build(1)
		}
		w.run(15*time.Second, func() {
			w.pass(2 * time.Minute) // what a look takes is known by then
			for range 600 {
				w.pass(time.Second)
				w.deliver(signedPush(fmt.Sprint(time.Now().UnixNano())))
			}
		})
		causes, deferred := map[generator.Cause]int{}, 0
		for _, r := range w.ticks {
			causes[r.Cause]++
			if r.Deferred {
				deferred++
			}
			if r.Outcome == generator.Waiting || r.Outcome == generator.Limited {
				t.Errorf("at %s a tick is %s: %v", r.Began.Sub(w.begun), r.Outcome, r.Err)
			}
		}
		if len(w.ticks) < 42 || causes[generator.CauseGit] == 0 || deferred < 10 || !strings.Contains(w.log.String(), "a triggered poll waits") {
			t.Errorf("%d ticks, %v, %d were deferred", len(w.ticks), causes, deferred)
		}
		for i, from := range w.asked {
			n := 0
			for _, at := range w.asked[i:] {
				if at.Sub(from) < time.Minute {
					n++
				}
			}
			if n > 25 {
				t.Fatalf("%d requests in a minute", n)
			}
		}
	})
}

// signedPush is a push as GitLab tells it.
func signedPush(after string) *http.Request {
	body := `{"ref":"refs/heads/main","after":"` + after + `"}`
	r := httptest.NewRequest(http.MethodPost, webhook.GitPath, strings.NewReader(body))
	r.Header.Set("X-Gitlab-Event", "Push Hook")
	r.Header.Set("X-Gitlab-Token", webhookSecret)
	return r
}

// early is a clock whose sleeps end early, as at SIGHUP.
type early struct{ *bench }

func (e early) Sleep(ctx context.Context, d time.Duration) error { return e.bench.Sleep(ctx, d/2) }

// TestCauseOfASignal: a sleep that ended before its time is a signal, with webhooks and
// without.
func TestCauseOfASignal(t *testing.T) {
	for _, wake := range []*generator.Triggers{nil, {Calls: make(chan generator.Cause)}} {
		b := newBench("a")
		var causes []generator.Cause
		three := func(ticks int, _ generator.Result, _ error) bool { return ticks < 3 }
		b.run(t, time.Minute, three, func(c *generator.Config) {
			c.Clock, c.Triggers = early{b}, wake
			c.Watch = reports(func(r generator.Report) { causes = append(causes, r.Cause) })
		})
		if want := []generator.Cause{generator.CauseStart, generator.CauseSignal, generator.CauseSignal}; !slices.Equal(causes, want) {
			t.Errorf("%v", causes)
		}
	}
}

// reports is a watcher that is told of reports.
type reports func(generator.Report)

func (reports) Began(time.Time)            {}
func (f reports) Ended(r generator.Report) { f(r) }
