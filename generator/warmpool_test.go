package generator_test

import (
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestWarmPoolDiesLater: agents kept for min that die 8 or 14 minutes after they came,
// with a time-out of an hour and a lease of 15 minutes, open the breaker as those that die at once do, and are
// back within an hour and a half after they live again. When they were watched for
// five minutes only, no breaker opened, and min was ordered again and again.
func TestWarmPoolDiesLater(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, age := range []time.Duration{8 * time.Minute, 14 * time.Minute} {
		w := attacked(t, func(_ *shape, p *policy) { p.min, p.max = 10, 100 })
		k := w.overlays[0].kube
		k.warmDies = age
		w.play(6*time.Hour, nil)
		n := w.audit.total()
		last := w.fleet.head().operation.Decision.State.Breaker
		if n > 50 || last.Failures < plan.Tolerance || last.Cause != plan.LeftEarly {
			t.Errorf("%s: %d agents in six hours, %v, and the breaker is %+v\n%s", age, n, w.sizes(), last, w.story())
		}
		k.warmDies = 0
		w.play(7*time.Hour+30*time.Minute, nil)
		if n := k.Connected(); n < 10 {
			t.Errorf("%s: an hour and a half after they live again there are %d agents, min is 10\n%s", age, n, w.story())
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
