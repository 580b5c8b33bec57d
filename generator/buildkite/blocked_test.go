package buildkite_test

import (
	"net/http"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
)

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
