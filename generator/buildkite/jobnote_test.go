package buildkite_test

import (
	"net/http"
	"strings"
	"testing"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/canary"
)

// TestSay: lines stand on the pages of jobs of both clusters, cut to what a page takes;
// what is not taken is not counted, and what fails is an error.
func TestSay(t *testing.T) {
	s, ci, gpu := twoClusters(fakebuildkite.Options{})
	for _, cluster := range []string{ci, gpu} {
		s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{}}})
	}
	k, err := buildkite.NewStacks(buildkite.StacksConfig{Key: "muster-test", AgentConfig: buildkite.AgentConfig{
		Org: "acme", HTTP: s.Transport(), Tokens: []func() (string, error){fixedToken(canary.AgentToken), fixedToken("bkct_gpu")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	jobs, queues := s.Jobs(), []string{"default", "large"}
	notes := []buildkite.JobNote{{Job: jobs[0].ID, Text: "one"}, {Job: jobs[1].ID, Text: strings.Repeat("ä", 300)}, {Job: "nobody's", Text: "x"}}
	if said, err := k.Say(t.Context(), queues, notes); said != 2 || err != nil {
		t.Errorf("%d, %v", said, err)
	}
	first, second := s.Notes(jobs[0].ID), s.Notes(jobs[1].ID)
	if len(first) != 1 || first[0].Detail != "one" || len(second) != 1 || second[0].Detail != strings.Repeat("ä", 256) {
		t.Errorf("%v %v", first, second)
	}
	s.Fail(fakebuildkite.Fault{Path: "notifications", Status: http.StatusServiceUnavailable})
	if said, err := k.Say(t.Context(), queues, notes); said != 0 || err == nil || strings.Contains(err.Error(), canary.AgentToken) {
		t.Errorf("%d, %v", said, err)
	}
	if said, err := k.Say(t.Context(), queues, notes[:1]); said != 1 || err != nil {
		t.Errorf("%d, %v", said, err)
	}
}
