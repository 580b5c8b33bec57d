package condition

import (
	"testing"
	"time"

	"muster/generator/plan"
)

// TestSuspensionInGit asserts that files take precedence over Buildkite's state at the last
// commit.
func TestSuspensionInGit(t *testing.T) {
	open := plan.Overlay{State: plan.State{Breaker: plan.Breaker{Failures: 3, At: now}}}
	next := now.Add(time.Minute)
	in := func(code plan.SuspensionCode) plan.Suspension { return plan.Suspension{Code: code} }
	last := func(code plan.SuspensionCode) *plan.Decision { return &plan.Decision{Suspended: in(code)} }
	for name, c := range map[string]struct {
		overlay plan.Overlay
		last    *plan.Decision
		want    plan.Suspension
	}{
		"active":                      {},
		"invalid":                     {overlay: plan.Overlay{Suspended: in(plan.Invalid), Policy: plan.Policy{Paused: true}}, want: in(plan.Invalid)},
		"refused by the API server":   {overlay: plan.Overlay{Refused: in(plan.Invalid)}, want: in(plan.Invalid)},
		"paused":                      {overlay: plan.Overlay{State: open.State, Policy: plan.Policy{Paused: true}}, want: in(plan.Paused)},
		"paused when last seen":       {last: last(plan.PausedInBuildkite), want: in(plan.PausedInBuildkite)},
		"no longer paused":            {last: last(plan.Paused)},
		"breaker closed since":        {last: last(plan.BreakerOpen)},
		"breaker open":                {overlay: open, last: last(plan.BreakerOpen), want: plan.Suspension{Code: plan.BreakerOpen, NextTrial: &next}},
		"breaker open, never decided": {overlay: open, want: plan.Suspension{Code: plan.BreakerOpen, NextTrial: &next}},
	} {
		got := suspension(c.overlay, now, c.last)
		if got.Code != c.want.Code || (got.NextTrial == nil) != (c.want.NextTrial == nil) || got.NextTrial != nil && !got.NextTrial.Equal(*c.want.NextTrial) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
