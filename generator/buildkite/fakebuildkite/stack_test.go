package fakebuildkite_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// public asks the public part of the Agent API, as in "GET metrics", and returns the
// answer's status and header.
func public(t *testing.T, s *fakebuildkite.Server, token, request, body string, into any) (int, http.Header) {
	t.Helper()
	response, _ := askAgentAPI(t, s, token, request, body, into)
	return response.StatusCode, response.Header
}

// clustered is an organisation with a cluster that has the queues default and large, and
// the agent token "agents".
func clustered(opts fakebuildkite.Options) (*fakebuildkite.Server, string) {
	s := fakebuildkite.New(opts)
	c := s.AddCluster("ci")
	s.AddQueue(c, "default")
	s.AddQueue(c, "large")
	s.AddHostedQueue(c, "hosted")
	s.AddAgentToken(c, "agents")
	return s, c
}

type metrics struct {
	Agents struct {
		Idle, Busy, Total int
		Queues            map[string]struct{ Idle, Busy, Total int }
	}
	Jobs struct {
		Scheduled, Running, Waiting, Total int
		Queues                             map[string]struct{ Scheduled, Running, Waiting, Total int }
	}
	Organization struct{ Slug string }
	Cluster      struct{ Name string }
	Message      string
}

// TestMetrics: counts per queue, of the token's cluster alone, limited and unmatched
// jobs among the scheduled ones.
func TestMetrics(t *testing.T) {
	s, c := clustered(fakebuildkite.Options{})
	other := s.AddCluster("other")
	s.AddQueue(other, "default")
	step := func(queue string, more ...string) fakebuildkite.Step {
		return fakebuildkite.Step{Agents: append([]string{"queue=" + queue}, more...), Duration: time.Hour}
	}
	limited := step("large")
	limited.Parallelism, limited.ConcurrencyGroup, limited.Concurrency = 3, "deploy", 1
	s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{step("default"), {}, {Type: fakebuildkite.Wait}, step("default")}})
	s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{{Type: fakebuildkite.Block}, step("default")}})
	s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{limited, step("large", "os=plan9"), step("*")}})
	s.CreateBuild(fakebuildkite.Build{Cluster: other, Steps: []fakebuildkite.Step{step("default")}})
	for range 2 {
		connect(t, s, fakebuildkite.Agent{Cluster: c, Tags: []string{"queue=default", "os=linux"}})
	}
	var m metrics
	status, header := public(t, s, "agents", "GET metrics", "", &m)
	if poll := header.Get("Buildkite-Agent-Metrics-Poll-Duration"); status != http.StatusOK || poll != "10" || m.Organization.Slug != "acme" || m.Cluster.Name != "ci" {
		t.Errorf("%d, poll %q, %+v", status, poll, m)
	}
	if got, want := fmt.Sprint(m.Jobs.Queues), "map[*:{1 0 0 1} default:{0 2 2 4} hosted:{0 0 0 0} large:{4 0 0 4}]"; got != want {
		t.Errorf("jobs %s\nwant %s", got, want)
	}
	if got, want := fmt.Sprint(m.Agents.Queues), "map[default:{0 2 2} hosted:{0 0 0} large:{0 0 0}]"; got != want {
		t.Errorf("agents %s, want %s", got, want)
	}
	if m.Agents.Total != 2 || m.Jobs.Scheduled != 5 || m.Jobs.Running != 2 || m.Jobs.Waiting != 2 || m.Jobs.Total != 9 {
		t.Errorf("%+v", m)
	}
}

// TestMetricsAge: a response is repeated for the configured time.
func TestMetricsAge(t *testing.T) {
	s, c := clustered(fakebuildkite.Options{MetricsAge: time.Minute, MetricsPoll: -1})
	scheduled := func() int {
		var m metrics
		if _, header := public(t, s, "agents", "GET metrics", "", &m); len(header.Values("Buildkite-Agent-Metrics-Poll-Duration")) > 0 {
			t.Error("it says how often to ask")
		}
		return m.Jobs.Scheduled
	}
	before := scheduled()
	s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{{}}})
	s.Advance(59 * time.Second)
	again := scheduled()
	s.Advance(time.Second)
	if after := scheduled(); before != 0 || again != 0 || after != 1 {
		t.Errorf("%d, %d, %d", before, again, after)
	}
}

