package condition

import (
	"cmp"
	"time"

	"muster/generator/plan"
)

// InGit returns an overlay as git records it at a time: by its files, and by the last poll of its
// queue, which is nil if git contains none. all are the overlays of the fleet, and seed is that of
// [plan.Decide].
func InGit(o plan.Overlay, all []plan.Overlay, seed string, poll *plan.Observation, now time.Time) Overlay {
	x := Overlay{Name: o.Name, Now: now, Recorded: o.State.Breaker}
	var then *plan.Decision
	if poll != nil && o.Policy.Queue != "" {
		x.Polled = poll.At
		then = decideOn(o.Name, all, seed, *poll)
		today := *poll
		today.At, today.Until = now, time.Time{}
		x.Decision = decideOn(o.Name, all, seed, today)
	}
	if then != nil && then.Arrival.FailedOrders == 0 && !o.State.Breaker.Open() {
		x.Recorded = plan.Breaker{} // an agent of a later order has registered
	}
	x.Suspended = suspension(o, now, then)
	if d := x.Decision; x.Suspended.Code == plan.BreakerOpen && d != nil && d.Suspended.Code == plan.BreakerOpen {
		x.Suspended = d.Suspended // without the time of a trial that is not due
	}
	return x
}

// suspension returns why nothing is ordered: what the files say, and otherwise the reason at the
// last poll.
func suspension(o plan.Overlay, now time.Time, then *plan.Decision) plan.Suspension {
	files := cmp.Or(o.Suspended, o.Refused, o.Policy.Suspension(now))
	switch b := o.State.Breaker; {
	case files.Active():
		return files
	case then != nil && then.Suspended.Active() && then.Suspended.Code != plan.Paused && then.Suspended.Code != plan.BreakerOpen:
		return then.Suspended
	case b.Open():
		return plan.Suspension{Code: plan.BreakerOpen, NextTrial: new(b.NextTrial().UTC())}
	}
	return plan.Suspension{}
}

// decideOn returns the decision on an overlay by a poll; nil if the poll does not contain it.
func decideOn(name string, all []plan.Overlay, seed string, poll plan.Observation) *plan.Decision {
	for _, d := range plan.Decide(seed, all, poll) {
		if d.Overlay == name && poll.Capacity(name).Overlay == name {
			return &d
		}
	}
	return nil
}
