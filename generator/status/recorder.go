package status

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// Config is what a [Recorder] is made of.
type Config struct {
	Muster Muster
	// Started is when the process started.
	Started time.Time
	// Interval is the time from tick to tick, and Longest the longest that a healthy tick
	// takes.
	Interval, Longest time.Duration
	// Services returns the exchanges with each server, and TokenExpires when the
	// Buildkite API token expires. Both are called after every tick, and
	// optional.
	Services     func() []Service
	TokenExpires func() time.Time
	// Receivers returns the syncers that receive notifications of pushes; optional.
	Receivers func() []Receiver
}

// maxDecisions is how many decisions a snapshot lists.
const maxDecisions = 50

// Recorder makes a [Snapshot] of every tick. It is a [generator.Watcher]; its
// snapshot may be read from several goroutines meanwhile.
type Recorder struct {
	cfg  Config
	last atomic.Pointer[Snapshot]
}

// NewRecorder returns a recorder that has seen no tick.
func NewRecorder(cfg Config) *Recorder {
	r := &Recorder{cfg: cfg}
	first := Snapshot{Muster: cfg.Muster, Started: cfg.Started, interval: cfg.Interval, longest: cfg.Longest}
	r.ask(&first)
	r.last.Store(&first)
	return r
}

// Snapshot returns what is known now.
func (r *Recorder) Snapshot() Snapshot { return *r.last.Load() }

// Began implements [generator.Watcher].
func (r *Recorder) Began(at time.Time) {
	next := r.Snapshot()
	next.Tick.Running, next.Tick.Began = true, at
	r.last.Store(&next)
}

// Ended implements [generator.Watcher].
func (r *Recorder) Ended(report generator.Report) {
	before := r.Snapshot()
	next := before
	next.Tick = tick(report, before.Tick.Count+1)
	switch {
	case report.Err == nil:
		next.Success, next.PushRefused = report.Ended, ""
	case report.PushRefused != "":
		next.PushRefused = report.PushRefused
	}
	recent := 2 * max(r.cfg.Interval, report.Ended.Sub(report.Began))
	atBuildkite := report.Failed == generator.StepPoll
	next.Git = before.Git.after(report.Git, recent, report.Err, !atBuildkite)
	wait := time.Duration(0)
	if report.Outcome == generator.Waiting {
		wait = report.Next.Sub(report.Ended)
	}
	next.Buildkite = before.Buildkite.after(report.Buildkite, recent+wait, report.Err, atBuildkite)
	if report.Err == nil || len(report.Result.Decisions) > 0 {
		next.Overlays, next.Queues = overlays(report.Result), queues(report.Result)
		next.Observed, next.Head = report.Result.Looked.Snapshot.At, report.Result.Head.Commit
	}
	next.Decisions = decisions(report, before.Decisions)
	next.Problems = problems(report.Problems)
	r.ask(&next)
	r.last.Store(&next)
}

func (r *Recorder) ask(s *Snapshot) {
	if r.cfg.Services != nil {
		s.Services = r.cfg.Services()
	}
	if r.cfg.Receivers != nil {
		s.Receivers = r.cfg.Receivers()
	}
	if r.cfg.TokenExpires != nil {
		s.TokenExpires = r.cfg.TokenExpires()
	}
}

func tick(r generator.Report, count int) Tick {
	t := Tick{
		Count: count, Began: r.Began, Ended: r.Ended, Next: r.Next, Seconds: r.Ended.Sub(r.Began).Seconds(),
		Steps: map[generator.Step]float64{}, Outcome: r.Outcome, Failed: r.Failed,
	}
	for step, took := range r.Steps {
		t.Steps[step] = took.Seconds()
	}
	if r.Err != nil && r.Outcome != generator.Waiting {
		t.Error = r.Err.Error()
	}
	return t
}

