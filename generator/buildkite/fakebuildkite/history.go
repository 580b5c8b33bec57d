package fakebuildkite

import (
	"slices"
	"time"
)

// JobRecord is the history of one job of type script. Future times are zero.
type JobRecord struct {
	ID, Build, Pipeline, Step, Cluster string
	// Rules are the job's agent query rules, its default queue's among them.
	Rules []string
	// State is the state as Buildkite names it internally: limited is limited.
	State    string
	Attempt  int
	Priority int
	// Agent is the identifier of the agent that took it.
	Agent string

	// Scheduled determines the order of dispatch, after the priority: see [JobRecord.Before].
	Created, Scheduled, Runnable, Started, Finished time.Time

	seq uint64
}

// Before reports whether the job is dispatched before another of its queue where both are
// runnable (docs pipelines/configure/workflows/job_priority.md "Job dispatch precedence").
func (r JobRecord) Before(other JobRecord) bool {
	return first(r.Priority, other.Priority, r.Scheduled, other.Scheduled, r.seq, other.seq)
}

// AgentRecord is the history of one agent.
type AgentRecord struct {
	ID, Name, Cluster string
	Tags              []string
	// State is the connection state as Buildkite names it.
	State string
	// Reason is the reason for which it exited, one of the Ended constants; empty while connected.
	Reason string
	// Jobs is how many jobs it has finished, Job the one it has.
	Jobs int
	Job  string
	// Idle is how long it has waited for work, in all.
	Idle time.Duration

	Connected, Ended time.Time
}

// Stats sum up everything since the start.
type Stats struct {
	// Jobs of type script: made, become runnable, started, finished.
	Jobs, Runnable, Started, Finished int
	// Agents that have connected, and how many are connected now.
	Agents, Connected int
	// Unused counts the agents that exited and never had a job.
	Unused int
	// Idle is the time all agents together have waited for work.
	Idle time.Duration
	// Limited counts the requests that were refused because of a limit.
	Limited int
}

// Jobs returns every job of type script, in order of creation.
func (s *Server) Jobs() []JobRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make([]JobRecord, 0, len(s.jobs))
	for _, j := range s.jobs {
		if j.step.Type == Command {
			records = append(records, jobRecord(j))
		}
	}
	return records
}

// Agents returns every agent that has connected, in order of connecting.
func (s *Server) Agents() []AgentRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make([]AgentRecord, 0, len(s.agents))
	for _, a := range s.agents {
		records = append(records, s.agentRecord(a))
	}
	return records
}

// Stats returns the sums.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := Stats{Agents: len(s.agents), Connected: len(s.connected), Limited: s.refused}
	for _, j := range s.jobs {
		if j.step.Type != Command {
			continue
		}
		sum.Jobs++
		sum.Runnable += count(!j.runnable.IsZero())
		sum.Started += count(!j.started.IsZero())
		sum.Finished += count(!j.finished.IsZero())
	}
	for _, a := range s.agents {
		record := s.agentRecord(a)
		sum.Idle += record.Idle
		sum.Unused += count(!a.ended.IsZero() && a.jobs == 0 && a.job == nil)
	}
	return sum
}

// BuildState returns a build's state as REST shows it, and whether it is
// blocked.
func (s *Server) BuildState(id string) (state string, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.byID[id]
	if b == nil {
		return "", false
	}
	return b.state, b.blocked
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func jobRecord(j *job) JobRecord {
	r := JobRecord{
		ID: j.id, Build: j.build.id, Pipeline: j.build.spec.Pipeline, Step: j.step.Key,
		Cluster: j.build.cluster.id, Rules: slices.Clone(j.match), State: j.state,
		Attempt: j.attempt, Priority: j.step.Priority,
		Created: j.created, Scheduled: j.scheduled, Runnable: j.runnable, Started: j.started, Finished: j.finished,
		seq: j.seq,
	}
	if j.agent != nil {
		r.Agent = j.agent.id
	}
	return r
}

func (s *Server) agentRecord(a *agent) AgentRecord {
	r := AgentRecord{
		ID: a.id, Name: a.spec.Name, Cluster: a.cluster.id, Tags: slices.Clone(a.spec.Tags),
		State: a.state, Reason: a.reason, Jobs: a.jobs, Idle: a.idle,
		Connected: a.connect, Ended: a.ended,
	}
	if a.job != nil {
		r.Job = a.job.id
	} else if a.ended.IsZero() && !a.spent {
		r.Idle += s.now.Sub(a.since)
	}
	return r
}
