package fakebuildkite

import (
	"encoding/binary"
	"net/http"
	"strings"
)

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
