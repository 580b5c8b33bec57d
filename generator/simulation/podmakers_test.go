package simulation

import (
	"testing"
	"time"
)

// TestPodCreation: a controller creates a burst of pods at once and the rest at its rate, and then
// pauses until it has a burst again; later controllers limit it too.
func TestPodCreation(t *testing.T) {
	start := Start()
	last := func(made func(time.Time) time.Duration, at time.Time, pods int) time.Duration {
		var d time.Duration
		for range pods {
			d = made(at)
		}
		return d.Round(time.Millisecond)
	}
	for name, c := range map[string]struct {
		makers       []Maker
		burst, pulse time.Duration // until the last of 10 and of 60 pods
	}{
		"nobody":          {nil, 0, 0},
		"one Job":         {[]Maker{jobController(1)}, 0, 1500 * time.Millisecond},
		"a Job for each":  {[]Maker{kedaOperator, jobController(2)}, 0, 4500 * time.Millisecond},
		"agent-stack-k8s": {[]Maker{agentStackController, jobController(2)}, 0, 4500 * time.Millisecond},
		"ARC":             {[]Maker{runnerSetController}, time.Second, 13500 * time.Millisecond},
	} {
		made := making(c.makers)
		if d := last(made, start, 10); d != c.burst {
			t.Errorf("%s: the last of 10 pods is there after %s, want %s", name, d, c.burst)
		}
		if d := last(made, start.Add(time.Hour), 60); d != c.pulse {
			t.Errorf("%s: the last of 60 pods is there after %s, want %s", name, d, c.pulse)
		}
	}
}
