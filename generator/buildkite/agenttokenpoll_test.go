package buildkite_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

// runs are the jobs that a snapshot says were taken: how many run, and how many have ended.
func runs(s plan.Snapshot) string {
	running := 0
	for _, r := range s.Counted.Runs {
		if r.Running {
			running++
		}
	}
	return fmt.Sprintf("%d pending, %d run, %d ended", len(s.Jobs), running, len(s.Counted.Runs)-running)
}

// TestAgentTokensOnly: with agent tokens only, the client does not use REST. It counts agents by
// queue, and follows listed jobs until they have finished, which it reports once.
func TestAgentTokensOnly(t *testing.T) {
	for _, rest := range []bool{false, true} {
		s, ci, _ := twoClusters(fakebuildkite.Options{RESTStates: rest, BeforeRequest: func(r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/v2/") {
				t.Errorf("REST is asked for %s", r.URL.Path)
			}
		}})
		s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Parallelism: 3, Duration: time.Minute}}})
		s.Advance(time.Millisecond)
		late := s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Duration: time.Minute}}})
		c := sourceClient(t, s, "alone")
		at := now.Add(time.Second)
		look := func(after time.Duration) plan.Snapshot {
			at = at.Add(after)
			s.AdvanceTo(at)
			return observe(t, c, at, time.Time{})
		}
		first := look(0)
		connectTo(t, s, ci)
		connectTo(t, s, ci)
		second := look(15 * time.Second)
		s.CancelBuild(late)
		third := look(15 * time.Second)
		fourth := look(time.Minute)
		fifth := look(15 * time.Second)
		got := fmt.Sprint(runs(first), "; ", runs(second), "; ", runs(third), "; ", runs(fourth), "; ", runs(fifth))
		want := "4 pending, 0 run, 0 ended; 2 pending, 2 run, 0 ended; 1 pending, 2 run, 0 ended; 0 pending, 1 run, 2 ended; 0 pending, 1 run, 0 ended"
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if want := (plan.CountedQueue{Queue: "default", Cluster: "ci", Agents: 2}); !slices.Contains(second.Counted.Queues, want) {
			t.Errorf("%+v has no %+v", second.Counted.Queues, want)
		}
	}
}

// TestAgentTokensOnlyFailures: a poll fails if one of its three requests does, and the next one
// reports what it would have.
func TestAgentTokensOnlyFailures(t *testing.T) {
	for _, path := range []string{"/metrics", "/scheduled-jobs", "/get-states"} {
		for _, f := range []fakebuildkite.Fault{
			{Status: http.StatusInternalServerError, Body: `{"message":"` + leaktest.AgentToken + `"}`}, {Status: http.StatusUnauthorized}, {Half: true},
			{Body: "<html>"}, {Status: http.StatusTooManyRequests, Header: http.Header{"RateLimit-Reset": {"1"}}},
		} {
			s, ci, _ := twoClusters(fakebuildkite.Options{MetricsPoll: -1})
			s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Parallelism: 2, Duration: time.Second}}})
			c := sourceClient(t, s, "alone")
			observe(t, c, now, time.Time{})
			connectTo(t, s, ci)
			s.Advance(30 * time.Second)
			f.Path, f.Times = path, -1
			s.Fail(f)
			_, err := c.Snapshot(t.Context(), plan.Query{At: now.Add(30 * time.Second)})
			if err == nil || strings.Contains(err.Error(), leaktest.AgentToken) {
				t.Errorf("%s, %+v: %v", path, f, err)
			}
			s.Recover()
			s.Advance(2 * time.Minute)
			if got := runs(observe(t, c, now.Add(150*time.Second), time.Time{})); got != "0 pending, 0 run, 2 ended" {
				t.Errorf("%s after %+v: %s", path, f, got)
			}
		}
	}
}

// TestAgentTokensOnlyConfig: without an API token, the Stacks API and the metrics are required, with
// the same agent tokens.
func TestAgentTokensOnlyConfig(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{})
	stacks, metrics := newStacks(t, s, "muster", "a"), newMetrics(t, s, "a", "b")
	for _, cfg := range []buildkite.Config{{Org: "acme"}, {Org: "acme", Stacks: stacks}, {Org: "acme", Metrics: metrics}, {Org: "acme", Stacks: stacks, Metrics: metrics}} {
		if _, err := buildkite.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

// TestLeave: a stack that was registered to try is removed again, and one that was there is
// left to whoever uses it.
func TestLeave(t *testing.T) {
	s, _, _ := twoClusters(fakebuildkite.Options{})
	running := sourceClient(t, s, "stacks")
	observe(t, running, now, time.Time{})
	before := s.Stacks()
	for _, key := range []string{"muster-test", "muster-other"} {
		stacks := newStacks(t, s, key, leaktest.AgentToken)
		c := &serving{newClient(t, buildkite.Config{HTTP: s.Transport(), Stacks: stacks}), ofQueues("default")}
		observe(t, c, now, time.Time{})
		if err := stacks.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if got := s.Stacks(); !slices.Equal(got, before) {
			t.Errorf("after %s there are %v, before %v", key, got, before)
		}
	}
}
