package generator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"muster/gitops/ledger"
)

// Run ticks until the context ends, one tick each interval. The first one comes
// after a random part of the jitter, so that a whole fleet of musters that is
// restarted at once does not ask at once. A tick that fails is logged and the
// next one starts afresh; when Buildkite asked for quiet, the next tick waits
// as long as it asked.
func (g *Generator) Run(ctx context.Context, interval, jitter time.Duration) error {
	if jitter > 0 && g.cfg.Clock.Sleep(ctx, rand.N(jitter)) != nil {
		return nil
	}
	for {
		start := g.cfg.Clock.Now()
		result, err := g.Tick(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var limited interface{ RetryAfter() time.Duration }
		switch {
		case errors.As(err, &limited):
			g.cfg.Log.Warn("tick", "err", err)
		case err != nil:
			g.cfg.Log.Error("tick", "err", err)
		default:
			g.reportTroubles(result)
			g.reportActs(result)
		}
		if g.cfg.Done != nil {
			g.cfg.Done(result, err)
		}
		wait := interval - g.cfg.Clock.Now().Sub(start)
		if limited != nil {
			wait = max(wait, limited.RetryAfter())
		}
		if g.cfg.Clock.Sleep(ctx, max(0, wait)) != nil {
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

// Once is one tick of [Generator.Run]. Its error and the result's problems are
// for the caller to report.
func (g *Generator) Once(ctx context.Context) (Result, error) {
	result, err := g.Tick(ctx)
	if err == nil {
		reported := result
		reported.Problems = nil
		g.reportTroubles(reported)
		g.reportActs(result)
	}
	return result, err
}

// reportActs logs one line for a tick.
func (g *Generator) reportActs(r Result) {
	if len(r.Acts) == 0 {
		g.cfg.Log.Debug("nothing to do", "tip", r.Tip.Commit)
		return
	}
	done := "committed"
	if g.cfg.DryRun {
		done = "would commit"
	}
	g.cfg.Log.Info(done, "acts", Summary(r.Acts), "tip", r.Tip.Commit, "races", r.Races)
}

// Summary says in a few words what the acts do, as in "default: dispatch 12;
// default: retire 1".
func Summary(acts []ledger.Act) string {
	words := make([]string, len(acts))
	for i, a := range acts {
		d := a.Decision
		switch a.Kind {
		case ledger.Dispatch:
			words[i] = fmt.Sprintf("%s: dispatch %d", d.Overlay, d.Sum.Dispatch)
		case ledger.Retire:
			words[i] = fmt.Sprintf("%s: retire %d", d.Overlay, len(d.Retire))
		default:
			words[i] = fmt.Sprintf("%s: %s", d.Overlay, a.Kind)
		}
	}
	return strings.Join(words, "; ")
}

// reportTroubles logs one line for each thing that is wrong when it appears,
// changes or goes, and none while it stays.
func (g *Generator) reportTroubles(r Result) {
	now := troubles{}
	for _, p := range r.Problems {
		now.add(p.Overlay+" is held: "+p.Err.Error(), slog.LevelError)
	}
	for _, p := range r.Forgotten {
		now.add(p.Err.Error(), slog.LevelWarn)
	}
	for _, d := range r.Decisions {
		switch breaker := d.State.Breaker; {
		case now.mentions(d.Overlay):
		case breaker.Open(): // one text for as long as it is open
			now.add(fmt.Sprintf("%s is held: the breaker is open since orders failed (%s); see git log", d.Overlay, breaker.Cause), slog.LevelError)
		case d.Paused():
			now.add(d.Overlay+" is held: "+d.Held, slog.LevelWarn)
		case d.Held != "":
			now.add(d.Overlay+" is held: "+d.Held, slog.LevelError)
		}
		for _, u := range d.Observation.Unmatched {
			now.add(fmt.Sprintf("queue %s has jobs that no overlay serves: rules %q, missing %q", d.Queue, u.Rules, u.Missing), slog.LevelWarn)
		}
	}
	for _, t := range now {
		if !g.troubles.has(t) {
			g.cfg.Log.Log(context.Background(), t.level, t.text)
		}
	}
	for _, t := range g.troubles {
		if !now.has(t) {
			g.cfg.Log.Info("no longer: " + t.text)
		}
	}
	g.troubles = now
}

type trouble struct {
	text  string
	level slog.Level
}

type troubles []trouble

func (t *troubles) add(text string, level slog.Level) {
	if !t.has(trouble{text, level}) {
		*t = append(*t, trouble{text, level})
	}
}

func (t troubles) has(x trouble) bool {
	for _, y := range t {
		if x == y {
			return true
		}
	}
	return false
}

func (t troubles) mentions(overlay string) bool {
	for _, y := range t {
		if strings.HasPrefix(y.text, overlay+" is held: ") {
			return true
		}
	}
	return false
}
