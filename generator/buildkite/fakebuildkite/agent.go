package fakebuildkite

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Agent is an agent to connect, in the words of buildkite-agent start (docs
// agent/cli/reference/start.md).
type Agent struct {
	// Name is shown; empty means "agent-" and a number.
	Name string
	// Cluster is the identifier of the cluster of its token; empty is
	// unclustered.
	Cluster string
	// Tags are its tags as "key=value". In a cluster the queue tag names one
	// queue; outside, there may be several.
	Tags []string
	// Priority is --priority: higher is given work first.
	Priority int
	// IdleTimeout is --disconnect-after-idle-timeout; zero means never.
	IdleTimeout time.Duration
	// AfterJob is --disconnect-after-job.
	AfterJob bool
}

// The reasons for which an agent has left.
const (
	// EndedAfterJob left after its one job.
	EndedAfterJob = "job"
	// EndedIdle left because no job came.
	EndedIdle = "idle"
	// EndedStopped was told to stop.
	EndedStopped = "stopped"
	// EndedLost was not heard of for too long.
	EndedLost = "lost"
)

// agent is an agent, connected or gone.
type agent struct {
	id      string
	seq     uint64
	spec    Agent
	cluster *cluster
	queues  []*queue
	tags    []string // the queue's among them

	state   string // connected, stopping, disconnected, stopped, lost
	silent  bool   // its process is gone, and Buildkite does not know yet
	paused  bool
	job     *job
	jobs    int
	stamp   int // moves on whenever the agent becomes idle or busy
	idle    time.Duration
	reason  string
	connect time.Time
	since   time.Time // idle since, while idle
	ended   time.Time
	success time.Time // of its last job that passed
	lastJob time.Time

	encoded []byte
}

// Connect registers an agent and returns its identifier. In a cluster, an
// agent whose queue does not exist, or who names none where there is no
// default queue, is refused: it never appears (docs agent/queues.md "Clusters
// without a default self-hosted queue configured").
func (s *Server) Connect(spec Agent) (string, error) {
	var a *agent
	var err error
	s.do(func() { a, err = s.connectAgent(spec) })
	if err != nil {
		return "", err
	}
	return a.id, nil
}

func (s *Server) connectAgent(spec Agent) (*agent, error) {
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
	a := &agent{
		id: s.id('a'), spec: spec, cluster: c, queues: queues, tags: tags,
		state: "connected", connect: s.now,
	}
	a.seq = s.seq
	if a.spec.Name == "" {
		a.spec.Name = fmt.Sprintf("agent-%d", len(s.agents)+1)
	}
	s.agents = append(s.agents, a)
	s.agentByID[a.id] = a
	s.connected = append(s.connected, a)
	s.enterIdle(a)
	return a, nil
}

// mayWork reports whether the agent would take a job now.
func (a *agent) mayWork() bool {
	return a.state == "connected" && a.job == nil && !a.silent && !a.paused
}

// before reports whether a is given work before b: higher priority, then the
// more recent success, then the longer connected (docs
// agent/self_hosted/prioritization.md; the last is not documented).
func (a *agent) before(b *agent) bool { return a.compare(b) < 0 }

func (a *agent) compare(b *agent) int {
	switch {
	case a.spec.Priority != b.spec.Priority:
		return b.spec.Priority - a.spec.Priority
	case !a.success.Equal(b.success):
		return b.success.Compare(a.success)
	case a.seq < b.seq:
		return -1
	case a.seq > b.seq:
		return 1
	}
	return 0
}

// nextPoll is the agent's next ping after now.
func (a *agent) nextPoll(now time.Time, every time.Duration) time.Time {
	return a.connect.Add((now.Sub(a.connect)/every + 1) * every)
}

// enterIdle makes an agent wait for work, from now on.
func (s *Server) enterIdle(a *agent) {
	a.encoded = nil
	a.stamp++
	a.since = s.now
	for _, q := range a.queues {
		i, _ := slices.BinarySearchFunc(q.idle, a, (*agent).compare)
		q.idle = slices.Insert(q.idle, i, a)
	}
	s.dispatchAgent(a)
	if a.spec.IdleTimeout <= 0 || a.job != nil {
		return
	}
	stamp := a.stamp
	s.schedule(s.now.Add(a.spec.IdleTimeout), func() {
		if a.stamp == stamp && !a.silent && !a.paused && a.ended.IsZero() {
			s.endAgent(a, "disconnected", EndedIdle)
		}
	})
}

// leaveIdle takes an agent out of the queues it waits in.
func (s *Server) leaveIdle(a *agent) {
	a.encoded = nil
	a.stamp++
	a.idle += s.now.Sub(a.since)
	for _, q := range a.queues {
		if i, ok := slices.BinarySearchFunc(q.idle, a, (*agent).compare); ok {
			q.idle = slices.Delete(q.idle, i, i+1)
		}
	}
}

// freeAgent lets the agent of a finished job go on, or go.
func (s *Server) freeAgent(j *job, passed bool) {
	a := j.agent
	if a == nil || a.job != j {
		return
	}
	a.job = nil
	a.jobs++
	a.lastJob = s.now
	a.encoded = nil
	if passed {
		a.success = s.now
	}
	switch {
	case a.silent:
	case a.state == "stopping":
		s.endAgent(a, "stopped", EndedStopped)
	case a.spec.AfterJob && !a.paused:
		s.endAgent(a, "disconnected", EndedAfterJob)
	default:
		s.enterIdle(a)
	}
}

// endAgent takes an agent out of the list of connected agents.
func (s *Server) endAgent(a *agent, state, reason string) {
	if !a.ended.IsZero() {
		return
	}
	if a.waits() {
		s.leaveIdle(a)
	}
	a.state, a.reason, a.ended = state, reason, s.now
	a.stamp++
	a.encoded = nil
	if i := slices.Index(s.connected, a); i >= 0 {
		s.connected = slices.Delete(s.connected, i, i+1)
	}
	if s.opts.OnAgentEnd != nil {
		record := s.agentRecord(a)
		s.after = append(s.after, func() { s.opts.OnAgentEnd(record) })
	}
}

// waits reports whether the agent stands in the idle list of its queues.
func (a *agent) waits() bool {
	for _, q := range a.queues {
		if _, ok := slices.BinarySearchFunc(q.idle, a, (*agent).compare); ok {
			return true
		}
	}
	return false
}

// StopAgent tells an agent to take no more jobs: it leaves at once when idle
// and after its job otherwise, and is listed as stopping until then (docs
// apis/rest_api/agents.md "Stop an agent", without force).
func (s *Server) StopAgent(id string) {
	s.do(func() {
		a := s.agentByID[id]
		if a == nil || a.state != "connected" {
			return
		}
		if a.job == nil {
			s.endAgent(a, "stopped", EndedStopped)
			return
		}
		a.state = "stopping"
		a.encoded = nil
	})
}

// PauseAgent stops dispatch to one agent; an ephemeral agent then stays
// connected until it is resumed (docs agent/self_hosted/pausing_and_resuming.md).
func (s *Server) PauseAgent(id string) {
	s.do(func() {
		if a := s.agentByID[id]; a != nil && a.state == "connected" {
			a.paused = true
			a.encoded = nil
		}
	})
}

// ResumeAgent undoes [Server.PauseAgent]. An ephemeral agent that is idle
// leaves when it is resumed: same page.
func (s *Server) ResumeAgent(id string) {
	s.do(func() {
		a := s.agentByID[id]
		if a == nil || !a.paused {
			return
		}
		a.paused = false
		a.encoded = nil
		switch {
		case a.job != nil:
		case a.spec.AfterJob || a.spec.IdleTimeout > 0:
			s.endAgent(a, "disconnected", EndedIdle)
		default:
			s.dispatchAgent(a)
		}
	})
}

// LoseAgent ends an agent's process without a word, as a node that dies does.
// Buildkite lists it as connected until it has been silent for too long; then
// it is lost, and its job has failed.
func (s *Server) LoseAgent(id string) {
	s.do(func() {
		a := s.agentByID[id]
		if a == nil || a.silent || !a.ended.IsZero() {
			return
		}
		a.silent = true
		s.schedule(s.now.Add(s.opts.LostAfter), func() {
			j := a.job
			s.endAgent(a, "lost", EndedLost)
			if j != nil && (j.state == stateAssigned || j.state == stateRunning) {
				s.endJob(j, false)
			}
		})
	})
}
