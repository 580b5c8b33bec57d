package fakebuildkite_test

import (
	"fmt"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// BenchmarkDay is a simulated day of 10,000 builds of one job and as many
// ephemeral agents, some hundreds of them connected at a time; observed by the
// real client every 15 seconds, or not at all.
func BenchmarkDay(b *testing.B) {
	for _, every := range []time.Duration{0, 15 * time.Second} {
		b.Run(fmt.Sprintf("builds=10k/observed=%s", every), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				day(b, every)
			}
		})
	}
}

func day(b *testing.B, every time.Duration) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: start})
	c, err := buildkite.New(buildkite.Config{
		Org: "acme", HTTP: s.Transport(), Token: func() (string, error) { return "test-token", nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	const builds = 10000
	for i := range builds {
		at := start.Add(time.Duration(i) * 24 * time.Hour / builds)
		s.At(at, func() {
			s.CreateBuild(build{Steps: []step{{Duration: 20 * time.Minute}}})
			if _, err := s.Connect(agent{Tags: []string{fmt.Sprintf("index=%d", i)}, AfterJob: true}); err != nil {
				b.Error(err)
			}
		})
	}
	end := start.Add(25 * time.Hour)
	if every == 0 {
		s.AdvanceTo(end)
	} else {
		for s.Now().Before(end) {
			s.Advance(every)
			if _, err := c.Snapshot(b.Context(), plan.Query{At: s.Now(), Since: s.Now().Add(-2 * time.Minute)}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if got := s.Stats().Finished; got != builds {
		b.Fatalf("%d jobs finished, want %d", got, builds)
	}
}

// BenchmarkBurst is ten thousand jobs that become runnable at one moment, in
// one queue with hundreds of agents.
func BenchmarkBurst(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		s := fakebuildkite.New(fakebuildkite.Options{Now: start})
		for range 500 {
			if _, err := s.Connect(agent{}); err != nil {
				b.Fatal(err)
			}
		}
		for range 10000 {
			s.CreateBuild(build{Steps: []step{{Duration: time.Minute}}})
		}
		s.Advance(time.Hour)
		if got := s.Stats().Finished; got != 10000 {
			b.Fatalf("%d jobs finished", got)
		}
	}
}
