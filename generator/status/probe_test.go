package status

import (
	"errors"
	"slices"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/condition"
)

// TestNotReady: while the git server refuses pushes, or git or Buildkite has not answered for two
// intervals, muster is not ready.
func TestNotReady(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	r := NewRecorder(Config{Started: now, Interval: 15 * time.Second, Longest: time.Minute})
	refused := condition.Condition{Type: condition.PushAccepted, Status: condition.False, Reason: condition.Refused, Message: "GH006: Protected branch"}
	failed := condition.Condition{Type: condition.BuildkiteAvailable, Status: condition.False, Reason: condition.PollFailed, Message: "401", LastTransitionTime: now.Add(time.Minute)}
	tick := func(all ...condition.Condition) []string {
		r.Began(now)
		now = now.Add(15 * time.Second)
		report := generator.Report{Began: now, Ended: now, Next: now.Add(15 * time.Second), Git: now, Buildkite: now, Conditions: all}
		if slices.Contains(all, failed) {
			report.Buildkite, report.Err, report.Failed = time.Time{}, errors.New("401"), generator.StepPoll
		}
		r.Ended(report)
		return r.Snapshot().At(now).NotReady()
	}
	const noAnswer = "BuildkiteAvailable=False (PollFailed): the last successful read of Buildkite was 45s ago: 401"
	for i, test := range []struct {
		conditions []condition.Condition
		want       []string
	}{
		{},
		{[]condition.Condition{refused}, []string{refused.String()}},
		{},
		{[]condition.Condition{failed}, nil},
		{[]condition.Condition{failed}, nil},
		{[]condition.Condition{failed}, []string{noAnswer}},
		{},
	} {
		if got := tick(test.conditions...); !slices.Equal(got, test.want) {
			t.Errorf("tick %d: not ready because of %q, want %q", i, got, test.want)
		}
	}
	if ready, _ := condition.Find(r.Snapshot().At(now).Conditions, condition.Ready); ready.Status != condition.True {
		t.Errorf("the last condition is %s", ready)
	}
}
