package generator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
	"muster/gitops/canary"
)

// newGated returns a loop with a gate.
func newGated(t *testing.T, opts fakebuildkite.Options) *told {
	w := newTold(t, opts, func(int) fakebuildkite.WebhookTrouble { return fakebuildkite.WebhookTrouble{Lost: true} })
	w.buildkite.AddAgentToken("", canary.AgentToken)
	metrics, err := buildkite.NewMetrics(buildkite.AgentConfig{
		Org: "acme", Tokens: []func() (string, error){func() (string, error) { return canary.AgentToken, nil }}, HTTP: w.buildkite.Transport(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.gate = metrics
	return w
}

// looks are the ticks with a look since the beginning, and how many had none.
func (w *told) looks() (looks []string, without int) {
	for _, r := range w.ticks {
		if r.Result.LeftOut {
			without++
			continue
		}
		looks = append(looks, fmt.Sprint(r.Began.Sub(w.begun), " ", r.Cause))
	}
	return looks, without
}

func (w *told) wantLooks(without int, want ...string) {
	w.t.Helper()
	if got, n := w.looks(); n != without || !slices.Equal(got, want) {
		w.t.Errorf("%d looks left out, want %d; looks\n %s\nwant\n %s\n%s", n, without, strings.Join(got, "\n "), strings.Join(want, "\n "), w.log.String())
	}
}

// TestQuietMinutes: while there is nothing, Buildkite's REST API is asked every two
// minutes, and the metrics as often as Buildkite wants. When a job comes, the metrics
// bring a tick before its time.
func TestQuietMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: 5 * time.Second})
		w.run(15*time.Second, func() {
			w.pass(5*time.Minute + 2*time.Second)
			if n := len(w.asked); n != 3*3 { // for agents, builds and clusters
				t.Errorf("%d requests of three looks", n)
			}
			w.build(1)
			w.pass(9 * time.Second)
		})
		w.wantLooks(18, "0s start", "2m0s interval", "4m0s interval", "5m6.25s metrics")
		for i, at := range w.counted[1:] {
			if between := at.Sub(w.counted[i]); between < 5*time.Second {
				t.Errorf("the metrics are asked for again after %s", between)
			}
		}
		if r := w.ticks[len(w.ticks)-1]; len(r.Result.Acts) != 1 {
			t.Errorf("%d acts", len(r.Result.Acts))
		}
	})
}

// TestNothingIsLeftOutInFlight: as long as a dispatch is in git, or an agent is connected,
// each tick looks.
func TestNothingIsLeftOutInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: -1})
		w.run(15*time.Second, func() {
			w.build(1)
			w.pass(time.Minute)
			for _, b := range w.buildkite.Jobs() {
				w.buildkite.CancelBuild(b.Build)
			}
			w.pass(time.Minute)
		})
		looks, without := w.looks()
		if without > 0 || len(looks) < 9 {
			t.Errorf("%d looks left out, %d made", without, len(looks))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: -1})
		if _, err := w.buildkite.Connect(fakebuildkite.Agent{Tags: []string{"queue=a"}}); err != nil {
			t.Fatal(err)
		}
		w.run(15*time.Second, func() { w.pass(time.Minute) })
		if _, without := w.looks(); without > 0 {
			t.Errorf("%d looks left out", without)
		}
	})
}

// TestGateFails: what is wrong at the gate leaves no look out, is said once, and once
// when it is over.
func TestGateFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: -1})
		w.run(15*time.Second, func() {
			w.buildkite.Fail(fakebuildkite.Fault{Path: "/v3/metrics", Status: http.StatusUnauthorized, Times: 2})
			w.pass(2*time.Minute + 20*time.Second)
		})
		looks, without := w.looks()
		if len(looks) != 9 || without != 1 { // the first was good, two failed, each for a minute
			t.Errorf("%d looks left out, looks %v", without, looks)
		}
		log := w.log.String()
		if n := strings.Count(log, "no look is left out"); n != 2 || !strings.Contains(log, "resolved: Buildkite's metrics") || !strings.Contains(log, "does not accept the agent token") {
			t.Errorf("%d lines:\n%s", n, log)
		}
	})
}

// TestGateIsWrong: metrics that do not show a job cost two minutes, once; then nothing
// is left out for an hour.
func TestGateIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: -1})
		nothing := `{"agents":{"total":0},"jobs":{"total":0},"organization":{"slug":"acme"}}`
		w.buildkite.Fail(fakebuildkite.Fault{Path: "/v3/metrics", Body: nothing, Times: -1})
		w.run(30*time.Second, func() {
			w.pass(time.Second)
			w.build(1)
			w.pass(time.Hour)
		})
		looks, without := w.looks()
		if without != 3 || len(looks) != 118 || looks[1] != "2m0s interval" || len(w.ticks[4].Result.Acts) != 1 {
			t.Errorf("%d looks left out, %d made, the second %s", without, len(looks), looks[1])
		}
		if !strings.Contains(w.log.String(), "they did not show jobs that a look has shown") {
			t.Error(w.log.String())
		}
	})
}

// TestCalledLooks: who calls has a look, whatever the metrics say; so does a webhook that
// has to wait for the interval, and one that came while others were gathered.
func TestCalledLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: -1, MetricsAge: time.Hour})
		w.run(30*time.Second, func() {
			w.pass(35 * time.Second)
			w.deliver(signedPush("a person's"))
			w.pass(100 * time.Millisecond)
			w.deliver(signedPush("another's"))
			w.pass(30 * time.Second)
			w.pass(29 * time.Second)
			w.deliver(signedPush("in the last second"))
			w.pass(10 * time.Second)
		})
		looks, _ := w.looks()
		if len(looks) != 3 || looks[1] != "35.25s git" {
			t.Errorf("%v", looks)
		}
	})
}

// TestPolicyWithoutALook: a policy that asks for agents is acted on, on a look.
func TestPolicyWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: -1})
		o := newBench("a").overlays[0]
		o.spec.min = 2
		w.run(15*time.Second, func() {
			w.pass(20 * time.Second)
			w.fleet.edit("min", branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
			w.pass(15 * time.Second)
		})
		w.wantLooks(1, "0s start", "30s interval")
		if r := w.ticks[2]; len(r.Result.Acts) != 1 || r.Result.Acts[0].Decision.Sum.Dispatch != 2 || r.Result.LeftOut {
			t.Errorf("%+v", r.Result.Acts)
		}
	})
}

// TestGateOfATick: a tick by itself, as with --once, looks; so does each after a look that
// failed.
func TestGateOfATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t, fakebuildkite.Options{MetricsPoll: -1})
		w.run(15*time.Second, func() {
			w.pass(119 * time.Second)
			w.buildkite.Fail(fakebuildkite.Fault{Path: "/agents", Status: http.StatusBadGateway, Times: 3})
			w.pass(time.Minute)
		})
		got, _ := w.looks()
		want := []string{"0s start", "2m0s interval", "2m15s interval", "2m30s interval", "2m45s interval"}
		if !slices.Equal(got, want) || w.ticks[8].Outcome != generator.Failed {
			t.Errorf("%v", got)
		}
	})
}
