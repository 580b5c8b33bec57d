package generator

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/plan"
)

// Run ticks until the context ends, once per interval and whenever [Triggers] trigger it. The
// first tick comes after a random part of the jitter, so that a whole fleet of musters that
// restarts at the same time does not send its requests at the same time. The tick after a
// failed tick starts from the beginning. If Buildkite or the git host requests a pause, or
// Buildkite's limits leave no room, the next tick waits for that time and continues the poll.
func (g *Generator) Run(ctx context.Context, interval, jitter time.Duration) error {
	if jitter > 0 && g.cfg.Clock.Sleep(ctx, rand.N(jitter)) != nil {
		return nil
	}
	cause, deferred := CauseStart, false
	for {
		g.cfg.Triggers.drop()
		start := g.cfg.Clock.Now()
		if g.cfg.Watch != nil {
			g.cfg.Watch.Began(start)
		}
		result, err := g.Tick(ctx)
		end := g.cfg.Clock.Now()
		if ctx.Err() != nil {
			g.reporter.reportOperations(result, end.Sub(start)) // they are in git
			return nil
		}
		g.poller.reportStretch(err)
		g.reporter.reportTick(result, err, end.Sub(start))
		pause := max(0, interval-end.Sub(start))
		var wait plan.RetryError
		if errors.As(err, &wait) {
			pause = max(pause, wait.RetryAfter())
		}
		g.reporter.report(Report{Began: start, Ended: end, Next: end.Add(pause), Cause: cause, Deferred: deferred, Result: result, Err: err}, g.poller.stretchedPoll())
		if g.cfg.Done != nil {
			g.cfg.Done(result, err)
		}
		pause = max(0, pause-g.cfg.Clock.Now().Sub(end))
		failed := err != nil
		if cause, deferred, err = g.trigger.rest(ctx, start, pause, interval, !failed); err != nil {
			return nil
		}
	}
}

// BackOff waits before a branch is read again after a conflict; lost is the number of
// conflicts. It does not wait after the first, then waits a random time that doubles up to 0.4
// s, so that several writers drift apart. Its error is that of the context.
func BackOff(ctx context.Context, clock Clock, lost int) error {
	if lost < 2 {
		return nil
	}
	longest := 100 * time.Millisecond << min(lost-2, 2)
	return clock.Sleep(ctx, rand.N(longest))
}

// Once is one whole tick; see [Generator.Whole]. Its error and the overlays with invalid
// files are for the caller to report.
func (g *Generator) Once(ctx context.Context) (Result, error) {
	start := g.cfg.Clock.Now()
	result, err := g.Whole(ctx)
	if err == nil {
		reported := result
		reported.Suspended = slices.DeleteFunc(slices.Clone(result.Suspended), func(s Suspended) bool { return s.Why.Code == plan.Invalid })
		g.poller.reportStretch(nil)
		g.reporter.reportTick(reported, nil, g.cfg.Clock.Now().Sub(start))
	}
	return result, err
}
