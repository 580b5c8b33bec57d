package plan

import (
	"cmp"
	"slices"
	"time"
)

// Breaker is the circuit breaker of an overlay: it counts orders that failed in
// a row. It is open from the third on: the overlay then gets one trial agent at
// a time, at growing intervals, until one succeeds. The zero value is closed.
type Breaker struct {
	// Failures is how many orders in a row have failed.
	Failures int `json:"failures,omitempty"`
	// Agents is how many agents the last of these orders had that failed in the same way.
	Agents int `json:"agents,omitempty"`
	// At is when the last of them was found to have failed, Dispatch is one of
	// its dispatches, and Cause is how it failed.
	At       time.Time `json:"at,omitzero"`
	Dispatch string    `json:"dispatch,omitempty"`
	Cause    Failure   `json:"cause,omitempty"`
}

// Failure is how a dispatch failed; empty is not at all.
type Failure string

// The ways in which a dispatch fails.
const (
	// NeverRegistered: no agent registered within the lease.
	NeverRegistered Failure = "never-registered"
	// NoJobTaken: every agent that registered left without a job, although jobs that they match were
	// pending or, in the warm pool, long before its idle time-out; or agents have the wrong tags.
	NoJobTaken Failure = "no-job-taken"
)

// Failures returns all ways in which a dispatch fails.
func Failures() []Failure { return []Failure{NeverRegistered, NoJobTaken} }

// failureTexts are the failures in words.
var failureTexts = map[Failure]string{
	NeverRegistered: "no agent registered",
	NoJobTaken:      "no agent took a job",
}

// String says it in words.
func (f Failure) String() string { return cmp.Or(failureTexts[f], string(f)) }

// The breaker's numbers.
const (
	// Tolerance is how many orders in a row must fail to open it.
	Tolerance  = 3
	firstTrial = time.Minute
	lastTrial  = 30 * time.Minute
)

// Equal reports whether two breakers say the same.
func (b Breaker) Equal(other Breaker) bool {
	return b.Failures == other.Failures && b.Agents == other.Agents && b.At.Equal(other.At) && b.Dispatch == other.Dispatch && b.Cause == other.Cause
}

// Open reports whether the overlay gets trials only.
func (b Breaker) Open() bool { return b.Failures >= Tolerance }

// NextTrial is when an open breaker lets the next trial go: a minute after the
// last failure, and twice as long after each further one, up to half an hour.
func (b Breaker) NextTrial() time.Time {
	wait := firstTrial << min(b.Failures-Tolerance, 10)
	return b.At.Add(min(wait, lastTrial))
}

// outcome is what became of a dispatch that is retired. It may be neither a
// failure nor a success: when it is not known whether its agents are of use,
// because no job was there for them.
type outcome struct {
	dispatch Dispatch
	failure  Failure
	success  bool
	opens    bool // one such order opens the breaker: the agents of the next one would be the same
}

// after returns the breaker after these dispatches were retired. Dispatches that were ordered at
// the same time are one order. An order succeeds if any of its dispatches did, and fails if one
// failed and none succeeded. An order with an unknown outcome does not change the breaker.
func (b Breaker) after(retired []outcome, now time.Time) Breaker {
	slices.SortStableFunc(retired, func(x, y outcome) int { return x.dispatch.At.Compare(y.dispatch.At) })
	for len(retired) > 0 {
		n := 1
		for n < len(retired) && retired[n].dispatch.At.Equal(retired[0].dispatch.At) {
			n++
		}
		b = b.afterOrder(retired[:n], now)
		retired = retired[n:]
	}
	return b
}

func (b Breaker) afterOrder(order []outcome, now time.Time) Breaker {
	failed := slices.IndexFunc(order, func(o outcome) bool { return o.failure != "" })
	opens := slices.IndexFunc(order, func(o outcome) bool { return o.opens })
	succeeded := slices.ContainsFunc(order, func(o outcome) bool { return o.success })
	switch {
	case opens >= 0: // whatever became of the others
		failed = opens
	case succeeded:
		return Breaker{}
	case failed < 0:
		return b
	}
	if b.Open() && order[0].dispatch.At.Before(b.At) {
		// It was in flight when the breaker opened, or the last trial failed:
		// that it fails too is nothing new.
		return b
	}
	next := Breaker{Failures: b.Failures + 1, At: now, Dispatch: order[failed].dispatch.ID, Cause: order[failed].failure}
	if b.Cause == next.Cause {
		next.Agents = b.Agents
	}
	for _, o := range order {
		next.Agents += o.dispatch.Agents
	}
	if opens >= 0 {
		next.Failures = max(next.Failures, Tolerance)
	}
	return next
}

// trial lets an overlay whose breaker is open send one agent: when its time has
// come, everything that was ordered before is retired, and there is something
// to send it for.
func (s *allocation) trial(now time.Time) (why Suspension, trial bool) {
	switch {
	case s.undecided():
		return Suspension{Code: BreakerOpen}, false
	case !s.mayTrial(now):
		return Suspension{Code: BreakerOpen, NextTrial: new(s.breaker.NextTrial().UTC())}, false
	case max(s.figures.Missing, s.figures.BelowMin(), s.policy.Buffer-(s.spare-s.figures.Replacing)) <= 0 || s.figures.allowed() == 0:
		return Suspension{}, false
	}
	s.figures.Dispatch, s.figures.Demand = 1, 1
	if s.figures.Missing == 0 { // only min and buffer ask for it
		s.figures.Demand, s.figures.WarmPool = 0, 1
	}
	return Suspension{}, true
}

// undecided reports whether any dispatch stays in git, if only withdrawn, so that it is not known
// yet what becomes of it.
func (s *allocation) undecided() bool {
	going := slices.DeleteFunc(slices.Clone(s.retire), func(r Retirement) bool { return r.Reason == Withdrawn })
	return len(s.overlay.Dispatches) > len(going)
}

// mayTrial reports whether it is time for a trial.
func (s *allocation) mayTrial(now time.Time) bool {
	return !s.undecided() && !now.Before(s.breaker.NextTrial())
}
