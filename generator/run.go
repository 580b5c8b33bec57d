package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	if jitter > 0 && g.trigger.pause(ctx, rand.N(jitter)) != nil {
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
		if err == nil {
			pause = g.trigger.adjust(pause, start, end, interval, plan.PollWithin(result.Input.Overlays, result.Decisions))
		}
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

// Whole runs one tick with a complete poll of Buildkite: it retries as [Patiently] does.
// It returns after a tick that committed anything.
func (g *Generator) Whole(ctx context.Context) (result Result, err error) {
	var partly error
	err = Patiently(ctx, g.cfg.Clock, g.cfg.Log, func() error {
		result, err = g.Tick(ctx)
		g.poller.reportStretch(err)
		if len(result.Operations)+len(result.Landed) > 0 {
			partly = err
			return nil
		}
		return err
	})
	return result, cmp.Or(partly, err)
}

// longestRefusal is how long [Patiently] waits in all for servers that refuse requests.
const longestRefusal = 5 * time.Minute

// Patiently calls try until it returns no error with a time to retry. It retries a poll
// that Buildkite's limit spreads over minutes for as long as that takes, and a 429 or failing
// requests for longestRefusal in all. It logs each wait.
func Patiently(ctx context.Context, clock Clock, log *slog.Logger, try func() error) error {
	refused := time.Duration(0)
	for {
		err := try()
		var wait plan.RetryError
		if !errors.As(err, &wait) {
			return err
		}
		spread := plan.SpreadError(nil)
		if !errors.As(err, &spread) || failing(spread) {
			if refused += wait.RetryAfter(); refused > longestRefusal {
				return fmt.Errorf("%w; this command waits at most %s in all", err, longestRefusal)
			}
		}
		log.Info("waiting", "seconds", int(wait.RetryAfter().Seconds()), "reason", err)
		if err := clock.Sleep(ctx, wait.RetryAfter()); err != nil {
			return err
		}
	}
}
