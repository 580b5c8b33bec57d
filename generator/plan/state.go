package plan

import (
	"slices"
	"time"
)

// State is what the next decision must remember and the dispatches in git do
// not say. It travels in the overlay's directory. The zero value is a fleet
// that has never failed.
type State struct {
	// Breaker stops ordering what fails.
	Breaker Breaker `json:"breaker,omitzero"`
	// Ordered are the agents ordered in the last hour, oldest first; kept only
	// where the policy limits them.
	Ordered []Ordered `json:"ordered,omitempty"`
}

// Equal reports whether two states say the same.
func (s State) Equal(other State) bool {
	return s.Breaker.Equal(other.Breaker) && slices.EqualFunc(s.Ordered, other.Ordered, func(a, b Ordered) bool {
		return a.At.Equal(b.At) && a.Agents == b.Agents
	})
}

// Ordered is a number of agents ordered at one moment.
type Ordered struct {
	At     time.Time `json:"at"`
	Agents int       `json:"agents"`
}

// lastHour returns what was ordered in the hour before now, and the sum.
func (s State) lastHour(now time.Time) (recent []Ordered, agents int) {
	for _, o := range s.Ordered {
		if o.At.After(now.Add(-time.Hour)) {
			recent = append(recent, o)
			agents += o.Agents
		}
	}
	return recent, agents
}

// Breaker counts orders that failed in a row. It is open from the third on:
// the overlay then gets one probe agent at a time, at growing intervals, until
// one succeeds. The zero value is closed.
type Breaker struct {
	// Failures is how many orders in a row have failed.
	Failures int `json:"failures,omitempty"`
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
	NeverRegistered Failure = "nobody came"
	// NoJobTaken: every agent left without a job although jobs that they
	// match were waiting all the while.
	NoJobTaken Failure = "nobody worked"
	// WrongTags: agents came without a tag that they were told to carry. One
	// such order is enough to open the breaker.
	WrongTags Failure = "they cannot take the jobs"
)

// The breaker's numbers.
const (
	tolerance  = 3
	firstProbe = time.Minute
	lastProbe  = 30 * time.Minute
)

// Equal reports whether two breakers say the same.
func (b Breaker) Equal(other Breaker) bool {
	return b.Failures == other.Failures && b.At.Equal(other.At) && b.Dispatch == other.Dispatch && b.Cause == other.Cause
}

// Open reports whether the overlay is down to probes.
func (b Breaker) Open() bool { return b.Failures >= tolerance }

// NextProbe is when an open breaker lets the next probe go: a minute after the
// last failure, and twice as long after each further one, up to half an hour.
func (b Breaker) NextProbe() time.Time {
	wait := firstProbe << min(b.Failures-tolerance, 10)
	return b.At.Add(min(wait, lastProbe))
}

// judge returns the breaker after these dispatches were retired. Dispatches
// that were ordered at one moment are one order: it has succeeded when any of
// them has, and has failed when one has failed and none succeeded.
func (b Breaker) judge(retired []judged, now time.Time) Breaker {
	slices.SortStableFunc(retired, func(x, y judged) int { return x.at.Compare(y.at) })
	for len(retired) > 0 {
		n := 1
		for n < len(retired) && retired[n].at.Equal(retired[0].at) {
			n++
		}
		order := retired[:n]
		retired = retired[n:]
		failed := slices.IndexFunc(order, func(j judged) bool { return j.failure != "" })
		switch {
		case slices.ContainsFunc(order, func(j judged) bool { return j.failure == "" }):
			b = Breaker{}
		case b.Open() && order[0].at.Before(b.At):
			// It was under way when the breaker opened, or the last probe failed:
			// that it fails too is nothing new.
		case failed >= 0:
			b = Breaker{Failures: b.Failures + 1, At: now, Dispatch: order[failed].id, Cause: order[failed].failure}
			if b.Cause == WrongTags { // what was ordered next would be the same
				b.Failures = max(b.Failures, tolerance)
			}
		}
	}
	return b
}

// judged is a dispatch and what became of it.
type judged struct {
	id      string
	at      time.Time
	failure Failure
}
