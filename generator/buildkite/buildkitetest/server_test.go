package buildkitetest_test

import (
	"fmt"
	"testing"
	"time"

	"muster/generator/buildkite/buildkitetest"
)

var start = time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)

// TestDay plays ten thousand builds over a day with ephemeral agents, as the
// simulations do: each job must run once, on an agent of its own.
func TestDay(t *testing.T) {
	s := buildkitetest.New(buildkitetest.Options{Now: start})
	const builds = 10000
	for i := range builds {
		at := start.Add(time.Duration(i) * 24 * time.Hour / builds)
		s.At(at, func() {
			s.CreateBuild(buildkitetest.Build{Steps: []buildkitetest.Step{{Duration: 5 * time.Minute}}})
			if _, err := s.Connect(buildkitetest.Agent{
				Tags: []string{fmt.Sprintf("index=%d", i)}, AfterJob: true, IdleTimeout: time.Minute,
			}); err != nil {
				t.Error(err)
			}
		})
	}
	s.Advance(25 * time.Hour)
	got := s.Stats()
	want := buildkitetest.Stats{Jobs: builds, Runnable: builds, Started: builds, Finished: builds, Agents: builds}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
