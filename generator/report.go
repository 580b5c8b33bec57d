package generator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// reporter logs what ticks do and what is wrong, and tells the watcher.
type reporter struct {
	log      *slog.Logger
	clock    Clock
	watch    Watcher // optional
	dryRun   bool
	troubles troubles
	progress progress // of the tick under way, or of the last one
}

// begin begins a tick.
func (rep *reporter) begin() { rep.progress = progress{} }

// end ends the step under way, which is the one that failed if the tick did.
func (rep *reporter) end() {
	rep.progress.failed = rep.progress.step
	rep.enter("")
}

// reportActs logs one line for each act of a tick.
func (rep *reporter) reportActs(r Result, took time.Duration) {
	for _, a := range r.Landed {
		rep.reportAct(a, slog.String("head", r.Tip.Commit), slog.Bool("late", true))
	}
	for _, a := range r.Acts {
		attrs := []slog.Attr{slog.String("head", r.Tip.Commit), lasted(took)}
		if r.Races > 0 {
			attrs = append(attrs, slog.Int("races", r.Races))
		}
		rep.reportAct(a, attrs...)
	}
	if len(r.Acts)+len(r.Landed) == 0 {
		rep.log.LogAttrs(context.Background(), slog.LevelDebug, "nothing to do", slog.String("head", r.Tip.Commit), lasted(took))
	}
}

func (rep *reporter) reportAct(a ledger.Act, more ...slog.Attr) {
	level, text := describe(a)
	if rep.dryRun {
		text = "dry run: " + text
	}
	if a.Kind == ledger.Dispatch {
		more = append(more, slog.String("why", a.Decision.Why()))
	}
	rep.log.LogAttrs(context.Background(), level, text, append(actAttrs(a), more...)...)
}

// describe says what an act did. A dispatch that failed is a warning from the
// first on.
func describe(a ledger.Act) (slog.Level, string) {
	switch a.Kind {
	case ledger.Dispatch:
		if a.Decision.Probe {
			return slog.LevelInfo, "dispatched a probe"
		}
		return slog.LevelInfo, "dispatched"
	case ledger.Retire:
		if worst := plan.WorstFailure(a.Decision.Retire); worst != "" {
			return slog.LevelWarn, "retired, the order failed: " + worst.String()
		}
		if slices.ContainsFunc(a.Decision.Retire, func(r plan.Retirement) bool { return r.Reason == plan.Withdrawn }) {
			return slog.LevelWarn, "withdrawn: the template changed before an agent registered"
		}
		return slog.LevelInfo, "retired"
	}
	return slog.LevelInfo, "repaired"
}

