package fakebuildkite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How often and how long an agent tries to register, when it is answered with 429 or
// 5xx or not at all: buildkite/agent core/client.go, Register of 3.138.2, and run, see docs/explanation/agent-job.md.
const (
	registerTries = 30
	registerEvery = 10 * time.Second
)

// The errors of an agent that does not start.
var (
	// ErrUnavailable is every answer while Buildkite refuses agents; they try again.
	ErrUnavailable = errors.New("503: Buildkite answers no agent now")
	// ErrLeaseOver ended an agent that registered after its lease.
	ErrLeaseOver = errors.New("the hook agent-startup: the lease is over")
)

// absence is a time without responses to agents.
type absence struct{ from, until time.Time }

// RefuseAgents makes every attempt to register or to connect fail from one time until another, as in an
// outage of Buildkite or the network. Connected agents stay connected.
func (s *Server) RefuseAgents(from, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = append(s.refusing, absence{from, until})
}

// LoseAnswers drops the responses to agents that register, from one time until another: Buildkite has
// registered the agent, which registers again. The first of the two stays registered and never connects.
// Source: buildkite/agent core/client.go, Register of 3.138.2, as after 5xx.
func (s *Server) LoseAnswers(from, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = append(s.mute, absence{from, until})
}

func (s *Server) within(times []absence) bool {
	return slices.ContainsFunc(times, func(a absence) bool {
		return !s.now.Before(a.from) && s.now.Before(a.until)
	})
}

// Start is one run of buildkite-agent start, up to its connecting.
type Start struct {
	Agent Agent
	// NotAfter is what the agent's hook agent-startup compares the clock with,
	// between registering and connecting; zero means that there is no hook.
	NotAfter time.Time
	// Skew is how far the hook's clock is ahead.
	Skew time.Duration
	// Done is called at the simulated moment at which the agent has connected,
	// with its identifier, or has given up, with the reason: then its process
	// has ended with exit code 1. It may call the server.
	Done func(id string, err error)
}

// Start plays the start of an agent: it registers, tries again while it is
// refused, runs its hook, and connects at once: an agent that was started within its lease may register
// almost five minutes later. The
// function that is returned ends the process before it has connected.
func (s *Server) Start(start Start) (stop func()) {
	r := &run{server: s, start: start}
	s.do(func() { r.register(1) })
	return func() { s.do(func() { r.stopped = true }) }
}

// run is an agent that is starting.
type run struct {
	server  *Server
	start   Start
	stopped bool
}

func (r *run) register(try int) {
	s := r.server
	if s.within(s.refusing) {
		r.again(try)
		return
	}
	a, err := s.registerAgent(r.start.Agent)
	switch {
	case err == nil && s.within(s.mute):
		r.again(try)
	case err != nil: // 422, say: not tried again
		r.done("", err)
	case !r.start.NotAfter.IsZero() && s.now.Add(r.start.Skew).Truncate(time.Second).After(r.start.NotAfter):
		r.done("", ErrLeaseOver) // it stays registered, and has never connected
	default:
		s.connectAgent(a)
		r.done(a.id, nil)
	}
}

// again retries the registration, or gives up.
func (r *run) again(try int) {
	s := r.server
	if try == registerTries {
		r.done("", ErrUnavailable)
		return
	}
	s.schedule(s.now.Add(registerEvery), func() {
		if !r.stopped {
			r.register(try + 1)
		}
	})
}

func (r *run) done(id string, err error) {
	if r.start.Done != nil {
		r.server.after = append(r.server.after, func() { r.start.Done(id, err) })
	}
}

// Connect registers an agent, connects it at once and returns its identifier.
// In a cluster, an agent whose queue does not exist or is hosted, or who names
// none where there is no default queue, is refused: it never appears (docs
// agent/queues.md "Clusters without a default self-hosted queue configured").
func (s *Server) Connect(spec Agent) (string, error) {
	var id string
	var err error
	s.do(func() {
		var a *agent
		if s.within(s.refusing) {
			err = ErrUnavailable
		} else if a, err = s.registerAgent(spec); err == nil {
			s.connectAgent(a)
			id = a.id
		}
	})
	return id, err
}

func (s *Server) registerAgent(spec Agent) (*agent, error) {
	c := s.cluster(spec.Cluster)
	spec.Tags = slices.Clone(spec.Tags)
	tags := slices.Clone(spec.Tags)
	var queues []*queue
	for _, tag := range tags {
		if key, ok := strings.CutPrefix(tag, "queue="); ok {
			queues = append(queues, c.queue(key))
		}
	}
	if len(queues) == 0 {
		if c.id != "" && c.def == nil {
			return nil, fmt.Errorf("registering agent: the cluster %q has no default queue", c.name)
		}
		tags = append(tags, "queue="+c.defaultKey())
		queues = append(queues, c.queue(c.defaultKey()))
	}
	if c.id != "" && (len(queues) > 1 || queues[0].id == "") {
		return nil, fmt.Errorf("registering agent: one queue of the cluster %q is wanted, not %v", c.name, tags)
	}
	if queues[0].hosted {
		return nil, fmt.Errorf("registering agent: the queue %q is for Buildkite hosted agents", queues[0].key)
	}
	a := &agent{
		id: s.id('a'), spec: spec, cluster: c, queues: queues, tags: tags,
		state: "never_connected", created: s.now,
	}
	a.seq = s.seq
	s.registered++
	a.spec.Name = cmp.Or(a.spec.Name, fmt.Sprintf("agent-%d", s.registered))
	s.agentByID[a.id] = a
	return a, nil
}

func (s *Server) connectAgent(a *agent) {
	a.state, a.connect = "connected", s.now
	s.agents = append(s.agents, a)
	s.connected = append(s.connected, a)
	s.sendAgentEvent("agent.connected", a)
	s.enterIdle(a)
	if a.spec.Acquire != "" {
		s.schedule(s.now, func() { s.acquire(a) }) // once it is known that it has connected
	}
	s.startUptime(a)
}
