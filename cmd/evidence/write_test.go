package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/git"
	"muster/gitops/github"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"

	"github.com/go-git/go-git/v5/plumbing"
)

// quiet returns a Buildkite to write to, and the identifier of its cluster.
func quiet(t *testing.T) (s *fakebuildkite.Server, cluster string) {
	t.Helper()
	s = fakebuildkite.New(fakebuildkite.Options{Token: apiToken, UserLimit: 50, OrgLimit: 200, Scopes: fakebuildkite.WriteScopes})
	cluster = s.AddCluster("Secret cluster")
	s.AddQueue(cluster, "linux")
	s.AddAgentToken(cluster, agentToken)
	for range 2 {
		_, err := s.Connect(fakebuildkite.Agent{Cluster: cluster, Tags: []string{"queue=linux"}, Name: "Ada's machine"})
		must(t, err)
	}
	return s, cluster
}

// writing returns the settings of a run with simulated agents. The function that is returned has what the run logs.
func writing(s *fakebuildkite.Server, next http.RoundTripper, id, bug string) (Config, *[]string) {
	c := configOf(s, next)
	var logged []string
	agents := &simulatedAgents{s: s, next: s.Transport(), bug: bug}
	c.Write = &Writing{ID: id, Start: agents.start, Host: "host", Log: func(text string) { logged = append(logged, text) }}
	return c, &logged
}

// withoutAgents makes a run start none, which takes less time.
func withoutAgents(c *Config) { c.Write.Start, c.Write.NoAgents = nil, "no agents" }

// expectNothingLeft asserts that Buildkite has what [quiet] has.
func expectNothingLeft(t *testing.T, s *fakebuildkite.Server, cluster string) {
	t.Helper()
	if p, q, k := s.Pipelines(), s.Queues(cluster), s.Stacks(); p != nil || !slices.Equal(q, []string{"linux"}) || len(k) > 0 {
		t.Errorf("left are the pipelines %q, the queues %q and the stacks %q", p, q, k)
	}
	for _, a := range s.Agents() {
		if a.State == "connected" && !slices.Contains(a.Tags, "queue=linux") {
			t.Errorf("the agent %s is left", a.Name)
		}
	}
}

// TestWriting asserts that writing contradicts nothing about the simulated services and confirms every belief that it
// reaches, that it removes all that it creates, and that the evidence has no secrets and names.
func TestWriting(t *testing.T) {
	s, cluster := quiet(t)
	sent := 0
	c, logged := writing(s, roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			sent++
		}
		return s.Transport().RoundTrip(r)
	}), "run1", "")
	var fleet gitserver.Fleet
	c.Git, fleet = gitServer(t, nil)
	c.Branch = "main"
	before, err := fleet.Git("for-each-ref")
	must(t, err)
	begun := s.Now()
	results, err := Collect(t.Context(), c)
	must(t, err)
	for _, r := range results {
		t.Logf("%-30s %-14s %s", r.ID, r.Verdict, r.Evidence)
		if slices.Contains(writtenBeliefs, r.ID) && !slices.Contains(gitHubBeliefs, r.ID) && r.Verdict != Confirmed || r.Verdict == Contradicted {
			t.Errorf("%s is %s: %s", r.ID, r.Verdict, r.Evidence)
		}
		if secret := regexp.MustCompile(`(?i)secret|ada|acme|run1|[0-9a-f]{8}-[0-9a-f]{4}|http:|https:|pipeline/`).FindString(r.Evidence); secret != "" {
			t.Errorf("the evidence for %s has %q: %s", r.ID, secret, r.Evidence)
		}
	}
	expectNothingLeft(t, s, cluster)
	if len(*logged) > 0 {
		t.Errorf("logged is %q", *logged)
	}
	if after, err := fleet.Git("for-each-ref"); err != nil || after != before {
		t.Errorf("the refs are %q, want %q", after, before)
	}
	t.Logf("%d requests to REST, %d to git, %s", sent, len(fleet.Requests()), s.Now().Sub(begun))
	if n := len(fleet.Requests()); n > GitRequests+WriteGitRequests {
		t.Errorf("%d requests to the git host, want %d at most", n, GitRequests+WriteGitRequests)
	}
}

