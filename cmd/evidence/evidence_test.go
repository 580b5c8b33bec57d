package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/generator/belief"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

const (
	apiToken    = "bkua_api_secret"
	agentToken  = "bkct_agent_secret"
	gitPassword = "git-secret"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// busy returns a Buildkite with a case for each check, and the identifier of its second queue.
func busy(t *testing.T) (s *fakebuildkite.Server, gpu string) {
	t.Helper()
	s = fakebuildkite.New(fakebuildkite.Options{Token: apiToken, UserLimit: 50, OrgLimit: 200})
	ci := s.AddCluster("Secret cluster")
	s.AddQueue(ci, "linux")
	gpu = s.AddQueue(ci, "gpu")
	s.AddQueue(ci, "deploy")
	s.AddQueue(ci, "paused")
	s.AddHostedQueue(ci, "hosted")
	s.PauseQueue(ci, "paused")
	s.AddAgentToken(ci, agentToken)
	connect := func(tags ...string) string {
		id, err := s.Connect(fakebuildkite.Agent{Cluster: ci, Tags: tags, Name: "Ada's machine"})
		must(t, err)
		return id
	}
	for range 6 {
		connect("queue=linux", "os=linux", plan.TagDispatch+"=20260105-abc")
	}
	connect("os=linux") // in the default queue
	connect("queue=gpu")
	s.PauseAgent(connect("queue=gpu"))
	connect("queue=deploy")
	connect("queue=deploy")
	build := func(steps ...fakebuildkite.Step) {
		s.CreateBuild(fakebuildkite.Build{Cluster: ci, Pipeline: "secret-pipeline", Message: "Secret message", Steps: steps})
	}
	linux := []string{"queue=linux", "os=linux"}
	wait := fakebuildkite.Step{Type: fakebuildkite.Wait}
	build(fakebuildkite.Step{Agents: linux, Parallelism: 6, Duration: 10 * time.Second, Label: "Secret label"})
	s.Advance(time.Minute)
	build(fakebuildkite.Step{Agents: linux, Duration: 10 * time.Second}, fakebuildkite.Step{Type: fakebuildkite.Block}, fakebuildkite.Step{Agents: linux})
	build(fakebuildkite.Step{Agents: linux, Duration: 10 * time.Second, Fail: -1}, fakebuildkite.Step{Type: fakebuildkite.Wait, ContinueOnFailure: true}, fakebuildkite.Step{Agents: linux, Duration: time.Hour})
	build(fakebuildkite.Step{Agents: linux, Duration: 10 * time.Second, Fail: 1, Retries: 1})
	build(fakebuildkite.Step{Agents: linux, Duration: 10 * time.Second, Command: "buildkite-agent pipeline upload", Uploads: []fakebuildkite.Step{{Agents: linux, Duration: 10 * time.Second}}})
	s.Advance(time.Minute)
	build(fakebuildkite.Step{Parallelism: 2, Duration: time.Hour}, wait, fakebuildkite.Step{Agents: linux})
	build(fakebuildkite.Step{Agents: []string{"queue=gpu"}, Parallelism: 3, Duration: time.Hour})
	build(fakebuildkite.Step{Agents: []string{"queue=deploy"}, Parallelism: 2, Duration: time.Hour, ConcurrencyGroup: "deploy", Concurrency: 1})
	s.Advance(3 * time.Minute)
	return s, gpu
}

// configOf returns the settings for a simulated Buildkite.
func configOf(s *fakebuildkite.Server, next http.RoundTripper) Config {
	return Config{
		Org: "acme", URL: "https://buildkite.example/", Budget: DefaultBudget, Clock: s, HTTP: next,
		Token:      func() (string, error) { return apiToken, nil },
		AgentToken: func() (string, error) { return agentToken, nil }, AgentURL: "https://agent.example/v3/",
	}
}

// gitServer serves a fleet repository, and returns a connection to it.
func gitServer(t *testing.T, wrap func(http.Handler) http.Handler) (*remote.Connection, gitserver.Fleet) {
	t.Helper()
	server := gitserver.NewServer(t, gitserver.Options{Username: "git", Password: gitPassword, Wrap: wrap})
	for _, name := range []string{"a", "b"} {
		_, err := server.Commit("Change the fleet", time.Unix(1700000000, 0), branch.Change{Path: "overlays/" + name, Content: []byte(name)})
		must(t, err)
	}
	c, err := git.Connect(git.Config{URL: server.URL(), Branch: "main", Credentials: remote.Credentials{Password: remote.StaticPassword("git", gitPassword)}})
	must(t, err)
	return c, server
}

func verdicts(results []Result, v Verdict) (ids []string) {
	for _, r := range results {
		if r.Verdict == v {
			ids = append(ids, r.ID+": "+r.Evidence)
		}
	}
	return ids
}

// readable returns the beliefs that reading checks.
func readable() map[string]bool {
	ids := map[string]bool{}
	for _, c := range checks {
		ids[c.id] = true
	}
	for _, c := range gitChecks {
		ids[c.id] = true
	}
	return ids
}

// TestChecks asserts that each belief has a check, or a reason why none can read it, and that each check has a lie.
func TestChecks(t *testing.T) {
	checked := readable()
	for _, id := range writtenBeliefs {
		checked[id] = true
	}
	for _, b := range belief.All() {
		if checked[b.ID] == (needs[b.ID] != "") {
			t.Errorf("%s: want either a check or a reason", b.ID)
		}
	}
	if len(checked)+len(needs) != len(belief.All()) {
		t.Errorf("%d checks and %d reasons for %d beliefs", len(checked), len(needs), len(belief.All()))
	}
	for _, l := range writingLies {
		delete(checked, l.belief)
	}
	for _, l := range pushLies {
		delete(checked, l.belief)
	}
	for _, l := range gitHubLies {
		delete(checked, l.belief)
	}
	for _, l := range lies("", "") {
		delete(checked, l.belief)
	}
	for _, l := range gitLies {
		delete(checked, l.belief)
	}
	if len(checked) > 0 {
		t.Errorf("no lie about %v", checked)
	}
}

// TestTruth asserts that nothing contradicts the simulated services, that a busy fleet confirms most beliefs with a
// check, that the numbers of requests are as announced, and that the evidence has no secrets and names.
func TestTruth(t *testing.T) {
	s, _ := busy(t)
	c := configOf(s, s.Transport())
	var fleet gitserver.Fleet
	c.Git, fleet = gitServer(t, nil)
	c.Branch = "main"
	results, err := Collect(t.Context(), c)
	must(t, err)
	if len(results) != len(belief.All()) {
		t.Errorf("%d results for %d beliefs", len(results), len(belief.All()))
	}
	if found := verdicts(results, Contradicted); found != nil {
		t.Errorf("contradicted:\n%s", strings.Join(found, "\n"))
	}
	unconfirmed := []string{"agent-never-connected", "rest-limit-refusal"} // these have no such case in the fleet
	for _, r := range results {
		if readable()[r.ID] && (r.Verdict == Confirmed) == slices.Contains(unconfirmed, r.ID) {
			t.Errorf("%s is %s: %s", r.ID, r.Verdict, r.Evidence)
		}
		if secret := regexp.MustCompile(`(?i)secret|ada|acme|[0-9a-f]{8}-[0-9a-f]{4}|http:|https:|pipeline/`).FindString(r.Evidence); secret != "" {
			t.Errorf("the evidence for %s has %q: %s", r.ID, secret, r.Evidence)
		}
	}
	if n := len(fleet.Requests()); n > GitRequests {
		t.Errorf("%d requests to the git host, want %d at most", n, GitRequests)
	}
}

// TestWithoutHTTP asserts that nothing contradicts a repository that is not read over http.
func TestWithoutHTTP(t *testing.T) {
	s, _ := busy(t)
	c := configOf(s, s.Transport())
	_, fleet := gitServer(t, nil)
	var err error
	c.Git, err = git.Connect(git.Config{URL: fleet.Dir, Branch: "main"})
	must(t, err)
	c.Branch = "main"
	results, err := Collect(t.Context(), c)
	must(t, err)
	if found := verdicts(results, Contradicted); found != nil {
		t.Errorf("contradicted: %q", found)
	}
	if found := strings.Join(verdicts(results, Confirmed), "\n"); !strings.Contains(found, "git-missing-words") || !strings.Contains(found, "git-ls-refs") {
		t.Errorf("confirmed:\n%s", found)
	}
}

// TestBudget asserts that no more requests are sent than allowed, that a large organisation needs the default at
// most, and that what the budget does not suffice for is reported.
func TestBudget(t *testing.T) {
	for _, test := range []struct {
		budget, agents int
		short          bool
	}{{2, 0, true}, {7, 0, true}, {DefaultBudget, 0, false}, {DefaultBudget, 700, false}} {
		s, _ := busy(t)
		for i := range test.agents {
			cluster := s.AddCluster(fmt.Sprint("c", i))
			s.AddQueue(cluster, "q")
			_, err := s.Connect(fakebuildkite.Agent{Cluster: cluster})
			must(t, err)
		}
		sent := 0
		c := configOf(s, roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/v2/") {
				sent++
			}
			return s.Transport().RoundTrip(r)
		}))
		c.Budget = test.budget
		results, err := Collect(t.Context(), c)
		must(t, err)
		if sent > test.budget {
			t.Errorf("%d requests, want %d at most", sent, test.budget)
		}
		if short := strings.Contains(strings.Join(verdicts(results, Unreachable), "\n"), noRequestsLeft); short != test.short {
			t.Errorf("budget %d, %d agents, %d sent: requests are missing is %v", test.budget, test.agents, sent, short)
		}
		if found := verdicts(results, Contradicted); found != nil {
			t.Errorf("contradicted: %q", found)
		}
	}
}

