package status

import (
	"errors"
	"slices"
	"testing"
	"time"

	"muster/generator"
)

// TestRefusedPushIsNotReady: while the git server refuses pushes, muster answers no probe for
// readiness, although git and Buildkite respond.
func TestRefusedPushIsNotReady(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	r := NewRecorder(Config{Started: now, Interval: 15 * time.Second, Longest: time.Minute})
	tick := func(err error, refused string) []string {
		r.Began(now)
		now = now.Add(15 * time.Second)
		report := generator.Report{Began: now, Ended: now, Next: now.Add(15 * time.Second), Git: now, Buildkite: now, Err: err, PushRefused: refused}
		if err != nil {
			report.Outcome, report.Failed = generator.Failed, generator.StepCommit
		}
		r.Ended(report)
		return r.Snapshot().NotReady(now)
	}
	const refused = "the server refused the push: GH006: Protected branch"
	for i, test := range []struct {
		err     error
		refused string
		want    []string
	}{
		{},
		{errors.New("refused"), refused, []string{refused}},
		{errors.New("connection reset"), "", []string{refused}},
		{},
	} {
		if got := tick(test.err, test.refused); !slices.Equal(got, test.want) {
			t.Errorf("tick %d: not ready because of %q, want %q", i, got, test.want)
		}
	}
}
