package generator

import (
	"context"
	"errors"
	"math/rand/v2"
	"muster/generator/plan"
	"slices"
	"time"
)

// Run ticks until the context ends, one tick each interval. The first one comes
// after a random part of the jitter, so that a whole fleet of musters that is
// restarted at once does not ask at once. A tick that fails is logged and the
// next one starts afresh; when Buildkite asked for quiet, or its limits leave no
// room, the next tick waits as long as that says and goes on reading.
func (g *Generator) Run(ctx context.Context, interval, jitter time.Duration) error {
	if jitter > 0 && g.cfg.Clock.Sleep(ctx, rand.N(jitter)) != nil {
		return nil
	}
	for {
		start := g.cfg.Clock.Now()
		result, err := g.Tick(ctx)
		if ctx.Err() != nil {
			if err == nil {
				g.reportActs(result) // they are in git
			}
			return nil
		}
		if err != nil && len(result.Acts) > 0 {
			g.reportActs(result)
		}
		g.reportStretch(err)
		var limited interface{ RetryAfter() time.Duration }
		var wait stretched
		switch errors.As(err, &limited); {
		case errors.As(err, &wait):
		case limited != nil, errors.Is(err, ErrRaces): // nothing is wrong
			g.cfg.Log.Warn("tick", "err", err)
		case err != nil:
			g.cfg.Log.Error("tick", "err", err)
		default:
			g.reportConditions(result)
			g.reportActs(result)
		}
		if g.cfg.Done != nil {
			g.cfg.Done(result, err)
		}
		pause := interval - g.cfg.Clock.Now().Sub(start)
		if limited != nil {
			pause = max(pause, limited.RetryAfter())
		}
		if g.cfg.Clock.Sleep(ctx, max(0, pause)) != nil {
			return nil
		}
	}
}

// backOff waits before a tick looks again: not at all before the first two
// looks, then a random time that doubles, so that several writers drift apart.
func (g *Generator) backOff(ctx context.Context, try int) error {
	if try < 2 {
		return nil
	}
	longest := 100 * time.Millisecond << min(try-2, 6)
	return g.cfg.Clock.Sleep(ctx, rand.N(longest))
}

// Once is one whole tick; see [Generator.Whole]. Its error and the overlays with invalid
// files are for the caller to report.
func (g *Generator) Once(ctx context.Context) (Result, error) {
	result, err := g.Whole(ctx)
	if err == nil {
		reported := result
		reported.Suspended = slices.DeleteFunc(slices.Clone(result.Suspended), func(s Suspended) bool { return s.Why.Code == plan.Invalid })
		g.reportConditions(reported)
		g.reportActs(result)
	}
	return result, err
}
