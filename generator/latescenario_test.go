package generator_test

import (
	"strings"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/gitops/unraced"
)

// lossy is a world in which one pod of ten never comes up, for an overlay with a lease of
// 15 minutes or one that goes by start-up times.
func lossy(t *testing.T, auto bool, change func(*shape)) *scenario {
	t.Helper()
	s := quietNight()
	s.seed, s.length, s.every = 5, 5*time.Hour, 30*time.Second
	p := &s.overlays[0].spec
	p.min, p.buffer, p.auto = 0, 0, auto
	s.work = work{builds: 30, job: 2 * time.Minute}
	s.rates.noShow = 0.1
	if change != nil {
		change(&s)
	}
	w := playPlain(t, s)
	w.conclude()
	return w
}

// longestWait is that of the jobs that came in the second half of the world.
func (w *scenario) longestWait() (longest time.Duration) {
	for _, j := range w.server.Jobs() {
		if !j.Started.IsZero() && j.Runnable.After(scenarioStart().Add(w.length/2)) {
			longest = max(longest, j.Started.Sub(j.Runnable))
		}
	}
	return longest
}

// givenUp counts the orders that were made because others are late.
func (w *scenario) givenUp() (n int) {
	for _, c := range w.fleet.history() {
		if c.operation != nil && c.operation.Kind == ledger.Dispatch && c.operation.Decision.Sum.Overdue > 0 && strings.Contains(strings.Join(strings.Fields(ledger.Message(*c.operation, "v0")), " "), " overdue, more than ") {
			n++
		}
	}
	return n
}

// TestLateAgents: agents that never come are ordered again before their lease is over, also
// by a muster that is killed again and again, and every commit verifies. A fixed lease
// learns nothing.
func TestLateAgents(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	fixed := lossy(t, false, nil)
	for name, test := range map[string]func(*shape){
		"":       nil,
		"killed": func(s *shape) { s.rates.kill = 0.02 },
		"two":    func(s *shape) { s.musters, s.stagger = 2, 15*time.Second },
	} {
		auto := lossy(t, true, test)
		if auto.givenUp() < 3 || auto.longestWait() > fixed.longestWait()/2 {
			t.Errorf("%s: %d orders because of late agents; the longest wait is %s, with a fixed lease %s", name, auto.givenUp(), auto.longestWait(), fixed.longestWait())
		}
		if state := string(auto.fleet.head().tree.files["overlays/a/dispatches/state.yaml"]); !strings.Contains(state, "\nstartupTimes: ") || !strings.Contains(state, "\nservedAt: ") {
			t.Errorf("%s: state.yaml is\n%s", name, state)
		}
		verifyAll(t, auto.fleet)
	}
	for _, c := range fixed.fleet.history() {
		if c.operation != nil && (strings.Contains(ledger.Message(*c.operation, "v0"), "startupTimes") || c.operation.Decision.Sum.Overdue > 0) {
			t.Fatalf("a fixed lease: %s", ledger.Message(*c.operation, "v0"))
		}
	}
}
