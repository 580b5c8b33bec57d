// Package fakebuildkite simulates Buildkite: organisations with clusters, queues,
// builds, jobs and agents, behind the HTTP API that the real one documents, with a clock of its
// own.
//
// The life of a job, as the simulator plays it and as Buildkite documents it ("docs" is the
// repository buildkite/docs; pages are named below pages/):
//
//	pending ─► waiting / blocked       behind a wait or block step
//	        ─► limited                 its concurrency group is full
//	        ─► platform_limited        the plan's concurrency is reached
//	        ─► scheduled               runnable: an agent may take it
//	        ─► assigned ─► running     an agent whose tags satisfy every rule
//	        ─► passed / failed         and perhaps retried as a new job
//
// Source of the states: docs pipelines/configure/defining_steps.md "Job states". Comments mark
// rules that Buildkite does not document.
//
// The simulator never reads the machine's clock: [Server.Advance] moves its own. All due events
// happen then, in order of time, and in order of arrival if the time is the same. The same calls
// therefore always give the same bytes.
package fakebuildkite

import (
	"cmp"
	"container/heap"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Options are what a simulated Buildkite is made from. The zero value is an
// organisation "acme" at a fixed moment, with no limits.
type Options struct {
	// Org is the organisation's slug; empty means "acme".
	Org string
	// Token is the API access token that is accepted; empty means "test-token".
	Token string
	// Scopes are the token's scopes; nil means read_agents, read_builds and
	// read_clusters.
	Scopes []string
	// TokenExpires is the reported expiry of the token; zero is never. The token remains valid.
	TokenExpires time.Time
	// Now is where the clock starts; zero means 2026-01-05 08:00 UTC, a Monday.
	Now time.Time
	// Poll is how often an idle agent asks for work: a job is assigned at once
	// and starts at its agent's next poll. Zero starts it at once, as streaming
	// dispatch does (docs agent/self_hosted/configure/job_dispatch.md).
	Poll time.Duration
	// CancelTime is how long a running job takes to end when it is cancelled;
	// zero ends it at once.
	CancelTime time.Duration
	// PlanConcurrency is the plan's limit on jobs under way; zero means none
	// (docs pipelines/configure/defining_steps.md "Platform limits").
	PlanConcurrency int
	// UserLimit and OrgLimit are requests per minute, enforced when positive.
	// Buildkite's own are 50 and 200 (docs apis/rest_api/rate_limits.md).
	UserLimit, OrgLimit int
	// NoAgentFilter has the agents list ignore cluster_queue_id, as before July 2026
	// (buildkite/go-buildkite pull request #353 added it to the client).
	NoAgentFilter bool
	// AgentInterval is the interval, sent to real agents, of pings, heartbeats and requests about
	// the job, in whole seconds; zero means ten. The value that Buildkite sends is not documented.
	AgentInterval time.Duration
	// NoStreaming lets real agents poll.
	NoStreaming bool
	// MetricsPoll is the minimum interval of requests for the metrics in their responses, in whole
	// seconds; zero means ten, negative omits it. Buildkite's value is not documented.
	MetricsPoll time.Duration
	// MetricsAge is how long the server repeats a response of the metrics although the numbers have
	// changed; zero recounts for each request. The age of Buildkite's metrics is not documented.
	MetricsAge time.Duration
	// BlockedUnfinished leaves blocked builds without a finished_at. Docs
	// apis/rest_api/builds.md gives it to builds that passed, failed or were canceled, and in
	// "Timestamp attributes" also to paused ones. Whether a build that waits at a block step
	// has it is not documented.
	BlockedUnfinished bool
	// StackPaused makes the Stacks API report a paused queue as paused, as buildkite/stacksapi 1.0.2
	// reads it, and not as dispatch_paused, as in docs apis/agent_api/stacks.md.
	StackPaused bool
	// RESTStates makes the Stacks API report a finished job as passed or failed, as in
	// buildkite/stacksapi get_job_states_test.go, and not as finished.
	RESTStates bool
	// OnAgentEnd is called when an agent has exited, for any reason, at that simulated time. It may
	// call the server.
	OnAgentEnd func(AgentRecord)
	// OnEvent is called with the name of each webhook event at its simulated time. It may call the
	// server.
	OnEvent func(event string)
	// BeforeRequest is called before each HTTP request is served. It may call the server, for example
	// to change it between two pages.
	BeforeRequest func(*http.Request)
}

// Server is one simulated Buildkite. It is an [http.Handler], and safe for
// concurrent use.
type Server struct {
	opts Options

	mu       sync.Mutex
	now      time.Time
	seq      uint64
	events   Heap[event]
	after    []func()
	clusters []*cluster
	loose    *cluster // agents and jobs outside every cluster
	groups   map[string]*group
	plan     *group

	jobs      []*job
	jobByID   map[string]*job
	builds    []*build
	byID      map[string]*build
	numbers   map[string]int      // builds of each pipeline
	rules     map[uint64][]string // of all jobs, by steptime.ID
	pipelines []*pipeline
	active    []*build // unfinished, in order of creation
	finished  []finish // in order of finishing

	agents         []*agent // that have connected
	agentByID      map[string]*agent
	connected      []*agent // in order of connecting
	registered     int
	refusing, mute []absence // when agents are refused, and when their answers get lost
	tokens         []*agentToken

	faults  []*Fault
	invalid map[string][]string
	windows [2]window
	refused int // because of a limit

	webhooks []*Webhook

	counted map[*cluster]counted // the last metrics
	stacks  map[string]*stack
}

// New returns a simulated Buildkite with an organisation and nothing in it.
func New(opts Options) *Server {
	opts.Org = cmp.Or(opts.Org, "acme")
	opts.Token = cmp.Or(opts.Token, "test-token")
	if opts.Scopes == nil {
		opts.Scopes = []string{"read_agents", "read_builds", "read_clusters"}
	}
	if opts.Now.IsZero() {
		opts.Now = time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	}
	opts.Now = opts.Now.UTC()
	opts.AgentInterval = cmp.Or(opts.AgentInterval, 10*time.Second)
	s := &Server{
		opts:      opts,
		now:       opts.Now,
		groups:    map[string]*group{},
		jobByID:   map[string]*job{},
		byID:      map[string]*build{},
		numbers:   map[string]int{},
		rules:     map[uint64][]string{},
		agentByID: map[string]*agent{},
		invalid:   map[string][]string{},
		counted:   map[*cluster]counted{},
		stacks:    map[string]*stack{},
	}
	if opts.PlanConcurrency > 0 {
		s.plan = &group{limit: opts.PlanConcurrency, eager: true}
	}
	s.loose = newCluster("", "")
	return s
}

// SetToken replaces the API access token that is accepted.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Token = token
}

