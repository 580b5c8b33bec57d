package buildkite_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

const secret = leaktest.BuildkiteToken

var now = time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)

// static is an API that serves fixed lists, whole: path below the
// organisation → JSON. It keeps what was asked.
type static struct {
	lists map[string]string
	asked []*url.URL
}

func (s *static) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL)
	body, ok := s.lists[strings.TrimPrefix(r.URL.Path, "/v2/organizations/acme/")]
	if !ok {
		body = "[]"
	}
	return s.answer(r, body, ""), nil
}

func (*static) answer(r *http.Request, body, link string) *http.Response {
	w := httptest.NewRecorder()
	if link != "" {
		w.Header().Set("Link", link)
	}
	w.Body.WriteString(body)
	response := w.Result()
	response.Request = r
	return response
}

func token(s string) func() (string, error) { return func() (string, error) { return s, nil } }

// countRequests counts the requests whose path has a suffix.
func countRequests(suffix string, n *int) func(*http.Request) {
	return func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, suffix) {
			*n++
		}
	}
}

// connect connects an agent and returns its identifier.
func connect(t *testing.T, s *fakebuildkite.Server, a fakebuildkite.Agent) string {
	t.Helper()
	id, err := s.Connect(a)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newClient(t *testing.T, cfg buildkite.Config) *buildkite.Client {
	t.Helper()
	if cfg.Org == "" {
		cfg.Org = "acme"
	}
	if cfg.Token == nil {
		cfg.Token = token(secret)
	}
	cfg.Log = leaktest.Log(func(text string) { t.Error(text) }, cfg.Log)
	c, err := buildkite.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serving is a client whose polls are about the same overlays each time.
type serving struct {
	*buildkite.Client
	overlays []plan.Overlay
}

func (s *serving) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	query.Overlays = s.overlays
	return s.Client.Snapshot(ctx, query)
}

func observe(t *testing.T, c interface {
	Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error)
}, at, since time.Time) plan.Snapshot {
	t.Helper()
	s, err := c.Snapshot(context.Background(), plan.Query{At: at, Since: since})
	if err != nil {
		t.Fatalf("observing: %v", err)
	}
	return s
}

// observeLists observes fixed lists.
func observeLists(t *testing.T, lists map[string]string) plan.Snapshot {
	t.Helper()
	return observe(t, newClient(t, buildkite.Config{HTTP: &static{lists: lists}}), now, time.Time{})
}

// build is a build under way with these jobs.
func build(jobs ...string) string {
	return `[{"id":"b1","state":"running","jobs":[` + strings.Join(jobs, ",") + `]}]`
}