// TestWrongAgentToken: requests without a token, with an unknown one or with the API's are rejected.
func TestWrongAgentToken(t *testing.T) {
	s, _ := clustered(fakebuildkite.Options{})
	for _, token := range []string{"", "nobody's", "test-token"} {
		for _, request := range []string{"GET metrics", "POST stacks/register", "GET stacks/muster/scheduled-jobs"} {
			var m metrics
			if status, _ := public(t, s, token, request, "{}", &m); status != http.StatusUnauthorized || m.Message == "" {
				t.Errorf("%s with %q: %d %q", request, token, status, m.Message)
			}
		}
	}
}

const registration = `{"key":"muster","type":"custom","queue_key":"__default__","metadata":{}}`

// TestRegisterStack: it may be done again, is refused where something is missing, and
// there are 30 in an organisation.
func TestRegisterStack(t *testing.T) {
	s, _ := clustered(fakebuildkite.Options{})
	for _, c := range []struct {
		body string
		want int
	}{
		{registration, http.StatusCreated},
		{registration, http.StatusOK},
		{strings.Replace(registration, "muster", "mus.ter", 1), http.StatusUnprocessableEntity},
		{strings.Replace(registration, "custom", "own", 1), http.StatusUnprocessableEntity},
		{strings.Replace(registration, `,"metadata":{}`, "", 1), http.StatusUnprocessableEntity},
		{strings.Replace(registration, "__default__", "small", 1), http.StatusNotFound},
		{strings.Replace(registration, "__default__", "hosted", 1), http.StatusNotFound},
		{"{", http.StatusBadRequest},
	} {
		if got, _ := public(t, s, "agents", "POST stacks/register", c.body, nil); got != c.want {
			t.Errorf("%s: %d, want %d", c.body, got, c.want)
		}
	}
	last := 0
	for i := range 30 {
		last, _ = public(t, s, "agents", "POST stacks/register", strings.Replace(registration, "muster", fmt.Sprint("muster-", i), 1), nil)
	}
	if last != http.StatusForbidden {
		t.Errorf("the 31st: %d", last)
	}
	if got, _ := public(t, s, "agents", "POST stacks/muster/deregister", "", nil); got != http.StatusNoContent {
		t.Errorf("deregistering: %d", got)
	}
}

type listed struct {
	Jobs []struct {
		ID    string
		Rules []string `json:"agent_query_rules"`
		At    string   `json:"scheduled_at"`
	}
	Queue struct {
		ID       string
		Dispatch *bool `json:"dispatch_paused"`
		Paused   *bool
	} `json:"cluster_queue"`
	Page struct {
		More   bool   `json:"has_next_page"`
		Cursor string `json:"end_cursor"`
	} `json:"page_info"`
}

