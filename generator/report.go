package generator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// reporter logs operations and problems of ticks, and notifies the watcher.
type reporter struct {
	log      *slog.Logger
	clock    Clock
	watch    Watcher // optional
	dryRun   bool
	problems problemLog
	// conditions are those after the last tick.
	conditions []condition.Condition
	progress   progress // of the tick under way, or of the last one
}

// begin begins a tick.
func (rep *reporter) begin() { rep.progress = progress{took: map[Step]time.Duration{}} }

// end ends the step under way, which is the one that failed if the tick did.
func (rep *reporter) end() {
	rep.progress.failed = rep.progress.step
	rep.enter("")
}

// reportOperations logs one line for each operation of a tick.
func (rep *reporter) reportOperations(r Result, took time.Duration) {
	for _, a := range r.Landed {
		rep.reportOperation(a, slog.String("head", r.Head.Commit), slog.Bool("late", true))
	}
	for _, a := range r.Operations {
		attrs := []slog.Attr{slog.String("head", r.Head.Commit), lasted(took)}
		if r.Conflicts > 0 {
			attrs = append(attrs, slog.Int("conflicts", r.Conflicts))
		}
		rep.reportOperation(a, attrs...)
	}
	if len(r.Operations)+len(r.Landed) == 0 {
		rep.log.LogAttrs(context.Background(), slog.LevelDebug, "nothing to do", slog.String("head", r.Head.Commit), lasted(took))
	}
}

func (rep *reporter) reportOperation(a ledger.Draft, more ...slog.Attr) {
	level, text := describe(a)
	if rep.dryRun {
		text = "dry run: " + text
	}
	if a.Kind == ledger.Dispatch {
		more = append(more, slog.String("why", a.Decision.Why(!rep.dryRun)))
	}
	rep.log.LogAttrs(context.Background(), level, text, append(operationAttrs(a), more...)...)
}

// describe returns the log level and the message for an operation. A dispatch that failed is a
// warning from the first one.
func describe(a ledger.Draft) (slog.Level, string) {
	switch a.Kind {
	case ledger.Dispatch:
		if a.Decision.Trial {
			return slog.LevelInfo, "dispatched a trial"
		}
		return slog.LevelInfo, "dispatched"
	case ledger.Withdraw:
		if !slices.ContainsFunc(a.Retirements(), func(r plan.Retirement) bool { return !r.Copied }) {
			return slog.LevelInfo, "withdrawn: copies of another overlay's dispatches"
		}
		return slog.LevelWarn, "withdrawn: the template changed before an agent registered"
	case ledger.Retire:
		if worst := plan.WorstFailure(a.Retirements()); worst != "" {
			return slog.LevelWarn, "retired, the order failed: " + worst.String()
		}
		if !slices.ContainsFunc(a.Retirements(), func(r plan.Retirement) bool { return !r.Copied }) {
			return slog.LevelInfo, "retired copies of another overlay's dispatches"
		}
		return slog.LevelInfo, "retired"
	}
	return slog.LevelInfo, "repaired"
}

// operationAttrs returns the overlay, queue, reason, agents and dispatches of an operation, and
// the command that deletes pods that have not started.
func operationAttrs(a ledger.Draft) []slog.Attr {
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
	case ledger.Withdraw, ledger.Retire:
		for _, x := range a.Retirements() {
			reason(x.Outcome())
			registered += x.Registered
		}
	case ledger.Repair:
		for _, f := range a.Faults {
			reason(f.File + " " + f.Problem)
		}
	}
	if orders := a.Operation("").Orders; len(orders) > 0 {
		agents, ids := 0, []string{}
		for _, o := range orders {
			agents, ids = agents+o.Agents, append(ids, o.ID)
		}
		attrs = append(attrs, slog.Int("agents", agents))
		if a.Kind == ledger.Retire {
			attrs = append(attrs, slog.Int("registered", registered))
		}
		attrs = append(attrs, slog.String("dispatch", strings.Join(ids, " ")))
	}
	if len(reasons) > 0 {
		attrs = append(attrs, slog.String("reason", strings.Join(reasons, ", ")))
	}
	if command := ledger.DeletePending(ledger.Unregistered(d.Retire)); command != "" && a.Kind == ledger.Retire {
		attrs = append(attrs, slog.String("delete-unstarted", command))
	}
	return attrs
}

// Watcher receives every tick of [Generator.Run], in the goroutine that ticks: its work takes
// time from the tick, and it must copy what it keeps.
type Watcher interface {
	// Began is called when a tick begins.
	Began(at time.Time)
	// Ended is called when it has ended, with or without an error.
	Ended(Report)
}

// Report is what one tick of [Generator.Run] was: everything that metrics, status
// and trials are made from.
type Report struct {
	// Began and Ended are when the tick began and ended, and Next is when the
	// next one is to begin.
	Began, Ended, Next time.Time
	// Cause is what triggered it. Deferred reports that a webhook triggered it before, and that the
	// poll waited for Buildkite's rate limit.
	Cause    Cause
	Deferred bool
	// Result is what it found and did, and Err why it failed; nil when it did not.
	Result Result
	Err    error
	// Outcome is its outcome, and Failed the step that failed; empty if none did.
	Outcome Outcome
	Failed  Step
	// Steps is how long each of its steps took, over all tries.
	Steps map[Step]time.Duration
	// Git and Buildkite are when each last answered in this tick; zero where it did
	// not, or was not asked.
	Git, Buildkite time.Time
	// DryRun reports that the acts were not committed.
	DryRun bool
	// Conditions are the conditions of all overlays, of queues, and of muster itself after the
	// tick. Those of a step that was not reached are from an earlier tick.
	Conditions []condition.Condition
}

