package fakebuildkite

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"muster/generator/buildkite/steptime"
)

// The states of a job, as docs pipelines/configure/defining_steps.md names
// them; finished is split into passed and failed, as REST does.
const (
	statePending         = "pending"
	stateWaiting         = "waiting"
	stateWaitingFailed   = "waiting_failed"
	stateBlocked         = "blocked"
	stateBlockedFailed   = "blocked_failed"
	stateUnblocked       = "unblocked"
	stateLimited         = "limited"
	statePlatformLimited = "platform_limited"
	stateScheduled       = "scheduled"
	stateReserved        = "reserved"
	stateAssigned        = "assigned"
	stateRunning         = "running"
	stateCanceling       = "canceling"
	statePassed          = "passed"
	stateFailed          = "failed"
	stateCanceled        = "canceled"
)

// job is one job.
type job struct {
	id      string
	seq     uint64
	build   *build
	step    *Step
	part    int // index among parallel jobs
	attempt int
	state   string
	match   []string // the rules, the default queue's among them
	queue   *queue
	stamp   int
	// reservation counts how often the job was reserved.
	reservation int

	created, scheduled, runnable, started, finished time.Time

	agent     *agent
	lagging   bool // see [Server.Lag]
	retried   bool
	retriedIn string
	group     *member
	plan      *member

	url   string // its page, once it was requested
	log   []byte // what a real agent has sent
	notes []Note // by stacks, on its page
}

func (s *Server) newJob(b *build, step *Step, part int) *job {
	j := &job{
		id:        s.id('d'),
		build:     b,
		step:      step,
		part:      part,
		state:     statePending,
		created:   s.now,
		scheduled: s.now, // defaults to created_at: docs "Job timestamps"
	}
	j.seq = s.seq
	s.jobs = append(s.jobs, j)
	s.jobByID[j.id] = j
	if step.Type != Command {
		return j
	}
	j.match, j.queue = route(b.cluster, step.Agents)
	s.rules[steptime.ID([]byte(strings.Join(j.match, "\n")))] = j.match
	s.joinGroup(j)
	return j
}

// joinGroup puts a job at the end of its concurrency group, when it has one.
func (s *Server) joinGroup(j *job) {
	if j.step.ConcurrencyGroup == "" {
		return
	}
	g := s.groups[j.step.ConcurrencyGroup]
	if g == nil {
		g = &group{}
		s.groups[j.step.ConcurrencyGroup] = g
	}
	g.limit, g.eager = max(1, j.step.Concurrency), j.step.Eager
	j.group = g.join(j)
}

// route returns the rules that an agent must satisfy and the queue to wait in.
// A job that names no queue goes to its cluster's default queue, or to
// "default" outside clusters (docs agent/queues.md).
func route(c *cluster, rules []string) ([]string, *queue) {
	match := slices.Clone(rules)
	for _, rule := range rules {
		if key, ok := strings.CutPrefix(rule, "queue="); ok {
			if key == "*" || key == "" {
				return match, c.any
			}
			return match, c.queue(key)
		}
	}
	key := c.defaultKey()
	return append(match, "queue="+key), c.queue(key)
}

// releaseJob takes a job that no step holds back any more to its concurrency
// group, to the plan's limit, and to its queue.
func (s *Server) releaseJob(j *job) {
	if j.step.Type == Trigger {
		s.trigger(j)
		return
	}
	if j.group == nil {
		s.enterPlan(j)
		return
	}
	j.state = stateLimited
	j.group.arrived = true
	s.admit(j.group.group)
}

func (s *Server) admit(g *group) {
	for _, j := range g.admit() {
		if g == s.plan {
			s.makeRunnable(j)
		} else {
			s.enterPlan(j)
		}
	}
}

func (s *Server) enterPlan(j *job) {
	if s.plan == nil {
		s.makeRunnable(j)
		return
	}
	j.state = statePlatformLimited
	j.plan = s.plan.join(j)
	j.plan.arrived = true
	s.admit(s.plan)
}

