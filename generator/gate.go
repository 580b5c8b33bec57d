package generator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"muster/generator/manifest"
	"muster/generator/plan"
)

// Gate tells with one small request how many jobs and agents there are. A look at
// Buildkite is left out where a decision without it could not differ: docs/design.md,
// "A look that is left out". Whatever fails at the gate leaves none out.
type Gate interface {
	// Counts returns what there is. Where Buildkite is not to be asked again yet, it is
	// what there was: At says when.
	Counts(ctx context.Context, at time.Time) (plan.Counts, error)
}

const (
	// longestQuiet is how old the last look is at most: what the gate does not show, or
	// shows late, is seen after so long.
	longestQuiet = 2 * time.Minute
	// longestCounts is how old an answer is at most for which a look is left out.
	longestCounts = 15 * time.Second
	// lateCounts is how late counts may be, and distrustFor how long no look is left out
	// once they were later: they do not show what there is.
	lateCounts  = time.Minute
	distrustFor = time.Hour
)

// gate is what is remembered of the gate. The zero value has not been asked.
type gate struct {
	// look is the last whole look, of which a tick made a decision; its At is zero where
	// there is none, or where one has failed since.
	look plan.Snapshot
	// counts are those that the last tick knew, and overlays what it decided on.
	counts   plan.Counts
	overlays []plan.Overlay
	// nothing is when counts were made for which a look was left out, and tip the
	// branch's head then.
	nothing time.Time
	tip     string
	// wrong is when they were last found to be wrong.
	wrong time.Time
	// called reports that something asked for the look of the next tick.
	called bool
}

var errWrongCounts = errors.New("they did not show jobs that a look has shown: is the agent token that of the queues' cluster?")

// leavesOut reports whether the tick can do without a look at Buildkite, and then makes
// its result: nothing but the time has passed since the last one, as far as Buildkite's
// metrics tell, and with that nothing is to be done.
func (g *Generator) leavesOut(ctx context.Context, now time.Time, fleet []manifest.Overlay, r *Result) bool {
	if g.cfg.Gate == nil || g.looks.races > 0 {
		return false
	}
	called := g.gate.called
	g.gate.called, g.gate.overlays = false, manifest.Decidable(fleet)
	counts, err := g.cfg.Gate.Counts(ctx, now)
	if err != nil {
		counts = plan.Counts{}
	}
	g.gate.counts = counts
	if err == nil && now.Sub(g.gate.wrong) < distrustFor && !g.gate.wrong.IsZero() {
		err = errWrongCounts
	}
	r.Gate = err
	last := g.gate.look
	switch age := now.Sub(last.At); {
	case err != nil || called || last.At.IsZero() || age < 0 || age >= longestQuiet:
		return false
	case now.Sub(counts.At) >= longestCounts || !counts.ShowNothing(g.gate.overlays, last):
		return false
	case slices.ContainsFunc(g.gate.overlays, func(o plan.Overlay) bool { return len(o.Dispatches) > 0 }):
		return false // in flight, or to be retired
	}
	left := *r
	last.At = now
	left.Looked, left.LeftOut = Looked{Overlays: g.gate.overlays, Snapshot: last}, true
	g.conclude(&left)
	if slices.ContainsFunc(left.Decisions, func(d plan.Decision) bool { return !d.Observation.ShowsNothing() }) {
		return false
	}
	acts, failed := render(fleet, left.Decisions, g.singly())
	if len(acts)+len(failed) > 0 {
		return false
	}
	left.Suspended = suspended(fleet, left.Decisions)
	g.gate.nothing, g.gate.tip = counts.At, r.Tip.Commit
	g.buildkiteAnswered(nil)
	g.cfg.Log.Debug("no look: Buildkite's metrics show nothing", "last", g.gate.look.At)
	*r = left
	return true
}

// looked keeps a look for the ticks to come, and compares it with what the gate said.
func (g *Generator) looked(r *Result) {
	if g.cfg.Gate == nil {
		return
	}
	g.gate.look = r.Looked.Snapshot
	if !g.gate.look.Until.IsZero() {
		g.gate.look = plan.Snapshot{}
	}
	for _, d := range r.Decisions {
		for _, j := range d.Observation.Jobs {
			same := g.gate.tip == r.Tip.Commit // or an edit may have made them its own
			if same && j.Pending > 0 && j.Oldest != nil && j.Oldest.Before(g.gate.nothing.Add(-lateCounts)) {
				g.gate.wrong = r.Looked.Snapshot.At
			}
		}
	}
	g.gate.nothing = time.Time{}
}

// jobsHaveCome asks the gate between two ticks, and reports whether it tells of more jobs
// than the last tick knew.
func (g *Generator) jobsHaveCome(ctx context.Context) bool {
	if g.gate.counts.At.IsZero() {
		return false
	}
	counts, err := g.cfg.Gate.Counts(ctx, g.cfg.Clock.Now().UTC().Truncate(time.Second))
	return err == nil && counts.More(g.gate.overlays, g.gate.counts)
}

// gateProblem is the problem that no look can be left out.
func gateProblem(err error) Problem {
	return Problem{
		Level: slog.LevelWarn, Reason: "gate", Text: "Buildkite's metrics are of no use now: no look is left out",
		news: err.Error(), words: digits.ReplaceAllString(err.Error(), "0"), more: []slog.Attr{slog.String("err", err.Error())},
	}
}
