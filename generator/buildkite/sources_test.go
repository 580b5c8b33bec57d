package buildkite_test

import (
	"errors"
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

// sources are the sources of jobs and agents: an API token, an API token and agent tokens, and agent
// tokens only. Each test runs with all.
var sources = []string{"rest", "stacks", "alone"}

// sourceClient returns a client that learns of jobs in some way, with the agent tokens of
// both clusters.
func sourceClient(t *testing.T, s *fakebuildkite.Server, source string) *serving {
	t.Helper()
	cfg := buildkite.Config{HTTP: s.Transport()}
	if source != "rest" {
		cfg.Stacks = newStacks(t, s, "muster-test", leaktest.AgentToken, "bkct_gpu")
	}
	if source != "alone" {
		return &serving{newClient(t, cfg), ofQueues("default", "large")}
	}
	cfg.Metrics = newMetrics(t, s, leaktest.AgentToken, "bkct_gpu")
	cfg.Org, cfg.Log = "acme", leaktest.Log(func(text string) { t.Error(text) }, nil)
	c, err := buildkite.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &serving{c, ofQueues("default", "large")}
}

// ofQueues are overlays, one of each queue.
func ofQueues(queues ...string) (all []plan.Overlay) {
	for _, q := range queues {
		all = append(all, plan.Overlay{Name: "of-" + q, Policy: plan.Policy{Queue: q}})
	}
	return all
}

// served are overlays of the queues of both clusters.
func served() []plan.Overlay {
	return []plan.Overlay{
		{Name: "a", Policy: plan.Policy{Queue: "default", Max: 10, Lease: time.Minute, Tags: []string{"os=linux"}}},
		{Name: "b", Policy: plan.Policy{Queue: "large", Max: 10, Lease: time.Minute}},
	}
}

// TestSources: muster makes the same decisions with every source.
func TestSources(t *testing.T) {
	job := func(rules ...string) fakebuildkite.Step {
		return fakebuildkite.Step{Agents: rules, Duration: time.Hour}
	}
	build := func(steps ...fakebuildkite.Step) func(*fakebuildkite.Server, string, string) {
		return func(s *fakebuildkite.Server, ci, _ string) {
			s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: steps})
		}
	}
	limited := job("queue=default")
	limited.Parallelism, limited.ConcurrencyGroup, limited.Concurrency = 4, "deploy", 1
	many := job("queue=default")
	many.Parallelism = 7
	for name, c := range map[string]struct {
		world func(s *fakebuildkite.Server, ci, gpu string)
		want  string // pending, missing and dispatched agents of each overlay
	}{
		"nothing":          {func(*fakebuildkite.Server, string, string) {}, "a 0 0 0, b 0 0 0"},
		"jobs":             {build(many, job("queue=default", "os=linux")), "a 8 8 8, b 0 0 0"},
		"without a queue":  {build(job(), job("os=linux"), job("*")), "a 3 3 3, b 0 0 0"},
		"wildcards":        {build(job("queue=default", "os=*")), "a 1 1 1, b 0 0 0"},
		"unmatched":        {build(job("queue=default", "os=plan9")), "a 0 0 0, b 0 0 0"},
		"limited":          {build(limited), "a 1 1 1, b 0 0 0"},
		"behind a step":    {build(job("queue=default"), fakebuildkite.Step{Type: fakebuildkite.Wait}, job("queue=default")), "a 1 1 1, b 0 0 0"},
		"behind a block":   {build(fakebuildkite.Step{Type: fakebuildkite.Block}, job("queue=default")), "a 0 0 0, b 0 0 0"},
		"more than max":    {build(many, many), "a 14 14 10, b 0 0 0"},
		"of another queue": {build(job("queue=other")), "a 0 0 0, b 0 0 0"},
		"of two clusters": {func(s *fakebuildkite.Server, ci, gpu string) {
			build(many)(s, ci, "")
			build(job("queue=large"))(s, gpu, "")
		}, "a 7 7 7, b 1 1 1"},
		"a wrong cluster's": {func(s *fakebuildkite.Server, _, gpu string) { build(job("queue=default"))(s, gpu, "") }, "a 0 0 0, b 0 0 0"},
		"reserved": {func(s *fakebuildkite.Server, ci, _ string) {
			build(many)(s, ci, "")
			s.Reserve(s.Jobs()[0].ID, 0)
		}, "a 6 6 6, b 0 0 0"},
		"paused": {func(s *fakebuildkite.Server, ci, _ string) {
			build(many)(s, ci, "")
			s.PauseQueue(ci, "default")
		}, "a 7 7 0, b 0 0 0"},
		"with an idle agent": {func(s *fakebuildkite.Server, ci, _ string) {
			build(job("queue=default", "os=linux"), many)(s, ci, "")
			s.PauseQueue(ci, "default")
			connectTo(t, s, ci, "os=linux")
			s.ResumeQueue(ci, "default")
			connectTo(t, s, ci, "os=windows")
		}, "a 6 6 6, b 0 0 0"},
		"cancelled": {func(s *fakebuildkite.Server, ci, _ string) {
			s.CancelBuild(s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{many}}))
		}, "a 0 0 0, b 0 0 0"},
	} {
		for _, source := range sources {
			s, ci, gpu := twoClusters(fakebuildkite.Options{})
			s.AddQueue(ci, "other")
			c.world(s, ci, gpu)
			if got := decided(observe(t, sourceClient(t, s, source), now, time.Time{})); got != c.want {
				t.Errorf("%s, %s: %s, want %s", name, source, got, c.want)
			}
		}
	}
}