func TestJobStates(t *testing.T) {
	const runnable = `,"runnable_at":"2026-01-05T07:59:00.000Z"`
	since := now.Add(-time.Minute)
	for _, test := range []struct {
		name string
		job  string // beside id and rules
		want plan.JobState
		at   time.Time
	}{
		{"runnable", `"type":"script","state":"scheduled"` + runnable, plan.JobPending, since},
		{"runnable at a time of another form", `"type":"script","state":"scheduled","runnable_at":"2026-01-05 07:59:00 UTC"`, plan.JobPending, since},
		{"runnable at a time nobody can read", `"type":"script","state":"scheduled","runnable_at":"now","created_at":"2026-01-05T07:59:00Z"`, plan.JobPending, since},
		{"scheduled and not runnable", `"type":"script","state":"scheduled","runnable_at":null`, plan.JobLimited, time.Time{}},
		{"scheduled and runnable_at missing", `"type":"script","state":"scheduled"`, plan.JobLimited, time.Time{}},
		{"limiting", `"type":"script","state":"limiting"`, plan.JobLimited, time.Time{}},
		{"limited", `"type":"script","state":"limited"`, plan.JobLimited, time.Time{}},
		{"platform_limiting", `"type":"script","state":"platform_limiting"`, plan.JobLimited, time.Time{}},
		{"platform_limited", `"type":"script","state":"platform_limited"`, plan.JobLimited, time.Time{}},
		{"reserved", `"type":"script","state":"reserved"` + runnable, plan.JobLimited, time.Time{}},
		{"waiting", `"type":"script","state":"waiting"`, plan.JobUpcoming, time.Time{}},
		{"blocked", `"type":"script","state":"blocked"`, plan.JobBlocked, time.Time{}},
		{"pending", `"type":"script","state":"pending"`, "", time.Time{}},
		{"waiting_failed", `"type":"script","state":"waiting_failed"`, "", time.Time{}},
		{"blocked_failed", `"type":"script","state":"blocked_failed"`, "", time.Time{}},
		{"assigned", `"type":"script","state":"assigned"` + runnable, "", time.Time{}},
		{"accepted", `"type":"script","state":"accepted"` + runnable, "", time.Time{}},
		{"running", `"type":"script","state":"running"` + runnable, "", time.Time{}},
		{"canceling", `"type":"script","state":"canceling"` + runnable, "", time.Time{}},
		{"timing_out", `"type":"script","state":"timing_out"` + runnable, "", time.Time{}},
		{"passed", `"type":"script","state":"passed"` + runnable, "", time.Time{}},
		{"failed", `"type":"script","state":"failed"` + runnable, "", time.Time{}},
		{"canceled", `"type":"script","state":"canceled"` + runnable, "", time.Time{}},
		{"timed_out", `"type":"script","state":"timed_out"` + runnable, "", time.Time{}},
		{"skipped", `"type":"script","state":"skipped"`, "", time.Time{}},
		{"broken", `"type":"script","state":"broken"`, "", time.Time{}},
		{"expired", `"type":"script","state":"expired"` + runnable, "", time.Time{}},
		{"a state of tomorrow", `"type":"script","state":"pondering"` + runnable, "", time.Time{}},
		{"retried", `"type":"script","state":"scheduled","retried":true` + runnable, "", time.Time{}},
		{"waiter", `"type":"waiter","state":"waiting"`, "", time.Time{}},
		{"manual", `"type":"manual","state":"blocked"`, "", time.Time{}},
		{"trigger", `"type":"trigger","state":"scheduled"` + runnable, "", time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := observeLists(t, map[string]string{
				"builds": build(`{"id":"j1","agent_query_rules":["queue=q"],` + test.job + `}`),
			}).Jobs
			var want []plan.Job
			if test.want != "" {
				want = []plan.Job{{ID: "j1", Rules: []string{"queue=q"}, State: test.want, Since: test.at}}
				if strings.Contains(test.job, "created_at") {
					want[0].Created = since
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCountLimited(t *testing.T) {
	var log bytes.Buffer
	api := &static{lists: map[string]string{
		"builds": build(`{"id":"j1","type":"script","state":"scheduled","created_at":"2026-01-05T07:59:00Z"}`),
	}}
	c := newClient(t, buildkite.Config{HTTP: api, CountLimited: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		got := observe(t, c, now, time.Time{}).Jobs
		if len(got) != 1 || got[0].State != plan.JobPending || !got[0].Since.Equal(now.Add(-time.Minute)) {
			t.Errorf("with CountLimited the job must be demand since it was created, got %+v", got)
		}
	}
	if n := strings.Count(log.String(), "no runnable_at"); n != 1 {
		t.Errorf("the presumption is logged %d times, want once:\n%s", n, &log)
	}
}

func TestBehindBlockStep(t *testing.T) {
	waiting := `{"id":"j1","type":"script","state":"waiting"}`
	for _, test := range []struct {
		manual string
		want   plan.JobState
	}{
		{"waiting", plan.JobBlocked},
		{"blocked", plan.JobBlocked},
		{"blocked_failed", plan.JobBlocked},
		{"unblocked", plan.JobUpcoming},
		{"unblocked_failed", plan.JobUpcoming},
		{"finished", plan.JobUpcoming},
		{"skipped", plan.JobUpcoming},
		{"broken", plan.JobUpcoming},
	} {
		manual := `{"id":"m1","type":"manual","state":"` + test.manual + `"}`
		before := observeLists(t, map[string]string{"builds": build(manual, waiting)}).Jobs
		if len(before) != 1 || before[0].State != test.want {
			t.Errorf("behind a block step that is %s: got %+v, want %s", test.manual, before, test.want)
		}
		after := observeLists(t, map[string]string{"builds": build(waiting, manual)}).Jobs
		if len(after) != 1 || after[0].State != plan.JobUpcoming {
			t.Errorf("before a block step that is %s: got %+v, want %s", test.manual, after, plan.JobUpcoming)
		}
	}
	// A job that is scheduled does not wait, wherever it stands (depends_on).
	free := observeLists(t, map[string]string{"builds": build(`{"id":"m1","type":"manual","state":"blocked"}`,
		`{"id":"j1","type":"script","state":"scheduled","runnable_at":"2026-01-05T07:59:00Z"}`)}).Jobs
	if len(free) != 1 || free[0].State != plan.JobPending {
		t.Errorf("scheduled behind a block step: got %+v", free)
	}
}

func TestAgentStates(t *testing.T) {
	for _, test := range []struct {
		agent string
		want  plan.AgentState
	}{
		{`"connection_state":"connected"`, plan.AgentIdle},
		{`"connection_state":"connected","job":null`, plan.AgentIdle},
		{`"connection_state":"connected","job":{"id":"j","state":"running"}`, plan.AgentBusy},
		{`"connection_state":"connected","job":{"id":"j","state":"assigned"}`, plan.AgentBusy},
		{`"connection_state":"connected","job":{"id":"j"}`, plan.AgentBusy},
		{`"connection_state":"connected","job":{"id":"j","state":"passed"}`, plan.AgentIdle},
		{`"connection_state":"connected","paused":true`, plan.AgentStopping},
		{`"connection_state":"connected","paused":false`, plan.AgentIdle},
		{`"connection_state":"stopping"`, plan.AgentStopping},
		{`"connection_state":"stopping","job":{"id":"j","state":"running"}`, plan.AgentStopping},
		{`"connection_state":"stopped"`, plan.AgentStopping},
		{`"connection_state":"of tomorrow"`, plan.AgentStopping},
		{`"connection_state":"disconnected"`, ""},
		{`"connection_state":"lost"`, ""},
		{`"connection_state":"never_connected"`, ""},
	} {
		got := observeLists(t, map[string]string{
			"agents": `[{"id":"a1","meta_data":["queue=q"],` + test.agent + `}]`,
		}).Agents
		var want []plan.Agent
		if test.want != "" {
			want = []plan.Agent{{ID: "a1", Tags: []string{"queue=q"}, State: test.want}}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.agent, diff)
		}
	}
}

// TestIdleSince: an idle agent waits since it connected or since its last job.
func TestIdleSince(t *testing.T) {
	created, ended := now.Add(-time.Hour), now.Add(-time.Minute)
	times := `"created_at":"` + created.Format(time.RFC3339) + `","last_job_finished_at":`
	for _, test := range []struct {
		agent string
		want  time.Time
	}{
		{`"connection_state":"connected",` + times + `null`, created},
		{`"connection_state":"connected",` + times + `"` + ended.Format(time.RFC3339) + `"`, ended},
		{`"connection_state":"connected"`, time.Time{}},
		{`"connection_state":"connected","job":{"id":"j","state":"running"},` + times + `null`, time.Time{}},
		{`"connection_state":"stopping",` + times + `null`, time.Time{}},
	} {
		got := observeLists(t, map[string]string{"agents": `[{"id":"a1","meta_data":["queue=q"],` + test.agent + `}]`}).Agents
		if len(got) != 1 || !got[0].IdleSince.Equal(test.want) {
			t.Errorf("%s: got %+v, want idle since %v", test.agent, got, test.want)
		}
		if finished := !got[0].LastJobFinished.IsZero(); finished != test.want.Equal(ended) {
			t.Errorf("%s: last job finished %v", test.agent, got[0].LastJobFinished)
		}
	}
}

// TestAgentWithoutTagsIsIdentifiedByName: the agent Job sets the agent's name from its pod.
func TestAgentWithoutTagsIsIdentifiedByName(t *testing.T) {
	snapshot := observeLists(t, map[string]string{"builds": build(
		`{"id":"j1","type":"script","state":"passed","agent":{"id":"1","name":"default-7f3k9c2b-3"}}`,
		`{"id":"j2","type":"script","state":"passed","agent":{"id":"2","name":"somebody"}}`,
	)})
	var register plan.Registrations
	register.Note(snapshot)
	if seen := register.Observed("default-7f3k9c2b"); seen.Registered.String() != "3" || seen.HadJob == 0 {
		t.Errorf("the register knows %+v", seen)
	}
}

func TestQueueOfWhatNamesNone(t *testing.T) {
	lists := map[string]string{
		"clusters":           `[{"id":"c1","name":"One","default_queue_id":"q2"},{"id":"c2","name":"Two","default_queue_id":null}]`,
		"clusters/c1/queues": `[{"id":"q1","key":"linux","dispatch_paused":true},{"id":"q2","key":"mac","dispatch_paused":false}]`,
		"clusters/c2/queues": `[{"id":"q3","key":"default"}]`,
	}
	for _, test := range []struct {
		name, job string
		cluster   string
		want      []string
	}{
		{"the rule comes first", `"agent_query_rules":["os=x","queue=rule"],"cluster_id":"c1","cluster_queue_id":"q1"`, "c1", []string{"os=x", "queue=rule"}},
		{"no value is any value", `"agent_query_rules":["queue="],"cluster_id":"c1"`, "c1", []string{"queue="}},
		{"any queue is a queue", `"agent_query_rules":["queue=*"],"cluster_id":"c1"`, "c1", []string{"queue=*"}},
		{"then the queue's identifier", `"agent_query_rules":["os=x"],"cluster_id":"c1","cluster_queue_id":"q1"`, "c1", []string{"os=x", "queue=linux"}},
		{"then the cluster's default", `"agent_query_rules":[],"cluster_id":"c1","cluster_queue_id":null`, "c1", []string{"queue=mac"}},
		{"the queue is not known", `"agent_query_rules":[],"cluster_id":"c1","cluster_queue_id":"q9"`, "c1", []string{"queue=mac"}},
		{"the cluster has no default", `"cluster_id":"c2"`, "c2", []string{"queue=default"}},
		{"the cluster is not known", `"cluster_id":"c9"`, "c9", []string{"queue=default"}},
		{"unclustered", `"agent_query_rules":null`, "", []string{"queue=default"}},
		{"a rule that asks for nothing", `"agent_query_rules":["*"]`, "", []string{"queue=default"}},
	} {
		t.Run("job/"+test.name, func(t *testing.T) {
			lists["builds"] = build(`{"id":"j1","type":"script","state":"waiting","web_url":"https://x/1",` + test.job + `}`)
			want := []plan.Job{{ID: "j1", Cluster: test.cluster, Rules: test.want, State: plan.JobUpcoming, URL: "https://x/1"}}
			if diff := cmp.Diff(want, observeLists(t, lists).Jobs); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
	lists["builds"] = `[{"id":"b1","state":"running","pipeline":{"cluster_id":"c1"},"jobs":[{"id":"j1","type":"script","state":"waiting"}]}]`
	if got := observeLists(t, lists).Jobs; len(got) != 1 || got[0].Cluster != "c1" || got[0].Rules[0] != "queue=mac" {
		t.Errorf("a job without a cluster has its pipeline's: got %+v", got)
	}
	for name, jobs := range map[string]string{
		"another job's":            `{"id":"j0","type":"waiter","state":"waiting","cluster_id":"c1"},{"id":"j1","type":"script","state":"waiting"}`,
		"its queue's":              `{"id":"j1","type":"script","state":"waiting","cluster_queue_id":"q2"}`,
		"its queue's, with a rule": `{"id":"j1","type":"script","state":"waiting","cluster_queue_id":"q2","agent_query_rules":["queue=mac"]}`,
	} {
		lists["builds"] = build(jobs)
		if got := observeLists(t, lists).Jobs; len(got) != 1 || got[0].Cluster != "c1" || got[0].Rules[0] != "queue=mac" {
			t.Errorf("a job without a cluster has %s: got %+v", name, got)
		}
	}
	const page = "https://buildkite.com/organizations/acme/clusters/c1/queues/"
	for _, test := range []struct {
		name, agent string
		cluster     string
		want        []string
	}{
		{"the tags come first", `"meta_data":["queue=a","queue=b"]`, "", []string{"queue=a", "queue=b"}},
		{"then the queue of its page", `"meta_data":["os=x"],"web_url":"` + page + `q1/agents/a1"`, "c1", []string{"os=x", "queue=linux"}},
		{"then the cluster's default", `"web_url":"` + page + `q9/agents/a1"`, "c1", []string{"queue=mac"}},
		{"the cluster in a field", `"cluster_id":"c1"`, "c1", []string{"queue=mac"}},
		{"unclustered", `"web_url":"https://buildkite.com/organizations/acme/agents/a1"`, "", []string{"queue=default"}},
	} {
		t.Run("agent/"+test.name, func(t *testing.T) {
			lists["agents"] = `[{"id":"a1","connection_state":"connected",` + test.agent + `}]`
			want := []plan.Agent{{ID: "a1", Cluster: test.cluster, Tags: test.want, State: plan.AgentIdle}}
			if diff := cmp.Diff(want, observeLists(t, lists).Agents); diff != "" {
				t.Errorf("agents (-want +got):\n%s", diff)
			}
		})
	}
	want := []plan.Queue{
		{Cluster: "c1", ClusterName: "One", ID: "q1", Key: "linux", Paused: true},
		{Cluster: "c1", ClusterName: "One", ID: "q2", Key: "mac"},
		{Cluster: "c2", ClusterName: "Two", ID: "q3", Key: "default"},
	}
	if diff := cmp.Diff(want, observeLists(t, lists).Queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
}

func TestSightings(t *testing.T) {
	agent := func(id string) string {
		return `"agent":{"id":"` + id + `","meta_data":["queue=q","index=` + id + `"]}`
	}
	got := observeLists(t, map[string]string{
		"agents": `[{"id":"known","connection_state":"connected","meta_data":["queue=q","dispatch=d"]}]`,
		"builds": build(
			`{"id":"j1","type":"script","state":"running",`+agent("1")+`}`,
			`{"id":"j2","type":"script","state":"failed","retried":true,`+agent("2")+`}`,
			`{"id":"j3","type":"script","state":"passed",`+agent("3")+`}`,
			`{"id":"j4","type":"script","state":"assigned",`+agent("3")+`}`,
			`{"id":"j5","type":"script","state":"canceled",`+agent("3")+`}`,
			`{"id":"j6","type":"script","state":"scheduled",`+agent("none")+`}`,
			`{"id":"j7","type":"script","state":"passed","agent":null}`,
			`{"id":"j8","type":"script","state":"running","agent":{"id":"known","name":"n"}}`,
			`{"id":"j9","type":"script","state":"running","agent":{"id":"stranger","name":"default-7f3k9c2b-3"}}`,
		),
	}).Sightings
	want := []plan.Sighting{
		{Agent: "1", Tags: []string{"queue=q", "index=1"}, Running: true},
		{Agent: "2", Tags: []string{"queue=q", "index=2"}},
		{Agent: "3", Tags: []string{"queue=q", "index=3"}, Running: true},
		{Agent: "known", Name: "n", Tags: []string{"queue=q", "dispatch=d"}, Running: true},
		{Agent: "stranger", Name: "default-7f3k9c2b-3", Running: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sightings (-want +got):\n%s", diff)
	}
}

func TestQuestions(t *testing.T) {
	api := &static{}
	c := newClient(t, buildkite.Config{HTTP: api, URL: "https://api.example.com/proxy"})
	api.lists = map[string]string{}
	observe(t, c, now, now.Add(-90*time.Second-time.Millisecond))
	var got []string
	for _, u := range api.asked {
		got = append(got, u.String())
	}
	want := []string{
		"https://api.example.com/proxy/v2/organizations/acme/agents?page=1&per_page=100",
		"https://api.example.com/proxy/v2/organizations/acme/builds?exclude_pipeline=true&include_retried_jobs=true&page=1&per_page=100&state%5B%5D=scheduled&state%5B%5D=running&state%5B%5D=failing",
		"https://api.example.com/proxy/v2/organizations/acme/builds?exclude_pipeline=true&finished_from=2026-01-05T07%3A58%3A29Z&include_retried_jobs=true&page=1&per_page=100",
		"https://api.example.com/proxy/v2/organizations/acme/builds?created_from=2026-01-04T07%3A58%3A29Z&exclude_pipeline=true&include_retried_jobs=true&page=1&per_page=100&state%5B%5D=blocked",
		"https://api.example.com/proxy/v2/organizations/acme/clusters?page=1&per_page=100",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// TestHostedQueueIsRecognized asserts that either of the fields that Buildkite documents
// marks a queue as hosted.
func TestHostedQueueIsRecognized(t *testing.T) {
	for fields, want := range map[string]bool{
		`"hosted":true`: true, `"hosted_agents":{"instance_shape":{"name":"LINUX_AMD64_2X4"}}`: true, `"hosted_agents":{},"hosted":null`: true,
		`"hosted":false,"hosted_agents":null`: false, `"dispatch_paused":false`: false,
	} {
		got := observeLists(t, map[string]string{"clusters": `[{"id":"c1","name":"One"}]`, "clusters/c1/queues": `[{"id":"q1","key":"mac",` + fields + `}]`})
		if len(got.Queues) != 1 || got.Queues[0].Hosted != want {
			t.Errorf("%s: %+v, want hosted %t", fields, got.Queues, want)
		}
	}
}
