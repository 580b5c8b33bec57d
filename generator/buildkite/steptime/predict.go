package steptime

import (
	"strconv"
	"time"
)

// Prediction is the prediction for one upcoming job.
type Prediction struct {
	// Job is its index in [Build].Jobs.
	Job int
	// Due is when the job can run; zero if not known.
	Due time.Time
	// Stage identifies the jobs that become runnable at the same time: those of the build behind
	// the same wait step, or the copies of a step that waits for others by depends_on.
	Stage string
	// Freed reports that an agent of an earlier job of the build, with the same rules, has no job by then, unless it
	// takes one of another build.
	Freed bool
}

// Predict returns when the upcoming jobs of a build can run. Jobs behind a wait step can run
// when all jobs before it have ended. How long a job will wait for an agent is unknown: a job that
// has not started is assumed to start now, or when it can run. A job that no wait step holds back
// waits for others by depends_on, which REST does not contain: it is due as long after its
// creation as in other builds.
func (t *Times) Predict(b Build, now time.Time) []Prediction {
	var all []Prediction
	p := pass{ready: now, known: time.Unix(0, 0), agents: agents{}}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if j.Barrier != 0 {
			p.barrier, p.closed, p.ready, p.before = j.Barrier, !j.Over, latest(p.end, now), p.known
			p.agents.pass()
			continue
		}
		s, ready := t.steps[j.Step], p.ready
		if j.Upcoming {
			prediction := Prediction{Job: i, Stage: name(b.ID, p.barrier)}
			switch {
			case s != nil && s.lag.applies(j):
				ready = now.Add(s.lag.left(now.Sub(j.Created)))
				prediction.Due = ready
				prediction.Stage = name(b.ID, j.Step)
			case p.closed && made(j, p.before):
				prediction.Due = p.ready
			}
			prediction.Freed = p.agents.free(j.Rules, prediction.Stage, p.closed)
			all = append(all, prediction)
		}
		p.agents.add(j)
		p.next(j, s, ready, now)
	}
	return all
}

// pass is the state of an iteration over the jobs of a build.
type pass struct {
	barrier uint64    // the last one
	closed  bool      // the barrier has not been passed
	ready   time.Time // when the jobs behind the barrier can run
	before  time.Time // since when all steps before the barrier are known; zero if they are not
	end     time.Time // end of all jobs so far
	known   time.Time // since when all steps so far are known; zero if they are not
	agents  agents
}

// agents counts, by the rules of jobs, those that the jobs of a build have or will have.
type agents map[uint64]*agentsOf

type agentsOf struct {
	before   int            // the most of a stage before the last barrier
	here     int            // of the jobs since
	runnable int            // of them, those that have an agent or need one now
	ahead    map[string]int // upcoming jobs by stage
}

func (a agents) of(rules uint64) *agentsOf {
	if a[rules] == nil {
		a[rules] = &agentsOf{ahead: map[string]int{}}
	}
	return a[rules]
}

// pass passes a barrier.
func (a agents) pass() {
	for _, n := range a {
		n.before, n.here, n.runnable = max(n.before, n.here), 0, 0
	}
}

// free reports whether an agent of an earlier job is free for an upcoming job: one of those before the barrier, and for
// one that waits by depends_on, of those that run.
func (a agents) free(rules uint64, stage string, closed bool) bool {
	if rules == 0 {
		return false
	}
	n := a.of(rules)
	n.ahead[stage]++
	if closed {
		return n.ahead[stage] <= n.before
	}
	return n.ahead[stage] <= max(n.before, n.runnable)
}

// add adds a job.
func (a agents) add(j *Job) {
	if j.Rules == 0 || j.Over || !j.Upcoming && j.Runnable.IsZero() {
		return
	}
	n := a.of(j.Rules)
	n.here++
	if !j.Upcoming {
		n.runnable++
	}
}

// next adds a job, which can run at ready if it has not started.
func (p *pass) next(j *Job, s *step, ready, now time.Time) {
	if s == nil || s.length.since.IsZero() {
		p.known = time.Time{}
		return
	}
	if !p.known.IsZero() {
		p.known = latest(p.known, s.length.since)
	}
	switch began := j.Started; {
	case j.Over:
	case began.IsZero():
		p.end = latest(p.end, ready.Add(s.length.left(0)))
	default:
		p.end = latest(p.end, now.Add(s.length.left(now.Sub(began))))
	}
}

// applies reports whether the times predict a job: it was created after they were learned.
func (h *history) applies(j *Job) bool { return len(h.samples) > 0 && made(j, h.since) }

// made reports whether a job was created at least minAge after known.
func made(j *Job, known time.Time) bool {
	return !known.IsZero() && j.Created.After(known.Add(minAge))
}

// name returns a short name, because commits contain it.
func name(build, of uint64) string {
	const digits = 12
	text := strconv.FormatUint(hash([]byte(strconv.FormatUint(build, 16)), []byte(strconv.FormatUint(of, 16)))|1<<63, 16)
	return text[len(text)-digits:]
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
