package status

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"muster/generator/condition"
	"muster/generator/plan"
)

// Stuck returns why the loop of ticks is presumed to hang. It returns an empty string as long
// as the current tick takes, or the next one is overdue by, at most Interval plus Longest of
// [Config].
func (s Snapshot) Stuck(now time.Time) string {
	from, doing := s.Started, "no tick has begun since the start"
	switch t := s.Tick; {
	case t.Running:
		from, doing = t.Began, "a tick has been under way"
	case t.Count > 0:
		from, doing = t.Next, "the next tick is overdue"
	}
	if over := now.Sub(from); over > s.interval+s.longest {
		return fmt.Sprintf("%s for %s; at most %s is normal", doing, over.Round(time.Second), s.interval+s.longest)
	}
	return ""
}

// tokenWarning is how long before it expires a token is a problem.
const tokenWarning = 14 * 24 * time.Hour

// At returns the snapshot with the conditions of muster itself at a time. RepositoryAvailable and
// BuildkiteAvailable are false only if the server has not answered for two intervals, and
// PushAccepted if pushes fail for that long or are refused, so that a single failed tick changes
// nothing. A longer tick, or a wait that a server asks for, makes the interval longer. A running
// tick does not count: its requests may not have been sent yet, and [Snapshot.Stuck] limits it.
func (s Snapshot) At(now time.Time) Snapshot {
	kept := []condition.Condition{}
	var degraded []condition.Condition
	for _, c := range s.Conditions {
		switch {
		case c.Type == condition.Degraded:
			if c.Abnormal() {
				degraded = append(degraded, c)
			}
		case c.Type == condition.PushAccepted && c.Reason == condition.PushFailed && now.Sub(c.LastTransitionTime) <= 2*s.interval:
			kept = append(kept, condition.Normal(condition.PushAccepted))
		case c.Type != condition.RepositoryAvailable && c.Type != condition.BuildkiteAvailable && c.Type != condition.Ready:
			kept = append(kept, c)
		}
	}
	if left := s.TokenExpires.Sub(now); !s.TokenExpires.IsZero() && left < tokenWarning {
		degraded = append(degraded, condition.Condition{Reason: condition.TokenExpires, Message: "the Buildkite API token expires at " + s.TokenExpires.UTC().Format(time.RFC3339)})
	}
	all := append([]condition.Condition{s.server(condition.RepositoryAvailable, s.Git, now), s.server(condition.BuildkiteAvailable, s.Buildkite, now)}, kept...)
	s.Conditions = append([]condition.Condition{s.ready(all, now)}, append(all, condition.DegradedBy(degraded...)...)...)
	s.Overlays = slices.Clone(s.Overlays)
	for _, c := range s.Conditions {
		own := c.Type == condition.Ready && (c.Reason == condition.Stuck || c.Reason == condition.InternalError)
		if own || c.Type != condition.Ready && blocks(c) {
			for i := range s.Overlays {
				s.Overlays[i] = s.Overlays[i].notReady(c)
			}
			break
		}
	}
	return s
}

// notReady returns the overlay as not ready because of a condition of muster itself. An overlay
// that is not ready for a reason of its own stays as it is.
func (o Overlay) notReady(cause condition.Condition) Overlay {
	o.Conditions = slices.Clone(o.Conditions)
	for i, c := range o.Conditions {
		if c.Type == condition.Ready && !c.Abnormal() {
			cause.Type, cause.Status, cause.Overlay = condition.Ready, condition.False, o.Name
			o.Conditions[i] = cause
		}
	}
	o.State = condition.State(o.Conditions)
	return o
}

// ready returns the condition Ready of muster itself: it is false if git, Buildkite or a push
// fails, the files of an overlay are invalid, or no tick ends.
func (s Snapshot) ready(own []condition.Condition, now time.Time) condition.Condition {
	if stuck := s.Stuck(now); stuck != "" {
		return condition.Condition{Type: condition.Ready, Status: condition.False, Reason: condition.Stuck, Message: stuck}.WithRemedy()
	}
	if all := s.blocking(own); len(all) > 0 {
		c := all[0]
		c.Type = condition.Ready
		if c.Status == condition.True { // as of Suspended
			c.Status = condition.False
		}
		if c.Overlay != "" {
			c.Message, c.Overlay = "overlay "+c.Overlay+": "+c.Message, ""
		}
		return c
	}
	if c, _ := condition.Find(s.Conditions, condition.Ready); c.Abnormal() {
		return c
	}
	return condition.Normal(condition.Ready)
}