// writingLies are lies about Buildkite that only writing shows: of responses, or what agents do wrong.
var writingLies = []struct {
	lie
	bug string
}{
	{lie: lie{belief: "rest-job-runnable-at", about: "no time of jobs that wait", path: "state[]=scheduled", edit: jobsOf(func(j record) {
		if j.text("state") == "scheduled" {
			j["runnable_at"] = nil
		}
	})}},
	{lie: lie{belief: "rest-job-limited", about: "a time of a limited job", path: "/builds?", edit: jobsOf(func(j record) {
		if j.text("state") == "scheduled" {
			j["runnable_at"] = j["created_at"]
		}
	})}},
	{lie: lie{belief: "rest-unfinished-builds", about: "new builds are not listed", path: "state[]=scheduled&state[]=running&state[]=failing&include", edit: list(func([]record) []record { return []record{} })}},
	{lie: lie{belief: "rest-queue-paused", about: "another field", path: "/queues?", edit: records(rename("dispatch_paused"))}},
	{lie: lie{belief: "rest-agent-paused", about: "no field", path: "/agents?", edit: records(func(a record) { delete(a, "paused") })}},
	{lie: lie{belief: "metrics-age", about: "an agent too many", path: "/v3/metrics", edit: records(func(m record) {
		for key := range m.object("agents").object("queues") {
			q := m.object("agents").object("queues").object(key)
			q["total"] = q["total"].(float64) + 1
		}
	})}},
	{lie: lie{belief: "stacks-register", about: "another status", path: "/stacks/register", edit: func(a *answer) { a.status = http.StatusOK }}},
	{lie: lie{belief: "stacks-register", about: "another stack", path: "/stacks/register", skip: 1, edit: func(a *answer) { a.body = []byte(`{"id":"other"}`) }}},
	{lie: lie{belief: "stacks-paging", about: "another field", path: "/scheduled-jobs?", edit: records(func(p record) {
		if p.has("page_info") {
			rename("has_next_page")(p.object("page_info"))
		}
	})}},
	{lie: lie{belief: "stacks-paging", about: "no cursor", path: "/scheduled-jobs?", edit: records(func(p record) {
		if p.has("page_info") {
			set("end_cursor", nil)(p.object("page_info"))
		}
	})}},
	{lie: lie{belief: "stacks-paging", about: "the first page again", path: "/scheduled-jobs?", drop: "after"}},
	{lie: lie{belief: "stacks-paging", about: "no limit", path: "/scheduled-jobs?", drop: "limit"}},
	{lie: lie{belief: "stacks-paging", about: "a cursor is refused", path: "after=", edit: status(http.StatusBadRequest)}},
	{lie: lie{belief: "stacks-runnable", about: "a job is missing", path: "limit=3&", edit: records(func(p record) {
		if jobs := p.jobs(); len(jobs) == 3 {
			p["jobs"] = jobs[1:]
		}
	})}},
	{lie: lie{belief: "stacks-any-queue", about: "no jobs", path: "/scheduled-jobs?", edit: records(func(p record) {
		p["jobs"], p["page_info"] = []any{}, map[string]any{"has_next_page": false}
	})}},
	{lie: lie{belief: "stacks-any-queue", about: "not found", path: "/stacks/muster-live-run1/scheduled-jobs?", edit: status(http.StatusNotFound)}},
	{lie: lie{belief: "stacks-paused", about: "another field", path: "/scheduled-jobs?", edit: records(func(p record) {
		rename("dispatch_paused")(p.object("cluster_queue"))
	})}},
	{lie: lie{belief: "stacks-notifications", about: "no errors", path: "/notifications", edit: records(set("errors", []any{}))}},
	{lie: lie{belief: "stacks-notifications", about: "too many", path: "/notifications", edit: status(http.StatusUnprocessableEntity)}},
	{lie: lie{belief: "stacks-rate-limits", about: "no header", path: "/scheduled-jobs?limit=1&queue_key", edit: without("RateLimit-Scope")}},
	{lie: lie{belief: "stacks-rate-limits", about: "no limit", path: "/scheduled-jobs?limit=1&queue_key", edit: func(a *answer) {
		if a.status == http.StatusTooManyRequests {
			a.status = http.StatusOK
		}
	}}},
	{lie: lie{belief: "stacks-job-states", about: "no states", path: "/get-states", edit: records(set("states", map[string]any{}))}},
	{lie: lie{belief: "agent-never-connected", about: "it is listed", path: "/agents?cluster_queue_id", edit: list(func(all []record) []record {
		const tag, early = anyTag + "=hook", anyTag + "=idle"
		begun := false
		for _, a := range all {
			tags, _ := a.texts("meta_data")
			if slices.Contains(tags, tag) {
				return all
			}
			begun = begun || slices.Contains(tags, early) // and has not exited, as later
		}
		if !begun {
			return all
		}
		return append(all, record{"id": "x", "connection_state": "connected", "connected_at": nil, "meta_data": []string{tag, "queue=muster-live-run1"}})
	})}},
	{lie{belief: "agent-one-job", about: "two jobs"}, "takes two jobs"},
	{lie{belief: "agent-one-job", about: "a code"}, "fails"},
	{lie{belief: "agent-lingers-briefly", about: "two minutes"}, "lingers"},
	{lie{belief: "agent-idle-timeout", about: "early"}, "exits early"},
	{lie{belief: "agent-idle-timeout", about: "never"}, "never idle"},
	{lie{belief: "agent-uptime", about: "another job"}, "takes a job after its uptime"},
	{lie{belief: "agent-uptime", about: "early"}, "exits before its job ends"},
	{lie{belief: "agent-name", about: "not replaced"}, "name"},
	{lie{belief: "agent-startup-hook", about: "before it registers"}, "registers after the hook"},
	{lie{belief: "agent-startup-hook", about: "it fails"}, "ignores a hook that fails"},
	{lie{belief: "agent-startup-hook", about: "after it connects"}, "connects before the hook"},
	{lie{belief: "agent-connects-in-time", about: "late"}, "connects late"},
	{lie{belief: "agent-priority", about: "the lower one"}, "priority"},
	{lie{belief: "agent-lost", about: "it is listed"}, "is not frozen"},
}

