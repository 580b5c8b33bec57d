package generator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muster/generator/condition"
	"muster/generator/plan"
)

// Buildkite lists pending jobs and connected agents.
type Buildkite interface {
	// Snapshot reads the agents first and then the jobs. A poll that takes several calls
	// returns a [plan.RetryError] until it is complete; At is the time of the first call.
	Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error)
}

// poller polls Buildkite and keeps the state of agents between ticks.
type poller struct {
	source    Buildkite
	clock     Clock
	log       *slog.Logger
	register  plan.Registrations
	inference plan.Inference // without an API token
	lookback  plan.Lookback
	pollTracker
}

// beginTick resets the state of a tick.
func (p *poller) beginTick() { p.last, p.conflicts = nil, 0 }

// first reports whether this tick has had no conflict.
func (p *poller) first() bool { return p.conflicts == 0 }

// keep keeps a snapshot for the next attempt of a tick.
func (p *poller) keep(snapshot plan.Snapshot) { p.last = &snapshot }

// stretchedPoll returns the condition that a poll is spread over several ticks, while it is.
func (p *poller) stretchedPoll() []condition.Condition {
	if p.wait == nil {
		return nil
	}
	return condition.DegradedBy(condition.Condition{Reason: condition.RateLimited, Message: stretchedText, LastTransitionTime: p.waited})
}

// registrations updates the registrations with a snapshot and returns them.
func (p *poller) registrations(overlays []plan.Overlay, snapshot plan.Snapshot) *plan.Registrations {
	p.lookback.Observed(snapshot.At, overlays)
	p.register.Note(snapshot)
	p.register.Reconcile(overlays, snapshot.At)
	return &p.register
}

// beginning contains the dispatches and the queue of each overlay at a time when a poll may have
// begun.
type beginning struct {
	at         time.Time
	dispatches map[string]map[string]bool
	queues     map[string]string
}

// pollTracker is the state of a poll that takes several ticks. The zero value is ready to use.
type pollTracker struct {
	begun []beginning
	// last is a snapshot whose commit ended in a conflict, and conflicts is the number of
	// conflicts in this tick.
	last      *plan.Snapshot
	conflicts int
	// wait is the last wait for the rate limit, stretched its time, and waited the time of the
	// first such wait in a row.
	stretched time.Time
	wait      plan.SpreadError
	waited    time.Time
}

// observe polls Buildkite, or continues a poll. The snapshot may be older than the overlays if
// the poll took several ticks. In that case, git must still contain every dispatch that it
// contained when the poll began: if another writer has retired a dispatch since, the snapshot
// does not contain its agents, and they would be ordered twice. observe drops such a snapshot,
// and the next tick begins a new poll.
func (p *poller) observe(ctx context.Context, now time.Time, overlays []plan.Overlay) (plan.Snapshot, error) {
	p.pollTracker.begin(now, overlays)
	if last := p.last; last != nil {
		p.last = nil
		if p.covers(last.At, overlays) {
			return *last, nil
		}
	}
	for range 2 {
		since := p.lookback.Since(now, overlays, &p.register)
		snapshot, err := p.source.Snapshot(ctx, plan.Query{At: now, Since: since, Overlays: overlays})
		if err != nil {
			return plan.Snapshot{}, fmt.Errorf("observing Buildkite: %w", err)
		}
		snapshot = p.inference.Infer(overlays, snapshot)
		if snapshot.Contradiction != "" {
			return plan.Snapshot{}, errors.New("observing Buildkite: " + snapshot.Contradiction)
		}
		if snapshot.Until.IsZero() || p.covers(snapshot.At, overlays) {
			return snapshot, nil
		}
		p.log.Debug("another writer retired a dispatch during the poll: polling again", "begun", snapshot.At)
	}
	return plan.Snapshot{}, errors.New("observing Buildkite: other writers retire dispatches faster than Buildkite can be polled")
}

// freshPoll is the maximum age of a snapshot that is reused for a new decision after a
// conflict, if a new poll would not take minutes.
const freshPoll = 5 * time.Second

// lost records a conflict, and drops the snapshot if a new poll is better: after the first
// conflict (a poll then takes one request more than the rest of a tick), and when the snapshot
// is no longer fresh. A second conflict indicates that another writer pushes without a pause:
// there is then no time for a poll between reading the head and pushing to it.
func (l *pollTracker) lost(now time.Time) {
	if l.conflicts++; l.last != nil && (l.conflicts < 2 || now.Sub(l.last.At) > freshPoll) {
		l.forget()
	}
}

// forget drops the snapshot, unless its poll was spread over several ticks.
func (l *pollTracker) forget() {
	if l.last != nil && l.last.Until.IsZero() {
		l.last = nil
		l.done()
	}
}

// begin stores the dispatches in git, in case a poll begins now.
func (l *pollTracker) begin(now time.Time, overlays []plan.Overlay) {
	b := beginning{at: now, dispatches: map[string]map[string]bool{}, queues: map[string]string{}}
	for _, o := range overlays {
		ids := map[string]bool{}
		for _, d := range o.Dispatches {
			ids[d.ID] = true
		}
		b.dispatches[o.Name], b.queues[o.Name] = ids, o.Policy.Queue
	}
	const most = 1000 // more ticks than a poll may take
	if len(l.begun) >= most {
		l.begun = append(l.begun[:0], l.begun[1:]...)
	}
	l.begun = append(l.begun, b)
}

// done drops what begin stored, after a poll whose snapshot was used.
func (l *pollTracker) done() { l.begun = nil }

// covers reports whether every dispatch that was in git when a poll began is still in the
// overlays, each in the same queue. An overlay that was unreadable then is not covered.
func (l *pollTracker) covers(begun time.Time, overlays []plan.Overlay) bool {
	for _, b := range l.begun {
		if !b.at.Equal(begun) {
			continue
		}
		for _, o := range overlays {
			before, known := b.dispatches[o.Name]
			if !known || b.queues[o.Name] != o.Policy.Queue { // agents of other queues may not be listed
				return false
			}
			left := len(before)
			for _, d := range o.Dispatches {
				if before[d.ID] {
					left--
				}
			}
			if left > 0 {
				return false
			}
		}
		return true
	}
	return false
}

// overAfter is the time without a wait after which polls count as no longer rate-limited.
const overAfter = 5 * time.Minute

const stretchedText = "polls are spread over several ticks: they need more than half of Buildkite's rate limit"

// failing reports whether a poll takes several ticks because requests fail. A condition of
// the snapshot reports these failures.
func failing(wait plan.SpreadError) bool {
	_, perMinute := wait.Stretched()
	return perMinute == 0
}

// reportStretch logs one line when polls begin to be spread over several ticks, and one when that
// ends.
func (p *poller) reportStretch(err error) {
	now := p.clock.Now()
	l := &p.pollTracker
	var wait plan.SpreadError
	switch {
	case errors.As(err, &wait):
		if failing(wait) {
			p.log.Debug("the next tick continues the poll", "err", err)
			return
		}
		requests, perMinute := wait.Stretched()
		if l.wait == nil {
			l.waited = now
			p.log.Warn(stretchedText, "condition", string(condition.Degraded), "reason", condition.RateLimited, "requests", requests, "per-minute", perMinute, "next", wait.RetryAfter().Round(time.Second))
		}
		l.stretched, l.wait = now, wait
	case err == nil && l.wait != nil && now.Sub(l.stretched) >= overAfter:
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "resolved: "+stretchedText, slog.String("condition", string(condition.Degraded)), slog.String("reason", condition.RateLimited), lasted(l.stretched.Sub(l.waited)))
		l.wait = nil
	}
}