// actAttrs returns the overlay, queue, reason, agents and dispatches of an act, and the
// command that deletes pods that have not started.
func actAttrs(a ledger.Act) []slog.Attr {
	d := a.Decision
	attrs := []slog.Attr{slog.String("overlay", d.Overlay), slog.String("queue", d.Queue)}
	var reasons []string
	reason := func(r string) {
		if !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	registered := 0
	switch a.Kind {
	case ledger.Dispatch:
		for _, x := range d.Dispatch {
			reason(string(x.Purpose))
		}
	case ledger.Retire:
		for _, x := range d.Retire {
			reason(x.Outcome())
			registered += x.Registered
		}
	case ledger.Repair:
		for _, f := range a.Faults {
			reason(f.File + " " + f.Problem)
		}
	}
	if ids, agents := a.Dispatches(); len(ids) > 0 {
		attrs = append(attrs, slog.Int("agents", agents))
		if a.Kind == ledger.Retire {
			attrs = append(attrs, slog.Int("registered", registered))
		}
		attrs = append(attrs, slog.String("dispatch", strings.Join(ids, " ")))
	}
	if len(reasons) > 0 {
		attrs = append(attrs, slog.String("reason", strings.Join(reasons, ", ")))
	}
	if command := ledger.DeleteUnstarted(d.Retire); command != "" && a.Kind == ledger.Retire {
		attrs = append(attrs, slog.String("delete-unstarted", command))
	}
	return attrs
}

// Watcher is told of every tick of [Generator.Run], by the goroutine that ticks:
// what it does is taken from the tick's time, and what it keeps it must copy.
type Watcher interface {
	// Began is called when a tick begins.
	Began(at time.Time)
	// Ended is called when it has ended, whatever became of it.
	Ended(Report)
}

// Report is what one tick of [Generator.Run] was: everything that metrics, status
// and probes are made from.
type Report struct {
	// Began and Ended are when the tick began and ended, and Next is when the
	// next one is to begin.
	Began, Ended, Next time.Time
	// Cause is what it began for. Deferred reports that a webhook called before, and
	// that the look waited for Buildkite's request limit.
	Cause    Cause
	Deferred bool
	// Result is what it found and did, and Err why it failed; nil when it did not.
	Result Result
	Err    error
	// Outcome is what became of it, and Failed the step in which it came to an end
	// before its time; empty where it did not.
	Outcome Outcome
	Failed  Step
	// Steps is how long each of its steps took, over all tries.
	Steps map[Step]time.Duration
	// Git and Buildkite are when each last answered in this tick; zero where it did
	// not, or was not asked.
	Git, Buildkite time.Time
	// DryRun reports that the acts were not committed.
	DryRun bool
	// Problems is all that is wrong after it, the oldest first.
	Problems []Problem
}

// Outcome is what became of a tick.
type Outcome string

// The outcomes of a tick.
const (
	// Committed: something was done, and is in git.
	Committed Outcome = "committed"
	// Unchanged: there was nothing to do.
	Unchanged Outcome = "unchanged"
	// Waiting: the look at Buildkite takes more requests than may be sent now, and
	// goes on with the next tick. Nothing is wrong.
	Waiting Outcome = "waiting"
	// Limited: Buildkite, or the host of the repository, asks not to be asked for a while.
	Limited Outcome = "limited"
	// Raced: another writer was first on every try.
	Raced Outcome = "raced"
	// Failed: git or Buildkite could not be read or written, or the overlays could
	// not be read.
	Failed Outcome = "failed"
)

// Outcomes are all outcomes of a tick.
func Outcomes() []Outcome {
	return []Outcome{Committed, Unchanged, Waiting, Limited, Raced, Failed}
}

// Step is a part of a tick.
type Step string

// The steps of a tick, in their order.
const (
	// StepTip asks git for the branch's head.
	StepTip Step = "tip"
	// StepLoad reads the overlays, and builds templates that have changed.
	StepLoad Step = "load"
	// StepObserve reads Buildkite.
	StepObserve Step = "observe"
	// StepDecide reduces what was read to decisions.
	StepDecide Step = "decide"
	// StepRender makes files of them.
	StepRender Step = "render"
	// StepCommit pushes the commits.
	StepCommit Step = "commit"
)

// Steps are all steps of a tick, in their order.
func Steps() []Step {
	return []Step{StepTip, StepLoad, StepObserve, StepDecide, StepRender, StepCommit}
}

// progress is where a tick is, and what it was so far. The zero value is that of
// a tick that begins.
type progress struct {
	step           Step // under way; empty: none
	since          time.Time
	took           map[Step]time.Duration
	git, buildkite time.Time
	failed         Step // the last one, of a tick that has ended
}

// enter ends the step under way and begins another; empty begins none.
func (rep *reporter) enter(s Step) {
	now, p := rep.clock.Now(), &rep.progress
	if p.step != "" {
		if p.took == nil {
			p.took = map[Step]time.Duration{}
		}
		p.took[p.step] += now.Sub(p.since)
	}
	p.step, p.since = s, now
}

// gitAnswered and buildkiteAnswered note what an error says about whether the
// other side answers: a refusal is an answer too.
func (rep *reporter) gitAnswered(err error) {
	var refused *branch.Refused
	if err == nil || errors.Is(err, branch.ErrMoved) || errors.As(err, &refused) {
		rep.progress.git = rep.clock.Now()
	}
}

func (rep *reporter) buildkiteAnswered(err error) {
	var wait plan.SpreadError
	if err == nil || errors.As(err, &wait) {
		rep.progress.buildkite = rep.clock.Now()
	}
}

// outcomeOf says what became of a tick.
func outcomeOf(r Result, err error) Outcome {
	var wait plan.SpreadError
	var refused plan.RetryError
	switch {
	case errors.As(err, &wait):
		return Waiting
	case errors.As(err, &refused):
		return Limited
	case errors.Is(err, ErrRaces):
		return Raced
	case err != nil:
		return Failed
	case len(r.Acts) > 0:
		return Committed
	}
	return Unchanged
}

// report tells the watcher of a tick that has ended: what is known of it by the loop,
// and by the tick itself. more are problems that others keep.
func (rep *reporter) report(report Report, more ...Problem) {
	if rep.watch == nil {
		return
	}
	p := rep.progress
	report.Outcome = outcomeOf(report.Result, report.Err)
	report.Steps, report.Git, report.Buildkite, report.DryRun, report.Problems = p.took, p.git, p.buildkite, rep.dryRun, rep.troubles.current()
	report.Problems = append(report.Problems, more...)
	if report.Err != nil && report.Outcome != Waiting {
		report.Failed = p.failed
	}
	rep.watch.Ended(report)
}

// Looked is what a tick decided on.
type Looked struct {
	// Overlays are those that could be decided on, as they were in git.
	Overlays []plan.Overlay
	// Snapshot is what Buildkite said; its At is zero where it was not read.
	Snapshot plan.Snapshot
}
