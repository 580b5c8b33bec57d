package generator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"muster/generator/condition"
)

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
	return condition.WithoutSymptoms(all)
}

// own returns the conditions that concern no single overlay. BuildkiteAvailable is unknown if the
// tick did not poll.
func (r Result) own() []condition.Condition {
	degraded := slices.Clone(r.Triggers)
	if unread := r.Input.Snapshot.Unread; unread != "" {
		degraded = append(degraded, condition.Condition{Reason: condition.ListUnread, Message: unread})
	}
	if r.Metrics != nil {
		degraded = append(degraded, condition.Condition{Reason: condition.MetricsUnavailable, Message: r.Metrics.Error()})
	}
	if x := r.Rewritten; x != nil {
		degraded = append(degraded, condition.Condition{Reason: condition.BranchRewritten, Message: fmt.Sprintf("the branch was rewritten at %s: %.12s, which muster had read, is not in the history of %.12s. Orders that this process knows still count",
			x.At.UTC().Format(time.RFC3339), x.From, x.To)})
	}
	if r.PollTook > condition.SlowPoll {
		degraded = append(degraded, condition.Condition{Reason: condition.PollSlow, Message: fmt.Sprintf("the poll of Buildkite took %d s: agents are ordered that much later", r.PollTook/time.Second)})
	}
	if r.GitTook > condition.SlowGit {
		degraded = append(degraded, condition.Condition{Reason: condition.GitSlow, Message: fmt.Sprintf("reading and pushing the branch took %d s: agents are ordered that much later", r.GitTook/time.Second)})
	}
	if failing := r.Input.Snapshot.Failing; failing != "" {
		degraded = append(degraded, condition.Condition{Reason: condition.RequestsFail, Message: failing})
	}
	buildkite := condition.Normal(condition.BuildkiteAvailable)
	if r.Input.Snapshot.At.IsZero() {
		buildkite.Status, buildkite.Reason, buildkite.Message = condition.Unknown, condition.NoAnswer, "Buildkite was not polled, because no overlay is valid"
	}
	all := append([]condition.Condition{
		condition.Normal(condition.RepositoryAvailable), buildkite, condition.Normal(condition.PushAccepted),
	}, condition.DegradedBy(degraded...)...)
	for _, u := range r.Unserved {
		all = append(all, condition.NotServed(u, r.Input.Overlays))
	}
	return all
}

// stepConditions are the conditions of muster itself in the order of the steps of a tick.
var stepConditions = []condition.Type{condition.RepositoryAvailable, condition.BuildkiteAvailable, condition.PushAccepted}

// withoutPush returns the conditions after a tick that pushed nothing, and changes all. If the last
// push failed, PushAccepted is unknown until the next push. A conflict is over: the server has refused
// nothing.
func withoutPush(before, all []condition.Condition) []condition.Condition {
	ofMuster := func(c condition.Condition) bool { return c.Type == condition.PushAccepted && c.Overlay == "" }
	i, now := slices.IndexFunc(before, ofMuster), slices.IndexFunc(all, ofMuster)
	if i < 0 || now < 0 || before[i].Status == condition.True || before[i].Reason == condition.Conflict {
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
	return condition.WithoutSymptoms(all)
}
