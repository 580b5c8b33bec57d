package fakebuildkite

import "time"

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

// LoseAgent ends an agent's process without a word, as a node that dies does.
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
			a.paused = true
			a.stamp++ // the idle time-out ends: to be paused is not to be idle
			a.encoded = nil
			a.wake()
		}
	})
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
		a.encoded = nil
		a.wake()
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
