// Package steptime learns from builds how long their steps take, and predicts from
// that when jobs behind a wait step can run. It does no I/O and reads no clock.
package steptime

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"
)

const (
	// maxSamples is the number of builds that are kept for each step: the most recent ones.
	maxSamples = 20
	// maxSteps is the maximum number of steps kept. Everybody who may write a pipeline can create
	// step names: beyond the maximum, the steps that ended longest ago are forgotten.
	maxSteps = 10_000
	// early is the quantile of the durations that is predicted. With an early prediction an
	// agent waits, with a late one a job does: the prediction is rather early.
	early = 0.4
	// minAge is the minimum time from learning a step to the creation of a job that is predicted
	// by it. It allows for the difference between two clocks.
	minAge = time.Minute
	// instant is the largest difference of two times that count as equal.
	instant = time.Second
)

// Key returns the identifier of a step of a pipeline, by its key or else its label. It returns
// zero if the step has neither, so that it cannot be learned.
func Key(pipeline, step []byte) uint64 {
	if len(step) == 0 {
		return 0
	}
	return max(1, hash(pipeline, step))
}

// hash returns a short hash, which is the same in each process.
func hash(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write(p)
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// ID returns a short form of a Buildkite identifier, or of what several parts identify together.
func ID(parts ...[]byte) uint64 { return max(1, hash(parts...)) }

// Build contains the jobs of one build, in the build's order.
type Build struct {
	// ID is the build's [ID].
	ID   uint64
	Jobs []Job
}

// Job is one job of a build, on any agent.
type Job struct {
	// Step is its [Key]. Copies of a step have the same.
	Step uint64
	// Barrier is the [ID] of a wait or a block step; zero for other jobs.
	Barrier uint64
	// Rules identifies the agents that can take the job: equal rules have the same [ID]. It is zero if the job needs
	// none.
	Rules uint64
	// Upcoming reports that the job waits for others, Over that it has ended, and Passed that the
	// build could continue.
	Upcoming, Over, Passed bool
	// Created, Runnable, Started and Finished are zero if that has not happened.
	Created, Runnable, Started, Finished time.Time
}

// began returns when the job started, or when it became runnable: a job that needs no agent may
// have no start. It returns zero if neither has happened.
func (j *Job) began() time.Time { return cmp.Or(j.Started, j.Runnable) }

// Times contains the durations learned by this process. The zero value is empty. Nothing is
// persisted: each process starts without any. Times is not safe for concurrent use.
type Times struct {
	steps  map[uint64]*step
	polled bool
}

// step contains the times of a step.
type step struct {
	newest uint32  // end of the newest job, in seconds
	length history // durations of its jobs
	lag    history // times from creation to runnable, of jobs that no wait step holds back
	builds history // those that start with it; their values are zero
	adds   []added // jobs that it adds to them; see learnAdded
}

// Learn learns from the ended jobs of a build. Repeated calls with the same jobs have no effect.
func (t *Times) Learn(b Build) {
	var before, end time.Time // ends of the jobs before the last barrier, and of all
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if j.Barrier != 0 {
			before = end
			continue
		}
		end = latest(end, j.Finished)
		if j.Step == 0 || !j.Over || !j.Passed {
			continue
		}
		finished, took := j.Finished, time.Duration(0)
		if finished.IsZero() { // it was left out
			finished = j.Created
		}
		if began := j.began(); !began.IsZero() {
			took = finished.Sub(began)
		}
		s := t.step(j.Step)
		s.newest = max(s.newest, seconds(finished))
		s.length.add(uint32(b.ID), finished, milliseconds(took))
		switch {
		case j.Runnable.IsZero():
		case before.IsZero() && j.Runnable.Sub(j.Created) > instant, j.Runnable.Add(instant).Before(before):
			s.lag.add(uint32(b.ID), finished, milliseconds(j.Runnable.Sub(j.Created)))
		}
	}
	t.learnAdded(b)
}

// step returns the step with the key. It adds a missing step.
func (t *Times) step(key uint64) *step {
	s := t.steps[key]
	if s == nil {
		if t.steps == nil {
			t.steps = map[uint64]*step{}
		}
		if len(t.steps) >= maxSteps {
			t.forget()
		}
		s = &step{}
		t.steps[key] = s
	}
	return s
}

// forget removes a tenth of the steps, those that ended longest ago.
func (t *Times) forget() {
	ends := make([]uint32, 0, len(t.steps))
	for _, s := range t.steps {
		ends = append(ends, s.newest)
	}
	slices.Sort(ends)
	most := len(ends)/10 + 1
	last := ends[most-1]
	for key, s := range t.steps {
		if s.newest <= last && most > 0 {
			delete(t.steps, key)
			most--
		}
	}
}

// Cold reports whether no poll has ended yet.
func (t *Times) Cold() bool { return !t.polled }

// EndPoll ends a poll: what the poll learned applies to jobs created from now on. A job without a
// prediction in one poll gets none later, because agents may have been ordered for it. What the
// first poll of a process learns applies from the time at which it happened.
func (t *Times) EndPoll(now time.Time) {
	for _, s := range t.steps {
		for _, h := range []*history{&s.length, &s.lag} {
			switch {
			case len(h.samples) == 0 || !h.since.IsZero():
			case t.polled:
				h.since = now
			default:
				h.since = time.Unix(int64(h.samples[0].finished), 0).UTC()
			}
		}
	}
	t.polled = true
}

// history contains times or numbers of jobs of one step, by the end of its job: the largest of each build.
type history struct {
	since   time.Time // when the first was learned; zero if the current poll learned it
	samples []sample
}

// sample is the value of a build: milliseconds, or jobs. build is half of its [ID].
type sample struct{ build, finished, value uint32 }

func seconds(t time.Time) uint32 { return uint32(max(0, t.Unix())) }

func milliseconds(took time.Duration) uint32 {
	const longest = 30 * 24 * time.Hour
	return uint32(min(max(took, 0), longest) / time.Millisecond)
}

// add adds a value, which replaces the sample of its build if it is larger.
func (h *history) add(build uint32, finished time.Time, value uint32) {
	x := sample{build, seconds(finished), value}
	if i := slices.IndexFunc(h.samples, func(y sample) bool { return y.build == build }); i >= 0 {
		known := h.samples[i]
		if x.value <= known.value && x.finished <= known.finished {
			return
		}
		x.value, x.finished = max(x.value, known.value), max(x.finished, known.finished)
		h.samples = slices.Delete(h.samples, i, i+1)
	}
	at, _ := slices.BinarySearchFunc(h.samples, x, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.finished, b.finished), cmp.Compare(a.build, b.build))
	})
	if len(h.samples) == maxSamples {
		if at == 0 {
			return
		}
		h.samples = slices.Delete(h.samples, 0, 1)
		at--
	}
	h.samples = slices.Insert(h.samples, at, x)
}

// left predicts how much longer a job takes that has taken elapsed so far, from the samples that
// took longer. It returns zero without such samples.
func (h *history) left(elapsed time.Duration) time.Duration {
	var longer [maxSamples]time.Duration
	n := 0
	for _, x := range h.samples {
		if took := time.Duration(x.value) * time.Millisecond; took > elapsed {
			longer[n] = took
			n++
		}
	}
	if n == 0 {
		return 0
	}
	slices.Sort(longer[:n])
	return longer[int(early*float64(n))] - elapsed
}