// TestWritingLies is like TestLies for what only writing shows. All is removed, whatever the lie.
func TestWritingLies(t *testing.T) {
	for _, l := range writingLies {
		t.Run(l.belief+", "+l.about, func(t *testing.T) {
			s, cluster := quiet(t)
			next := s.Transport()
			if l.path != "" {
				next = l.told(next)
			}
			c, _ := writing(s, next, "run1", l.bug)
			if l.bug == "" && !slices.Contains(agentBeliefs, l.belief) {
				withoutAgents(&c)
			}
			results, err := Collect(t.Context(), c)
			must(t, err)
			expectContradiction(t, results, l.belief)
			expectNothingLeft(t, s, cluster)
		})
	}
}

// command matches the first line of a push.
var command = regexp.MustCompile(`([0-9a-f]{40}) ([0-9a-f]{40}) (refs/heads/muster-live/\w+)`)

// pushLies are lies of a git host about pushes. Each answers a push.
var pushLies = []struct {
	belief string
	tell   func(t *testing.T, fleet gitserver.Fleet, next http.Handler, w http.ResponseWriter, r *http.Request, body []byte)
}{
	{"git-compare-and-swap", func(t *testing.T, fleet gitserver.Fleet, next http.Handler, w http.ResponseWriter, r *http.Request, body []byte) {
		m := command.FindSubmatchIndex(body)
		if head, err := fleet.Git("rev-parse", string(body[m[6]:m[7]])); err == nil {
			copy(body[m[2]:m[3]], strings.TrimSpace(head))
		}
		answer := recorded(next, r, body)
		send(w, answer, answer.Body.Bytes())
	}},
	{"git-conflict-words", func(t *testing.T, fleet gitserver.Fleet, next http.Handler, w http.ResponseWriter, r *http.Request, body []byte) {
		answer := recorded(next, r, body)
		send(w, answer, regexp.MustCompile(`(ng refs/\S+ )[a-z' ]+`).ReplaceAllFunc(answer.Body.Bytes(), func(line []byte) []byte {
			at := bytes.LastIndexByte(line[:bytes.IndexByte(line[3:], ' ')+4], ' ') + 1
			for i := at; i < len(line); i++ {
				line[i] = 'x'
			}
			return line
		}))
	}},
	{"git-report-status", func(t *testing.T, fleet gitserver.Fleet, next http.Handler, w http.ResponseWriter, r *http.Request, body []byte) {
		answer := recorded(next, r, body)
		_, err := fleet.Git("update-ref", "-d", string(command.FindSubmatch(body)[3]))
		must(t, err)
		send(w, answer, answer.Body.Bytes())
	}},
	{"git-file-size", func(t *testing.T, fleet gitserver.Fleet, next http.Handler, w http.ResponseWriter, r *http.Request, body []byte) {
		if len(body) > 10000 {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		answer := recorded(next, r, body)
		send(w, answer, answer.Body.Bytes())
	}},
}

// TestPushLies is like TestWritingLies for the git host.
func TestPushLies(t *testing.T) {
	for _, l := range pushLies {
		t.Run(l.belief, func(t *testing.T) {
			s, cluster := quiet(t)
			c, _ := writing(s, s.Transport(), "run1", "")
			withoutAgents(&c)
			var fleet gitserver.Fleet
			c.Git, fleet = gitServer(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					must(t, err)
					if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") && command.Match(body) {
						l.tell(t, fleet, next, w, r, body)
						return
					}
					answer := recorded(next, r, body)
					send(w, answer, answer.Body.Bytes())
				})
			})
			c.Branch = "main"
			results, err := Collect(t.Context(), c)
			must(t, err)
			expectContradiction(t, results, l.belief)
			expectNothingLeft(t, s, cluster)
			if refs, err := fleet.Git("for-each-ref"); err != nil || strings.Contains(refs, "muster-live") {
				t.Errorf("the refs are %q", refs)
			}
		})
	}
}

