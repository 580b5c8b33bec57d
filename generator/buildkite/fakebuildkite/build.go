package fakebuildkite

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// StepType is the kind of a step.
type StepType string

// The kinds of step. The zero value is a command step.
const (
	// Command is run by an agent: a job of type script.
	Command StepType = ""
	// Wait holds what follows until everything before has passed: a job of
	// type waiter.
	Wait StepType = "wait"
	// Block holds what follows until a person releases it: a job of type
	// manual. See [Server.Unblock].
	Block StepType = "block"
	// Trigger makes another build: a job of type trigger, which needs no agent.
	Trigger StepType = "trigger"
)

// Step is one step of a build to create.
type Step struct {
	Type  StepType
	Key   string
	Label string
	// Agents are the agent query rules as "key=value" or "key=*"; without a
	// queue rule the job goes to the default queue.
	Agents []string
	// ContinueOnFailure, of a wait step, runs later steps although a job has failed
	// (docs pipelines/configure/step_types/wait_step.md "Continuing on failure").
	ContinueOnFailure bool
	// Parallelism makes that many jobs of the step; zero means one.
	Parallelism int
	// Priority orders jobs in the queue: higher first.
	Priority int
	// Duration is how long each job runs, or a trigger step without a Build
	// takes.
	Duration time.Duration
	// Command is what a real agent runs; for it, Duration and Fail mean nothing.
	Command string
	// Fail is how many attempts of each job fail before one passes; negative
	// fails them all.
	Fail int
	// Retries is how often a failed job is retried automatically.
	Retries int
	// SoftFail lets the build pass although the job fails.
	SoftFail bool
	// ConcurrencyGroup and Concurrency limit how many jobs of the group are
	// under way at once. Eager lets them go in any order.
	ConcurrencyGroup string
	Concurrency      int
	Eager            bool
	// Build is what a trigger step makes; the step ends with that build.
	Build *Build
	// Uploads are steps that a job of the step adds to its build when it passes, directly after the step: docs
	// agent/cli/reference/pipeline.md and pipelines/configure/dynamic-pipelines.md, "immediately after".
	Uploads []Step
}

// Build is a build to create.
type Build struct {
	// Pipeline is the pipeline's slug; empty means "app".
	Pipeline string
	// Cluster is the identifier of the pipeline's cluster; empty is unclustered.
	Cluster string
	// Branch and Message describe the build.
	Branch, Message string
	// Steps are its steps, in order.
	Steps []Step
}

// build is a build under way or finished.
type build struct {
	id      string
	order   int // among all builds
	number  int // within its pipeline: docs apis/rest_api/builds.md
	spec    Build
	cluster *cluster
	state   string
	blocked bool
	failed  bool
	parent  *job // the trigger job that made it
	deleted bool // with its pipeline

	created, started, finishedAt time.Time

	jobs     []*job   // everything, in the order the API lists it
	stages   [][]*job // jobs between barriers
	barriers []*job   // barriers[i] stands before stages[i+1]
	stage    int      // the stage under way
	open     int      // unfinished jobs released
}

// finish is an entry in the list of finished builds; stale once the build has
// been reopened.
type finish struct {
	at    time.Time
	build *build
}

// CreateBuild starts a build and returns its identifier. Jobs that nothing
// holds back are runnable at once.
func (s *Server) CreateBuild(spec Build) string {
	var id string
	s.do(func() { id = s.createBuild(spec, nil).id })
	return id
}

func (s *Server) createBuild(spec Build, parent *job) *build {
	spec.Pipeline = cmp.Or(spec.Pipeline, "app")
	spec.Branch = cmp.Or(spec.Branch, "main")
	b := &build{
		id:      s.id('b'),
		order:   len(s.builds),
		spec:    spec,
		cluster: s.cluster(spec.Cluster),
		state:   "scheduled",
		created: s.now,
		parent:  parent,
		stages:  [][]*job{nil},
	}
	s.numbers[spec.Pipeline]++
	b.number = s.numbers[spec.Pipeline]
	for i := range spec.Steps {
		s.addStep(b, &spec.Steps[i])
	}
	s.builds = append(s.builds, b)
	s.byID[b.id] = b
	s.active = append(s.active, b)
	s.release(b)
	return b
}

// addStep makes the jobs of one step.
func (s *Server) addStep(b *build, step *Step) {
	switch step.Type {
	case Wait, Block:
		j := s.newJob(b, step, 0)
		b.jobs = append(b.jobs, j)
		b.barriers = append(b.barriers, j)
		b.stages = append(b.stages, nil)
	case Command, Trigger:
		for i := range max(1, step.Parallelism) {
			j := s.newJob(b, step, i)
			b.jobs = append(b.jobs, j)
			last := len(b.stages) - 1
			b.stages[last] = append(b.stages[last], j)
		}
	default:
		panic(fmt.Sprintf("fakebuildkite: unknown step type %q", step.Type))
	}
}

// upload adds the steps that a job uploads directly after its step. Jobs of its stage that follow do not
// wait for them: they are runnable.
func (s *Server) upload(j *job) {
	b, stage := j.build, j.build.stage
	last := len(b.jobs) - 1
	for b.jobs[last].step != j.step {
		last--
	}
	jobs, barriers, stages := slices.Clone(b.jobs[last+1:]), slices.Clone(b.barriers[stage:]), slices.Clone(b.stages[stage+1:])
	open := len(b.stages[stage])
	b.jobs, b.barriers, b.stages = b.jobs[:last+1], b.barriers[:stage], b.stages[:stage+1]
	for i := range j.step.Uploads {
		s.addStep(b, &j.step.Uploads[i])
	}
	b.jobs, b.barriers, b.stages = append(b.jobs, jobs...), append(b.barriers, barriers...), append(b.stages, stages...)
	b.open += len(b.stages[stage]) - open
	s.hold(b)
	for _, added := range slices.Clone(b.stages[stage][open:]) {
		s.releaseJob(added)
	}
}