// makeRunnable sets runnable_at, which is when a job becomes eligible to run
// (docs pipelines/configure/defining_steps.md "Job timestamps"), and offers
// the job to the agents.
func (s *Server) makeRunnable(j *job) {
	j.runnable = s.now
	j.state = stateScheduled
	// "A command step job is in a scheduled state and is waiting to run on an agent":
	// docs apis/webhooks/pipelines/job_events.md.
	s.sendJobEvent("job.scheduled", j)
	s.dispatchJob(j)
}

// trigger plays a trigger step: it makes its build, by default in the same cluster, and ends with it.
func (s *Server) trigger(j *job) {
	j.runnable, j.started = s.now, s.now
	s.begin(j.build)
	j.state = stateRunning
	if j.step.Build != nil {
		spec := *j.step.Build
		spec.Cluster = cmp.Or(spec.Cluster, j.build.spec.Cluster)
		s.createBuild(spec, j)
		return
	}
	s.schedule(s.now.Add(j.step.Duration), func() {
		if j.state == stateRunning {
			s.endJob(j, true)
		}
	})
}

// assign gives a job to an agent, which takes it at its next poll.
func (s *Server) assign(j *job, a *agent) {
	s.leaveIdle(a)
	j.agent, a.job = a, j
	j.state = stateAssigned
	s.begin(j.build)
	if a.remote != nil { // it accepts and starts the job itself
		a.notify()
		return
	}
	if s.opts.Poll <= 0 {
		s.startJob(j, a)
		return
	}
	s.schedule(a.nextPoll(s.now, s.opts.Poll), func() {
		if j.state == stateAssigned && j.agent == a && !a.silent {
			s.startJob(j, a)
		}
	})
}

// begin marks a build as running once its first job has an agent.
func (s *Server) begin(b *build) {
	if b.started.IsZero() {
		b.started = s.now
	}
	if b.state == "scheduled" {
		b.state = "running"
	}
}

func (s *Server) startJob(j *job, a *agent) {
	j.started = s.now
	j.state = stateRunning
	s.sendJobEvent("job.started", j)
	if a.remote != nil {
		return
	}
	s.schedule(s.now.Add(j.step.Duration), func() {
		if j.state == stateRunning && j.agent == a && !a.silent {
			s.endJob(j, j.step.Fail >= 0 && j.attempt >= j.step.Fail)
		}
	})
}

// endJob ends a job that ran, retries it where its step asks for that, and
// frees its agent.
func (s *Server) endJob(j *job, passed bool) {
	if passed {
		s.conclude(j, statePassed)
	} else {
		s.conclude(j, stateFailed)
	}
	b := j.build
	switch {
	case passed && len(j.step.Uploads) > 0 && b.state != "canceling":
		s.upload(j)
	case passed || j.step.SoftFail:
	case j.attempt < j.step.Retries && b.state != "canceling":
		s.retry(j)
	default:
		b.failed = true
		if b.open > 0 && b.state == "running" {
			b.state = "failing"
		}
	}
	s.freeAgent(j, passed)
	s.settle(b)
}

// endCanceled ends a job that was cancelled while it ran, and frees its agent.
func (s *Server) endCanceled(j *job) {
	s.conclude(j, stateCanceled)
	s.freeAgent(j, false)
	s.settle(j.build)
}

// conclude gives a released job its last state.
func (s *Server) conclude(j *job, state string) {
	j.finished = s.now
	j.state = state
	s.sendJobEvent("job.finished", j)
	j.build.open--
	s.leaveGroups(j)
}

// leaveGroups gives up the job's places, and lets the next ones in.
func (s *Server) leaveGroups(j *job) {
	for _, m := range []**member{&j.group, &j.plan} {
		if left := *m; left != nil {
			*m = nil
			left.leave()
			s.admit(left.group)
		}
	}
}

// retry makes the job that takes the place of a failed one: with an identifier
// of its own, and the old one marked as retried (docs apis/rest_api/jobs.md
// "Retry a job").
func (s *Server) retry(j *job) *job {
	b := j.build
	again := s.newJob(b, j.step, j.part)
	again.attempt = j.attempt + 1
	j.retried, j.retriedIn = true, again.id
	b.jobs = slices.Insert(b.jobs, slices.Index(b.jobs, j)+1, again)
	b.stages[b.stage] = append(b.stages[b.stage], again)
	b.open++
	s.releaseJob(again)
	return again
}