// TestScheduledJobs: those of the queue that can run now, page by page; a paused queue
// says so under either name; ten requests a second.
func TestScheduledJobs(t *testing.T) {
	for _, other := range []bool{false, true} {
		s, c := clustered(fakebuildkite.Options{StackPaused: other})
		public(t, s, "agents", "POST stacks/register", registration, nil)
		for range 3 {
			s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{
				{Agents: []string{"os=linux"}, Duration: time.Hour}, {Agents: []string{"queue=large"}},
				{ConcurrencyGroup: "deploy", Concurrency: 1}, {Type: fakebuildkite.Wait}, {},
			}})
			s.Advance(time.Second)
		}
		s.PauseQueue(c, "default")
		var ids, times []string
		var l listed
		for pages := 0; pages == 0 || l.Page.More; pages++ {
			after := l.Page.Cursor
			l = listed{}
			if status, _ := public(t, s, "agents", "GET stacks/muster/scheduled-jobs?queue_key=default&limit=3&after="+strings.ReplaceAll(after, "=", "%3D"), "", &l); status != http.StatusOK || pages > 1 {
				t.Fatalf("page %d: %d", pages, status)
			}
			for _, j := range l.Jobs {
				ids, times = append(ids, j.ID), append(times, j.At)
			}
		}
		if len(ids) != 4 || times[0] > times[3] { // three, and one that is not limited
			t.Errorf("%v %v", ids, times)
		}
		paused := l.Queue.Dispatch
		if other {
			paused = l.Queue.Paused
		}
		if paused == nil || !*paused || l.Queue.Dispatch != nil && l.Queue.Paused != nil {
			t.Errorf("%+v", l.Queue)
		}
		statuses := map[int]int{}
		s.Advance(time.Second)
		var header http.Header
		for range 11 {
			var status int
			status, header = public(t, s, "agents", "GET stacks/muster/scheduled-jobs?queue_key=default", "", nil)
			statuses[status]++
		}
		if statuses[200] != 10 || statuses[429] != 1 || header.Get("RateLimit-Scope") != "list-scheduled-jobs" {
			t.Errorf("%v %v", statuses, header)
		}
		s.Advance(time.Second)
		for request, want := range map[string]int{
			"GET stacks/muster/scheduled-jobs?queue_key=default&limit=0": http.StatusBadRequest,
			"GET stacks/muster/scheduled-jobs?queue_key=default&after=?": http.StatusBadRequest,
			"GET stacks/muster/scheduled-jobs?queue_key=small":           http.StatusNotFound,
			"GET stacks/nobody/scheduled-jobs?queue_key=default":         http.StatusNotFound,
			"GET stacks/muster/jobs":                                     http.StatusNotFound,
			"POST metrics":                                               http.StatusNotFound,
		} {
			if got, _ := public(t, s, "agents", request, "", nil); got != want {
				t.Errorf("%s: %d, want %d", request, got, want)
			}
		}
	}
}

// TestNotifications: those that are valid are taken, of the others it is said what is
// wrong; 256 characters, and 100 on a job's page.
func TestNotifications(t *testing.T) {
	s, c := clustered(fakebuildkite.Options{})
	public(t, s, "agents", "POST stacks/register", registration, nil)
	s.CreateBuild(fakebuildkite.Build{Cluster: c, Steps: []fakebuildkite.Step{{}}})
	job := s.Jobs()[0].ID
	note := func(details ...string) string {
		var all []map[string]string
		for _, d := range details {
			all = append(all, map[string]string{"job_uuid": job, "detail": d})
		}
		all = append(all, map[string]string{"job_uuid": "nobody's", "detail": "x"})
		text, err := json.Marshal(map[string]any{"notifications": all})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var got struct {
		Errors []struct {
			Error   string
			Indexes []int
		}
	}
	send := func(body string) string {
		t.Helper()
		got.Errors = nil
		status, _ := public(t, s, "agents", "POST stacks/muster/notifications", body, &got)
		return fmt.Sprint(status, got.Errors)
	}
	if got, want := send(note("ordered", "", strings.Repeat("ä", 257), strings.Repeat("ä", 256))),
		"200 [{detail is required [1]} {detail is too long [2]} {job not found [4]}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if notes := s.Notes(job); len(notes) != 2 || notes[0].Detail != "ordered" || notes[0].Stack != "muster" {
		t.Errorf("%v", notes)
	}
	for range 100 {
		send(note("again"))
	}
	if n := len(s.Notes(job)); n != 100 || got.Errors[0].Error != "job not found" || got.Errors[1].Error != "job stack notification count exceeded" {
		t.Errorf("%d notes, %v", n, got.Errors)
	}
	if got := send(`{"notifications":1}`); !strings.HasPrefix(got, "400") {
		t.Error(got)
	}
	if s.Notes("nobody's") != nil {
		t.Error("nobody's job has notes")
	}
}