// cut returns a transport that ends after a number of requests: the next one is sent, but its response is lost, and
// then, if forever is set, none is sent. then is called at its end.
func cut(next http.RoundTripper, after int, forever bool, then func()) http.RoundTripper {
	var sent atomic.Int64
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		n := int(sent.Add(1))
		if n > after+1 && forever {
			return nil, errors.New("the process has ended")
		}
		response, err := next.RoundTrip(r)
		if n == after+1 {
			then()
			return nil, context.Canceled
		}
		return response, err
	})
}

// TestInterruptedWriting asserts that a run that is interrupted at any request removes what it has created.
func TestInterruptedWriting(t *testing.T) {
	step := 0
	for after := 0; ; after += step {
		s, cluster := quiet(t)
		ctx, cancel := context.WithCancel(t.Context())
		reached := false
		c, _ := writing(s, cut(s.Transport(), after, false, func() { reached = true; cancel() }), "run1", "")
		if step = 1; after < 80 {
			withoutAgents(&c)
		} else {
			step = 9
		}
		results, err := Collect(ctx, c)
		cancel()
		if !reached {
			must(t, err)
			return
		}
		if err == nil && after < 80 || err != nil && results != nil {
			t.Errorf("interrupted after %d requests: %d results, %v", after, len(results), err)
		}
		expectNothingLeft(t, s, cluster)
		if t.Failed() {
			t.Fatalf("interrupted after %d requests", after)
		}
	}
}

