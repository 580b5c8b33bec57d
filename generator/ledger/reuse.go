package ledger

import (
	"fmt"
	"strings"
	"time"

	"muster/generator/plan"
)

// reuseSentence describes for how long the dispatched agents take jobs; empty if they are not
// reusable.
func reuseSentence(d plan.Decision) string {
	idle, uptime := map[plan.Purpose]time.Duration{}, time.Duration(0)
	for _, x := range d.Dispatch {
		if x.Uptime > 0 {
			idle[x.Purpose], uptime = x.IdleTimeout, x.Uptime
		}
	}
	jobs, pool := idle[plan.ForDemand], idle[plan.ForWarmPool]
	until := ""
	switch {
	case uptime == 0:
		return ""
	case jobs > 0 && pool > 0 && pool < uptime:
		until = fmt.Sprintf(" until idle for %s, those of the warm pool for %s,", span(jobs), span(pool))
	case jobs > 0 && pool > 0:
		until = fmt.Sprintf(" until idle for %s, those of the warm pool however long they are idle,", span(jobs))
	case jobs > 0:
		until = fmt.Sprintf(" until idle for %s,", span(jobs))
	case pool < uptime:
		until = fmt.Sprintf(" until idle for %s,", span(pool))
	}
	return fmt.Sprintf("%s jobs%s for %s at most.", Pick(d.Sum.Dispatch, "The agent dispatched takes", "The agents dispatched take"), until, span(uptime))
}

// span returns a duration in words, as in "1 hour 30 minutes".
func span(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		is   time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := int(d / unit.is); n > 0 {
			parts = append(parts, Count(n, unit.name))
			d -= time.Duration(n) * unit.is
		}
	}
	return strings.Join(parts, " ")
}
