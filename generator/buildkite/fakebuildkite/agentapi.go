package fakebuildkite

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The Agent API, as far as buildkite-agent start needs it: a real agent can be
// pointed at [Server.ServeHTTP] with --endpoint …/v3. Only the tokens are
// documented (docs agent/self_hosted/tokens.md); every request and answer is
// read in buildkite/agent 3.138.2, api/*.go, and was exchanged with that agent
// by the tests in testdata/agent. The texts of refusals are this package's own.
//
// A real agent lives in real time: the caller moves the clock along with it
// (see [Server.AdvanceTo]). Its jobs take as long as their commands do.

// remote is Buildkite's state of an agent that connects over HTTP.
type remote struct {
	heard  time.Time     // its last heartbeat
	change chan struct{} // wakes its stream
	build  string        // its version
}

// notify notifies a streaming real agent of a change.
func (a *agent) notify() {
	if a.remote == nil {
		return
	}
	select {
	case a.remote.change <- struct{}{}:
	default:
	}
}

// AddAgentToken makes a token with which agents register in a cluster, by the
// cluster's identifier; empty is unclustered (docs agent/self_hosted/tokens.md).
func (s *Server) AddAgentToken(clusterID, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, &agentToken{
		id: fmt.Sprintf("70000000-0000-4000-8000-%012d", len(s.tokens)+1), value: token, cluster: s.cluster(clusterID),
	})
}

// agentToken is an agent token (docs apis/rest_api/clusters/agent_tokens.md "Token data model").
type agentToken struct {
	id, value string
	cluster   *cluster
	expires   time.Time // zero: never
}

// ExpireAgentToken sets the time from which an agent token is rejected; zero means never.
func (s *Server) ExpireAgentToken(token string, expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		if t.value == token {
			t.expires = expires
		}
	}
}

// clusterOf returns the cluster of an agent token; false if the token is rejected. Expired
// tokens are (docs apis/rest_api/clusters/agent_tokens.md, expires_at;
// apis/agent_api/stacks.md "Error responses": "Missing, invalid, or expired token").
func (s *Server) clusterOf(token string) (*cluster, bool) {
	for _, t := range s.tokens {
		if t.value == token && (t.expires.IsZero() || s.now.Before(t.expires)) {
			return t.cluster, true
		}
	}
	return nil, false
}

// listTokens lists the agent tokens of a cluster, without their values (docs
// apis/rest_api/clusters/agent_tokens.md "List tokens"). That expires_at is null for a
// token that does not expire is documented in docs
// apis/graphql/schemas/object/clustertoken.md only.
func (s *Server) listTokens(r *http.Request, c *cluster) answer {
	var records [][]byte
	for _, t := range s.tokens {
		if t.cluster == c {
			records = append(records, encode(map[string]any{
				"id": t.id, "description": "Agents of " + c.name, "allowed_ip_addresses": "0.0.0.0/0", "expires_at": stamp(t.expires),
			}))
		}
	}
	return s.page(r, "tokens", len(records), func(i int) []byte { return records[i] })
}

// JobLog returns what a real agent has sent of a job's log.
func (s *Server) JobLog(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobByID[id]; j != nil {
		return string(j.log)
	}
	return ""
}

// sessionToken is what an agent shows once it is registered.
func (a *agent) sessionToken() string { return "session-" + a.id }

// call is one request of an agent.
type call struct {
	agent *agent
	body  []byte
	job   *job
	gzip  bool
}

// decode reads the request; missing or invalid values are zero.
func (c call) decode(into any) { _ = json.Unmarshal(c.body, into) }

// answerAgent authenticates an agent's request and routes it.
func (s *Server) answerAgent(r *http.Request, body []byte) answer {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Token ")
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v3/"), "/")
	if path[0] == "metrics" || path[0] == "stacks" {
		return s.answerPublic(r, token, path, body)
	}
	if route := r.Method + " " + path[0]; route == "POST register" || route == "POST connect" {
		if s.within(s.refusing) {
			return message(http.StatusServiceUnavailable, "Service Unavailable")
		}
	}
	if r.Method == http.MethodPost && path[0] == "register" {
		c, ok := s.clusterOf(token)
		if !ok {
			return message(http.StatusUnauthorized, "Invalid agent token")
		}
		reply := s.apiRegister(c, body)
		if s.within(s.mute) {
			return message(http.StatusGatewayTimeout, "Gateway Timeout")
		}
		return reply
	}
	c := call{agent: s.agentByID[strings.TrimPrefix(token, "session-")], body: body}
	if c.agent == nil || c.agent.remote == nil || token != c.agent.sessionToken() {
		return message(http.StatusUnauthorized, "Invalid access token")
	}
	c.gzip = r.Header.Get("Content-Encoding") == "gzip"
	key := r.Method + " " + path[0]
	if path[0] == "jobs" && len(path) > 1 {
		if c.job = s.jobByID[path[1]]; c.job == nil {
			return message(http.StatusNotFound, "No job found")
		}
		path[1] = "ID"
		key = r.Method + " " + strings.Join(path, "/")
	}
	handle, ok := agentCalls[key]
	if !ok {
		return message(http.StatusNotFound, "Not Found")
	}
	reply, err := handle(s, c)
	if err != nil {
		return message(http.StatusUnprocessableEntity, err.Error())
	}
	return answer{status: http.StatusOK, body: encode(reply)}
}

