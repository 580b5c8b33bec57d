package fakebuildkite_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// ask sends a request, as in "GET https://api.buildkite.com/v2/access-token", and returns
// the response with its body. An empty authorization sends none.
func ask(t *testing.T, s *fakebuildkite.Server, authorization, request, body string) (*http.Response, string) {
	t.Helper()
	method, url, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	response, err := s.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// get asks the REST API and returns the answer with its body.
func get(t *testing.T, s *fakebuildkite.Server, token, path string) (*http.Response, string) {
	t.Helper()
	return ask(t, s, "Bearer "+token, "GET https://api.buildkite.com/v2/"+path, "")
}

// askAgentAPI asks the Agent API, as in "GET metrics", and returns the answer with its body,
// which is decoded if into is not nil.
func askAgentAPI(t *testing.T, s *fakebuildkite.Server, token, request, body string, into any) (*http.Response, string) {
	t.Helper()
	authorization := ""
	if token != "" {
		authorization = "Token " + token
	}
	response, text := ask(t, s, authorization, strings.Replace(request, " ", " https://agent.example/v3/", 1), body)
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v: %s", request, err, text)
		}
	}
	return response, text
}

// ids returns the identifiers of a list.
func ids(t *testing.T, body string) []string {
	t.Helper()
	var list []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var ids []string
	for _, record := range list {
		ids = append(ids, record.ID)
	}
	return ids
}

func TestStatuses(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Scopes: []string{"read_agents", "read_builds"}})
	for _, test := range []struct {
		token, path string
		want        int
	}{
		{"test-token", "access-token", 200},
		{"test-token", "organizations/acme/agents", 200},
		{"test-token", "organizations/acme/builds?page=2", 200},
		{"test-token", "organizations/acme/builds?finished_from=yesterday", 400},
		{"test-token", "organizations/acme/clusters", 403},
		{"test-token", "organizations/acme/agents/none", 404},
		{"test-token", "organizations/acme/pipelines", 403},
		{"test-token", "organizations/acme/emojis", 404},
		{"test-token", "organizations/other/agents", 404},
		{"test-token", "nothing", 404},
		{"wrong", "organizations/acme/agents", 401},
		{"", "access-token", 401},
	} {
		response, body := get(t, s, test.token, test.path)
		if response.StatusCode != test.want || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s, want %d and JSON", test.path, response.StatusCode, body, test.want)
		}
	}
}

// TestPaging: 30 a page by default, at most 100, with links.
func TestPaging(t *testing.T) {
	s := newServer()
	var newestFirst []string
	for range 250 {
		newestFirst = slices.Insert(newestFirst, 0, s.CreateBuild(build{Steps: []step{{}}}))
	}
	for _, test := range []struct {
		query    string
		from, to int
		link     string // relations and pages
	}{
		{"", 0, 30, "next=2 last=9"},
		{"?page=9", 240, 250, "first=1 prev=8"},
		{"?per_page=100&page=2", 100, 200, "first=1 prev=1 next=3 last=3"},
		{"?per_page=500", 0, 100, "next=2 last=3"},
		{"?page=10", 250, 250, "first=1 prev=9"},
		{"?page=-1&per_page=x", 0, 30, "next=2 last=9"},
	} {
		response, body := get(t, s, "test-token", "organizations/acme/builds"+test.query)
		if got, want := ids(t, body), newestFirst[test.from:test.to]; !slices.Equal(got, want) {
			t.Errorf("%q: got builds %v, want %v", test.query, got, want)
		}
		var links []string
		for _, link := range strings.Split(response.Header.Get("Link"), ", ") {
			address, rel, _ := strings.Cut(link, ">; rel=")
			u, err := url.Parse(strings.TrimPrefix(address, "<"))
			if err != nil {
				t.Fatal(err)
			}
			links = append(links, strings.Trim(rel, `"`)+"="+u.Query().Get("page"))
		}
		if got := strings.Join(links, " "); got != test.link {
			t.Errorf("%q: links %q, want %q", test.query, got, test.link)
		}
	}
}

