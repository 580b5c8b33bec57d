package generator_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// newCounted returns a loop with metrics, whose Buildkite webhooks are lost.
func newCounted(t *testing.T, opts fakebuildkite.Options) *notifying {
	w := newNotifying(t, opts, func(int) fakebuildkite.WebhookFault { return fakebuildkite.WebhookFault{Lost: true} })
	w.buildkite.AddAgentToken("", leaktest.AgentToken)
	metrics, err := buildkite.NewMetrics(buildkite.AgentConfig{
		Org: "acme", Tokens: []func() (string, error){func() (string, error) { return leaktest.AgentToken, nil }}, HTTP: w.buildkite.Transport(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.metrics = metrics
	return w
}

// TestJobsTriggerTicks asserts that muster polls at each interval while there is nothing,
// that it requests the metrics as often as Buildkite allows, and that a job triggers a tick
// before its time.
func TestJobsTriggerTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t, fakebuildkite.Options{MetricsPoll: 5 * time.Second})
		w.run(time.Minute, func() {
			w.pass(2*time.Minute + 2*time.Second)
			w.build(1)
			w.pass(9 * time.Second)
		})
		w.want("0s start", "1m0s interval", "2m0s interval", "2m6.25s metrics dispatch")
		for i, at := range w.counted[1:] {
			if between := at.Sub(w.counted[i]); between < 5*time.Second {
				t.Errorf("the metrics are requested again after %s", between)
			}
		}
	})
}

// TestQuietFleetRequests asserts how many REST requests a fleet without jobs and agents
// needs at the interval of docs/reference/limits.md, with metrics and without.
func TestQuietFleetRequests(t *testing.T) {
	for name, counted := range map[string]bool{"metrics": true, "no metrics": false} {
		synctest.Test(t, func(t *testing.T) {
			w := newCounted(t, fakebuildkite.Options{MetricsPoll: -1, UserLimit: 50})
			w.buildkite.AddQueue(w.buildkite.AddCluster("ci"), "a")
			if !counted {
				w.metrics = nil
			}
			w.run(15*time.Second, func() { w.pass(10*time.Minute - time.Second) })
			if n := len(w.ticks); n != 40 {
				t.Errorf("%s: %d ticks in ten minutes", name, n)
			}
			// Each tick lists agents and builds, and each minute the clusters and the queues of one.
			if n := len(w.asked); n < 100 || n > 101 {
				t.Errorf("%s: %d requests in ten minutes", name, n)
			}
			t.Logf("%s: %d REST requests and %d of the metrics in ten minutes", name, len(w.asked), len(w.counted))
		})
	}
}

// TestMetricsFail asserts that muster polls at each interval while the metrics cannot be
// read, and logs one line when that begins and one when it is over.
func TestMetricsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t, fakebuildkite.Options{MetricsPoll: -1})
		w.run(15*time.Second, func() {
			w.pass(time.Second)
			w.buildkite.Fail(fakebuildkite.Fault{Path: "/v3/metrics", Status: http.StatusUnauthorized, Times: 2})
			w.pass(time.Minute) // the first was good, two fail, each for a minute
			w.build(1)
			w.pass(90 * time.Second)
			w.build(1)
			w.pass(5 * time.Second)
		})
		w.want("0s start", "15s interval", "30s interval", "45s interval", "1m0s interval", "1m15s interval dispatch", "1m30s interval",
			"1m45s interval", "2m0s interval", "2m15s interval", "2m30s interval", "2m33.25s metrics dispatch")
		log := w.log.String()
		if n := strings.Count(log, "metrics cannot be read"); n != 2 || !strings.Contains(log, "resolved: Buildkite's metrics") || !strings.Contains(log, "does not accept the agent token") {
			t.Errorf("%d lines:\n%s", n, log)
		}
	})
}

// countedHeads counts requests for the head, and fails on request.
type countedHeads struct {
	generator.Repository
	n    int
	fail bool
}

func (r *countedHeads) Head(ctx context.Context) (branch.Head, error) {
	if r.n++; r.fail {
		return branch.Head{}, errors.New("the git server is down")
	}
	return r.Repository.Head(ctx)
}

// TestSignalsArePaced: signals without a pause, and webhooks with them, cause no more requests to git
// than the pace of triggered ticks allows, whether or not ticks fail.
func TestSignalsArePaced(t *testing.T) {
	calls := make(chan generator.Cause, 10)
	for name, wake := range map[string]*generator.Triggers{
		"signals": nil, "signals and webhooks": {Calls: calls, Gather: 250 * time.Millisecond, Every: 3 * time.Second},
	} {
		for _, fail := range []bool{false, true} {
			b := newBench("a")
			begun := b.Now()
			var heads *countedHeads
			b.run(t, time.Minute, func(int, generator.Result, error) bool {
				for len(calls) < cap(calls) {
					calls <- generator.CauseGit
				}
				return b.Now().Sub(begun) < 200*time.Second
			}, func(c *generator.Config) {
				heads = &countedHeads{Repository: c.Repository, fail: fail}
				c.Triggers, c.Repository = wake, heads
				c.Pause = func(ctx context.Context, d time.Duration) error { return b.Sleep(ctx, min(d, 100*time.Millisecond)) }
			})
			if heads.n < 40 || heads.n > 200/3+6 { // the first, and four at once
				t.Errorf("%s, failing %t: %d requests to git in 200 s", name, fail, heads.n)
			}
		}
	}
}

