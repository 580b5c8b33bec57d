package fakebuildkite_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
)

func TestAgentEnds(t *testing.T) {
	for _, test := range []struct {
		name   string
		agent  agent
		play   func(s *fakebuildkite.Server, id string)
		reason string
		jobs   int
		at     time.Duration // after the start; negative: stays
	}{
		{"idle", agent{IdleTimeout: time.Minute}, nil, "idle", 0, time.Minute},
		{"after its job", agent{AfterJob: true, IdleTimeout: time.Minute}, func(s *fakebuildkite.Server, _ string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Parallelism: 2}}})
		}, "job", 1, time.Hour},
		{"after a failed job too", agent{AfterJob: true}, func(s *fakebuildkite.Server, _ string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Fail: -1}}})
		}, "job", 1, time.Hour},
		{"idle after jobs", agent{IdleTimeout: time.Minute}, func(s *fakebuildkite.Server, _ string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Parallelism: 2}}})
		}, "idle", 2, 2*time.Hour + time.Minute},
		{"stopped while idle", agent{}, func(s *fakebuildkite.Server, id string) {
			s.StopAgent(id)
		}, "stopped", 0, 0},
		{"stopped while busy", agent{}, func(s *fakebuildkite.Server, id string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Parallelism: 2}}})
			s.StopAgent(id)
		}, "stopped", 1, time.Hour},
		{"lost while idle", agent{IdleTimeout: time.Minute}, func(s *fakebuildkite.Server, id string) {
			s.LoseAgent(id)
		}, "lost", 0, 3 * time.Minute},
		{"paused", agent{AfterJob: true, IdleTimeout: time.Minute}, func(s *fakebuildkite.Server, id string) {
			s.PauseAgent(id)
		}, "", 0, -1},
		{"paused and resumed", agent{AfterJob: true, IdleTimeout: time.Minute}, func(s *fakebuildkite.Server, id string) {
			s.PauseAgent(id)
			s.At(start.Add(time.Hour), func() { s.ResumeAgent(id) })
		}, "idle", 0, time.Hour + time.Minute},
		{"paused for less than its time-out, twice", agent{IdleTimeout: time.Minute}, func(s *fakebuildkite.Server, id string) {
			for _, at := range []time.Duration{0, 40 * time.Second} {
				s.At(start.Add(at), func() { s.PauseAgent(id) })
				s.At(start.Add(at+10*time.Second), func() { s.ResumeAgent(id) })
			}
		}, "idle", 0, 110 * time.Second},
		{"lingers", agent{AfterJob: true, Linger: 58 * time.Second, IdleTimeout: time.Second}, func(s *fakebuildkite.Server, _ string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Parallelism: 2}}})
		}, "job", 1, time.Hour + 58*time.Second},
		{"stopped while it lingers", agent{AfterJob: true, Linger: time.Minute}, func(s *fakebuildkite.Server, id string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour}}})
			s.At(start.Add(time.Hour+time.Second), func() { s.StopAgent(id) })
		}, "stopped", 1, time.Hour + time.Second},
		{"paused while it lingers", agent{AfterJob: true, Linger: time.Minute}, func(s *fakebuildkite.Server, id string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Parallelism: 2}}})
			s.At(start.Add(time.Hour+time.Second), func() { s.PauseAgent(id) })
			s.At(start.Add(2*time.Hour), func() { s.ResumeAgent(id) })
		}, "job", 1, 2 * time.Hour},
		{"lost while it lingers", agent{AfterJob: true, Linger: time.Minute}, func(s *fakebuildkite.Server, id string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour}}})
			s.At(start.Add(time.Hour+time.Second), func() { s.LoseAgent(id) })
		}, "lost", 1, time.Hour + 4*time.Minute},
		{"lost, and noticed a minute later", agent{}, func(s *fakebuildkite.Server, id string) {
			s.At(start.Add(time.Second), func() { s.LoseAgent(id) })
		}, "lost", 0, 4 * time.Minute},
		{"too old for another job", agent{IdleTimeout: time.Minute, Uptime: 90 * time.Minute}, func(s *fakebuildkite.Server, _ string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Parallelism: 3}}})
		}, "uptime", 2, 2 * time.Hour},
		{"old while it is idle", agent{IdleTimeout: 2 * time.Hour, Uptime: 90 * time.Minute}, nil, "uptime", 0, 90 * time.Minute},
		{"old while it is paused", agent{Uptime: time.Hour}, func(s *fakebuildkite.Server, id string) {
			s.PauseAgent(id)
			s.At(start.Add(2*time.Hour), func() { s.ResumeAgent(id) })
		}, "uptime", 0, 2 * time.Hour},
		{"old and paused during its job", agent{Uptime: time.Hour}, func(s *fakebuildkite.Server, id string) {
			s.CreateBuild(build{Steps: []step{{Duration: 2 * time.Hour, Parallelism: 2}}})
			s.PauseAgent(id)
		}, "uptime", 1, 2 * time.Hour},
		{"stopped before it is old", agent{Uptime: time.Hour}, func(s *fakebuildkite.Server, id string) {
			s.CreateBuild(build{Steps: []step{{Duration: 2 * time.Hour}}})
			s.At(start.Add(time.Minute), func() { s.StopAgent(id) })
		}, "stopped", 1, 2 * time.Hour},
		{"paused during its job", agent{AfterJob: true}, func(s *fakebuildkite.Server, id string) {
			s.CreateBuild(build{Steps: []step{{Duration: time.Hour, Parallelism: 2}}})
			s.PauseAgent(id)
		}, "", 1, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var told []fakebuildkite.AgentRecord
			s := fakebuildkite.New(fakebuildkite.Options{Now: start, OnAgentEnd: func(r fakebuildkite.AgentRecord) { told = append(told, r) }})
			id := connect(t, s, test.agent)
			if test.play != nil {
				test.play(s, id)
			}
			s.Advance(24 * time.Hour)
			got := s.Agents()[0]
			if got.Reason != test.reason || got.Jobs != test.jobs {
				t.Errorf("ended for %q after %d jobs, want %q after %d", got.Reason, got.Jobs, test.reason, test.jobs)
			}
			if test.at < 0 {
				if !got.Ended.IsZero() || len(told) != 0 {
					t.Errorf("ended after %s, want still there", got.Ended.Sub(start))
				}
				return
			}
			if got.Ended.Sub(start) != test.at {
				t.Errorf("ended after %s, want %s", got.Ended.Sub(start), test.at)
			}
			if diff := cmp.Diff([]fakebuildkite.AgentRecord{got}, ignoreJobs(told, got.Jobs)); diff != "" {
				t.Errorf("told at the end (-record +told):\n%s", diff)
			}
		})
	}
}

// ignoreJobs copies the count of jobs, which is complete only after the end.
func ignoreJobs(told []fakebuildkite.AgentRecord, jobs int) []fakebuildkite.AgentRecord {
	for i := range told {
		told[i].Jobs = jobs
	}
	return told
}

// TestLostWhileBusy: the job fails when the agent is given up, and is retried.
func TestLostWhileBusy(t *testing.T) {
	s := newServer()
	a := connect(t, s, agent{})
	id := s.CreateBuild(build{Steps: []step{{Duration: time.Minute, Retries: 1}}})
	s.LoseAgent(a)
	s.Advance(3*time.Minute - time.Second)
	wantStates(t, s, "running")
	s.Advance(time.Second)
	wantStates(t, s, "failed scheduled")
	connect(t, s, agent{})
	s.Advance(time.Minute)
	wantStates(t, s, "failed passed")
	wantBuild(t, s, id, "passed")
}