func connectTo(t *testing.T, s *fakebuildkite.Server, cluster string, tags ...string) {
	t.Helper()
	connect(t, s, fakebuildkite.Agent{Cluster: cluster, Tags: append([]string{"queue=default"}, tags...)})
}

// decided is what is decided on a snapshot.
func decided(s plan.Snapshot) string {
	var all []string
	s = new(plan.Inference).Infer(served(), s)
	for _, o := range plan.Observe(served(), s, &plan.Registrations{}) {
		for _, d := range plan.Decide("tip", served(), o) {
			all = append(all, fmt.Sprint(d.Overlay, " ", d.Figures.Pending, " ", d.Figures.Missing, " ", d.Figures.Dispatch))
		}
	}
	return strings.Join(all, ", ")
}

// TestSourceFailures: with every source, a missing or invalid response fails the poll, and the error
// contains no token.
func TestSourceFailures(t *testing.T) {
	for _, source := range sources {
		path, own := "/builds", secret
		if source != "rest" {
			path, own = "/scheduled-jobs", leaktest.AgentToken
		}
		for name, f := range map[string]fakebuildkite.Fault{
			"500": {Status: http.StatusInternalServerError, Body: `{"message":"` + own + `"}`}, "401": {Status: http.StatusUnauthorized}, "503": {Status: http.StatusServiceUnavailable},
			"half": {Half: true}, "no list": {Body: "{}"}, "no JSON": {Body: "<html>"}, "a limit": {Status: http.StatusTooManyRequests},
		} {
			s, ci, _ := twoClusters(fakebuildkite.Options{})
			s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})
			f.Path, f.Times = path, -1
			s.Fail(f)
			c := sourceClient(t, s, source)
			_, err := c.Snapshot(t.Context(), plan.Query{At: now})
			if err == nil || strings.Contains(err.Error(), own) {
				t.Errorf("%s, %s: %v", source, name, err)
			}
			s.Recover()
			s.Advance(2 * time.Minute)
			if got := decided(observe(t, c, now.Add(2*time.Minute), time.Time{})); got != "a 1 1 1, b 0 0 0" {
				t.Errorf("%s after %s: %s", source, name, got)
			}
		}
	}
}

// TestStackRequests: a poll with the Stacks API requests agents from REST, once a minute clusters, and
// builds only while agents are in flight.
func TestStackRequests(t *testing.T) {
	asked := map[string]int{}
	s, ci, _ := twoClusters(fakebuildkite.Options{BeforeRequest: func(r *http.Request) {
		asked[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
	}})
	s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})
	c := sourceClient(t, s, "stacks")
	for i, since := range []time.Time{{}, {}, now.Add(-time.Hour)} {
		at := now.Add(time.Duration(i) * 10 * time.Second)
		s.AdvanceTo(at)
		observe(t, c, at, since)
	}
	want := map[string]int{"agents": 3, "builds": 2, "clusters": 1, "queues": 2, "register": 3, "scheduled-jobs": 8}
	delete(asked, "access-token")
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

