package generator_test

import (
	"slices"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestWarmPoolDies asserts that agents of the warm pool that exit early open the circuit breaker,
// whatever their age, and that the pool is complete again within 90 minutes after they stay.
func TestWarmPoolDies(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, test := range []struct {
		age              time.Duration // of agents that exit
		min, buffer      int
		length, recovery time.Duration
		ordered          int // at most, before they stay
	}{
		{20 * time.Second, 5, 5, time.Hour, time.Hour, 19},
		{8 * time.Minute, 10, 0, 6 * time.Hour, 90 * time.Minute, 50},
		{14 * time.Minute, 10, 0, 6 * time.Hour, 90 * time.Minute, 50},
	} {
		w := attacked(t, func(_ *shape, p *policy) { p.min, p.buffer, p.max = test.min, test.buffer, 100 })
		k := w.overlays[0].kube
		k.warmDies = test.age
		w.play(test.length, nil)
		last := w.fleet.head().operation.Decision.State.Breaker
		if n := w.audit.total(); n > test.ordered || last.Failures < plan.Tolerance || last.Cause != plan.LeftEarly {
			t.Errorf("%s: %d agents in %s, %v, and the breaker is %+v\n%s", test.age, n, test.length, w.sizes(), last, w.story())
		}
		if got := w.sizes(); test.length == time.Hour && (slices.Max(got[plan.Tolerance:]) != 1 || len(w.fleet.history()) > 30) {
			t.Errorf("%s: ordered %v, with %d commits\n%s", test.age, got, len(w.fleet.history())-1, w.story())
		}
		k.warmDies = 0
		w.play(test.length+test.recovery, nil)
		if n := k.Connected(); n < test.min {
			t.Errorf("%s: %s after the agents stay, %d are connected, min is %d\n%s", test.age, test.recovery, n, test.min, w.story())
		}
	}
}

// TestWarmPoolIdlesOut: agents that are well and leave when they have idled for as long
// as they were told, without ever having had a job, have not left early, whatever
// that time is and although some of the orders do not come whole.
func TestWarmPoolIdlesOut(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, idle := range []time.Duration{time.Minute, 10 * time.Minute, 20 * time.Minute, time.Hour, 4 * time.Hour} {
		w := attacked(t, func(s *shape, p *policy) {
			p.min, p.max, p.upkeepIdle, s.rates.noShow = 10, 40, idle, 0.2
		})
		w.play(12*time.Hour, nil)
		for _, c := range w.fleet.history()[1:] {
			if b := c.operation.Decision.State.Breaker; b.Cause == plan.LeftEarly {
				t.Fatalf("%s: the breaker is %+v\n%s", idle, b, w.story())
			}
		}
	}
}