// blocks reports whether muster is not ready because of a condition of its own.
func blocks(c condition.Condition) bool {
	unavailable := c.Type == condition.RepositoryAvailable || c.Type == condition.BuildkiteAvailable
	return c.Abnormal() && c.Queue == "" && (unavailable || c.Level() == slog.LevelError)
}

// blocking returns the conditions for which muster is not ready. It ignores an unknown PushAccepted:
// there was nothing to push since a failed push.
func (s Snapshot) blocking(own []condition.Condition) []condition.Condition {
	var all []condition.Condition
	for _, c := range own {
		if c.Status == condition.Unknown && c.Type != condition.PushAccepted || blocks(c) {
			all = append(all, c)
		}
	}
	for _, o := range s.Overlays {
		for _, c := range o.Conditions {
			if c.Abnormal() && (c.Reason == string(plan.Invalid) && c.Type == condition.Suspended || c.Type == condition.PushAccepted) {
				all = append(all, c)
			}
		}
	}
	return all
}

// notAsked is the problem of a server to which a tick sent no request, because an earlier step
// failed.
const notAsked = "no request was sent, because an earlier step failed"

// server returns the condition of git or Buildkite.
func (s Snapshot) server(t condition.Type, c Contact, now time.Time) condition.Condition {
	failed, ok := condition.Find(s.Conditions, t)
	failing := ok && failed.Abnormal()
	asked := now
	if s.Tick.Running && s.Tick.Began.Before(now) {
		asked = s.Tick.Began
	}
	if !c.Answered.IsZero() && !asked.After(c.until) {
		if failing && failed.Reason != condition.RateLimited && now.Sub(failed.LastTransitionTime) > 2*s.interval {
			return failed // it answers, but what it answers is of no use
		}
		if ok && failed.Status == condition.True {
			return failed
		}
		return condition.Normal(t)
	}
	name := map[condition.Type]string{condition.RepositoryAvailable: "git", condition.BuildkiteAvailable: "Buildkite"}[t]
	result := condition.Condition{Type: t, Status: condition.False, Reason: condition.NoAnswer, Message: c.silence(name, now), LastTransitionTime: c.Answered}
	switch {
	case failing:
		result.Reason, result.LastTransitionTime = failed.Reason, failed.LastTransitionTime
	case c.Answered.IsZero(), c.Problem == notAsked:
		result.Status = condition.Unknown
	}
	return result.WithRemedy()
}

// Problems returns the abnormal conditions of muster, of queues and of overlays, the most urgent
// first. Call it on the result of [Snapshot.At].
func (s Snapshot) Problems() []condition.Condition {
	all := slices.Clone(s.Conditions)
	for _, o := range s.Overlays {
		all = append(all, o.Conditions...)
	}
	return condition.Problems(all)
}

// NotReady lists why muster is not ready, a line for each condition; empty if it is ready. Call
// it on the result of [Snapshot.At].
func (s Snapshot) NotReady() []string {
	var all []string
	for _, c := range s.blocking(s.Conditions) {
		if c.Type != condition.Ready || c.Reason == condition.Stuck || c.Reason == condition.InternalError {
			all = append(all, c.String())
		}
	}
	return all
}

// Fresh reports whether the figures are those of now: git and Buildkite have answered lately.
func (s Snapshot) Fresh(now time.Time) bool {
	return !now.After(s.Git.fresh) && !now.After(s.Buildkite.fresh)
}

// silence describes since when a server has not answered, and why.
func (c Contact) silence(name string, now time.Time) string {
	text := name + " has not been read yet"
	if !c.Answered.IsZero() {
		text = fmt.Sprintf("the last successful read of %s was %s ago", name, now.Sub(c.Answered).Round(time.Second))
	}
	if c.Problem != "" {
		text += ": " + strings.ReplaceAll(c.Problem, "\n", " | ")
	}
	return text
}

// Interval is the time from tick to tick, as configured.
func (s Snapshot) Interval() time.Duration { return s.interval }