// Outcome is the outcome of a tick.
type Outcome string

// The outcomes of a tick.
const (
	// Committed: something was done, and is in git.
	Committed Outcome = "committed"
	// Unchanged: there was nothing to do.
	Unchanged Outcome = "unchanged"
	// Waiting: the poll of Buildkite needs more requests than the rate limit allows now, or some of
	// them failed although others succeed. It continues with the next tick.
	Waiting Outcome = "waiting"
	// Limited: Buildkite, or the host of the repository, limits requests for a while.
	Limited Outcome = "limited"
	// Conflict: on every try, the branch had moved before the push.
	Conflict Outcome = "conflict"
	// Failed: git or Buildkite could not be read or written, or the overlays could
	// not be read.
	Failed Outcome = "failed"
)

// Outcomes are all outcomes of a tick.
func Outcomes() []Outcome {
	return []Outcome{Committed, Unchanged, Waiting, Limited, Conflict, Failed}
}

// Step is a part of a tick.
type Step string

// The steps of a tick, in order of execution.
const (
	// StepHead asks git for the branch's head.
	StepHead Step = "head"
	// StepLoad reads the overlays, and builds templates that have changed.
	StepLoad Step = "load"
	// StepPoll reads Buildkite.
	StepPoll Step = "poll"
	// StepDecide reduces what was read to decisions.
	StepDecide Step = "decide"
	// StepRender makes files of them.
	StepRender Step = "render"
	// StepCommit pushes the commits.
	StepCommit Step = "commit"
)

// Steps returns all steps of a tick, in order of execution.
func Steps() []Step {
	return []Step{StepHead, StepLoad, StepPoll, StepDecide, StepRender, StepCommit}
}

// progress is the current step of a tick, and the durations so far.
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
		p.took[p.step] += now.Sub(p.since)
	}
	p.step, p.since = s, now
}

// gitAnswered and buildkiteAnswered store the time if err shows that the server answered: a
// refusal is an answer too, and so is one of several requests that succeeded.
func (rep *reporter) gitAnswered(err error) {
	var refused *branch.Refused
	if err == nil || errors.Is(err, branch.ErrMoved) || errors.As(err, &refused) {
		rep.progress.git = rep.clock.Now()
	}
}

func (rep *reporter) buildkiteAnswered(err error) {
	var wait plan.SpreadError
	answered := err == nil
	if errors.As(err, &wait) {
		requests, _ := wait.Stretched()
		answered = !failing(wait) || requests > 0
	}
	if answered {
		rep.progress.buildkite = rep.clock.Now()
	}
}

// outcomeOf returns the outcome of a tick.
func outcomeOf(r Result, err error) Outcome {
	var wait plan.SpreadError
	var refused plan.RetryError
	switch {
	case errors.As(err, &wait):
		return Waiting
	case errors.As(err, &refused):
		return Limited
	case errors.Is(err, ErrConflicts):
		return Conflict
	case err != nil:
		return Failed
	case len(r.Operations) > 0:
		return Committed
	}
	return Unchanged
}

// report notifies the watcher of a tick that has ended. spread is the condition that the poll is
// spread over several ticks, if any.
func (rep *reporter) report(report Report, spread []condition.Condition) {
	if rep.watch == nil {
		return
	}
	p := rep.progress
	report.Outcome = outcomeOf(report.Result, report.Err)
	report.Steps, report.Git, report.Buildkite, report.DryRun = p.took, p.git, p.buildkite, rep.dryRun
	report.Conditions = append(slices.Clone(rep.conditions), spread...)
	if report.Err != nil && report.Outcome != Waiting {
		report.Failed = p.failed
	}
	rep.watch.Ended(report)
}

// reportTick logs the operations of a tick and the problems that begin or end with it, and brings
// the conditions up to date.
func (rep *reporter) reportTick(r Result, err error, took time.Duration) {
	now := rep.clock.Now()
	var wait plan.SpreadError
	switch {
	case errors.As(err, &wait): // neither a success nor a failure
	case err != nil:
		failed := failure(rep.progress.failed, err, took)
		rep.problems.update(rep.log, now, []problem{failed}, func(k problemState) bool {
			return k.step == "" || slices.Index(Steps(), k.step) > slices.Index(Steps(), failed.step)
		})
		before := rep.conditions
		if len(r.Decisions) > 0 { // it failed after the decision
			before = r.Conditions(now)
		}
		rep.conditions = condition.Since(rep.conditions, withFailure(before, failed.Condition), now)
	default:
		all := r.Conditions(now)
		if pushed := !rep.dryRun && len(r.Operations)+len(r.Landed) > 0; !pushed {
			all = withoutPush(rep.conditions, all)
		}
		all = condition.Since(rep.conditions, all, now)
		lasting := unchecked(all)
		rep.problems.update(rep.log, now, problems(all), func(k problemState) bool {
			return !k.ended && lasting(k.problem)
		})
		rep.conditions = all
	}
	if err == nil || len(r.Operations)+len(r.Landed) > 0 {
		rep.reportOperations(r, took)
	}
}
