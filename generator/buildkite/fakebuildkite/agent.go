package fakebuildkite

import (
	"cmp"
	"slices"
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
	// Acquire is --acquire-job: the agent takes this job and no other, regardless of its rules and
	// reservations. It exits when the job has finished, and at once if the job is not available
	// (exit code 27; buildkite/agent core/client.go, AcquireJob).
	Acquire string
	// Uptime is --disconnect-after-uptime: so long after it connected the agent
	// leaves, or when its job is over; zero means never. Read and run with
	// buildkite-agent 3.138.2 (agent/agent_worker_action.go, docs/explanation/agent-job.md):
	// the time runs from when it connected, an idle agent leaves at once, and one that
	// is paused and has no job when it is resumed.
	Uptime time.Duration
	// Linger is how long an agent with AfterJob stays connected, without a job, after it has
	// finished its only one. It takes no further job: it sends ignore_agent_in_dispatches when it
	// finishes the job. With zero the agent exits at once, like an agent that streams with 3.128 or
	// later. An agent that polls leaves at its next ping,
	// 2.1 to 8.9 seconds later, and one that streams with 3.122 to 3.127 when the stream is renewed, 57
	// to 60 seconds later (docs/explanation/agent-job.md; buildkite/agent pull request 3994).
	Linger time.Duration
}

// The reasons for which an agent has left.
const (
	// EndedAfterJob exited after its one job.
	EndedAfterJob = "job"
	// EndedIdle exited because it had no job for too long.
	EndedIdle = "idle"
	// EndedUptime exited because its uptime ended.
	EndedUptime = "uptime"
	// EndedStopped is an agent that was stopped by a request.
	EndedStopped = "stopped"
	// EndedRejected was to acquire a job that was not available.
	EndedRejected = "rejected"
	// EndedLost is an agent that was silent for too long.
	EndedLost = "lost"
)

// agent is an agent, connected or not.
type agent struct {
	id      string
	seq     uint64
	spec    Agent
	cluster *cluster
	queues  []*queue
	tags    []string // the queue's among them

	state   string // never_connected, connected, stopping, disconnected, stopped, lost
	silent  bool   // its process has ended, but it is not yet marked as lost
	spent   bool   // it has had its one job, and takes no other
	old     bool   // its uptime is over: it takes no other job
	paused  bool
	remote  *remote // set if it is a real agent
	job     *job
	jobs    int
	stamp   int // moves on whenever the agent becomes idle or busy
	idle    time.Duration
	reason  string
	created time.Time // registered
	connect time.Time
	since   time.Time // idle since, while idle
	ended   time.Time
	success time.Time // of its last job that passed
	lastJob time.Time
}

// mayWork reports whether the agent would take a job now.
func (a *agent) mayWork() bool {
	return a.state == "connected" && a.job == nil && !a.silent && !a.paused && !a.spent && a.spec.Acquire == "" && !a.old
}

// compare orders agents as they are given work: higher priority, then the
// more recent success, then the longer connected (docs
// agent/self_hosted/prioritization.md; the last is not documented).
func (a *agent) compare(b *agent) int {
	return cmp.Or(cmp.Compare(b.spec.Priority, a.spec.Priority), b.success.Compare(a.success), cmp.Compare(a.seq, b.seq))
}

// nextPoll is the agent's next ping after now.
func (a *agent) nextPoll(now time.Time, every time.Duration) time.Time {
	return a.connect.Add((now.Sub(a.connect)/every + 1) * every)
}

// enterIdle makes an agent wait for work, from now on.
func (s *Server) enterIdle(a *agent) {
	a.stamp++
	a.since = s.now
	for _, q := range a.queues {
		i, _ := slices.BinarySearchFunc(q.idle, a, (*agent).compare)
		q.idle = slices.Insert(q.idle, i, a)
	}
	s.dispatchAgent(a)
	s.startIdleTimeout(a)
}

// acquire gives an agent the job that it was started for.
func (s *Server) acquire(a *agent) {
	if a.state != "connected" || a.silent {
		return
	}
	j := s.jobByID[a.spec.Acquire]
	if j == nil || j.state != stateScheduled && j.state != stateReserved {
		s.endAgent(a, "disconnected", EndedRejected)
		return
	}
	s.assign(j, a)
}