// release lets the jobs of the stage under way go.
func (s *Server) release(b *build) {
	b.open = len(b.stages[b.stage])
	s.hold(b)
	for _, j := range slices.Clone(b.stages[b.stage]) {
		if j.state == statePending || j.state == stateWaiting || j.state == stateBlocked {
			s.releaseJob(j)
		}
	}
	s.settle(b)
}

// hold sets the states of what stands behind the stage under way.
func (s *Server) hold(b *build) {
	for i, j := range b.barriers[b.stage:] {
		// What stands behind the first barrier not passed waits for it.
		state := stateWaiting
		if i == 0 && j.step.Type == Block && b.open == 0 {
			state = stateBlocked
		}
		j.state = state
	}
	for i, stage := range b.stages[b.stage+1:] {
		state := stateWaiting
		if i == 0 && b.barriers[b.stage].step.Type == Block {
			state = stateBlocked // waits on a block step: docs "Job states"
		}
		for _, j := range stage {
			j.state = state
		}
	}
}

// settle moves a build on when the jobs of its stage have finished: past a
// wait step, up to a block step, or to its end.
func (s *Server) settle(b *build) {
	if b.open > 0 || b.over() {
		return
	}
	switch {
	case b.state == "canceling":
		s.finishBuild(b, "canceled")
	case b.failed && (b.stage == len(b.barriers) || !b.barriers[b.stage].step.ContinueOnFailure):
		s.breakRest(b)
		s.finishBuild(b, "failed")
	case b.stage == len(b.barriers):
		s.finishBuild(b, "passed")
	case b.barriers[b.stage].step.Type == Wait:
		if b.failed {
			b.state = "failing"
		}
		s.pass(b)
	default:
		s.blockBuild(b)
	}
}

// pass takes a build past the barrier it stands at.
func (s *Server) pass(b *build) {
	barrier := b.barriers[b.stage]
	state := statePassed
	if barrier.step.Type == Block {
		state = stateUnblocked
	}
	barrier.finished = s.now
	barrier.state = state
	b.stage++
	s.release(b)
}

// blockBuild stops a build at a block step. The build keeps its last state, such as "passed", and
// has blocked: true in addition (docs apis/rest_api/builds.md,
// pipelines/configure/_build_states.md); finished_at is then set.
func (s *Server) blockBuild(b *build) {
	b.barriers[b.stage].state = stateBlocked
	b.blocked = true
	s.finishBuild(b, "passed")
}

// Unblock releases the block step that a build stands at; it reports whether
// there was one.
func (s *Server) Unblock(buildID string) bool {
	var released bool
	s.do(func() {
		b := s.byID[buildID]
		if b == nil || !b.blocked {
			return
		}
		released = true
		s.reopen(b)
		s.sendJobEvent("job.activated", b.barriers[b.stage])
		s.pass(b)
	})
	return released
}

// CancelBuild cancels a build: what has not started is cancelled at once, what
// runs within the time the options give it.
func (s *Server) CancelBuild(buildID string) {
	s.do(func() {
		if b := s.byID[buildID]; b != nil {
			s.cancelBuild(b)
		}
	})
}

func (s *Server) cancelBuild(b *build) {
	if b.over() && !b.blocked {
		return
	}
	if b.blocked {
		s.reopen(b)
	}
	b.state = "canceling"
	for _, j := range slices.Clone(b.jobs) {
		s.cancelJob(j)
	}
	s.settle(b)
}

// notReached are the states of jobs that a build has not reached when it fails, by their
// states before.
var notReached = map[string]string{stateWaiting: stateWaitingFailed, stateBlocked: stateBlockedFailed}

// breakRest marks the jobs that a failed build did not reach.
func (s *Server) breakRest(b *build) {
	for _, j := range b.jobs {
		if failed, ok := notReached[j.state]; ok {
			j.state = failed
			s.leaveGroups(j)
		}
	}
}

// over reports whether the build is in the list of finished builds.
func (b *build) over() bool { return !b.finishedAt.IsZero() }

func (s *Server) finishBuild(b *build, state string) {
	b.state = state
	b.finishedAt = s.now
	if i, ok := s.findActive(b); ok {
		s.active = slices.Delete(s.active, i, i+1)
	}
	s.finished = append(s.finished, finish{at: s.now, build: b})
	if b.parent != nil && b.parent.state == stateRunning && !b.blocked {
		s.endJob(b.parent, state == "passed")
	}
}

// reopen takes a build back among the active ones: unblocked, or a job of it
// retried (docs pipelines/configure/defining_steps.md "Builds with job
// retries").
func (s *Server) reopen(b *build) {
	b.blocked = false
	b.state = "running"
	b.finishedAt = time.Time{}
	if i, ok := s.findActive(b); !ok {
		s.active = slices.Insert(s.active, i, b)
	}
}

func (s *Server) findActive(b *build) (int, bool) {
	return slices.BinarySearchFunc(s.active, b, func(x, y *build) int {
		return x.order - y.order
	})
}