// TestInterrupted asserts that the end of the context ends the reading.
func TestInterrupted(t *testing.T) {
	s, _ := busy(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Collect(ctx, configOf(s, roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/clusters") {
			cancel()
		}
		return s.Transport().RoundTrip(r)
	})))
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("the error is %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a response that a lie edits.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// lie is a response that contradicts one belief.
type lie struct {
	belief, about string
	path          string // a part of the path and query of the responses
	skip          int    // how many of these are true
	drop          string // a parameter of the request that the server ignores
	edit          func(*answer)
}

// records edits each object of a list, or an object.
func records(edit func(record)) func(*answer) {
	return func(a *answer) {
		if a.status != http.StatusOK {
			return
		}
		if bytes.HasPrefix(a.body, []byte("{")) {
			r := decode(a.body)
			edit(r)
			a.body, _ = json.Marshal(r)
			return
		}
		all := decodeList(a.body)
		for _, r := range all {
			edit(r)
		}
		a.body, _ = json.Marshal(all)
	}
}

// list edits a list.
func list(edit func([]record) []record) func(*answer) {
	return func(a *answer) {
		if a.status == http.StatusOK {
			a.body, _ = json.Marshal(edit(decodeList(a.body)))
		}
	}
}

// jobsOf edits each job for an agent in builds.
func jobsOf(edit func(record)) func(*answer) {
	return records(func(b record) {
		for _, j := range b.jobs() {
			if j.text("type") == "script" {
				edit(j)
			}
		}
	})
}

func rename(key string) func(record) {
	return func(r record) {
		r["renamed"] = r[key]
		delete(r, key)
	}
}

func set(key string, value any) func(record) { return func(r record) { r[key] = value } }

func header(edit func(http.Header)) func(*answer) { return func(a *answer) { edit(a.header) } }

func without(name string) func(*answer) { return header(func(h http.Header) { h.Del(name) }) }

func status(code int) func(*answer) { return func(a *answer) { a.status = code } }

// lies are the lies about Buildkite; gpu is the identifier of a queue, endedJob that of a job.
func lies(gpu, endedJob string) []lie {
	const agents, builds, queues = "/agents?", "/builds?", "/queues?"
	scheduled := func(j record) bool { return j.text("state") == "scheduled" }
	return []lie{
		{belief: "agent-cluster", about: "agents of another cluster", path: builds, edit: jobsOf(func(j record) {
			if a := j.object("agent"); a != nil {
				a["web_url"] = strings.Replace(a.text("web_url"), "/clusters/", "/clusters/other-", 1)
			}
		})},
		{belief: "agent-never-connected", about: "an agent that has not connected", path: agents, edit: records(set("connected_at", nil))},
		{belief: "agent-queue", about: "two queues", path: agents, edit: records(func(a record) {
			a["meta_data"] = append(a["meta_data"].([]any), "queue=a", "queue=b")
		})},
		{belief: "agent-queue", about: "queues that are not listed", path: queues, edit: records(func(q record) { q["id"] = q.text("id") + "x" })},
		{belief: "agent-rules", about: "rules that no tag satisfies", path: builds, edit: jobsOf(func(j record) {
			if j.text("state") == "running" {
				j["agent_query_rules"] = append(j["agent_query_rules"].([]any), "os=other")
			}
		})},
		{belief: "metrics-counts", about: "another field", path: "/v3/metrics", edit: records(func(m record) {
			for key := range m.object("jobs").object("queues") {
				rename("scheduled")(m.object("jobs").object("queues").object(key))
			}
		})},
		{belief: "metrics-counts", about: "no queues", path: "/v3/metrics", edit: records(func(m record) { rename("queues")(m.object("agents")) })},
		{belief: "metrics-poll-duration", about: "no header", path: "/v3/metrics", edit: without("Buildkite-Agent-Metrics-Poll-Duration")},
		{belief: "stacks-not-found", about: "another status", path: "/v3/stacks/", edit: status(http.StatusUnprocessableEntity)},
		{belief: "rest-agent-has-job", about: "agents lack their jobs", path: agents, edit: records(set("job", nil))},
		{belief: "rest-agent-job", about: "a job that has ended", path: agents, edit: records(func(a record) {
			if a.object("job") == nil {
				a["job"] = map[string]any{"id": endedJob, "state": "running"}
			}
		})},
		{belief: "rest-agent-last-job", about: "no time", path: agents, edit: records(set("last_job_finished_at", nil))},
		{belief: "rest-agent-page", about: "an address without queue", path: agents, edit: records(func(a record) {
			a["web_url"] = "https://buildkite.com/organizations/acme/agents/" + a.text("id")
		})},
		{belief: "rest-agent-paused", about: "a string", path: agents, edit: records(func(a record) {
			if a.kind("paused") == "true" {
				a["paused"] = "true"
			}
		})},
		{belief: "rest-agent-tags", about: "another field", path: agents, edit: records(rename("meta_data"))},
		{belief: "rest-agent-tags", about: "keys alone", path: agents, edit: records(func(a record) {
			a["meta_data"] = append(a["meta_data"].([]any), "docker")
		})},
		{belief: "rest-agents-listed", about: "a missing agent", path: agents + "page=", edit: list(func(all []record) []record {
			return slices.DeleteFunc(all, func(a record) bool { return a.object("job") != nil })
		})},
		{belief: "rest-agents-listed", about: "an agent that is lost", path: agents + "page=", edit: records(set("connection_state", "lost"))},
		{belief: "rest-agents-order", about: "another order", path: agents + "page=", skip: 1, edit: list(func(all []record) []record {
			slices.Reverse(all)
			return all
		})},
		{belief: "rest-agents-queue-filter", about: "no filter", path: "cluster_queue_id=", drop: "cluster_queue_id"},
		{belief: "rest-blocked-builds", about: "no filter", path: "state[]=blocked", drop: "state[]"},
		{belief: "rest-blocked-builds", about: "another state", path: "state[]=blocked", edit: records(set("state", "blocked"))},
		{belief: "rest-blocked-finished-at", about: "no time", path: "state[]=blocked", edit: records(set("finished_at", nil))},
		{belief: "rest-continue-on-failure", about: "no field", path: builds, edit: records(func(b record) {
			for _, j := range b.jobs() {
				delete(j, "continue_on_failure")
			}
		})},
		{belief: "rest-date", about: "another time", path: "/v2/", edit: header(func(h http.Header) {
			at, _ := http.ParseTime(h.Get("Date"))
			h.Set("Date", at.Add(time.Minute).Format(http.TimeFormat))
		})},
		{belief: "rest-date", about: "no time", path: "/v2/", edit: without("Date")},
		{belief: "rest-default-queue", about: "another queue", path: "/clusters?", edit: records(set("default_queue_id", gpu))},
		{belief: "rest-finished-from", about: "no filter", path: "finished_from", drop: "finished_from"},
		{belief: "rest-finished-from", about: "no jobs", path: "finished_from", edit: records(set("jobs", nil))},
		{belief: "rest-hosted-queue", about: "the queue of muster's agents", path: queues, edit: records(func(q record) {
			if q.text("key") == "linux" {
				q["hosted"] = true
			}
		})},
		{belief: "rest-hosted-queue", about: "a string", path: queues, edit: records(set("hosted", "yes"))},
		{belief: "rest-job-agent", about: "no tags", path: builds, edit: jobsOf(func(j record) { delete(j.object("agent"), "meta_data") })},
		{belief: "rest-job-agent", about: "no agent", path: builds, edit: jobsOf(set("agent", nil))},
		{belief: "rest-job-cluster", about: "no cluster", path: builds, edit: jobsOf(set("cluster_id", nil))},
		{belief: "rest-job-limited", about: "a time of limited jobs", path: builds, edit: jobsOf(func(j record) {
			if scheduled(j) {
				j["runnable_at"] = j["created_at"]
			}
		})},
		{belief: "rest-job-order", about: "steps before jobs", path: builds, edit: records(func(b record) {
			slices.SortStableFunc(b["jobs"].([]any), func(x, y any) int {
				script := func(j any) int { return strings.Count(record(j.(map[string]any)).text("type"), "script") }
				return script(x) - script(y)
			})
		})},
		{belief: "rest-job-page", about: "another address", path: builds, edit: jobsOf(func(j record) {
			j["web_url"] = strings.Replace(j.text("web_url"), "#", "/jobs/", 1)
		})},
		{belief: "rest-job-rules", about: "another field", path: builds, edit: jobsOf(rename("agent_query_rules"))},
		{belief: "rest-job-runnable-at", about: "no time", path: builds, edit: jobsOf(func(j record) {
			if !scheduled(j) {
				j["runnable_at"] = nil
			}
		})},
		{belief: "rest-job-states", about: "another state", path: builds, edit: jobsOf(func(j record) {
			if j.text("state") == "waiting" {
				j["state"] = "napping"
			}
		})},
		{belief: "rest-job-uploaded", about: "the time of the build", path: builds, edit: records(func(b record) {
			for _, j := range b.jobs() {
				j["created_at"] = b["created_at"]
			}
		})},
		{belief: "rest-limit-headers", about: "no limit of the user", path: "/v2/", edit: without("RateLimit-User-Remaining")},
		{belief: "rest-limit-headers", about: "no limit of the organisation", path: "/v2/", edit: without("RateLimit-Limit")},
		{belief: "rest-limit-refusal", about: "no time", path: "state[]=scheduled", edit: func(a *answer) {
			a.status, a.body = http.StatusTooManyRequests, []byte("{}")
		}},
		{belief: "rest-limits", about: "fewer requests", path: "/v2/", edit: header(func(h http.Header) { h.Set("RateLimit-User-Limit", "40") })},
		{belief: "rest-paging", about: "no next page", path: agents + "per_page=1", edit: without("Link")},
		{belief: "rest-paging", about: "two agents", path: agents + "per_page=1", edit: list(func(all []record) []record { return append(all, all...) })},
		{belief: "rest-queue-paused", about: "another field", path: queues, edit: records(rename("dispatch_paused"))},
		{belief: "rest-token-expiry", about: "no field", path: "/v2/access-token", edit: records(rename("expires_at"))},
		{belief: "rest-token-expiry", about: "no field of agent tokens", path: "/tokens?", edit: records(rename("expires_at"))},
		{belief: "rest-token-expiry", about: "a number", path: "/tokens?", edit: records(set("expires_at", 1800000000))},
		{belief: "rest-token-status", about: "another status", path: agents + "per_page=1", skip: 1, edit: status(http.StatusForbidden)},
		{belief: "rest-token-status", about: "another status without a scope", path: "/pipelines?", edit: status(http.StatusNotFound)},
		{belief: "rest-unfinished-builds", about: "missing builds", path: "state[]=scheduled", edit: list(func(all []record) []record {
			return slices.DeleteFunc(all, func(b record) bool {
				return slices.ContainsFunc(b.jobs(), func(j record) bool { return scheduled(j) && j.text("runnable_at") != "" })
			})
		})},
	}
}

// told returns a transport with the lie.
func (l lie) told(next http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex // guards seen, and what edits remember
	seen := 0
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		told := strings.Contains(r.URL.RequestURI(), l.path)
		if told {
			mu.Lock()
			seen++
			told = seen > l.skip
			mu.Unlock()
		}
		if told && l.drop != "" {
			r = r.Clone(r.Context())
			query := r.URL.Query()
			query.Del(l.drop)
			r.URL.RawQuery = query.Encode()
		}
		response, err := next.RoundTrip(r)
		if err != nil || !told || l.edit == nil {
			return response, err
		}
		a := answer{status: response.StatusCode, header: response.Header}
		a.body, err = io.ReadAll(response.Body)
		mu.Lock()
		l.edit(&a)
		mu.Unlock()
		if a.status == http.StatusTooManyRequests && l.path == "state[]=scheduled" {
			a.header.Del("RateLimit-Reset")
			a.header.Del("RateLimit-User-Reset")
		}
		response.StatusCode, response.Body = a.status, io.NopCloser(bytes.NewReader(a.body))
		response.ContentLength = int64(len(a.body))
		return response, err
	})
}

