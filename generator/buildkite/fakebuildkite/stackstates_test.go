package fakebuildkite_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// TestJobStates: the states of jobs are told by Buildkite's own names, or REST's, to stacks
// of their cluster.
func TestJobStates(t *testing.T) {
	for rest, want := range map[bool]string{false: "finished scheduled reserved canceled", true: "passed scheduled reserved canceled"} {
		s, c := clustered(fakebuildkite.Options{RESTStates: rest})
		s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{{Parallelism: 3, Duration: time.Second, Agents: []string{"queue=default"}}}})
		s.Advance(time.Millisecond)
		cancelled := s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}}}})
		public(t, s, "agents", "POST stacks/register", `{"key":"k","type":"custom","queue_key":"default","metadata":{}}`, nil)
		connect(t, s, fakebuildkite.Agent{Cluster: c, Tags: []string{"queue=default"}, AfterJob: true})
		s.Advance(time.Minute)
		var ids []string
		for _, j := range s.Jobs() {
			ids = append(ids, j.ID)
		}
		s.Reserve(ids[2], 0)
		s.CancelBuild(cancelled)
		var answer struct{ States map[string]string }
		status, header := public(t, s, "agents", "POST stacks/k/jobs/get-states", `{"job_uuids":["`+strings.Join(ids, `","`)+`","nobody"]}`, &answer)
		got := fmt.Sprint(answer.States[ids[0]], " ", answer.States[ids[1]], " ", answer.States[ids[2]], " ", answer.States[ids[3]])
		if status != http.StatusOK || got != want || len(answer.States) != 4 || header.Get("RateLimit-Scope") != "batch-load-job-states" {
			t.Errorf("%d %s, %d states, want %s", status, got, len(answer.States), want)
		}
	}
	s, _ := clustered(fakebuildkite.Options{})
	public(t, s, "agents", "POST stacks/register", `{"key":"k","type":"custom","queue_key":"default","metadata":{}}`, nil)
	for body, want := range map[string]int{"{}": 400, `{"job_uuids":["` + strings.Repeat(`x","`, 1000) + `"]}`: 422} {
		if status, _ := public(t, s, "agents", "POST stacks/k/jobs/get-states", body, nil); status != want {
			t.Errorf("%.30s: %d, want %d", body, status, want)
		}
	}
}