// TestPollsShowAgentsInFlight asserts that polls are at most four fifths of the idle time-out of
// agents in flight apart, if Buildkite's limit allows, and an interval without agents in flight.
func TestPollsShowAgentsInFlight(t *testing.T) {
	spare := func(d time.Duration) *generator.Triggers {
		return &generator.Triggers{Every: 3 * time.Second, Spare: func(time.Time, time.Duration) time.Duration { return d }}
	}
	for name, test := range map[string]struct {
		triggers *generator.Triggers
		idle     time.Duration
		want     []time.Duration
	}{
		"no triggers":    {nil, 5 * time.Second, []time.Duration{4 * time.Second, 4 * time.Second, time.Minute}},
		"spare requests": {spare(0), 5 * time.Second, []time.Duration{4 * time.Second, 4 * time.Second, time.Minute}},
		"few requests":   {spare(10 * time.Second), 5 * time.Second, []time.Duration{14 * time.Second, 14 * time.Second, time.Minute}},
		"no requests":    {spare(time.Hour), 5 * time.Second, []time.Duration{time.Minute, time.Minute, time.Minute}},
		"long time-out":  {spare(0), 2 * time.Minute, []time.Duration{time.Minute, time.Minute, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("a")
			b.overlays[0].spec.reuse = reuse{idle: test.idle, uptime: time.Hour}
			b.fleet = newFleet(b.Now, files(b.overlays))
			b.jobs("a", 1)
			var pauses []time.Duration
			b.run(t, time.Minute, func(tick int, r generator.Result, err error) bool {
				if err != nil {
					t.Fatal(err)
				}
				if tick == 2 {
					b.snapshot = plan.Snapshot{Sightings: sightings(r.Input.Overlays[0].Dispatches[0], "a")}
				}
				return tick < 4
			}, func(c *generator.Config) {
				c.Triggers = test.triggers
				c.Pause = func(ctx context.Context, d time.Duration) error {
					pauses = append(pauses, d)
					return b.Sleep(ctx, d)
				}
			})
			if len(pauses) > 3 {
				pauses = pauses[:3]
			}
			if !slices.Equal(pauses, test.want) {
				t.Errorf("pauses %s, want %s", pauses, test.want)
			}
		})
	}
}

// TestRegularPollsLeaveRequests asserts that after a trigger a regular poll waits up to an interval for the
// requests of an additional poll, and not beyond the time by which agents in flight must be seen.
func TestRegularPollsLeaveRequests(t *testing.T) {
	for name, test := range map[string]struct {
		triggered bool
		spare     time.Duration
		idle      time.Duration // of agents in flight; zero: none are
		want      time.Duration
	}{
		"without a trigger": {false, 50 * time.Second, 0, time.Minute},
		"enough requests":   {true, 0, 0, time.Minute},
		"few requests":      {true, 50 * time.Second, 0, 110 * time.Second},
		"no requests":       {true, time.Hour, 0, time.Minute},
		"agents in flight":  {true, 50 * time.Second, 100 * time.Second, 80 * time.Second},
		"a longer time-out": {true, 50 * time.Second, time.Hour, 110 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("a")
			if test.idle > 0 {
				b.overlays[0].spec.reuse = reuse{idle: test.idle, uptime: time.Hour}
				b.fleet = newFleet(b.Now, files(b.overlays))
				b.jobs("a", 1)
			}
			calls := make(chan generator.Cause, 1)
			var pauses []time.Duration
			asked := 0
			b.run(t, time.Minute, func(tick int, _ generator.Result, _ error) bool { return tick < 4 }, func(c *generator.Config) {
				c.Triggers = &generator.Triggers{Calls: calls, Spare: func(time.Time, time.Duration) time.Duration {
					if asked++; asked <= 2 { // after the first tick, and by the trigger
						return 0
					}
					return test.spare
				}}
				c.Pause = func(ctx context.Context, d time.Duration) error {
					if pauses = append(pauses, d); test.triggered && len(pauses) == 1 {
						calls <- generator.CauseBuildkite
						<-ctx.Done()
						return ctx.Err()
					}
					return b.Sleep(ctx, d)
				}
			})
			if want := []time.Duration{time.Minute, test.want, time.Minute}; !slices.Equal(pauses[:min(3, len(pauses))], want) {
				t.Errorf("pauses %s, want %s", pauses, want)
			}
		})
	}
}