// after is the contact after a tick in which the server answered at some time;
// zero: it did not. The error of the tick is its own, or the other's.
func (c Contact) after(answered time.Time, recent time.Duration, err error, own bool) Contact {
	if !answered.IsZero() {
		return Contact{Answered: answered, until: answered.Add(recent)}
	}
	c.Problem = "it was not asked"
	if err != nil && own {
		c.Problem = err.Error()
	}
	return c
}

// overlays are those that were decided on, and those that could not be.
func overlays(r generator.Result) []Overlay {
	byName := map[string]*Overlay{}
	at := func(name string) *Overlay {
		if byName[name] == nil {
			byName[name] = &Overlay{Name: name}
		}
		return byName[name]
	}
	unread := map[string]bool{} // whose decision says nothing of its state
	for _, v := range r.Looked.Overlays {
		unread[v.Name] = v.Suspended.Active()
		o := at(v.Name)
		o.Queue, o.Cluster, o.Dispatches = v.Policy.Queue, v.Policy.Cluster, len(v.Dispatches)
		o.Breaker, o.Failures = v.State.Breaker.Open(), v.State.Breaker.Failures
	}
	for _, d := range r.Decisions {
		o := at(d.Overlay)
		o.Known, o.Sum, o.Schedule, o.Why, o.Arrival = true, d.Sum, d.Schedule, d.Why(), d.Arrival
		o.Oldest = oldest(d)
		if !unread[d.Overlay] {
			o.Breaker, o.Failures = d.State.Breaker.Open(), d.State.Breaker.Failures
		}
	}
	for _, s := range r.Suspended {
		o := at(s.Overlay)
		o.Suspended, o.Why = s.Why, s.Why.String()
	}
	var all []Overlay
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}

// oldest is since when the oldest job is runnable that the overlay could serve.
func oldest(d plan.Decision) time.Time {
	var first time.Time
	for _, j := range d.Observation.Jobs {
		if j.Pending > 0 && j.Oldest != nil && slices.Contains(j.Overlays, d.Overlay) && (first.IsZero() || j.Oldest.Before(first)) {
			first = *j.Oldest
		}
	}
	return first
}

func queues(r generator.Result) []Queue {
	byKey := map[string]*Queue{}
	for _, d := range r.Decisions {
		if byKey[d.Queue] != nil {
			continue // its observation is that of all its overlays
		}
		q := &Queue{Key: d.Queue, Served: true, Groups: d.Observation.Unmatched}
		for _, j := range d.Observation.Jobs {
			q.Pending += j.Pending
		}
		for _, u := range d.Observation.Unmatched {
			q.Unmatched += u.Jobs
		}
		byKey[d.Queue] = q
	}
	for _, u := range r.Unserved {
		if byKey[u.Queue] == nil {
			byKey[u.Queue] = &Queue{Key: u.Queue}
		}
		q := byKey[u.Queue]
		q.Unmatched += u.Jobs
		q.Unserved = append(q.Unserved, u)
		q.Example = cmp.Or(q.Example, u.Example)
	}
	var all []Queue
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, *byKey[key])
	}
	return all
}

// decisions are those of this tick before those of the ticks before.
func decisions(r generator.Report, before []Decision) []Decision {
	ops := append(slices.Clone(r.Result.Landed), r.Result.Operations...)
	if len(ops) == 0 {
		return before
	}
	var all []Decision
	for _, a := range slices.Backward(ops) {
		ids, agents := a.Dispatches()
		all = append(all, Decision{
			At: a.Decision.At(), Overlay: a.Decision.Overlay, Queue: a.Decision.Queue, Operation: a.Kind,
			Dispatches: ids, Agents: agents, Text: ledger.Text(a),
		})
	}
	all = append(all, before...)
	return all[:min(len(all), maxDecisions)]
}

func problems(all []generator.Problem) []Problem {
	var listed []Problem
	for _, p := range all {
		listed = append(listed, Problem{
			Level: strings.ToLower(p.Level.String()), Overlay: p.Overlay, Queue: p.Queue, Reason: p.Reason,
			Text: p.Words(), Since: p.Since,
		})
	}
	return listed
}
