package generator

import (
	"context"
	"log/slog"
	"time"

	"muster/generator/condition"
	"muster/generator/plan"
)

// Metrics returns how many jobs and agents there are, with one small request. More jobs
// trigger a tick; nothing is decided on the counts: docs/architecture.md, "Triggers".
type Metrics interface {
	// Counts returns the current counts, or earlier ones if Buildkite asks for a pause
	// between two requests: At is the time of the request.
	Counts(ctx context.Context, at time.Time) (plan.Counts, error)
}

// trigger decides when the next tick begins.
type trigger struct {
	clock    Clock
	pause    func(ctx context.Context, d time.Duration) error // as in [Config]
	log      *slog.Logger
	triggers *Triggers // optional
	pace     plan.Pace // of triggered ticks
	last     time.Time // of the last trigger that ended a pause; zero: none did
	// counts are the metrics before the last poll, and overlays those of that poll. Zero counts
	// trigger nothing.
	counts   plan.Counts
	overlays []plan.Overlay
}

// readBaseline reads the metrics before a poll, so that jobs that the poll may miss
// trigger the next tick. After an error nothing triggers it.
func (t *trigger) readBaseline(ctx context.Context, now time.Time, overlays []plan.Overlay) error {
	if t.triggers == nil || t.triggers.Metrics == nil {
		return nil
	}
	counts, err := t.triggers.Metrics.Counts(ctx, now)
	if err != nil {
		counts = plan.Counts{}
	}
	t.counts, t.overlays = counts, overlays
	return err
}

// jobsAppeared reads the metrics between two ticks, and reports whether more jobs are
// scheduled than at the last tick.
func (t *trigger) jobsAppeared(ctx context.Context) bool {
	if t.counts.At.IsZero() {
		return false
	}
	counts, err := t.triggers.Metrics.Counts(ctx, t.clock.Now().UTC().Truncate(time.Second))
	return err == nil && counts.More(t.overlays, t.counts)
}

// Cause is the reason for which a tick began.
type Cause string

// The causes of ticks.
const (
	// CauseStart is the first tick.
	CauseStart Cause = "start"
	// CauseInterval: the interval has passed, or the pause that Buildkite requested, or the shorter one
	// while agents are in flight; see [plan.PollWithin].
	CauseInterval Cause = "interval"
	// CauseSignal: the pause ended before its time, as by SIGHUP.
	CauseSignal Cause = "signal"
	// CauseBuildkite and CauseGit: a webhook was received.
	CauseBuildkite Cause = "buildkite"
	CauseGit       Cause = "git"
	// CauseMetrics: Buildkite's metrics show more jobs; see [Metrics].
	CauseMetrics Cause = "metrics"
)

// Causes are all causes of ticks.
func Causes() []Cause {
	return []Cause{CauseStart, CauseInterval, CauseSignal, CauseBuildkite, CauseGit, CauseMetrics}
}

// Triggers ends the pause between two ticks early. Polling continues in any case: the next
// regular tick finds whatever a lost trigger announced. A pause after a tick that failed, or
// that waits for Buildkite's limit, is never shortened.
type Triggers struct {
	// Calls receives the causes of triggers. Those that are pending when a tick begins are
	// dropped, because that tick polls.
	Calls <-chan Cause
	// Gather is how long to wait after a trigger for others that arrive with it. Every is the
	// mean time between triggered ticks, although a few may be closer; see [plan.Pace]. It is
	// also the time between two requests for the metrics.
	Gather, Every time.Duration
	// Metrics trigger a tick when they show more jobs; optional.
	Metrics Metrics
	// Spare is how long to wait, from a moment on, until a poll of Buildkite can begin and still
	// leave enough of the rate limit for the poll of each interval; optional: no wait.
	Spare func(now time.Time, interval time.Duration) time.Duration
	// Problems returns what prevents triggers, as for [condition.DegradedBy]; optional. It is called
	// once a tick.
	Problems func() []condition.Condition
}

// problems returns what prevents triggers.
func (w *Triggers) problems() []condition.Condition {
	if w == nil || w.Problems == nil {
		return nil
	}
	return w.Problems()
}

// drop discards the pending triggers: the tick that begins sees everything that they announce.
func (w *Triggers) drop() {
	for w != nil {
		select {
		case <-w.Calls:
		default:
			return
		}
	}
}