// TestKilledWriting asserts that the next start removes what a run has left that was killed at a request, and
// reports that.
func TestKilledWriting(t *testing.T) {
	step, reached := 0, true
	for after := 0; reached; after += step {
		s, cluster := quiet(t)
		reached = false
		c, _ := writing(s, cut(s.Transport(), after, true, func() { reached = true }), "run1", "")
		agents := &simulatedAgents{s: s, next: s.Transport()}
		c.Write.Start = agents.start
		if step = 3; after < 80 {
			withoutAgents(&c)
		} else {
			step = 11
		}
		_, _ = Collect(t.Context(), c)
		for _, a := range agents.all { // see agentprocess.go in package laboratory
			a.Stop()
		}
		left := len(s.Pipelines()) + len(s.Queues(cluster)) - 1 + len(s.Stacks())
		c, logged := writing(s, s.Transport(), "run2", "")
		withoutAgents(&c)
		_, err := Collect(t.Context(), c)
		must(t, err)
		expectNothingLeft(t, s, cluster)
		if left > 0 != (len(*logged) > 0) {
			t.Errorf("%d objects were left, and logged is %q", left, *logged)
		}
		if t.Failed() {
			t.Fatalf("killed after %d requests", after)
		}
	}
}

// TestInterruptedPushes is like the two tests above for the git host.
func TestInterruptedPushes(t *testing.T) {
	for after := 3; ; after += 8 {
		s, cluster := quiet(t)
		ctx, cancel := context.WithCancel(t.Context())
		sent := 0
		var server gitserver.Fleet
		c, _ := writing(s, s.Transport(), "run1", "")
		withoutAgents(&c)
		c.Git, server = gitServer(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				if sent++; sent == after {
					cancel()
				}
			})
		})
		c.Branch = "main"
		_, err := Collect(ctx, c)
		cancel()
		expectNothingLeft(t, s, cluster)
		if refs, failed := server.Git("for-each-ref"); failed != nil || strings.Contains(refs, "muster-live") {
			t.Fatalf("interrupted after %d requests: the refs are %q, and the error %v", after, refs, err)
		}
		if sent < after {
			return
		}
	}
}

// TestInterruptedWhileGitHangs asserts that an interrupted run removes what it has created in Buildkite while the git
// host does not answer.
func TestInterruptedWhileGitHangs(t *testing.T) {
	s, cluster := quiet(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _ := writing(s, cut(s.Transport(), 30, false, cancel), "run1", "")
	withoutAgents(&c)
	var fleet gitserver.Fleet
	c.Git, fleet = gitServer(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for ctx.Err() != nil && r.Context().Err() == nil && len(s.Queues(cluster)) > 1 {
				time.Sleep(time.Millisecond)
			}
			next.ServeHTTP(w, r)
		})
	})
	c.Branch = "main"
	if _, err := Collect(ctx, c); err == nil || !strings.HasSuffix(err.Error(), "what it created is removed") {
		t.Errorf("the error is %v", err)
	}
	expectNothingLeft(t, s, cluster)
	if refs, err := fleet.Git("for-each-ref"); err != nil || strings.Contains(refs, "muster-live") {
		t.Errorf("the refs are %q (%v)", refs, err)
	}
}

// TestInterruptedRemoval asserts that an interruption also limits the removal that has begun.
func TestInterruptedRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := quiet(t)
		ctx, cancel := context.WithCancel(t.Context())
		var interrupted time.Time
		c, _ := writing(s, roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodDelete {
				return s.Transport().RoundTrip(r)
			}
			if ctx.Err() == nil {
				interrupted = time.Now()
				cancel()
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), "run1", "")
		withoutAgents(&c)
		_, err := Collect(ctx, c)
		if took := time.Since(interrupted); took > stopTime || err == nil || !strings.Contains(err.Error(), "not removed:") {
			t.Errorf("it ends %s after the interruption with %v", took, err)
		}
	})
}

// TestInterruptedAtLimit asserts that a limit of requests leaves enough of them for the removal after an interruption,
// which cannot wait for the next minute.
func TestInterruptedAtLimit(t *testing.T) {
	for after := 20; after < 60; after += 3 {
		s, cluster := quiet(t)
		s.SetLimits(30, 200)
		ctx, cancel := context.WithCancel(t.Context())
		c, _ := writing(s, cut(s.Transport(), after, false, cancel), "run1", "")
		withoutAgents(&c)
		c.Clock = impatient{s, ctx}
		_, err := Collect(ctx, c)
		if cancel(); err == nil || !strings.HasSuffix(err.Error(), "what it created is removed") {
			t.Errorf("interrupted after %d requests: %v", after, err)
		}
		expectNothingLeft(t, s, cluster)
	}
}

