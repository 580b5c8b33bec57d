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
	// Stage names those that can run when it can: the jobs of the build behind the same
	// wait step, or the copies of a step that waits for others by depends_on.
	Stage string
}

// Predict returns when the upcoming jobs of a build can run. Behind a wait step that
// is when all jobs before it have ended. How long a job will wait for an agent is not
// known: one that has not started counts from now, or from when it can run. A job that
// no wait step holds back waits for others by depends_on, which REST does not tell: it is
// due as long after it was made as in other builds.
func (t *Times) Predict(b Build, now time.Time) []Prediction {
	var all []Prediction
	p := pass{ready: now, known: time.Unix(0, 0)}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if j.Barrier != 0 {
			p.barrier, p.closed, p.ready, p.before = j.Barrier, !j.Over, latest(p.end, now), p.known
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
			all = append(all, prediction)
		}
		p.next(j, s, ready, now)
	}
	return all
}

// pass is a way through the jobs of a build.
type pass struct {
	barrier uint64    // the last
	closed  bool      // it holds back what follows
	ready   time.Time // when what follows it can run
	before  time.Time // since when all steps before it are known; zero: they are not
	end     time.Time // of all jobs until here
	known   time.Time // since when all steps until here are known; zero: they are not
}

// next goes past a job, which can run when it is ready if it has not started.
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

// applies reports whether the times hold for a job.
func (h *history) applies(j *Job) bool { return len(h.samples) > 0 && made(j, h.since) }

// made reports whether a job was made after something was known.
func made(j *Job, known time.Time) bool {
	return !known.IsZero() && j.Created.After(known.Add(apart))
}

// name is short, for it is kept in git.
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