// The public part of the Agent API: metrics and stacks. Both take an agent token, as
// "Token …", and show what is in its cluster (docs apis/agent_api.md
// "Authentication", agent/self_hosted/tokens.md).

// answerPublic authenticates a request with an agent token and routes it.
func (s *Server) answerPublic(r *http.Request, token string, path []string, body []byte) answer {
	c, ok := s.clusterOf(token)
	switch {
	case token == "":
		// The text was seen by buildkite-agent-metrics' users.
		return message(http.StatusUnauthorized, "Eeep! You forgot to pass an agent registration token")
	case !ok:
		return message(http.StatusUnauthorized, "Invalid agent token")
	case path[0] == "stacks":
		return s.answerStack(r, c, path[1:], body)
	case len(path) == 1 && r.Method == http.MethodGet:
		return s.answerMetrics(c)
	}
	return message(http.StatusNotFound, "Not Found")
}

// none is an answer without content.
type none struct{}

// agentCalls are the requests of an agent that has registered.
var agentCalls = map[string]func(*Server, call) (any, error){
	"POST connect":              (*Server).apiConnect,    // api/agents.go Connect
	"POST disconnect":           (*Server).apiDisconnect, // api/agents.go Disconnect
	"POST stop":                 (*Server).apiStop,       // api/agents.go Stop
	"GET ping":                  (*Server).apiPing,       // api/pings.go Ping
	"POST heartbeat":            (*Server).apiHeartbeat,  // api/heartbeats.go Heartbeat
	"GET jobs/ID":               (*Server).apiJobState,   // api/jobs.go GetJobState
	"PUT jobs/ID/accept":        (*Server).apiAccept,     // api/jobs.go AcceptJob
	"PUT jobs/ID/start":         (*Server).apiStart,      // api/jobs.go StartJob
	"PUT jobs/ID/finish":        (*Server).apiFinish,     // api/jobs.go FinishJob
	"POST jobs/ID/chunks":       (*Server).apiChunk,      // api/chunks.go UploadChunk
	"POST jobs/ID/header_times": (*Server).apiNothing,    // api/header_times.go SaveHeaderTimes
}

func (s *Server) apiNothing(call) (any, error) { return none{}, nil }