// impatient is a clock that does not sleep for longer than stopTime once a context has ended.
type impatient struct {
	*fakebuildkite.Server
	interrupted context.Context
}

func (c impatient) Sleep(ctx context.Context, d time.Duration) error {
	if c.interrupted.Err() != nil && d > stopTime {
		return context.DeadlineExceeded
	}
	return c.Server.Sleep(ctx, d)
}

// TestRemovesOnlyItsOwn asserts that live leaves what has the names of its objects but not their description, and
// removes what an earlier run left, also of git.
func TestRemovesOnlyItsOwn(t *testing.T) {
	s, cluster := quiet(t)
	all := []string{"linux"}
	for i := range pageSize {
		all = append(all, fmt.Sprintf("queue-%03d", i))
		s.AddQueue(cluster, all[i+1])
	}
	_, err := s.Connect(fakebuildkite.Agent{Cluster: cluster, Tags: []string{"queue=" + all[pageSize]}})
	must(t, err)
	c, logged := writing(s, s.Transport(), "run2", "")
	withoutAgents(&c)
	var fleet gitserver.Fleet
	c.Git, fleet = gitServer(t, nil)
	c.Branch = "main"
	push := func(name, id string) {
		head, pack, err := newCommit(id, "Test push 1", s.Now(), plumbing.ZeroHash, false)
		must(t, err)
		_, err = git.Move(t.Context(), c.Git, branchPrefix+name, plumbing.ZeroHash, head, pack)
		must(t, err)
	}
	push("run1", "run1")
	push("other", "run1")
	post := func(path, name, description string) {
		body, _ := json.Marshal(map[string]string{"name": name, "key": name, "description": description, "cluster_id": cluster, "configuration": "steps: []"})
		r, err := http.NewRequest(http.MethodPost, "https://buildkite.example/v2/organizations/acme/"+path, bytes.NewReader(body))
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+apiToken)
		response, err := s.Transport().RoundTrip(r)
		must(t, err)
		if response.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %d", path, response.StatusCode)
		}
	}
	post("pipelines", "muster-live-a-jobs", "my own")
	post("pipelines", "muster-live-b-jobs", marker("c"))
	post("pipelines", "my-muster-live-b-jobs", marker("b"))
	post("pipelines", "muster-live-run1-blocked", marker("run1"))
	post("clusters/"+cluster+"/queues", "muster-live-a", "my own")
	post("clusters/"+cluster+"/queues", "muster-live-run0", marker("run0"))
	results, err := Collect(t.Context(), c)
	must(t, err)
	if found := verdicts(results, Contradicted); found != nil {
		t.Errorf("contradicted: %q", found)
	}
	if p := s.Pipelines(); !slices.Equal(p, []string{"muster-live-a-jobs", "muster-live-b-jobs", "my-muster-live-b-jobs"}) {
		t.Errorf("the pipelines are %q", p)
	}
	if q := s.Queues(cluster); !slices.Equal(q, append(all, "muster-live-a")) {
		t.Errorf("the queues are %q", q)
	}
	if refs, err := fleet.Git("for-each-ref", "--format=%(refname)"); err != nil || refs != "refs/heads/main\nrefs/heads/muster-live/other\n" {
		t.Errorf("the refs are %q", refs)
	}
	if want := []string{"Removing the branch that an earlier run left: muster-live/run1", "Removing what earlier runs left: run0, run1"}; !slices.Equal(slices.Sorted(slices.Values(*logged)), want) {
		t.Errorf("logged is %q, want %q", *logged, want)
	}
}