func TestBuildFilters(t *testing.T) {
	s := newServer()
	connect(t, s, agent{})
	passed := s.CreateBuild(build{Steps: []step{{Duration: time.Minute}}})
	s.Advance(time.Hour)
	failed := s.CreateBuild(build{Steps: []step{{Duration: time.Minute, Fail: -1, Retries: 1}}})
	blocked := s.CreateBuild(build{Steps: []step{{Type: fakebuildkite.Block}, {}}})
	s.Advance(time.Hour)
	running := s.CreateBuild(build{Steps: []step{{Duration: time.Hour}}})
	scheduled := s.CreateBuild(build{Steps: []step{{}}})
	canceled := s.CreateBuild(build{Steps: []step{{}}})
	s.CancelBuild(canceled)
	for _, test := range []struct {
		query string
		want  []string
	}{
		{"", []string{canceled, scheduled, running, blocked, failed, passed}},
		{"?state[]=scheduled&state[]=running&state[]=failing", []string{scheduled, running}},
		{"?state=scheduled", []string{scheduled}},
		{"?state=finished", []string{canceled, blocked, failed, passed}},
		{"?state=blocked", []string{blocked}},
		{"?state=passed", []string{blocked, passed}},
		{"?finished_from=2026-01-05T08:30:00Z", []string{canceled, blocked, failed}},
		{"?finished_from=2026-01-05T10:00:00Z&state=canceled", []string{canceled}},
		{"?finished_from=2026-01-05T10:00:01Z", nil},
	} {
		_, body := get(t, s, "test-token", "organizations/acme/builds"+test.query)
		if got := ids(t, body); !slices.Equal(got, test.want) {
			t.Errorf("%q: got %v, want %v", test.query, got, test.want)
		}
	}
	_, without := get(t, s, "test-token", "organizations/acme/builds?state=failed")
	_, with := get(t, s, "test-token", "organizations/acme/builds?state=failed&include_retried_jobs=true")
	if strings.Count(without, `"type":"script"`) != 1 || strings.Count(with, `"type":"script"`) != 2 {
		t.Errorf("retried jobs are listed only when asked for:\n%s\n%s", without, with)
	}
}

// TestAgentList: the list holds connected and stopping agents, while a lost or
// disconnected one can still be asked for by itself.
func TestAgentList(t *testing.T) {
	s := newServer()
	gone := connect(t, s, agent{IdleTimeout: time.Second})
	busy := connect(t, s, agent{Tags: []string{"os=x"}})
	s.CreateBuild(build{Steps: []step{{Agents: []string{"os=x"}, Duration: time.Hour}}})
	s.StopAgent(busy)
	lost := connect(t, s, agent{Priority: 3})
	s.LoseAgent(lost)
	s.Advance(time.Minute)
	_, body := get(t, s, "test-token", "organizations/acme/agents")
	if got, want := ids(t, body), []string{lost, busy}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if strings.Count(body, `"connection_state":"stopping"`) != 1 || strings.Count(body, `"job":{`) != 1 {
		t.Errorf("one is stopping and has a job: %s", body)
	}
	s.Advance(time.Hour)
	for id, want := range map[string]string{gone: "disconnected", busy: "stopped", lost: "lost"} {
		if _, body := get(t, s, "test-token", "organizations/acme/agents/"+id); !strings.Contains(body, `"connection_state":"`+want+`"`) {
			t.Errorf("agent is %s, want %s", body, want)
		}
	}
}

func TestRateLimits(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: start, UserLimit: 2, OrgLimit: 10})
	ask := func() (int, string, string) {
		response, body := get(t, s, "test-token", "access-token")
		h := response.Header
		return response.StatusCode, fmt.Sprint(h["Ratelimit-User-Remaining"], h["Ratelimit-User-Reset"], h["Ratelimit-Remaining"], h["Ratelimit-Limit"]), body
	}
	for i, want := range []string{"[1] [60] [9] [10]", "[0] [60] [8] [10]"} {
		if status, got, _ := ask(); status != 200 || got != want {
			t.Errorf("request %d: %d %s, want %s", i, status, got, want)
		}
	}
	s.Advance(18 * time.Second)
	status, _, body := ask()
	want := `{"current":3,"limit":2,"message":"You have exceeded your API rate limit. Please wait 42 seconds before making more requests.","reset":42,"scope":"rest_user"}`
	if status != 429 || body != want {
		t.Errorf("%d %s, want %s", status, body, want)
	}
	s.Advance(42 * time.Second)
	s.Spend(10)
	if status, _, body := ask(); status != 429 || !strings.Contains(body, `"scope":"rest"`) {
		t.Errorf("with the organisation's limit spent: %d %s", status, body)
	}
}
