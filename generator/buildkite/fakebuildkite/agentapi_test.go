package fakebuildkite_test

import (
	"net/http"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// The published agent speaks this API in testdata/agent; here are the cases that
// it would take minutes to play, or cannot.

// apiAgent is an agent that speaks to the server over HTTP.
type apiAgent struct {
	t     *testing.T
	s     *fakebuildkite.Server
	token string
}

func newAPIAgent(t *testing.T, s *fakebuildkite.Server) *apiAgent {
	t.Helper()
	s.AddAgentToken("", "registration")
	a := &apiAgent{t: t, s: s, token: "registration"}
	var got struct {
		Token string `json:"access_token"`
	}
	a.ask(http.StatusOK, "POST register", `{"name":"%hostname-1","hostname":"pod","priority":"2","meta_data":["os=linux"]}`, &got)
	a.token = got.Token
	return a
}

// ask makes one request, as in "POST connect".
func (a *apiAgent) ask(want int, request, body string, into any) {
	a.t.Helper()
	if response, text := askAgentAPI(a.t, a.s, a.token, request, body, into); response.StatusCode != want {
		a.t.Fatalf("%s: %s, want %d: %s", request, response.Status, want, text)
	}
}

// TestAPIAgentIsLost: without heartbeats it is lost after three minutes, at the
// next full one, and its job with it.
func TestAPIAgentIsLost(t *testing.T) {
	s := newServer()
	a := newAPIAgent(t, s)
	a.ask(http.StatusOK, "POST connect", "", nil)
	s.CreateBuild(build{Steps: []step{{}}})
	id := s.Jobs()[0].ID
	a.ask(http.StatusOK, "PUT jobs/"+id+"/accept", "", nil)
	a.ask(http.StatusOK, "PUT jobs/"+id+"/start", "{}", nil)
	for range 10 {
		s.Advance(time.Minute + time.Second)
		a.ask(http.StatusOK, "POST heartbeat", "{}", nil)
	}
	wantStates(t, s, "running")
	s.Advance(3 * time.Minute)
	wantStates(t, s, "running")
	s.Advance(time.Minute)
	wantStates(t, s, "failed")
	if got := s.Agents()[0]; got.Reason != fakebuildkite.EndedLost {
		t.Errorf("the agent is %+v", got)
	}
}

// TestAPIAgentLeavesItsJob: what it was given and did not accept goes to another.
func TestAPIAgentLeavesItsJob(t *testing.T) {
	s := newServer()
	a := newAPIAgent(t, s)
	a.ask(http.StatusOK, "POST connect", "", nil)
	s.CreateBuild(build{Steps: []step{{Duration: time.Minute}}})
	wantStates(t, s, "assigned")
	var ping struct {
		Job struct{ ID string }
	}
	if a.ask(http.StatusOK, "GET ping", "", &ping); ping.Job.ID != s.Jobs()[0].ID {
		t.Errorf("the ping names job %q", ping.Job.ID)
	}
	a.ask(http.StatusOK, "POST disconnect", "", nil)
	wantStates(t, s, "scheduled")
	connect(t, s, agent{})
	wantStates(t, s, "running")
	a.ask(http.StatusUnprocessableEntity, "PUT jobs/"+s.Jobs()[0].ID+"/accept", "", nil)
}

// TestAPIRefuses: the answers that end an agent, and those that do not.
func TestAPIRefuses(t *testing.T) {
	s := newServer()
	a := newAPIAgent(t, s)
	s.RefuseAgents(s.Now(), s.Now().Add(time.Minute))
	a.ask(http.StatusServiceUnavailable, "POST connect", "", nil)
	s.Advance(time.Minute)
	a.ask(http.StatusOK, "POST connect", "", nil)
	a.ask(http.StatusUnprocessableEntity, "POST connect", "", nil)
	a.ask(http.StatusNotFound, "GET jobs/none", "", nil)
	a.ask(http.StatusNotFound, "GET nothing", "", nil)
	if got := s.Agents()[0].Name; got != "pod-1" {
		t.Errorf("the agent is called %q", got)
	}
	for _, token := range []string{"", "registration", "session-", "session-none", connect(t, s, agent{})} {
		b := &apiAgent{t: t, s: s, token: token}
		b.ask(http.StatusUnauthorized, "GET ping", "", nil)
	}
	b := &apiAgent{t: t, s: s, token: "other"}
	b.ask(http.StatusUnauthorized, "POST register", "{}", nil)
}
