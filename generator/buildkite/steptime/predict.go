package steptime

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Prediction is the prediction for one upcoming or expected job.
type Prediction struct {
	// Job is its index in [Build].Jobs; -1 for a job that the build does not have yet, and that its first step is
	// expected to add. Rules are then the job's.
	Job   int
	Rules uint64
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
// creation as in other builds. The jobs that a build is expected to add are due when its first step ends; see
// [Build.Uploading].
func (t *Times) Predict(b Build, now time.Time) []Prediction {
	var all []Prediction
	var uses []use
	p := pass{ready: now, known: time.Unix(0, 0)}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if j.Barrier != 0 {
			p.barrier, p.closed, p.ready, p.before, p.from = j.Barrier, !j.Over, latest(p.end, now), p.known, p.to
			continue
		}
		s, ready, u := t.steps[j.Step], p.ready, use{rules: j.Rules, from: p.from, prediction: -1}
		if s != nil && s.lag.applies(j) {
			u.from = s.lag.left(0)
		}
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
			u.prediction = len(all)
			all = append(all, prediction)
		}
		length := time.Duration(0)
		if s != nil {
			length = s.length.left(0)
		}
		u.to, p.to = u.from+max(1, length*3/4), max(p.to, u.from+length)
		if j.Rules != 0 && !j.Over && (j.Upcoming || !j.Runnable.IsZero()) {
			uses = append(uses, u)
		}
		p.next(j, s, ready, now)
	}
	if len(all) == 0 {
		expected, more := t.expect(b, now, p.to)
		all, uses = expected, append(uses, more...)
	}
	findFreed(all, uses)
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
	// from is when other builds pass the barrier, and to when all jobs so far end in them, since their creation.
	from, to time.Duration
}

// use is the use of an agent by a job, since the creation of the build, as in other builds: these times order the jobs
// of a build that is late, too.
type use struct {
	rules      uint64
	from       time.Duration
	to         time.Duration // most of its usual length later: samples of jobs that follow each other vary
	prediction int           // of an upcoming job, by index; -1: it has an agent, or needs one now
}

// findFreed sets Freed of the predictions. Each agent is free after its job for one later job of the build.
func findFreed(all []Prediction, uses []use) {
	ends := map[uint64][]time.Duration{} // by rules: when agents are free
	for _, u := range uses {
		ends[u.rules] = append(ends[u.rules], u.to)
	}
	for _, e := range ends {
		slices.Sort(e)
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(a.from, b.from) })
	for _, u := range uses {
		if e := ends[u.rules]; u.prediction >= 0 && e[0] <= u.from {
			all[u.prediction].Freed, ends[u.rules] = true, e[1:]
		}
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
