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

const registration = `{"key":"muster","type":"custom","queue_key":"__default__","metadata":{}}`

// TestStackStatuses: which requests are answered how. A registration may be repeated, and there are 30 in
// an organisation; ten requests a second list jobs.
func TestStackStatuses(t *testing.T) {
	s, _ := clustered(fakebuildkite.Options{})
	edited := func(old, by string) string { return strings.Replace(registration, old, by, 1) }
	const (
		register = "POST stacks/register"
		list     = "GET stacks/muster/scheduled-jobs?queue_key=default"
		states   = "POST stacks/muster/jobs/get-states"
	)
	for _, test := range []struct {
		token, request, body string
		want                 int
	}{
		{"", "GET metrics", "", http.StatusUnauthorized},
		{"nobody's", register, registration, http.StatusUnauthorized},
		{"test-token", list, "", http.StatusUnauthorized},
		{"agents", register, registration, http.StatusCreated},
		{"agents", register, registration, http.StatusOK},
		{"agents", register, edited("muster", "mus.ter"), http.StatusUnprocessableEntity},
		{"agents", register, edited("custom", "own"), http.StatusUnprocessableEntity},
		{"agents", register, edited(`,"metadata":{}`, ""), http.StatusUnprocessableEntity},
		{"agents", register, edited("__default__", "small"), http.StatusNotFound},
		{"agents", register, edited("__default__", "hosted"), http.StatusNotFound},
		{"agents", register, "{", http.StatusBadRequest},
		{"agents", states, "{}", http.StatusBadRequest},
		{"agents", states, `{"job_uuids":["` + strings.Repeat(`x","`, 1000) + `"]}`, http.StatusUnprocessableEntity},
		{"agents", list + "&limit=0", "", http.StatusBadRequest},
		{"agents", list + "&after=?", "", http.StatusBadRequest},
		{"agents", strings.Replace(list, "default", "small", 1), "", http.StatusNotFound},
		{"agents", strings.Replace(list, "muster", "nobody", 1), "", http.StatusNotFound},
		{"agents", "GET stacks/muster/jobs", "", http.StatusNotFound},
		{"agents", "POST metrics", "", http.StatusNotFound},
	} {
		if got, _ := public(t, s, test.token, test.request, test.body, nil); got != test.want {
			t.Errorf("%s %.90s with %q: %d, want %d", test.request, test.body, test.token, got, test.want)
		}
	}
	s.Advance(time.Second)
	for i := range 11 {
		status, header := public(t, s, "agents", list, "", nil)
		limited, scope := status == http.StatusTooManyRequests, header.Get("RateLimit-Scope")
		if limited != (i == 10) || limited && scope != "list-scheduled-jobs" {
			t.Errorf("list %d in a second: %d, %v", i, status, header)
		}
	}
	last := 0
	for i := range 30 {
		last, _ = public(t, s, "agents", register, edited("muster", fmt.Sprint("muster-", i)), nil)
	}
	if last != http.StatusForbidden {
		t.Errorf("the 31st: %d", last)
	}
	if got, _ := public(t, s, "agents", "POST stacks/muster/deregister", "", nil); got != http.StatusNoContent {
		t.Errorf("deregistering: %d", got)
	}
}

// TestScheduledJobs: those of the queue that can run now, page by page; a paused queue
// says so under either name.
func TestScheduledJobs(t *testing.T) {
	for _, other := range []bool{false, true} {
		s, c := clustered(fakebuildkite.Options{StackPaused: other})
		public(t, s, "agents", "POST stacks/register", registration, nil)
		for range 3 { // of the limited ones, one can run
			s.CreateBuild(build{Cluster: c, Steps: []step{
				{}, {Agents: []string{"queue=large"}}, {ConcurrencyGroup: "deploy", Concurrency: 1}, {Type: fakebuildkite.Wait}, {},
			}})
		}
		s.PauseQueue(c, "default")
		var pages [2]struct {
			Jobs  []struct{ ID string }
			Queue map[string]any `json:"cluster_queue"`
			Page  struct {
				More   bool   `json:"has_next_page"`
				Cursor string `json:"end_cursor"`
			} `json:"page_info"`
		}
		const list = "GET stacks/muster/scheduled-jobs?queue_key=default&limit=3"
		public(t, s, "agents", list, "", &pages[0])
		public(t, s, "agents", list+"&after="+strings.ReplaceAll(pages[0].Page.Cursor, "=", "%3D"), "", &pages[1])
		if len(pages[0].Jobs) != 3 || len(pages[1].Jobs) != 1 || !pages[0].Page.More || pages[1].Page.More {
			t.Errorf("pages %+v", pages)
		}
		paused := fmt.Sprint(pages[0].Queue["dispatch_paused"], pages[0].Queue["paused"])
		if want := map[bool]string{false: "true <nil>", true: "<nil> true"}[other]; paused != want {
			t.Errorf("paused %s, want %s", paused, want)
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

// TestJobStates asserts that a stack reads the states of its cluster's jobs, by the names of the Stacks
// API or of REST.
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
}