// Now returns the simulated time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Advance moves the clock on by d; see [Server.AdvanceTo].
func (s *Server) Advance(d time.Duration) { s.AdvanceTo(s.Now().Add(d)) }

// AdvanceTo moves the clock to t and runs all due events, each at its own time. A t in the past changes
// nothing.
func (s *Server) AdvanceTo(t time.Time) {
	for {
		var done bool
		s.do(func() {
			if len(s.events) > 0 && !s.events[0].at.After(t) {
				e := heap.Pop(&s.events).(event)
				s.now = e.at
				e.run()
				return
			}
			if t.After(s.now) {
				s.now = t.UTC()
			}
			done = true
		})
		if done {
			return
		}
	}
}

// Next returns the time of the next event, so that a caller can advance from event to event; false
// without one.
func (s *Server) Next() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == 0 {
		return time.Time{}, false
	}
	return s.events[0].at, true
}

// At calls f when the clock reaches t, or as soon as it moves when t is past.
// f may call the server.
func (s *Server) At(t time.Time, f func()) {
	s.do(func() { s.schedule(t, func() { s.after = append(s.after, f) }) })
}

// do runs f under the lock and then, without it, what f left to be called.
func (s *Server) do(f func()) {
	s.mu.Lock()
	f()
	s.unlock()
}

// unlock gives the lock back and then makes the calls that were left.
func (s *Server) unlock() {
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, call := range after {
		call()
	}
}

// schedule lets run happen at t, under the lock.
func (s *Server) schedule(t time.Time, run func()) {
	if t.Before(s.now) {
		t = s.now
	}
	s.seq++
	heap.Push(&s.events, event{at: t, seq: s.seq, run: run})
}

// event is a scheduled event.
type event struct {
	at  time.Time
	seq uint64
	run func()
}

// Before reports whether the event falls due before another: in the order of time, then of
// scheduling.
func (e event) Before(other event) bool {
	return cmp.Or(e.at.Compare(other.at), cmp.Compare(e.seq, other.seq)) < 0
}

// Heap is a [heap.Interface]: the first item is that which is before all others.
type Heap[T interface{ Before(T) bool }] []T

var _ heap.Interface = (*Heap[event])(nil)

// Len implements [heap.Interface].
func (h Heap[T]) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h Heap[T]) Less(i, j int) bool { return h[i].Before(h[j]) }

// Swap implements [heap.Interface].
func (h Heap[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *Heap[T]) Push(x any) { *h = append(*h, x.(T)) }

// Pop implements [heap.Interface].
func (h *Heap[T]) Pop() any {
	last := (*h)[len(*h)-1]
	clear((*h)[len(*h)-1:])
	*h = (*h)[:len(*h)-1]
	return last
}

// id returns the next identifier, in the form of a UUID: the same in every run.
func (s *Server) id(kind byte) string {
	s.seq++
	return fmt.Sprintf("%c0000000-0000-4000-8000-%012x", kind, s.seq)
}