// RetryJob retries a failed or cancelled job by hand and returns the new job's
// identifier; false when it cannot be retried: unknown, not failed, retried
// before, or of a cancelled build.
func (s *Server) RetryJob(id string) (string, bool) {
	var again *job
	s.do(func() {
		j := s.jobByID[id]
		if j == nil || j.retried || j.state != stateFailed || j.build.state == "canceled" {
			return
		}
		b := j.build
		if b.over() {
			s.reopen(b)
			for _, k := range b.jobs {
				for before, failed := range notReached {
					if k.state == failed {
						k.state = before
						s.joinGroup(k)
					}
				}
			}
		}
		b.failed = slices.ContainsFunc(b.jobs, func(k *job) bool {
			return k != j && k.state == stateFailed && !k.retried && !k.step.SoftFail
		})
		again = s.retry(j)
		s.settle(b)
	})
	if again == nil {
		return "", false
	}
	return again.id, true
}

// cancelJob cancels one job of a build that is being cancelled.
func (s *Server) cancelJob(j *job) {
	switch j.state {
	case statePending, stateWaiting, stateBlocked:
		j.finished = s.now
		j.state = stateCanceled
		s.leaveGroups(j)
	case stateLimited, statePlatformLimited, stateScheduled, stateReserved:
		s.conclude(j, stateCanceled)
	case stateAssigned:
		// Accepting it is refused and the agent keeps waiting:
		// buildkite/agent agent/agent_worker_action.go.
		a := j.agent
		j.agent = nil
		s.conclude(j, stateCanceled)
		a.job = nil
		a.notify()
		if a.spec.Acquire != "" {
			s.endAgent(a, "disconnected", EndedRejected)
			return
		}
		s.enterIdle(a)
	case stateRunning:
		j.state = stateCanceling
		end := func() {
			if j.state == stateCanceling {
				s.endCanceled(j)
			}
		}
		switch {
		case j.agent != nil && j.agent.remote != nil: // it asks, and ends its command
		case s.opts.CancelTime > 0:
			s.schedule(s.now.Add(s.opts.CancelTime), end)
		default:
			end()
		}
	}
}

// Lag keeps a job in the lists of builds and of scheduled jobs as it was before an agent
// took it, until it has finished: these lists are eventually consistent (docs
// apis/agent_api/stacks.md). The record of the agent has the job.
func (s *Server) Lag(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobByID[id].lagging = true
}

func (j *job) lags() bool { return j.lagging && j.agent != nil && j.finished.IsZero() }

// Reserve lets a stack take a runnable job out of dispatch; it reports whether
// the job was runnable (docs apis/agent_api/stacks.md). When the reservation expires,
// dispatch has the job again; zero is never.
func (s *Server) Reserve(id string, expiry time.Duration) (reserved bool) {
	s.do(func() {
		j := s.jobByID[id]
		if j == nil || j.state != stateScheduled {
			return
		}
		reserved = true
		j.state = stateReserved
		j.reservation++
		if n := j.reservation; expiry > 0 {
			s.schedule(s.now.Add(expiry), func() {
				if j.reservation == n {
					s.unreserve(j)
				}
			})
		}
	})
	return reserved
}

// FailReserved fails a job that is reserved, as a stack does whose pod ended without an agent (docs
// apis/agent_api/stacks.md).
func (s *Server) FailReserved(id string) {
	s.do(func() {
		if j := s.jobByID[id]; j != nil && j.state == stateReserved {
			s.endJob(j, false)
		}
	})
}

// Canceled reports whether a job was cancelled.
func (s *Server) Canceled(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobByID[id].state == stateCanceled
}

// Unreserve gives a reserved job back to dispatch.
func (s *Server) Unreserve(id string) {
	s.do(func() {
		if j := s.jobByID[id]; j != nil {
			s.unreserve(j)
		}
	})
}

func (s *Server) unreserve(j *job) {
	if j.state == stateReserved {
		j.state = stateScheduled
		s.dispatchJob(j)
	}
}
