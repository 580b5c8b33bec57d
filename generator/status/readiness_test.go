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
		{[]condition.Condition{{Type: condition.PushAccepted, Status: condition.Unknown, Reason: condition.Refused}}, nil},
		{[]condition.Condition{{Type: condition.BuildkiteAvailable, Status: condition.Unknown, Reason: condition.NoAnswer}}, nil}, // as it answered before
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

// TestWaitIsNoSilence: a server to which muster sends no request, because another server asks to
// wait or because a tick is under way, stays available. One that does not answer does not.
func TestWaitIsNoSilence(t *testing.T) {
	start := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	limited := condition.Condition{Type: condition.BuildkiteAvailable, Status: condition.False, Reason: condition.RateLimited, Message: "429", LastTransitionTime: start}
	refused := condition.Condition{Type: condition.PushAccepted, Status: condition.False, Reason: condition.RateLimited, Message: "429", LastTransitionTime: start}
	for name, test := range map[string]struct {
		report generator.Report
		at     int
		begun  int // when the next tick began; 0: it did not
		want   []string
		fresh  bool
	}{
		"429 of Buildkite": {
			report: generator.Report{Next: after(60), Git: start, Failed: generator.StepPoll, Err: errors.New("429"), Outcome: generator.Limited, Conditions: []condition.Condition{limited}},
			at:     60, want: []string{"BuildkiteAvailable=False (RateLimited): the last successful read of Buildkite was 1m15s ago: 429"},
		},
		"poll spread over ticks": {
			report: generator.Report{Next: after(300), Git: start, Buildkite: start, Err: errors.New("continues"), Outcome: generator.Waiting},
			at:     300, fresh: true,
		},
		"rate limit at push": {
			report: generator.Report{Next: after(3600), Git: start, Buildkite: start, Failed: generator.StepCommit, Err: errors.New("429"), Outcome: generator.Limited, Conditions: []condition.Condition{refused}},
			at:     3600,
		},
		"next tick under way": {
			report: generator.Report{Next: after(15), Git: start, Buildkite: start},
			at:     60, begun: 15,
		},
		"tick that began after a silence": {
			report: generator.Report{Next: after(15), Git: start, Buildkite: start},
			at:     60, begun: 45,
			want: []string{
				"RepositoryAvailable=False (NoAnswer): the last successful read of git was 1m0s ago",
				"BuildkiteAvailable=False (NoAnswer): the last successful read of Buildkite was 1m0s ago",
			},
		},
	} {
		r := NewRecorder(Config{Started: after(-60), Interval: 15 * time.Second, Longest: 2 * time.Hour})
		before := after(-15)
		r.Began(before)
		r.Ended(generator.Report{Began: before, Ended: before, Next: start, Git: before, Buildkite: before})
		r.Began(start)
		test.report.Began, test.report.Ended = start, start
		r.Ended(test.report)
		if test.begun > 0 {
			r.Began(after(test.begun))
		}
		s := r.Snapshot().At(after(test.at))
		if got := s.NotReady(); !slices.Equal(got, test.want) {
			t.Errorf("%s: not ready because of %q, want %q", name, got, test.want)
		}
		if got := s.Fresh(after(test.at)); got != test.fresh {
			t.Errorf("%s: fresh figures: %t", name, got)
		}
	}
}
