package buildkite_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

// overlaysOf returns overlays with an identifier that serve some queues.
func overlaysOf(queues ...string) (all []plan.Overlay) {
	for i, q := range queues {
		all = append(all, plan.Overlay{Name: q, Identity: plan.Identity{ID: "1d" + strconv.Itoa(i)}, Policy: plan.Policy{Queue: q}})
	}
	return all
}

// TestStackKey: without a flag the identifiers of the overlays determine the key, first those that git has.
// Overlays without an identifier do not.
func TestStackKey(t *testing.T) {
	second, partly, none := overlaysOf("default", "large"), overlaysOf("default", "large"), overlaysOf("default", "large")
	second[1].State.Identity = second[1].Identity
	partly[0].Identity, none[0].Identity, none[1].Identity = plan.Identity{}, plan.Identity{}, plan.Identity{}
	for i, all := range [][]plan.Overlay{overlaysOf("default", "large"), second, partly, none} {
		want := []string{"muster-1d0-1", "muster-1d1-1", "muster-1d1-1", "muster-check-1"}[i]
		s, ci, _ := twoClusters(fakebuildkite.Options{})
		s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})
		k := newStacks(t, s, "", leaktest.AgentToken)
		for _, overlays := range [][]plan.Overlay{all, overlaysOf("default")} { // the first ones decide
			if _, err := k.Notify(t.Context(), overlays, []buildkite.JobNote{{Job: s.Jobs()[0].ID, Text: "x"}}); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Stacks(); !slices.Equal(got, []string{want}) {
			t.Errorf("stacks %q, want %s", got, want)
		}
	}
}

// TestNotify: jobs of both clusters are notified, with truncated texts; refused notifications are not
// counted, and a failed request is an error.
func TestNotify(t *testing.T) {
	s, ci, gpu := twoClusters(fakebuildkite.Options{})
	for _, cluster := range []string{ci, gpu} {
		s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{}}})
	}
	k := newStacks(t, s, "muster-test", leaktest.AgentToken, "bkct_gpu")
	jobs, queues := s.Jobs(), overlaysOf("default", "large")
	notes := []buildkite.JobNote{{Job: jobs[0].ID, Text: "one"}, {Job: jobs[1].ID, Text: strings.Repeat("ä", 300)}, {Job: "nobody's", Text: "x"}}
	if sent, err := k.Notify(t.Context(), queues, notes); sent != 2 || err != nil {
		t.Errorf("%d, %v", sent, err)
	}
	first, second := s.Notes(jobs[0].ID), s.Notes(jobs[1].ID)
	if len(first) != 1 || first[0].Detail != "one" || len(second) != 1 || second[0].Detail != strings.Repeat("ä", 256) {
		t.Errorf("%v %v", first, second)
	}
	s.Fail(fakebuildkite.Fault{Path: "notifications", Status: http.StatusServiceUnavailable})
	if sent, err := k.Notify(t.Context(), queues, notes); sent != 0 || err == nil || strings.Contains(err.Error(), leaktest.AgentToken) {
		t.Errorf("%d, %v", sent, err)
	}
	if sent, err := k.Notify(t.Context(), queues, notes[:1]); sent != 1 || err != nil {
		t.Errorf("%d, %v", sent, err)
	}
}

// TestTryNotify: a check leaves no notification and no stack, except one that existed
// before, and reports missing permissions.
func TestTryNotify(t *testing.T) {
	s, ci, _ := twoClusters(fakebuildkite.Options{})
	s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})
	stacks := func(tokens ...string) *buildkite.Stacks { return newStacks(t, s, "muster-test", tokens...) }
	queues, job := overlaysOf("default", "large"), s.Jobs()[0].ID
	for range 2 {
		if err := stacks(leaktest.AgentToken, "bkct_gpu").TryNotify(t.Context(), queues); err != nil || len(s.Stacks()) != 0 || len(s.Notes(job)) != 0 {
			t.Errorf("%v, stacks %v", err, s.Stacks())
		}
	}
	for _, c := range []struct {
		token string
		queue string
		want  string
	}{{"bkct_stranger", "default", "401"}, {leaktest.AgentToken, "elsewhere", "no cluster of the agent tokens has a queue of an overlay"}} {
		if err := stacks(c.token).TryNotify(t.Context(), overlaysOf(c.queue)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: %v", c.queue, err)
		}
	}
	running := stacks(leaktest.AgentToken)
	if _, err := running.Notify(t.Context(), queues, []buildkite.JobNote{{Job: job, Text: "one"}}); err != nil {
		t.Fatal(err)
	}
	if err := stacks(leaktest.AgentToken).TryNotify(t.Context(), queues); err != nil || len(s.Stacks()) != 1 || len(s.Notes(job)) != 1 {
		t.Errorf("next to a running one: %v, stacks %v, notifications %v", err, s.Stacks(), s.Notes(job))
	}
	s.Fail(fakebuildkite.Fault{Path: "notifications", Status: http.StatusForbidden})
	if err := stacks(leaktest.AgentToken).TryNotify(t.Context(), queues); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("refused: %v", err)
	}
}