// TestStackPages: more jobs than a page has, each once, with the address of its page in REST, and when each was first
// listed.
func TestStackPages(t *testing.T) {
	s, ci, _ := twoClusters(fakebuildkite.Options{})
	for range 5 {
		s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Parallelism: 500}}})
	}
	c := sourceClient(t, s, "stacks")
	first := observe(t, c, now, time.Time{})
	s.Advance(time.Minute)
	s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})
	again := observe(t, c, now.Add(time.Minute), time.Time{})
	ids, later, pages := map[string]bool{}, 0, map[string]string{}
	for _, j := range observe(t, sourceClient(t, s, "rest"), s.Now(), time.Time{}).Jobs {
		pages[j.ID] = j.URL
	}
	for _, j := range again.Jobs {
		if ids[j.ID] = true; j.URL == "" || j.URL != pages[j.ID] {
			t.Fatalf("job %s is at %q, in REST at %q", j.ID, j.URL, pages[j.ID])
		}
		if j.Since.Equal(now.Add(time.Minute)) {
			later++
		}
	}
	if len(first.Jobs) != 2500 || len(ids) != 2501 || later != 1 {
		t.Errorf("%d jobs, then %d, %d of them new", len(first.Jobs), len(ids), later)
	}
}

// TestStackPaused: a queue is paused by either name, and without the scope for clusters
// its jobs are no demand.
func TestStackPaused(t *testing.T) {
	for _, opts := range []fakebuildkite.Options{{}, {StackPaused: true}, {Scopes: []string{"read_agents", "read_builds"}}, {StackPaused: true, Scopes: []string{"read_agents", "read_builds"}}} {
		s, ci, _ := twoClusters(opts)
		s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Parallelism: 3}}})
		c := sourceClient(t, s, "stacks")
		before := decided(observe(t, c, now, time.Time{}))
		s.PauseQueue(ci, "default")
		s.Advance(15 * time.Second)
		after := decided(observe(t, c, now.Add(15*time.Second), time.Time{}))
		if before != "a 3 3 3, b 0 0 0" || !slices.Contains([]string{"a 3 3 0, b 0 0 0", "a 0 0 0, b 0 0 0"}, after) {
			t.Errorf("%+v: %s, then %s", opts.StackPaused, before, after)
		}
	}
}

// TestStackPace asserts that muster stays below the rate limit of a stack: 25 queues are
// read within five simulated seconds, and again in the next poll.
func TestStackPace(t *testing.T) {
	for _, source := range sources[1:] {
		var s *fakebuildkite.Server
		s, ci, _ := twoClusters(fakebuildkite.Options{UserLimit: 50, OrgLimit: 200, BeforeRequest: func(*http.Request) { s.Advance(30 * time.Millisecond) }})
		queues := []string{"default"}
		for i := range 24 {
			queues = append(queues, fmt.Sprint("queue-", i))
			s.AddQueue(ci, queues[i+1])
		}
		c := sourceClient(t, s, source)
		c.overlays = ofQueues(queues...)
		for poll, longest := range []time.Duration{5 * time.Second, 5 * time.Second} {
			began := s.Now()
			s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Agents: []string{"queue=queue-23"}}}})
			if got := observe(t, c, began, time.Time{}); len(got.Jobs) != poll+1 || got.Unread != "" {
				t.Errorf("%s, poll %d: %d jobs, %q", source, poll, len(got.Jobs), got.Unread)
			}
			if took := s.Now().Sub(began); took > longest {
				t.Errorf("%s, poll %d took %s, want at most %s", source, poll, took, longest)
			}
		}
		if limited := s.Stats().Limited; limited > 0 {
			t.Errorf("%s: %d requests were refused", source, limited)
		}
	}
}

