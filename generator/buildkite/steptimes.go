package buildkite

import (
	"bytes"
	"context"
	"net/url"
	"slices"
	"time"

	"muster/generator/buildkite/steptime"
	"muster/generator/plan"
)

// learnStepTimes sets whether snapshots predict when upcoming jobs become runnable. The client
// then learns how long steps take. Without it, the default, it forgets them.
func (c *Client) learnStepTimes(on bool) {
	switch {
	case !on || c.cfg.Stacks != nil: // which lists no upcoming jobs
		c.times, c.kinds, c.pastRead = nil, nil, false
	case c.times == nil:
		c.times, c.kinds = &steptime.Times{}, map[uint64][]string{}
	}
}

// time adds a job to those of its build.
func (r *buildReader) time(j *jobRecord) error {
	if r.s.client.times == nil {
		return nil
	}
	state := string(j.State)
	t := steptime.Job{
		Upcoming: state == "waiting", Over: ended(state),
		Created: r.created.of(j.CreatedAt), Runnable: r.runnable.of(j.RunnableAt),
		Started: r.started.of(j.StartedAt), Finished: r.finished.of(j.FinishedAt),
	}
	switch state {
	case "passed", "finished", "broken", "skipped": // the last two were left out
		t.Passed = true
	case "failed":
		t.Passed = bool(j.SoftFailed)
	}
	switch string(j.Type) {
	case "waiter", "manual":
		t.Barrier, t.Over = steptime.ID(j.ID), released(state)
	default:
		if string(j.Type) == script {
			var err error
			if t.Rules, err = r.kind(j); err != nil {
				return err
			}
		}
		step := j.Key
		if len(step) == 0 {
			step = j.Name
		}
		if pipeline, _, ok := bytes.Cut(j.WebURL, []byte("/builds/")); ok {
			t.Step = steptime.Key(pipeline[bytes.LastIndexByte(pipeline, '/')+1:], step)
		}
	}
	r.timed = append(r.timed, t)
	return nil
}

// maxKinds is the maximum number of different rules of jobs that are kept. Beyond it, all are forgotten: a job is not
// expected until a build with its rules is read again.
const maxKinds = maxWords

// kind returns the identifier of the agents that can take a job in the cluster of its build, and keeps the job's rules.
func (r *buildReader) kind(j *jobRecord) (uint64, error) {
	kinds := r.s.client.kinds
	id := steptime.ID(j.Rules)
	if _, known := kinds[id]; !known {
		rules, err := r.list(j.Rules)
		if err != nil {
			return id, err
		}
		if len(kinds) >= maxKinds {
			clear(kinds)
		}
		kinds[id] = rules
	}
	return id, nil
}

// learn learns step times from a build, and keeps its jobs if some of them are upcoming or expected.
func (r *buildReader) learn(id text, b *readBuild) error {
	times := r.s.client.times
	if times == nil {
		return nil
	}
	build := steptime.Build{ID: steptime.ID([]byte(id)), Jobs: r.timed}
	times.Learn(build)
	if build.Uploading() || slices.ContainsFunc(b.jobs, func(j keptJob) bool { return j.State == plan.JobUpcoming }) {
		build.Jobs = append([]steptime.Job(nil), r.timed...)
		b.timed = &build
		return r.s.keep(len(r.timed))
	}
	return nil
}

// pastPage is how far back a client reads a first page of finished builds.
const pastPage = 24 * time.Hour

// readPast reads, once and with one request, one page of the builds that finished last. So
// the client knows the steps of most builds from the start. A failure is logged and otherwise
// has no effect.
func (s *session) readPast(ctx context.Context) error {
	c := s.client
	if c.times == nil || c.pastRead {
		return nil
	}
	l := &listing{path: s.path("builds"), query: url.Values{
		"finished_from":    {s.poll.begun.Add(-pastPage).UTC().Format(time.RFC3339)},
		"exclude_pipeline": {"true"},
	}}
	kept := s.poll.kept
	_, err := s.readPage(ctx, l, func(d *decoder) (string, error) {
		id, _, _, err := s.reader.read(d)
		s.poll.kept = kept // nothing is
		return string(id), err
	})
	if waits(err) {
		return err
	}
	if err != nil {
		c.cfg.Log.Info("the builds of the last day cannot be read: step durations are learned from later builds", "error", err)
	}
	c.pastRead = true
	return nil
}

// predict returns predictions for the upcoming jobs of a build, by their index in its jobs, and the jobs that the build
// is expected to add.
func (s *session) predict(b *readBuild) (upcoming map[int]steptime.Prediction, expected []keptJob) {
	if b.timed == nil || s.client.times == nil {
		return nil, nil
	}
	upcoming = map[int]steptime.Prediction{}
	for _, p := range s.client.times.Predict(*b.timed, s.poll.begun) {
		if p.Job >= 0 {
			upcoming[p.Job] = p
		} else if rules, known := s.client.kinds[p.Rules]; known {
			expected = append(expected, keptJob{Job: plan.Job{Rules: rules, State: plan.JobUpcoming, Due: p.Due, Stage: p.Stage, Freed: p.Freed, Expected: true}})
		}
	}
	return upcoming, expected
}

// endPoll ends a poll for the recorder of step times.
func (c *Client) endPoll() {
	if c.times == nil {
		return
	}
	c.mu.Lock()
	now := c.elapsed()
	c.mu.Unlock()
	c.times.EndPoll(now)
}
