package buildkite_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

// TestPages reads lists of several pages while builds arrive and push others
// from one page to the next.
func TestPages(t *testing.T) {
	var s *fakebuildkite.Server
	requests := 0
	s = fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BeforeRequest: func(r *http.Request) {
		requests++
		if strings.HasSuffix(r.URL.Path, "/builds") {
			s.CreateBuild(fakebuildkite.Build{Pipeline: "late", Steps: []fakebuildkite.Step{{Key: "late", Agents: []string{"queue=none"}}}})
		}
	}})
	for range 250 {
		s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=none"}}}})
		connect(t, s, fakebuildkite.Agent{})
	}
	var want []string
	for _, j := range s.Jobs() {
		want = append(want, j.ID)
	}
	slices.Sort(want)
	got := observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), now, time.Time{})
	var found []string
	for _, j := range got.Jobs {
		if slices.Contains(want, j.ID) {
			found = append(found, j.ID)
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if len(got.Agents) != 250 {
		t.Errorf("got %d agents, want 250", len(got.Agents))
	}
	if requests != 3+3+1 {
		t.Errorf("asked %d times, want 7: three pages of each list, and the clusters", requests)
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

// TestAgainstTheTruth runs seeded simulations and compares the snapshots of an old and of a new client
// with the simulator's state.
func TestAgainstTheTruth(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			s := fakebuildkite.New(fakebuildkite.Options{
				Token: secret, Now: now, Poll: 5 * time.Second, CancelTime: 10 * time.Second, PlanConcurrency: 12,
			})
			cluster := s.AddCluster("one")
			s.AddQueue(cluster, "fast")
			s.AddQueue(cluster, "slow")
			old := newClient(t, buildkite.Config{HTTP: s.Transport(), PerPage: 25})
			for range 40 {
				play(t, r, s, cluster)
				since := s.Now().Add(-10 * time.Minute)
				got := observe(t, old, s.Now(), since)
				fresh := observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), s.Now(), since)
				if diff := cmp.Diff(fresh, got); diff != "" {
					t.Fatalf("at %s (-fresh +old):\n%s", s.Now(), diff)
				}
				if diff := cmp.Diff(truth(s), reduced(got)); diff != "" {
					t.Fatalf("at %s (-truth +observed):\n%s", s.Now(), diff)
				}
			}
		})
	}
}

// play lets something happen.
func play(t *testing.T, r *rand.Rand, s *fakebuildkite.Server, cluster string) {
	home := []string{"", cluster}[r.IntN(2)]
	queue := [][]string{nil, {"queue=fast"}, {"queue=slow"}, {"queue=*"}, {"queue="}}
	for range r.IntN(3) {
		duration := time.Duration(r.IntN(300)) * time.Second
		id := s.CreateBuild(fakebuildkite.Build{Cluster: home, Steps: []fakebuildkite.Step{
			{Parallelism: 1 + r.IntN(3), Duration: duration, Agents: queue[r.IntN(5)], Fail: r.IntN(2), Retries: r.IntN(2)},
			{Type: []fakebuildkite.StepType{fakebuildkite.Wait, fakebuildkite.Block}[r.IntN(2)]},
			{Duration: duration, ConcurrencyGroup: "deploy", Concurrency: 2, Eager: r.IntN(2) == 0},
		}})
		if delay := time.Duration(r.IntN(600)) * time.Second; r.IntN(2) == 0 {
			s.At(s.Now().Add(delay), func() { s.Unblock(id) })
		} else if r.IntN(3) == 0 {
			s.At(s.Now().Add(delay), func() { s.CancelBuild(id) })
		}
	}
	for range r.IntN(4) {
		id := connect(t, s, fakebuildkite.Agent{
			Cluster: home, Tags: queue[r.IntN(3)], AfterJob: r.IntN(4) > 0, Linger: time.Duration(r.IntN(60)) * time.Second, IdleTimeout: time.Duration(r.IntN(5)) * time.Minute,
		})
		switch delay := time.Duration(r.IntN(300)) * time.Second; r.IntN(12) {
		case 0:
			s.At(s.Now().Add(delay), func() { s.LoseAgent(id) })
		case 1:
			s.At(s.Now().Add(delay), func() { s.StopAgent(id) })
		case 2:
			s.PauseAgent(id)
			s.At(s.Now().Add(delay), func() { s.ResumeAgent(id) })
		}
	}
	if jobs := s.Jobs(); len(jobs) > 0 {
		s.Reserve(jobs[r.IntN(len(jobs))].ID, 0)
	}
	s.Advance(time.Duration(r.IntN(60)) * time.Second)
}

// scenario is a snapshot reduced to what the simulator can tell in other words.
type scenario struct {
	Jobs, Agents, Running map[string]string
}

func reduced(s plan.Snapshot) scenario {
	w := scenario{Jobs: map[string]string{}, Agents: map[string]string{}, Running: map[string]string{}}
	for _, j := range s.Jobs {
		state := string(j.State)
		if j.State == plan.JobBlocked {
			state = string(plan.JobUpcoming)
		}
		w.Jobs[j.ID] = strings.Join(append(slices.Sorted(slices.Values(j.Rules)), j.Cluster, state, j.Since.String()), " ")
	}
	for _, a := range s.Agents {
		w.Agents[a.ID] = strings.Join(append(slices.Clone(a.Tags), a.Cluster), " ")
	}
	for _, g := range s.Sightings {
		if g.Running {
			w.Running[g.Agent] = "running"
		}
	}
	return w
}

func truth(s *fakebuildkite.Server) scenario {
	w := scenario{Jobs: map[string]string{}, Agents: map[string]string{}, Running: map[string]string{}}
	states := map[string]plan.JobState{
		"scheduled": plan.JobPending, "waiting": plan.JobUpcoming, "blocked": plan.JobUpcoming,
		"limited": plan.JobLimited, "platform_limited": plan.JobLimited, "reserved": plan.JobLimited,
	}
	for _, j := range s.Jobs() {
		build, _ := s.BuildState(j.Build)
		if !slices.Contains([]string{"scheduled", "running", "failing"}, build) {
			continue
		}
		if j.State == "running" || j.State == "assigned" {
			w.Running[j.Agent] = "running"
		}
		if state, ok := states[j.State]; ok && !(build == "failing" && j.State == "waiting") {
			var since time.Time
			if state == plan.JobPending {
				since = j.Runnable
			}
			w.Jobs[j.ID] = strings.Join(append(slices.Sorted(slices.Values(j.Rules)), j.Cluster, string(state), since.String()), " ")
		}
	}
	for _, a := range s.Agents() {
		if a.Ended.IsZero() {
			tags := slices.Clone(a.Tags)
			if len(tags) == 0 && a.Cluster == "" {
				tags = []string{"queue=default"}
			} else if len(tags) == 0 {
				tags = []string{"queue=fast"}
			}
			w.Agents[a.ID] = strings.Join(append(tags, a.Cluster), " ")
		}
	}
	return w
}
