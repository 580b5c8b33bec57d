package fakebuildkite

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/generator/buildkite/steptime"
	"muster/generator/plan"
)

// Snapshot returns the current snapshot of a client of the HTTP API, without the API: agents, jobs and
// queues, the agents of jobs of active builds, and if since is not zero, those of builds that finished
// since. The slices of tags and rules are shared with the
// server and must not be changed.
func (s *Server) Snapshot(since time.Time) plan.Snapshot { return s.SnapshotWithTimes(nil, since) }

// SnapshotWithTimes returns a [Server.Snapshot] with the times at which upcoming jobs are due. Like a
// reader of the HTTP API, it learns from each snapshot: times is what the reader has learned.
func (s *Server) SnapshotWithTimes(times *steptime.Times, since time.Time) plan.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot := plan.Snapshot{At: s.now, Agents: make([]plan.Agent, 0, len(s.connected))}
	for _, a := range s.connected {
		snapshot.Agents = append(snapshot.Agents, a.seen())
	}
	snapshot.Jobs = make([]plan.Job, 0, len(s.active))
	snapshot.Sightings = make([]plan.Sighting, 0, len(s.connected))
	r := reading{snapshot: &snapshot, sighted: make(map[*agent]int, len(s.connected)), times: times, server: s}
	for _, b := range s.active {
		if b.state == "scheduled" || b.state == "running" || b.state == "failing" {
			r.build(b, true)
		}
	}
	if !since.IsZero() {
		from := since.UTC().Truncate(time.Second) // as finished_from is written
		for _, b := range s.candidates(nil, from) {
			if b.over() && !b.finishedAt.Before(from) {
				r.build(b, false)
			}
		}
	}
	r.tell()
	for _, c := range s.clusters {
		for _, q := range c.queues {
			snapshot.Queues = append(snapshot.Queues, plan.Queue{Cluster: c.id, ClusterName: c.name, ID: q.id, Key: q.key, Paused: q.paused, Hosted: q.hosted})
		}
	}
	return snapshot
}

// seen is the agent as the list of agents shows it.
func (a *agent) seen() plan.Agent {
	seen := plan.Agent{
		ID: a.id, Cluster: a.cluster.id, Tags: a.tags, State: plan.AgentIdle,
		Connected: inMilliseconds(a.connect), LastJobFinished: inMilliseconds(a.lastJob),
	}
	switch {
	case a.state != "connected" || a.paused:
		seen.State = plan.AgentStopping
	case a.job != nil:
		seen.State = plan.AgentBusy
	default:
		seen.IdleSince = cmp.Or(seen.LastJobFinished, seen.Connected)
	}
	return seen
}

// inMilliseconds is a time as exact as the API writes it.
func inMilliseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// reading collects jobs and sightings, build by build.
type reading struct {
	snapshot  *plan.Snapshot
	sighted   map[*agent]int // where in the snapshot's sightings
	times     *steptime.Times
	server    *Server
	predicted []predicted
}

// build reads one build; the jobs of an active one may want agents.
func (r *reading) build(b *build, active bool) {
	defer r.predict(b, len(r.snapshot.Jobs), active)
	blocked := false // a block step that was not released stands before
	broken := false  // no later step runs
	for _, j := range b.jobs {
		if j.step.Type == Block {
			blocked = blocked || j.state != stateUnblocked && j.state != stateCanceled
		}
		if j.step.Type == Wait && b.state == "failing" {
			broken = broken || j.state == stateWaiting && !j.step.ContinueOnFailure
		}
		if j.step.Type != Command {
			continue
		}
		if j.agent != nil {
			r.sight(j)
		}
		if state, wants := j.wants(blocked); active && wants && !j.retried && !(broken && state == plan.JobUpcoming) {
			r.job(b, j, state)
		}
	}
}

// sight adds the agent that a job has or had.
func (r *reading) sight(j *job) {
	running := false
	switch j.state {
	case stateAssigned, stateRunning, stateCanceling:
		running = true
	case statePassed, stateFailed, stateCanceled:
	default:
		return
	}
	i, known := r.sighted[j.agent]
	if !known {
		i = len(r.snapshot.Sightings)
		r.sighted[j.agent] = i
		sighting := plan.Sighting{Agent: j.agent.id, Name: j.agent.spec.Name, Tags: j.agent.tags}
		if len(j.agent.spec.Tags) == 0 && !j.agent.ended.IsZero() {
			sighting.Tags = nil // no listed record contains them
		}
		r.snapshot.Sightings = append(r.snapshot.Sightings, sighting)
	}
	sighting := &r.snapshot.Sightings[i]
	sighting.Running = sighting.Running || running
	started, runnable := inMilliseconds(j.started), inMilliseconds(j.runnable)
	if !j.started.IsZero() && !started.Before(runnable) && started.After(sighting.Started) {
		sighting.Started, sighting.Waited = started, started.Sub(runnable)
	}
}

