package generator

import (
	"context"
	"log/slog"
	"time"

	"muster/generator/plan"
)

// Metrics returns how many jobs and agents there are, with one small request. More jobs
// trigger a tick; nothing is decided on the counts: docs/design.md, "Ticks triggered by
// agent metrics".
type Metrics interface {
	// Counts returns the current counts, or earlier ones if Buildkite asks for a pause
	// between two requests: At is the time of the request.
	Counts(ctx context.Context, at time.Time) (plan.Counts, error)
}

// baseline is what the counts between two ticks are compared with. The zero value
// triggers nothing.
type baseline struct {
	counts   plan.Counts
	overlays []plan.Overlay
}

// readBaseline reads the metrics before a poll, so that jobs that the poll may miss
// trigger the next tick. After an error nothing triggers it.
func (g *Generator) readBaseline(ctx context.Context, now time.Time, overlays []plan.Overlay) error {
	if g.cfg.Wake == nil || g.cfg.Wake.Metrics == nil || g.looks.races > 0 {
		return nil
	}
	counts, err := g.cfg.Wake.Metrics.Counts(ctx, now)
	if err != nil {
		counts = plan.Counts{}
	}
	g.baseline = baseline{counts: counts, overlays: overlays}
	return err
}

// jobsAppeared reads the metrics between two ticks, and reports whether more jobs are
// scheduled than at the last tick.
func (g *Generator) jobsAppeared(ctx context.Context) bool {
	if g.baseline.counts.At.IsZero() {
		return false
	}
	counts, err := g.cfg.Wake.Metrics.Counts(ctx, g.cfg.Clock.Now().UTC().Truncate(time.Second))
	return err == nil && counts.More(g.baseline.overlays, g.baseline.counts)
}

// metricsProblem is the problem that the metrics cannot be read.
func metricsProblem(err error) Problem {
	return Problem{
		Level: slog.LevelWarn, Reason: "metrics", Text: "Buildkite's metrics cannot be read: jobs wait for the next tick",
		news: err.Error(), words: digits.ReplaceAllString(err.Error(), "0"), more: []slog.Attr{slog.String("err", err.Error())},
	}
}
