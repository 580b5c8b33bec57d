package buildkite_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// TestBuildFinishedBetween: a build that is listed as under way and then as
// finished wants nothing any more.
func TestBuildFinishedBetween(t *testing.T) {
	agent := fakebuildkite.Agent{Tags: []string{"dispatch=d", "index=0"}, AfterJob: true}
	var s *fakebuildkite.Server
	s = fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BeforeRequest: func(r *http.Request) {
		if r.URL.Query().Has("finished_from") {
			s.Advance(10 * time.Minute)
		}
	}})
	a := connect(t, s, agent)
	s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: 5 * time.Minute}}})
	got := observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), now, now)
	want := plan.Snapshot{
		At:        now,
		Agents:    []plan.Agent{{ID: a, Tags: []string{"dispatch=d", "index=0", "queue=default"}, State: plan.AgentBusy, Connected: now}},
		Sightings: []plan.Sighting{{Agent: a, Name: "agent-1", Tags: []string{"dispatch=d", "index=0", "queue=default"}, Started: now}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// TestJobTakenBetween: an agent that takes a job between the two requests is supply, its job is not
// demand, and the job's record has the agent.
func TestJobTakenBetween(t *testing.T) {
	var s *fakebuildkite.Server
	s = fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BeforeRequest: func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/builds") {
			s.ResumeQueue("", "default")
		}
	}})
	s.PauseQueue("", "default")
	a := connect(t, s, fakebuildkite.Agent{})
	s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Minute}}})
	got := observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), now, time.Time{})
	want := plan.Snapshot{
		At:        now,
		Agents:    []plan.Agent{{ID: a, Tags: []string{"queue=default"}, State: plan.AgentIdle, Connected: now, IdleSince: now}},
		Sightings: []plan.Sighting{{Agent: a, Name: "agent-1", Tags: []string{"queue=default"}, Running: true, Started: now}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// TestInvalidRecords: one invalid record never loses the page.
func TestInvalidRecords(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
	cluster := s.AddCluster("One")
	s.AddQueue(cluster, "default")
	good := connect(t, s, fakebuildkite.Agent{Cluster: cluster, Tags: []string{"queue=default"}})
	s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{Agents: []string{"queue=default", "os=none"}}}})
	for _, list := range []string{"agents", "builds", "clusters", "queues", "jobs"} {
		for _, odd := range []string{`null`, `7`, `"text"`, `[]`, `{}`, `{"id":7,"state":"running","type":"script","jobs":[]}`} {
			s.AddInvalid(list, odd)
		}
	}
	s.AddInvalid("builds", `{"id":"b9","state":"running","jobs":{}}`)
	s.AddInvalid("jobs", `{"id":"j8","type":"script","state":7}`)
	// Invalid only in unused fields: such records are read.
	s.AddInvalid("agents", `{"id":"z","connection_state":"connected","priority":"high","meta_data":["queue=q",7,null],"job":"none"}`)
	s.AddInvalid("jobs", `{"id":"z","type":"script","state":"running","priority":"high","parallel_group_index":"one","agent":{"id":"y","meta_data":"none"},"retried":"no"}`)
	var log bytes.Buffer
	c := newClient(t, buildkite.Config{HTTP: s.Transport(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		got := observe(t, c, now, time.Time{})
		var agents []string
		for _, a := range got.Agents {
			agents = append(agents, a.ID)
		}
		if want := []string{good, "z"}; !slices.Equal(agents, want) {
			t.Errorf("agents %v, want %v", agents, want)
		}
		if len(got.Jobs) != 1 || len(got.Queues) != 1 || len(got.Sightings) != 1 {
			t.Errorf("got %d jobs, %d queues, %d sightings; want one of each", len(got.Jobs), len(got.Queues), len(got.Sightings))
		}
	}
	// Six in each list and one more build and job, twice; clusters and queues once.
	if got, want := c.Stats().InvalidRecords, int64(2*(6+7+7)+6+6); got != want {
		t.Errorf("counted %d odd records, want %d", got, want)
	}
	if n := strings.Count(log.String(), "kind=agent because=\"it has no id\""); n != 1 {
		t.Errorf("a reason is logged %d times, want once:\n%s", n, &log)
	}
}