// TestStackLimits asserts that muster waits a few seconds if somebody else uses up a
// stack's limit, and then returns an error that names the limit. An organisation with too
// many stacks is an error with that cause.
func TestStackLimits(t *testing.T) {
	for _, source := range sources[1:] {
		for path, scope := range map[string]string{"scheduled-jobs": "list-scheduled-jobs", "get-states": "batch-load-job-states"} {
			if source != "alone" && path == "get-states" {
				continue
			}
			s, ci, _ := twoClusters(fakebuildkite.Options{MetricsPoll: -1, UserLimit: 50, OrgLimit: 200})
			s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Duration: time.Hour}}})
			c := sourceClient(t, s, source)
			observe(t, c, now, time.Time{})
			connectTo(t, s, ci)
			limit := fakebuildkite.Fault{Path: path, Status: http.StatusTooManyRequests, Header: http.Header{"RateLimit-Scope": {scope}, "RateLimit-Reset": {"2"}}, Times: 2}
			s.Fail(limit)
			s.Advance(15 * time.Second)
			began := s.Now()
			observe(t, c, began, time.Time{})
			if waited := s.Now().Sub(began); waited != 4*time.Second {
				t.Errorf("%s, %s: waited %s, want twice 2s", source, path, waited)
			}
			if path == "scheduled-jobs" {
				c = sourceClient(t, s, source) // whose first poll is refused
			}
			limit.Times = -1
			s.Fail(limit)
			_, err := c.Snapshot(t.Context(), plan.Query{At: s.Now()})
			var limited *buildkite.RateLimited
			if !errors.As(err, &limited) || !strings.Contains(err.Error(), "the stack's Buildkite rate limit ("+scope+") is used up for another 3s") {
				t.Errorf("%s, %s: %v", source, path, err)
			}
			s.Recover()
			s.Advance(limited.RetryAfter())
			observe(t, c, s.Now(), time.Time{})
		}
	}
	full, _, _ := twoClusters(fakebuildkite.Options{})
	full.Fail(fakebuildkite.Fault{Path: "register", Status: http.StatusForbidden})
	if _, err := sourceClient(t, full, "stacks").Snapshot(t.Context(), plan.Query{At: now}); err == nil || !strings.Contains(err.Error(), "an organisation may have 30") {
		t.Error(err)
	}
}

// TestStackQueues: a queue of no token's cluster is said to be missing; one that is made
// is found within a minute, and a stack that Buildkite has forgotten is registered again.
func TestStackQueues(t *testing.T) {
	s, ci, _ := twoClusters(fakebuildkite.Options{})
	c := sourceClient(t, s, "stacks")
	c.overlays = ofQueues("default", "late")
	if got := observe(t, c, now, time.Time{}); !strings.Contains(got.Unread, "has the queue late") {
		t.Errorf("%q", got.Unread)
	}
	s.AddQueue(ci, "late")
	s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Agents: []string{"queue=late"}}}})
	public := func(request string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://agent.example/v3/stacks/"+request, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Token "+leaktest.AgentToken)
		if _, err := s.Transport().RoundTrip(r); err != nil {
			t.Fatal(err)
		}
	}
	public("muster-test-1/deregister")
	s.Advance(time.Minute)
	if got := observe(t, c, now.Add(time.Minute), time.Time{}); got.Unread != "" || len(got.Jobs) != 1 {
		t.Errorf("%q, %d jobs", got.Unread, len(got.Jobs))
	}
}

// TestJobThatAnAgentHasIsNotPending asserts that no agent is ordered for a job that is in
// an agent's record while the lists of jobs lag behind.
func TestJobThatAnAgentHasIsNotPending(t *testing.T) {
	for _, source := range []string{"rest", "stacks"} { // the third lists no agents
		s, ci, _ := twoClusters(fakebuildkite.Options{})
		connectTo(t, s, ci, "os=linux")
		s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}, Duration: time.Hour, Parallelism: 2}}})
		for _, j := range s.Jobs() {
			s.Lag(j.ID)
		}
		if got, want := decided(observe(t, sourceClient(t, s, source), now, time.Time{})), "a 1 1 1, b 0 0 0"; got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

// TestAgentInNoClusterTakesNoScheduledJob asserts that if clusters cannot be read, the
// agents of the queue that the Stacks API was asked for are supply, and agents in no
// cluster are not.
func TestAgentInNoClusterTakesNoScheduledJob(t *testing.T) {
	for agents, want := range map[string]string{"": "a 2 2 2, b 0 0 0", "ci": "a 2 1 1, b 0 0 0"} {
		s, ci, _ := twoClusters(fakebuildkite.Options{Scopes: []string{"read_agents", "read_builds"}})
		s.PauseQueue(ci, "default")
		s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}, Parallelism: 2, ConcurrencyGroup: "x", Concurrency: 2}}})
		if agents == "ci" {
			connectTo(t, s, ci, "os=linux")
		} else {
			connectTo(t, s, "", "os=linux")
		}
		snapshot := observe(t, sourceClient(t, s, "stacks"), now, time.Time{})
		for i := range snapshot.Jobs { // the pause keeps the agent idle
			snapshot.Jobs[i].State = plan.JobPending
		}
		if got := decided(snapshot); got != want {
			t.Errorf("an agent in cluster %q: %s, want %s", agents, got, want)
		}
	}
}
