package generator

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"time"

	"muster/generator/condition"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// problem is an abnormal condition as the log reports it.
type problem struct {
	condition.Condition
	// step is the step in which a tick failed, and took the time of the tick; empty and zero for
	// a condition of what a tick read.
	step Step
	took time.Duration
}

// text returns the message of a log line, which stays the same while the problem lasts.
func (p problem) text() string {
	if p.step != "" {
		return "tick failed"
	}
	return p.Summary()
}

// digits are what may differ in the message of a problem that has not changed.
var digits = regexp.MustCompile(`[0-9]+`)

// words returns the message without figures.
func (p problem) words() string { return digits.ReplaceAllString(p.Message, "0") }

// attrs returns the attributes of each log line about the problem.
func (p problem) attrs() []slog.Attr {
	var attrs []slog.Attr
	for _, a := range []slog.Attr{slog.String("overlay", p.Overlay), slog.String("queue", p.Queue), slog.String("cluster", p.Cluster), slog.String("condition", string(p.Type)), slog.String("reason", p.Reason)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// details returns the attributes of a log line about a problem that is not over.
func (p problem) details() []slog.Attr {
	switch {
	case p.step != "":
		return []slog.Attr{slog.String("step", string(p.step)), slog.String("err", p.Message), lasted(p.took)}
	case p.Type == condition.Suspended || p.Message == p.Summary():
		return nil
	}
	return []slog.Attr{slog.String("message", p.Message)}
}

// same reports whether two problems are one.
func (p problem) same(o problem) bool { return p.Same(o.Condition) && p.text() == o.text() }

// in reports whether a problem is among others.
func (p problem) in(others []problem) bool { return slices.ContainsFunc(others, p.same) }

// Conditions returns the conditions of all overlays, of queues that no overlay serves, and of
// muster itself, after a tick without an error.
func (r Result) Conditions(now time.Time) []condition.Condition {
	overlays := map[string]*condition.Overlay{}
	at := func(name string) *condition.Overlay {
		if overlays[name] == nil {
			overlays[name] = &condition.Overlay{Name: name, Now: now, Repair: r.Repairs[name].Subject, Repaired: r.Repairs[name].At}
		}
		return overlays[name]
	}
	for i := range r.Decisions {
		at(r.Decisions[i].Overlay).Decision = &r.Decisions[i]
	}
	for _, s := range r.Suspended {
		at(s.Overlay).Suspended = s.Why
	}
	for _, w := range r.Warnings {
		at(w.Overlay).StateError = w.Err.Error()
	}
	all := r.own()
	for _, name := range slices.Sorted(maps.Keys(overlays)) {
		all = append(all, overlays[name].Conditions()...)
	}
	return all
}

// own returns the conditions that concern no single overlay. BuildkiteAvailable is unknown if the
// tick did not poll.
func (r Result) own() []condition.Condition {
	var degraded []condition.Condition
	if unread := r.Input.Snapshot.Unread; unread != "" {
		degraded = append(degraded, condition.Condition{Reason: condition.ListUnread, Message: unread})
	}
	if r.Metrics != nil {
		degraded = append(degraded, condition.Condition{Reason: condition.MetricsUnavailable, Message: r.Metrics.Error()})
	}
	if r.PollTook > condition.SlowPoll {
		degraded = append(degraded, condition.Condition{Reason: condition.PollSlow, Message: fmt.Sprintf("the poll of Buildkite took %d s: agents are ordered that much later", r.PollTook/time.Second)})
	}
	buildkite := condition.Normal(condition.BuildkiteAvailable)
	if r.Input.Snapshot.At.IsZero() {
		buildkite.Status, buildkite.Reason, buildkite.Message = condition.Unknown, condition.NoAnswer, "Buildkite was not polled, because no overlay is valid"
	}
	all := append([]condition.Condition{
		condition.Normal(condition.RepositoryAvailable), buildkite, condition.Normal(condition.PushAccepted),
	}, condition.DegradedBy(degraded...)...)
	for _, u := range r.Unserved {
		all = append(all, condition.NotServed(u))
	}
	return all
}

// problems lists what is wrong after a tick, each once, without drift: each repair is logged as
// an operation.
func problems(all []condition.Condition) []problem {
	var found []problem
	for _, c := range condition.Problems(all) {
		if c.Type != condition.Drifted {
			found = append(found, problem{Condition: c})
		}
	}
	return found
}

// unchecked returns a function that reports whether an earlier problem may persist although this
// tick could not check it, because its condition is unknown or its queue was not polled.
func unchecked(now []condition.Condition) func(problem) bool {
	polled := map[string]bool{}
	for _, c := range now {
		polled[c.Queue] = polled[c.Queue] || c.Overlay != "" && c.Status != condition.Unknown
	}
	return func(p problem) bool {
		unknown := slices.ContainsFunc(now, func(c condition.Condition) bool {
			return c.Overlay == p.Overlay && c.Type == p.Type && c.Status == condition.Unknown
		})
		return unknown || p.Queue != "" && p.Reason != condition.NoOverlay && !polled[p.Queue]
	}
}

// lasted is the attribute that says how long something took.
func lasted(d time.Duration) slog.Attr {
	return slog.Duration("duration", d.Round(time.Millisecond))
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

// stepConditions are the conditions of muster itself in the order of the steps of a tick.
var stepConditions = []condition.Type{condition.RepositoryAvailable, condition.BuildkiteAvailable, condition.PushAccepted}

// withoutPush returns the conditions after a tick that pushed nothing. If the last push failed,
// PushAccepted is unknown until the next push. A conflict is over: the server has refused nothing.
func withoutPush(before, all []condition.Condition) []condition.Condition {
	ofMuster := func(c condition.Condition) bool { return c.Type == condition.PushAccepted && c.Overlay == "" }
	i, now := slices.IndexFunc(before, ofMuster), slices.IndexFunc(all, ofMuster)
	if i < 0 || before[i].Status == condition.True || before[i].Reason == condition.Conflict {
		return all
	}
	all[now] = notObserved(before[i])
	return all
}

// notObserved returns a condition after a tick that did not observe it: an abnormal one becomes
// unknown, with the same reason.
func notObserved(c condition.Condition) condition.Condition {
	if c.Abnormal() {
		c.Status, c.Message, c.Remedy, c.LastTransitionTime = condition.Unknown, "not tried again since: "+c.Message, "", time.Time{}
	}
	return c
}

// withFailure returns the conditions after a tick that failed: those of earlier steps are normal,
// and abnormal ones of later steps are unknown. The others stay.
func withFailure(before []condition.Condition, failed condition.Condition) []condition.Condition {
	step := slices.Index(stepConditions, failed.Type)
	all := []condition.Condition{failed}
	for i, t := range stepConditions {
		if i < step {
			all = append(all, condition.Normal(t))
		}
	}
	for _, c := range before {
		own := c.Overlay == "" && c.Queue == ""
		switch at := slices.Index(stepConditions, c.Type); {
		case own && at > step:
			all = append(all, notObserved(c))
		case !own, at < 0 && c.Type != failed.Type:
			all = append(all, c)
		}
	}
	return all
}

// failure returns the problem of a tick that failed in a step.
func failure(step Step, err error, took time.Duration) problem {
	var limited plan.RetryError
	var refused *branch.Refused
	c := condition.Condition{Status: condition.False, Message: err.Error()}
	switch step {
	case StepPoll:
		c.Type, c.Reason = condition.BuildkiteAvailable, condition.PollFailed
	case StepCommit:
		c.Type, c.Reason = condition.PushAccepted, condition.PushFailed
	case StepDecide, StepRender:
		c.Type, c.Reason = condition.Ready, condition.InternalError
	default:
		c.Type, c.Reason = condition.RepositoryAvailable, condition.ReadFailed
	}
	switch {
	case errors.Is(err, ErrConflicts):
		step, c.Type, c.Reason = StepCommit, condition.PushAccepted, condition.Conflict
	case errors.As(err, &limited):
		c.Reason = condition.RateLimited
	case errors.As(err, &refused) && step == StepCommit:
		c.Reason = condition.Refused
	}
	return problem{Condition: c.WithRemedy(), step: step, took: took}
}