// TestRemovalFails asserts that what cannot be removed is named, with the way to remove it, beside the results; and
// that nothing is created while something of an earlier run remains.
func TestRemovalFails(t *testing.T) {
	s, cluster := quiet(t)
	deny := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/deregister") {
			return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader(`{"message":"not you"}`))}, nil
		}
		return s.Transport().RoundTrip(r)
	})
	c, _ := writing(s, deny, "run1", "")
	withoutAgents(&c)
	results, err := Collect(t.Context(), c)
	if len(results) == 0 || err == nil {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for _, want := range []string{
		"not removed:", "the pipeline muster-live-run1-jobs (not you): delete it at https://buildkite.com/acme/muster-live-run1-jobs/settings",
		"the queue muster-live-run1 (not you): delete it on its page", "the stack muster-live-run1 (the status of the request is 403)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	before := s.Pipelines()
	c, _ = writing(s, deny, "run2", "")
	if _, err = Collect(t.Context(), c); err == nil || !slices.Equal(s.Pipelines(), before) {
		t.Errorf("the pipelines are %q, and the error is %v", s.Pipelines(), err)
	}
	c, _ = writing(s, s.Transport(), "run3", "")
	withoutAgents(&c)
	_, err = Collect(t.Context(), c)
	must(t, err)
	expectNothingLeft(t, s, cluster)
}

// TestWritingBudget asserts that no more requests are sent than announced, also if no condition ever occurs, and that a
// small limit of the user is respected.
func TestWritingBudget(t *testing.T) {
	for _, test := range []struct{ bug, without string }{{}, {bug: "never idle"}, {without: "state[]=scheduled"}, {without: "scheduled-jobs"}} {
		s, cluster := quiet(t)
		s.SetLimits(20, 200)
		var rest, agents, refused atomic.Int64
		c, _ := writing(s, roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/v2/") {
				rest.Add(1)
			} else {
				agents.Add(1)
			}
			response, err := s.Transport().RoundTrip(r)
			if err == nil && response.StatusCode == http.StatusTooManyRequests && strings.HasPrefix(r.URL.Path, "/v2/") {
				refused.Add(1)
			}
			if test.without != "" && strings.Contains(r.URL.RequestURI(), test.without) && !strings.Contains(r.URL.Path, "/pipelines/") {
				response.Body = io.NopCloser(strings.NewReader("[]"))
			}
			return response, err
		}), "run1", test.bug)
		_, err := Collect(t.Context(), c)
		must(t, err)
		t.Logf("%v: %d requests to REST, %d to the Agent API", test, rest.Load(), agents.Load())
		if rest.Load() > DefaultBudget+WriteRequests || agents.Load() > AgentRequests+WriteAgentRequests || refused.Load() > 0 {
			t.Errorf("%v: %d requests to REST, %d refused, %d to the Agent API", test, rest.Load(), refused.Load(), agents.Load())
		}
		expectNothingLeft(t, s, cluster)
	}
}

// TestReadingWritesNothing asserts that without the settings of writing, live only reads.
func TestReadingWritesNothing(t *testing.T) {
	s, cluster := quiet(t)
	c := configOf(s, roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		return s.Transport().RoundTrip(r)
	}))
	_, err := Collect(t.Context(), c)
	must(t, err)
	expectNothingLeft(t, s, cluster)
}

// TestWritingToAnEmptyOrganisation asserts that nothing is contradicted if no other agent is connected.
func TestWritingToAnEmptyOrganisation(t *testing.T) {
	s, cluster := quiet(t)
	for _, a := range s.Agents() {
		s.StopAgent(a.ID)
	}
	c, _ := writing(s, s.Transport(), "run1", "")
	results, err := Collect(t.Context(), c)
	must(t, err)
	if found := verdicts(results, Contradicted); found != nil {
		t.Errorf("contradicted: %q", found)
	}
	expectNothingLeft(t, s, cluster)
}

// TestScopes asserts that writing without a scope creates nothing, and names the scope.
func TestScopes(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Token: apiToken})
	s.AddAgentToken(s.AddCluster("one"), agentToken)
	c, _ := writing(s, s.Transport(), "run1", "")
	if _, err := Collect(t.Context(), c); err == nil || !strings.Contains(err.Error(), "write_pipelines, write_builds, write_clusters") {
		t.Errorf("the error is %v", err)
	}
}

