package generator

import (
	"errors"
	"log/slog"
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
// tick could not check it, because its condition is unknown or its queue was not polled. A symptom
// ends when its cause begins.
func unchecked(now []condition.Condition) func(problem) bool {
	polled := map[string]bool{}
	for _, c := range now {
		polled[c.Queue] = polled[c.Queue] || c.Overlay != "" && c.Status != condition.Unknown
	}
	return func(p problem) bool {
		unknown := slices.ContainsFunc(now, func(c condition.Condition) bool {
			return c.Overlay == p.Overlay && c.Type == p.Type && c.Status == condition.Unknown && !c.IsSymptom()
		})
		return unknown || p.Queue != "" && p.Reason != condition.NoOverlay && !polled[p.Queue]
	}
}

// lasted is the attribute that says how long something took.
func lasted(d time.Duration) slog.Attr {
	return slog.Duration("duration", d.Round(time.Millisecond))
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