// TestLies asserts that each lie is reported as a contradiction of its belief, and of no other.
func TestLies(t *testing.T) {
	s, gpu := busy(t)
	for _, l := range lies(gpu, s.Jobs()[0].ID) {
		t.Run(l.belief+", "+l.about, func(t *testing.T) {
			s, _ := busy(t)
			results, err := Collect(t.Context(), configOf(s, l.told(s.Transport())))
			must(t, err)
			expectContradiction(t, results, l.belief)
		})
	}
}

// TestInvalidResponses asserts that no response ends the reading after the token was accepted, and that errors and
// texts other than lists contradict nothing.
func TestInvalidResponses(t *testing.T) {
	for _, path := range []string{"/clusters?", "/builds?page=", "/agents?page=", "state[]=scheduled", "finished_from", "state[]=blocked", "/queues?", "cluster_queue_id", "/tokens?"} {
		for _, a := range []answer{
			{status: 500, body: []byte("<html>")}, {status: 403}, {status: 302}, {status: 200, body: []byte("<html>")}, {status: 200}, {status: 200, body: []byte("{}")},
			{status: 200, body: []byte("[1]")}, {status: 200, body: []byte("[null]")}, {status: 200, body: []byte("[{}]")}, {status: 200, body: []byte(`[{"id":1,"jobs":[1,null,{}],"meta_data":[null]}]`)},
		} {
			s, _ := busy(t)
			results, err := Collect(t.Context(), configOf(s, roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := s.Transport().RoundTrip(r)
				if strings.Contains(r.URL.RequestURI(), path) {
					response.StatusCode, response.Body = a.status, io.NopCloser(bytes.NewReader(a.body))
				}
				return response, err
			})))
			must(t, err)
			if found := verdicts(results, Contradicted); found != nil && !strings.HasPrefix(string(a.body), "[") {
				t.Errorf("%s, %d %s: contradicted is %q", path, a.status, a.body, found)
			}
		}
	}
}