// rest lets the pause between two ticks pass and returns what ended it; the last tick began at
// began. deferred reports that a trigger waited for Buildkite's limit.
func (t *trigger) rest(ctx context.Context, began time.Time, pause, interval time.Duration, wakeable bool) (cause Cause, deferred bool, err error) {
	clock, w := t.clock, t.triggers
	until := clock.Now().Add(pause)
	if w == nil || !wakeable {
		err = t.pause(ctx, pause)
	} else {
		cause, err = t.sleepUntilEvent(ctx, until)
	}
	if err != nil || cause == "" {
		return t.afterSleep(ctx, until, err)
	}
	now := clock.Now()
	t.last = now
	left := until.Sub(now)
	wait := max(w.Gather, t.pace.Wait(now, began))
	paced := min(wait, left) // signals do not end it
	if w.Spare != nil && wait < left {
		spare := w.Spare(now.Add(wait), interval)
		if deferred = spare > 0; deferred {
			t.log.Debug("a triggered poll waits: Buildkite's rate limit is reserved for the polls of the interval", "cause", cause, "wait", min(spare, left-wait))
		}
		wait += min(spare, left-wait)
	}
	if wait >= left {
		wait, cause = left, CauseInterval
	} else {
		t.pace.Began(now.Add(wait))
	}
	if err = clock.Sleep(ctx, max(paced, 0)); err != nil || wait <= paced {
		return cause, deferred, err
	}
	return cause, deferred, t.pause(ctx, wait-paced)
}

// recent is how long after a trigger regular polls leave requests to triggered ones: the window of
// Buildkite's limit.
const recent = time.Minute

// adjust returns the pause after a tick. If the next poll must begin within a time of the last one, that
// is not zero, the pause ends then, or as soon as Buildkite's limit and the pace of triggered ticks allow.
// Otherwise, after recent triggers, it lasts up to an interval longer: until the requests of an additional
// poll are there.
func (t *trigger) adjust(pause time.Duration, began, end time.Time, interval, within time.Duration) time.Duration {
	spare := func(in time.Duration) time.Duration {
		if t.triggers == nil || t.triggers.Spare == nil {
			return 0
		}
		return t.triggers.Spare(end.Add(in), interval)
	}
	early := max(0, began.Add(max(within, t.pace.Every)).Sub(end))
	if within > 0 && early < pause {
		return early + min(spare(early), pause-early)
	}
	extra := spare(pause)
	if t.last.IsZero() || end.Sub(t.last) >= recent || extra > interval {
		return pause
	}
	if within > 0 {
		extra = min(extra, early-pause)
	}
	return pause + extra
}

// afterSleep returns the cause of a tick after a sleep until a time that no trigger ended. Ticks
// after signals are paced as triggered ones, but a few may follow at once.
func (t *trigger) afterSleep(ctx context.Context, until time.Time, err error) (Cause, bool, error) {
	now := t.clock.Now()
	if err != nil || !now.Before(until) {
		return CauseInterval, false, err
	}
	wait := min(t.pace.Wait(now, time.Time{}), until.Sub(now))
	if t.pace.Began(now.Add(wait)); wait > 0 {
		err = t.clock.Sleep(ctx, wait)
	}
	return CauseSignal, false, err
}

// sleepUntilEvent sleeps until a time, or until a trigger arrives or the metrics show more jobs. It
// returns the cause; empty if the time has come or a signal ended the sleep.
func (t *trigger) sleepUntilEvent(ctx context.Context, until time.Time) (Cause, error) {
	for {
		now := t.clock.Now()
		left := until.Sub(now)
		length := left
		if t.triggers.Metrics != nil && t.triggers.Every > 0 {
			length = min(left, t.triggers.Every)
		}
		cause, err := t.sleepUntilTriggered(ctx, length)
		signal := t.clock.Now().Before(now.Add(length))
		if err != nil || cause != "" || signal || length == left {
			return cause, err
		}
		if t.jobsAppeared(ctx) {
			return CauseMetrics, nil
		}
	}
}

// sleepUntilTriggered sleeps for d, or until a trigger arrives, whose cause it returns.
func (t *trigger) sleepUntilTriggered(ctx context.Context, d time.Duration) (Cause, error) {
	sleep, cancel := context.WithCancel(ctx)
	defer cancel()
	called := make(chan Cause, 1)
	go func() {
		defer close(called)
		select {
		case cause := <-t.triggers.Calls:
			called <- cause
			cancel()
		case <-sleep.Done():
		}
	}()
	err := t.pause(sleep, d)
	cancel()
	if cause := <-called; cause != "" {
		return cause, ctx.Err()
	}
	return "", err
}