// wants returns what prevents a job from running, if it may run at all.
func (j *job) wants(blocked bool) (plan.JobState, bool) {
	switch j.state {
	case stateScheduled:
		return plan.JobPending, true
	case stateLimited, statePlatformLimited, stateReserved:
		return plan.JobLimited, true
	case stateBlocked:
		return plan.JobBlocked, true
	case stateWaiting:
		if blocked {
			return plan.JobBlocked, true
		}
		return plan.JobUpcoming, true
	}
	return "", false
}

func (r *reading) job(b *build, j *job, state plan.JobState) {
	seen := plan.Job{
		ID: j.id, Cluster: b.cluster.id, Rules: j.match, State: state,
		Created: inMilliseconds(j.created), URL: r.server.pageOf(j),
	}
	if slices.Contains(seen.Rules, "*") {
		seen.Rules = slices.DeleteFunc(slices.Clone(seen.Rules), func(rule string) bool { return rule == "*" })
	}
	if state == plan.JobPending {
		seen.Since = inMilliseconds(j.runnable)
	}
	r.snapshot.Jobs = append(r.snapshot.Jobs, seen)
}

// past has a reader that has seen nothing learn from a page of the builds of the last day.
func (s *Server) past(times *steptime.Times) {
	const page = 100
	builds, _ := s.listBuilds(url.Values{"finished_from": {s.now.Add(-24 * time.Hour).UTC().Format(time.RFC3339)}})
	for _, b := range builds[:min(page, len(builds))] {
		build := steptime.Build{ID: steptime.ID([]byte(b.id))}
		for _, j := range b.jobs {
			if !j.retried {
				build.Jobs = append(build.Jobs, j.timed())
			}
		}
		times.Learn(build)
	}
}

// predicted is a build with upcoming or expected jobs, and where in the snapshot the upcoming ones are.
type predicted struct {
	build   steptime.Build
	jobs    map[int]int
	cluster *cluster
}

// predict gives the upcoming jobs of a snapshot their moments: those of a build that was
// read, from the snapshot's jobs from on.
func (r *reading) predict(b *build, from int, active bool) {
	if r.times == nil {
		return
	}
	f := predicted{build: steptime.Build{ID: steptime.ID([]byte(b.id))}, jobs: map[int]int{}, cluster: b.cluster}
	for _, j := range b.jobs {
		if from < len(r.snapshot.Jobs) && r.snapshot.Jobs[from].ID == j.id {
			if r.snapshot.Jobs[from].State == plan.JobUpcoming {
				f.jobs[len(f.build.Jobs)] = from
			}
			from++
		}
		f.build.Jobs = append(f.build.Jobs, j.timed())
	}
	r.times.Learn(f.build)
	if len(f.jobs) > 0 || f.build.Uploading() && active {
		r.predicted = append(r.predicted, f)
	}
}

// timed is what a reader of the API makes of a job for that.
func (j *job) timed() steptime.Job {
	t := steptime.Job{
		Step:     steptime.Key([]byte(j.build.spec.Pipeline), []byte(cmp.Or(j.step.Key, j.step.Label))),
		Upcoming: j.state == stateWaiting,
		Created:  inMilliseconds(j.created), Runnable: inMilliseconds(j.runnable),
		Started: inMilliseconds(j.started), Finished: inMilliseconds(j.finished),
	}
	switch j.state {
	case statePassed, stateUnblocked:
		t.Over, t.Passed = true, true
	case stateFailed:
		t.Over, t.Passed = true, j.step.SoftFail
	case stateCanceled, stateWaitingFailed, stateBlockedFailed:
		t.Over = true
	}
	switch j.step.Type {
	case Command:
		t.Rules = steptime.ID([]byte(strings.Join(j.match, "\n")))
	case Wait, Block:
		t.Barrier, t.Step = steptime.ID([]byte(j.id)), 0
	}
	return t
}

// tell writes the predicted times into the snapshot, after all builds were read.
func (r *reading) tell() {
	if r.times == nil {
		return
	}
	if r.times.Cold() {
		r.server.past(r.times)
	}
	r.times.EndPoll(r.snapshot.At)
	for _, f := range r.predicted {
		for _, p := range r.times.Predict(f.build, r.snapshot.At) {
			if p.Job < 0 {
				r.snapshot.Jobs = append(r.snapshot.Jobs, plan.Job{
					Cluster: f.cluster.id, Rules: r.server.rules[p.Rules], State: plan.JobUpcoming, Due: p.Due, Stage: p.Stage, Freed: p.Freed, Expected: true,
				})
			}
			if i, ok := f.jobs[p.Job]; ok {
				r.snapshot.Jobs[i].Due, r.snapshot.Jobs[i].Stage, r.snapshot.Jobs[i].Freed = p.Due, p.Stage, p.Freed
			}
		}
	}
}