func expectContradiction(t *testing.T, results []Result, id string) {
	t.Helper()
	if found := verdicts(results, Contradicted); len(found) != 1 || !strings.HasPrefix(found[0], id+": ") {
		t.Errorf("contradicted is %q, want %s", found, id)
	}
}

// withoutLine removes the line of git's protocol that begins with a text from a request.
func withoutLine(body []byte, begin string) []byte {
	at := bytes.Index(body, []byte(begin))
	if at < 4 {
		return body
	}
	var size int
	_, _ = fmt.Sscanf(string(body[at-4:at]), "%04x", &size)
	return slices.Concat(body[:at-4], body[at-4+size:])
}

// gitLies are the lies about the git host. Each returns true if it has answered, or changes the request's body.
var gitLies = []struct {
	belief string
	tell   func(w http.ResponseWriter, r *http.Request, body []byte) (changed []byte, answered bool)
}{
	{"git-credentials-status", func(w http.ResponseWriter, r *http.Request, body []byte) ([]byte, bool) {
		if _, password, _ := r.BasicAuth(); password != missingName {
			return body, false
		}
		http.Error(w, "go away", http.StatusForbidden)
		return nil, true
	}},
	{"git-missing-words", func(w http.ResponseWriter, r *http.Request, body []byte) ([]byte, bool) {
		if !strings.Contains(r.URL.Path, missingName) {
			return body, false
		}
		http.Error(w, "go away", http.StatusBadRequest)
		return nil, true
	}},
	{"git-fetch-refusals", func(w http.ResponseWriter, _ *http.Request, body []byte) ([]byte, bool) {
		if !bytes.Contains(body, []byte("want 0123456789")) {
			return body, false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = io.WriteString(w, "000fERR go away")
		return nil, true
	}},
	{"git-ls-refs", func(_ http.ResponseWriter, _ *http.Request, body []byte) ([]byte, bool) {
		return withoutLine(body, "ref-prefix "), false
	}},
	{"git-partial-clone", func(_ http.ResponseWriter, _ *http.Request, body []byte) ([]byte, bool) {
		return withoutLine(body, "filter tree:0"), false
	}},
	{"git-partial-clone", func(_ http.ResponseWriter, _ *http.Request, body []byte) ([]byte, bool) {
		return withoutLine(body, "filter blob:limit"), false
	}},
}

// recorded returns the answer to a request with a body.
func recorded(next http.Handler, r *http.Request, body []byte) *httptest.ResponseRecorder {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	w := httptest.NewRecorder()
	next.ServeHTTP(w, r)
	return w
}

// send sends an answer with another body.
func send(w http.ResponseWriter, a *httptest.ResponseRecorder, body []byte) {
	for name, values := range a.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(body)
}

// TestGitLies is like TestLies for the git host.
func TestGitLies(t *testing.T) {
	for i, l := range gitLies {
		t.Run(fmt.Sprint(l.belief, i), func(t *testing.T) {
			s, _ := busy(t)
			c := configOf(s, s.Transport())
			c.Git, _ = gitServer(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					must(t, err)
					body, answered := l.tell(w, r, body)
					if !answered {
						answer := recorded(next, r, body)
						send(w, answer, answer.Body.Bytes())
					}
				})
			})
			c.Branch = "main"
			results, err := Collect(t.Context(), c)
			must(t, err)
			expectContradiction(t, results, l.belief)
		})
	}
}
