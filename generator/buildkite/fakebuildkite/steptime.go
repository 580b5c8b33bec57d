package fakebuildkite

import (
	"net/url"
	"time"

	"muster/generator/buildkite/steptime"
	"muster/generator/plan"
)

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

// predicted is a build with upcoming jobs, and where in the snapshot they are.
type predicted struct {
	build steptime.Build
	jobs  map[int]int
}

// predict gives the upcoming jobs of a snapshot their moments: those of a build that was
// read, from the snapshot's jobs from on.
func (r *reading) predict(b *build, from int) {
	if r.times == nil {
		return
	}
	f := predicted{build: steptime.Build{ID: steptime.ID([]byte(b.id))}, jobs: map[int]int{}}
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
	if len(f.jobs) > 0 {
		r.predicted = append(r.predicted, f)
	}
}

// timed is what a reader of the API makes of a job for that.
func (j *job) timed() steptime.Job {
	key := j.step.Key
	if key == "" {
		key = j.step.Label
	}
	t := steptime.Job{
		Step:     steptime.Key([]byte(j.build.spec.Pipeline), []byte(key)),
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
	if j.step.Type == Wait || j.step.Type == Block {
		t.Barrier, t.Step = steptime.ID([]byte(j.id)), 0
	}
	return t
}

// tell writes the moments into the snapshot, once all builds were read.
func (r *reading) tell() {
	if r.times == nil {
		return
	}
	if r.times.Cold() {
		r.server.past(r.times)
	}
	r.times.Looked(r.snapshot.At)
	for _, f := range r.predicted {
		for _, p := range r.times.Predict(f.build, r.snapshot.At) {
			if i, ok := f.jobs[p.Job]; ok {
				r.snapshot.Jobs[i].Due, r.snapshot.Jobs[i].Stage = p.Due, p.Stage
			}
		}
	}
}
