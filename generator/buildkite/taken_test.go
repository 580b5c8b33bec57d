package buildkite_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
)

// TestTaken: jobs that have or had an agent are listed where somebody counts them, with
// what Buildkite's own records say, and not otherwise.
func TestTaken(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
	for range 2 {
		if _, err := s.Connect(fakebuildkite.Agent{Tags: []string{"os=linux"}}); err != nil {
			t.Fatal(err)
		}
	}
	s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{
		{Duration: time.Minute, Agents: []string{"os=linux"}}, {Duration: time.Hour}, {Duration: time.Hour}, {Duration: time.Hour},
	}})
	s.Advance(10 * time.Minute)
	client := newClient(t, buildkite.Config{HTTP: s.Transport()})
	if got := observe(t, client, s.Now(), now); len(got.Taken) > 0 || got.Agents[0].Job != "" {
		t.Errorf("nobody counts them, and %d jobs are listed", len(got.Taken))
	}
	client.ListTaken(true)
	s.ListTaken(true)
	got, want := observe(t, client, s.Now(), now), s.Snapshot(now)
	if diff := cmp.Diff(want.Taken, got.Taken); diff != "" || len(got.Taken) != 3 {
		t.Errorf("%d jobs have or had an agent (-want +got):\n%s", len(got.Taken), diff)
	}
	for _, a := range got.Agents {
		if a.Job == "" {
			t.Errorf("the job of %s is not told", a.ID)
		}
	}
}