// startIdleTimeout begins an idle agent's idle time-out, from now on.
func (s *Server) startIdleTimeout(a *agent) {
	if a.spec.IdleTimeout <= 0 || a.job != nil || a.paused {
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
	a.stamp++
	a.idle += s.now.Sub(a.since)
	for _, q := range a.queues {
		if i, ok := slices.BinarySearchFunc(q.idle, a, (*agent).compare); ok {
			q.idle = slices.Delete(q.idle, i, i+1)
		}
	}
}

// freeAgent lets the agent of a finished job continue or exit.
func (s *Server) freeAgent(j *job, passed bool) {
	a := j.agent
	if a == nil || a.job != j {
		return
	}
	a.job = nil
	a.jobs++
	a.lastJob = s.now
	if passed {
		a.success = s.now
	}
	switch {
	case a.silent:
	case a.state == "stopping":
		if a.remote == nil { // a real agent disconnects by itself
			s.endAgent(a, "stopped", EndedStopped)
		}
	case a.spec.AfterJob || a.spec.Acquire != "":
		s.linger(a)
	case a.old:
		s.endAgent(a, "disconnected", EndedUptime)
	default:
		s.enterIdle(a)
	}
}

// startUptime begins the uptime of an agent that has connected.
func (s *Server) startUptime(a *agent) {
	if a.spec.Uptime <= 0 {
		return
	}
	s.schedule(s.now.Add(a.spec.Uptime), func() {
		a.old = true
		if a.job == nil && !a.spent && !a.silent && !a.paused && a.state == "connected" {
			s.endAgent(a, "disconnected", EndedUptime)
		}
	})
}

// linger keeps an agent connected for a while after its one job. A paused one stays until it is
// resumed.
func (s *Server) linger(a *agent) {
	a.spent = true
	end := func() {
		if !a.silent && !a.paused {
			s.endAgent(a, "disconnected", EndedAfterJob)
		}
	}
	switch {
	case a.remote != nil: // it disconnects by itself
	case a.spec.Linger > 0:
		s.schedule(s.now.Add(a.spec.Linger), end)
	default:
		end()
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
	a.notify()
	a.stamp++
	if i := slices.Index(s.connected, a); i >= 0 {
		s.connected = slices.Delete(s.connected, i, i+1)
		s.sendAgentEvent("agent."+state, a)
	}
	if s.opts.OnAgentEnd != nil {
		record := s.agentRecord(a)
		s.after = append(s.after, func() { s.opts.OnAgentEnd(record) })
	}
}

// waits reports whether the agent stands in the idle list of its queues.
func (a *agent) waits() bool {
	return slices.ContainsFunc(a.queues, func(q *queue) bool { return slices.Contains(q.idle, a) })
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
		if a.job == nil && a.remote == nil {
			s.endAgent(a, "stopped", EndedStopped)
			return
		}
		a.state = "stopping"
		s.sendAgentEvent("agent.stopping", a)
		a.notify()
	})
}

// lostSweep is how often Buildkite looks for agents that are silent: an agent
// without a heartbeat for three minutes "is marked as lost within the next 60
// seconds" (docs agent/lifecycle.md "Troubleshooting"). When it looks is not
// documented: here on each full minute since the start.
const lostSweep = time.Minute

// lostAfter is how long an agent may be silent before it is lost: same page.
const lostAfter = 3 * time.Minute

// noticed returns when an agent whose last message arrived at t is marked as lost.
func (s *Server) noticed(t time.Time) time.Time {
	since := t.Add(lostAfter).Sub(s.opts.Now)
	return s.opts.Now.Add((since + lostSweep - 1) / lostSweep * lostSweep)
}

// LoseAgent kills an agent's process, as the loss of a node does.
// Buildkite lists it as connected until it has been silent for too long; then
// it is lost, and its job has failed. Its last heartbeat was sent now.
func (s *Server) LoseAgent(id string) {
	s.do(func() {
		a := s.agentByID[id]
		if a == nil || a.silent || a.state == "never_connected" || !a.ended.IsZero() {
			return
		}
		a.silent = true
		s.schedule(s.noticed(s.now), func() { s.loseAgent(a) })
	})
}

func (s *Server) loseAgent(a *agent) {
	j := a.job
	s.endAgent(a, "lost", EndedLost)
	if j != nil && (j.state == stateAssigned || j.state == stateRunning) {
		s.endJob(j, false)
	}
}

// PauseAgent stops dispatch to one agent; an ephemeral agent then stays
// connected until it is resumed (docs agent/self_hosted/pausing_and_resuming.md).
func (s *Server) PauseAgent(id string) {
	s.do(func() {
		if a := s.agentByID[id]; a != nil && a.state == "connected" {
			s.pauseAgent(a)
		}
	})
}

func (s *Server) pauseAgent(a *agent) {
	a.paused = true
	a.stamp++ // the idle time-out ends: to be paused is not to be idle
	a.notify()
}

// ResumeAgent undoes [Server.PauseAgent]. An agent that has had its one job
// leaves then, so does one whose uptime is over, and one that waits for a job begins a
// fresh idle time-out: run with buildkite-agent 3.138.2, see docs/explanation/agent-job.md. (The page above says that an
// idle ephemeral agent leaves, which only the first of the two does.)
func (s *Server) ResumeAgent(id string) {
	s.do(func() {
		a := s.agentByID[id]
		if a == nil || !a.paused {
			return
		}
		a.paused = false
		a.notify()
		switch {
		case a.job != nil || a.remote != nil && a.spent:
		case a.spent:
			s.endAgent(a, "disconnected", EndedAfterJob)
		case a.old:
			s.endAgent(a, "disconnected", EndedUptime)
		default:
			s.dispatchAgent(a)
			s.startIdleTimeout(a)
		}
	})
}
