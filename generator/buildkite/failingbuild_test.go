package buildkite_test

import (
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// TestFailingBuildRunsNothingBehindAWait asserts that jobs behind a wait step of a failing
// build are not upcoming, because they will not run. Jobs behind a wait step that
// continues on failure are upcoming, and so are jobs that wait for others by depends_on.
func TestFailingBuildRunsNothingBehindAWait(t *testing.T) {
	job := fakebuildkite.Step{Duration: time.Hour}
	wait := fakebuildkite.Step{Type: fakebuildkite.Wait}
	continues := fakebuildkite.Step{Type: fakebuildkite.Wait, ContinueOnFailure: true}
	failed := fakebuildkite.Step{Duration: time.Minute, Fail: 1}
	for name, c := range map[string]struct {
		steps []fakebuildkite.Step
		want  int // upcoming jobs
	}{
		"no failure":                  {[]fakebuildkite.Step{job, job, wait, job}, 1},
		"behind a wait step":          {[]fakebuildkite.Step{job, failed, wait, job, job}, 0},
		"behind one that continues":   {[]fakebuildkite.Step{job, failed, continues, job, wait, job}, 1},
		"behind two that continue":    {[]fakebuildkite.Step{job, failed, continues, job, continues, job}, 2},
		"a plain one before it":       {[]fakebuildkite.Step{job, failed, wait, job, continues, job}, 0},
		"behind one that has passed":  {[]fakebuildkite.Step{failed, continues, job, wait, job}, 0},
		"it failed and was continued": {[]fakebuildkite.Step{failed, continues, job, continues, job}, 1},
	} {
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
		for range 2 {
			connect(t, s, fakebuildkite.Agent{})
		}
		s.CreateBuild(fakebuildkite.Build{Steps: c.steps})
		s.Advance(2 * time.Minute)
		for source, snapshot := range map[string]plan.Snapshot{"REST": observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), s.Now(), time.Time{}), "the fake": s.Snapshot(time.Time{})} {
			upcoming := 0
			for _, j := range snapshot.Jobs {
				if j.State == plan.JobUpcoming {
					upcoming++
				}
			}
			if upcoming != c.want {
				t.Errorf("%s, by %s: %d jobs are upcoming, want %d", name, source, upcoming, c.want)
			}
		}
	}
	raw := `{"id":"b1","state":"failing","jobs":[{"id":"j1","type":"script","state":"waiting"}]}`
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
	s.AddInvalid("builds", raw)
	if got := observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), now, time.Time{}).Jobs; len(got) != 1 || got[0].State != plan.JobUpcoming {
		t.Errorf("behind no wait step: %+v", got)
	}
}
