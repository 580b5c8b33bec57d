package fakebuildkite

import (
	"cmp"
	"net/http"
	"strings"
)

// Fault is a fault of requests.
type Fault struct {
	// Path is a part of the path and query that a request must have to be hit,
	// as in "/builds" or "page=2"; empty hits every request.
	Path string
	// Skip is how many matching requests pass before the first is hit.
	Skip int
	// Times is how many requests are hit; zero means one, negative all.
	Times int
	// Hits draws whether a matching request is hit; nil hits each.
	Hits func() bool
	// Status answers with this status and a message.
	Status int
	// Body, with or without Status, is sent instead of the answer.
	Body string
	// Header is added to the answer.
	Header http.Header
	// Half sends half of the answer and breaks off. Cut breaks off before it.
	Half, Cut bool
	// Hang never answers: it ends when the caller gives up.
	Hang bool
	// Trickle sends a byte a second, through [Server.Transport] alone.
	Trickle bool
}

// Fail adds a fault from now on. Faults apply in the order of their addition; one request is hit by at
// most one fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = cmp.Or(f.Times, 1)
	s.faults = append(s.faults, &f)
}

// Recover removes all faults.
func (s *Server) Recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// AddInvalid adds a record, as raw JSON, to every page of the list: "agents",
// "builds", "clusters", "queues", or "jobs" for the jobs of every build.
func (s *Server) AddInvalid(list, raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invalid[list] = append(s.invalid[list], raw)
}

// fault returns the fault that hits a request, or nil.
func (s *Server) fault(uri string) *Fault {
	for _, f := range s.faults {
		if f.Times == 0 || !strings.Contains(uri, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Hits != nil && !f.Hits() {
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		return f
	}
	return nil
}