// apiRegister is api/agents.go Register. Buildkite replaces %hostname in the
// name, and the priority is a string: run with buildkite-agent 3.138.2, see
// docs/explanation/agent-job.md. An agent that cannot be taken gets 422, and ends.
func (s *Server) apiRegister(c *cluster, body []byte) answer {
	var request struct {
		Name     string   `json:"name"`
		Hostname string   `json:"hostname"`
		Priority string   `json:"priority"`
		Version  string   `json:"version"`
		Tags     []string `json:"meta_data"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return message(http.StatusUnprocessableEntity, "the registration is no JSON")
	}
	priority, err := strconv.Atoi(request.Priority)
	if err != nil && request.Priority != "" {
		return message(http.StatusUnprocessableEntity, "the priority is no number")
	}
	a, err := s.registerAgent(Agent{
		Name:    strings.ReplaceAll(request.Name, "%hostname", request.Hostname),
		Cluster: c.id, Tags: request.Tags, Priority: priority,
	})
	if err != nil {
		return message(http.StatusUnprocessableEntity, err.Error())
	}
	a.remote = &remote{change: make(chan struct{}, 1), build: request.Version}
	return answer{status: http.StatusOK, body: encode(map[string]any{
		"id": a.id, "name": a.spec.Name, "access_token": a.sessionToken(), "meta_data": a.tags,
		"ping_interval":       s.opts.AgentInterval / time.Second,
		"heartbeat_interval":  s.opts.AgentInterval / time.Second,
		"job_status_interval": s.opts.AgentInterval / time.Second,
	})}
}

func (s *Server) apiConnect(c call) (any, error) {
	if c.agent.state != "never_connected" {
		return nil, fmt.Errorf("the agent is %s", c.agent.state)
	}
	c.agent.remote.heard = s.now
	s.connectAgent(c.agent)
	s.watch(c.agent)
	return none{}, nil
}

// watch lets an agent be lost when its heartbeats stop.
func (s *Server) watch(a *agent) {
	heard := a.remote.heard
	s.schedule(s.noticed(heard), func() {
		switch {
		case !a.ended.IsZero():
		case a.remote.heard.Equal(heard):
			a.silent = true
			s.loseAgent(a)
		default:
			s.watch(a)
		}
	})
}

// apiDisconnect disconnects an agent. A job that it has not accepted goes to another.
func (s *Server) apiDisconnect(c call) (any, error) {
	a, j := c.agent, c.agent.job
	a.silent = true // says no more
	switch {
	case a.state == "stopping":
		s.endAgent(a, "stopped", EndedStopped)
	case a.spent:
		s.endAgent(a, "disconnected", EndedAfterJob)
	default:
		s.endAgent(a, "disconnected", EndedIdle)
	}
	switch {
	case j == nil:
	case j.state == stateAssigned:
		a.job, j.agent = nil, nil
		j.state = stateScheduled
		s.dispatchJob(j)
	case j.state == stateRunning || j.state == stateCanceling:
		s.endJob(j, false)
	}
	return none{}, nil
}

// apiStop says that an agent finishes its job and leaves: it was sent SIGTERM.
func (s *Server) apiStop(c call) (any, error) {
	if c.agent.state == "connected" {
		c.agent.state = "stopping"
	}
	return none{}, nil
}

// order is what an agent is to do next: the action of a ping and of a message
// on the stream.
func (a *agent) order() (action string, j *job) {
	switch {
	case !a.ended.IsZero() || a.state == "stopping":
		return "disconnect", nil
	case a.paused:
		return "pause", nil
	case a.job != nil && a.job.state == stateAssigned:
		return "", a.job
	}
	return "", nil
}

func (s *Server) apiPing(c call) (any, error) {
	action, j := c.agent.order()
	reply := map[string]any{"action": action}
	if j != nil {
		reply["job"] = map[string]any{"id": j.id, "state": j.apiState()}
	}
	return reply, nil
}

func (s *Server) apiHeartbeat(c call) (any, error) {
	var beat struct {
		SentAt string `json:"sent_at"`
	}
	c.decode(&beat)
	c.agent.remote.heard = s.now
	return map[string]string{"sent_at": beat.SentAt, "received_at": s.now.Format(time.RFC3339Nano)}, nil
}

// errNotYours answers an agent that accepts, starts or finishes a job that it
// does not have, as when it was cancelled meanwhile.
var errNotYours = errors.New("the job is not this agent's")

// Streaming dispatch (docs agent/self_hosted/configure/job_dispatch.md): one
// gRPC call whose answer is a message for each change. The service is
// buildkite/agent api/proto/agentedge.proto; its four messages are small enough
// to be written here without a library.

// streamPath is the path of the request by which an agent gets notifications of its jobs.
const streamPath = "/agentedge.v1.AgentEdgeService/StreamPings"

// The fields of StreamPingsResponse.
const (
	fieldResume      = 2
	fieldPause       = 3
	fieldDisconnect  = 4
	fieldJobAssigned = 5
)

// stream serves one agent's stream until it or the agent ends. An agent that is
// answered with 404 polls from then on.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Token ")
	s.mu.Lock()
	a := s.agentByID[strings.TrimPrefix(token, "session-")]
	s.mu.Unlock()
	if s.opts.NoStreaming || a == nil || a.remote == nil || token != a.sessionToken() {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	sent := ""
	for {
		s.mu.Lock()
		frame, over := a.message(), !a.ended.IsZero()
		s.mu.Unlock()
		if string(frame) != sent {
			sent = string(frame)
			if _, err := w.Write(frame); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush() // the agent has gone: seen below
		}
		if over {
			break
		}
		select {
		case <-a.remote.change:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// message is the agent's order as one gRPC message, length first.
func (a *agent) message() []byte {
	action, j := a.order()
	var content []byte
	switch {
	case action == "disconnect":
		content = field(fieldDisconnect, nil)
	case action == "pause":
		content = field(fieldPause, nil)
	case j != nil:
		content = field(fieldJobAssigned, field(1, field(1, []byte(j.id))))
	default:
		content = field(fieldResume, nil)
	}
	frame := make([]byte, 5, 5+len(content))
	binary.BigEndian.PutUint32(frame[1:], uint32(len(content)))
	return append(frame, content...)
}

// field is a field of a protocol buffer that holds bytes, fewer than 128.
func field(number byte, content []byte) []byte {
	return append([]byte{number<<3 | 2, byte(len(content))}, content...)
}