// TestRefusedStart asserts what live reports before it creates anything.
func TestRefusedStart(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"agent token refused by Buildkite (401): agent tokens are on the page": func(c *Config) {
			c.AgentToken = func() (string, error) { return "other", nil }
		},
		`the repository is empty: push a first commit to branch "main"`: func(c *Config) {
			var fleet gitserver.Fleet
			c.Git, fleet = gitServer(t, nil)
			_, err := fleet.Git("update-ref", "-d", "refs/heads/main")
			must(t, err)
			c.Branch = "main"
		},
	} {
		s, cluster := quiet(t)
		c, _ := writing(s, s.Transport(), "run1", "")
		set(&c)
		if _, err := Collect(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
		expectNothingLeft(t, s, cluster)
	}
}

// gitHubLies are lies of GitHub: what it makes of a request, or of a server that is set up so.
var gitHubLies = []struct {
	belief, from, to string // in a request
	refuse           int    // of requests that are larger
	set              func(*githubtest.Server)
}{
	{belief: "github-commit-compare-and-swap", from: `"expectedHeadOid":"[0-9a-f]+"`, to: `"expectedHeadOid":"HEAD"`},
	{belief: "github-commit-input", from: `"contents":"AAEC`, to: `"contents":"AAAC`},
	{belief: "github-commit-input", from: `,"mode":"100755"`},
	{belief: "github-commit-message", from: `  Indented`, to: `Indented`},
	{belief: "github-commit-size", refuse: 1_000_000},
	{belief: "github-update-refs", from: `"beforeOid":"[0-9a-f]+"`, to: `"beforeOid":"HEAD"`},
	{belief: "github-app-commits-verified", set: (*githubtest.Server).LeaveUnsigned},
}

// TestWritingToGitHub asserts that commits by the API confirm all beliefs about them, that each lie is reported, and
// that the branch is removed.
func TestWritingToGitHub(t *testing.T) {
	for i := range len(gitHubLies) + 1 {
		s, _ := quiet(t)
		c, _ := writing(s, s.Transport(), "run1", "")
		withoutAgents(&c)
		var fleet gitserver.Fleet
		c.Git, fleet = gitServer(t, nil)
		c.Branch = "main"
		api, err := githubtest.Serve(fleet.Repository, t.TempDir(), time.Now)
		must(t, err)
		defer api.Close()
		sent := 0
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent++
			body, err := io.ReadAll(r.Body)
			must(t, err)
			if i > 0 {
				l := gitHubLies[i-1]
				head, _ := fleet.Git("rev-parse", "refs/heads/muster-live/run1")
				if l.from != "" {
					body = regexp.MustCompile(l.from).ReplaceAll(body, []byte(strings.ReplaceAll(l.to, "HEAD", strings.TrimSpace(head))))
				}
				if l.refuse > 0 && len(body) > l.refuse {
					http.Error(w, "too large", http.StatusBadGateway)
					return
				}
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			to, err := url.Parse(api.URL)
			must(t, err)
			httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
		}))
		defer front.Close()
		app := &github.App{ID: api.AppID, Installation: api.Installation, PrivateKeyFile: api.KeyFile, API: front.URL, Now: time.Now}
		c.GitHub = &GitHub{API: front.URL, Owner: githubtest.Owner, Name: githubtest.Name, Token: app.Token}
		if i > 0 && gitHubLies[i-1].set != nil {
			gitHubLies[i-1].set(api)
		}
		results, err := Collect(t.Context(), c)
		must(t, err)
		if sent > gitHubRequests || len(fleet.Requests()) > GitRequests+WriteGitRequests {
			t.Errorf("%d requests to GitHub's API, %d to git", sent, len(fleet.Requests()))
		}
		if i > 0 {
			expectContradiction(t, results, gitHubLies[i-1].belief)
		}
		for _, r := range results {
			if slices.Contains(gitHubBeliefs, r.ID) && i == 0 && r.Verdict != Confirmed {
				t.Errorf("%s is %s: %s", r.ID, r.Verdict, r.Evidence)
			}
		}
		if refs, err := fleet.Git("for-each-ref"); err != nil || strings.Contains(refs, "muster-live") {
			t.Errorf("the refs are %q", refs)
		}
	}
}
