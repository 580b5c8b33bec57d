package buildkite_test

import (
	"net/http"
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

// TestAgentOfABuildThatBecameBlockedIsSeen asserts that an agent is seen that registered,
// had a job and disconnected between two polls while its build became blocked, with and
// without a finished_at of blocked builds.
func TestAgentOfABuildThatBecameBlockedIsSeen(t *testing.T) {
	for _, unfinished := range []bool{false, true} {
		for name, created := range map[string]time.Duration{"seen by the last look": time.Hour, "first look": 0} {
			s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BlockedUnfinished: unfinished})
			build := s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Minute}, {Type: fakebuildkite.Block}}})
			s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Type: fakebuildkite.Block}}}) // an old one
			s.Advance(time.Hour)
			client := newClient(t, buildkite.Config{HTTP: s.Transport()})
			if created > 0 {
				observe(t, client, s.Now(), s.Now().Add(-time.Minute))
			}
			since := s.Now()
			connect(t, s, fakebuildkite.Agent{Tags: []string{"dispatch=a-1", "index=0"}, AfterJob: true})
			s.Advance(2 * time.Minute)
			if _, blocked := s.BuildState(build); !blocked {
				t.Fatal("the build is not blocked")
			}
			got := observe(t, client, s.Now(), since)
			if len(got.Agents) > 0 || len(got.Sightings) != 1 || len(got.Jobs) > 0 {
				t.Errorf("%s, without finished_at %t: agents %v, sightings %v and jobs %v, want one sighting", name, unfinished, got.Agents, got.Sightings, got.Jobs)
			}
		}
	}
}

// TestBlockedBuildsAreListedOnlyWhereABuildIsMissing asserts that no request for blocked
// builds is made while every build that was running is running or has finished, or while
// no agent is awaited.
func TestBlockedBuildsAreListedOnlyWhereABuildIsMissing(t *testing.T) {
	asked := 0
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BlockedUnfinished: true, BeforeRequest: func(r *http.Request) {
		if r.URL.Query().Get("state[]") == "blocked" {
			asked++
		}
	}})
	client := newClient(t, buildkite.Config{HTTP: s.Transport()})
	connect := func() {
		connect(t, s, fakebuildkite.Agent{AfterJob: true})
	}
	for _, step := range []struct {
		name   string
		do     func()
		waited bool // for agents
		want   int
	}{
		{"the first look", func() {}, true, 1},
		{"nothing has changed", func() {}, true, 0},
		{"a build that waits", func() {
			s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Second}, {Type: fakebuildkite.Block}, {Duration: time.Second}}})
		}, true, 0},
		{"it is blocked, and no agent is awaited", connect, false, 0},
		{"it is unblocked", func() { s.Unblock(s.Jobs()[0].Build) }, true, 0},
		{"it has finished", connect, true, 0},
		{"another that waits", func() {
			s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Second}, {Type: fakebuildkite.Block}}})
		}, true, 0},
		{"it is blocked", connect, true, 1},
	} {
		step.do()
		since := time.Time{}
		if step.waited {
			since = now
		}
		s.Advance(15 * time.Second)
		asked = 0
		observe(t, client, s.Now(), since)
		if asked != step.want {
			t.Errorf("%s: blocked builds are listed %d times, want %d", step.name, asked, step.want)
		}
	}
}
