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

// TestBoundOfPulse: the bound's pods are made by the same controller, so that muster is at it
// where sixty jobs come at once.
func TestBoundOfPulse(t *testing.T) {
	m := Play(DefaultScenario(), loadNamed(t, "cron").Generate(1, 6*time.Hour), algorithm(t, "muster"), nil)
	if m.Unused != 0 || m.Wait != m.Bound {
		t.Errorf("waits of %+v, %d unused, and the bound is %+v", m.Wait, m.Unused, m.Bound)
	}
	hurried := DefaultScenario()
	hurried.Makers = nil
	if h := Play(hurried, loadNamed(t, "cron").Generate(1, 6*time.Hour), algorithm(t, "muster"), nil); h.Wait.P95 >= m.Wait.P95 {
		t.Errorf("p95 of %s where pods are there at once, and of %s where a controller makes them", h.Wait.P95, m.Wait.P95)
	}
}
