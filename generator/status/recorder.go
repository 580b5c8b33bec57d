package status

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// Config is the configuration of a [Recorder].
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

// maxOperations is how many operations a snapshot lists.
const maxOperations = 50

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
	if report.Err == nil {
		next.Success = report.Ended
	}
	recent := 2 * max(r.cfg.Interval, report.Ended.Sub(report.Began))
	// muster sends no request during a wait that is longer than the interval.
	wait := max(0, report.Next.Sub(report.Ended)-r.cfg.Interval)
	fresh := recent
	if report.Outcome == generator.Waiting {
		fresh += wait
	}
	atBuildkite := report.Failed == generator.StepPoll
	next.Git = before.Git.after(report.Git, recent+wait, fresh, report.Err, !atBuildkite)
	next.Buildkite = before.Buildkite.after(report.Buildkite, recent+wait, fresh, report.Err, atBuildkite)
	next.Conditions = condition.Of(report.Conditions, "")
	if report.Err == nil || len(report.Result.Decisions) > 0 {
		next.Overlays, next.Queues = overlays(report), queues(report.Result)
		next.Observed, next.Head = report.Result.Input.Snapshot.At, report.Result.Head.Commit
	}
	next.Operations = operations(report, before.Operations)
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
// zero: it did not. The answer is recent, and its figures are fresh, for some time. The error of
// the tick is its own, or the other's.
func (c Contact) after(answered time.Time, recent, fresh time.Duration, err error, own bool) Contact {
	if !answered.IsZero() {
		return Contact{Answered: answered, until: answered.Add(recent), fresh: answered.Add(fresh)}
	}
	c.Problem = notAsked
	if err != nil && own {
		c.Problem = err.Error()
	}
	return c
}

// overlays returns the overlays that were decided on, and those that could not be.
func overlays(report generator.Report) []Overlay {
	r, byName := report.Result, map[string]*Overlay{}
	at := func(name string) *Overlay {
		if byName[name] == nil {
			byName[name] = &Overlay{Name: name}
		}
		return byName[name]
	}
	for _, v := range r.Input.Overlays {
		o := at(v.Name)
		o.Queue, o.Cluster, o.Dispatches = v.Policy.Queue, v.Policy.Cluster, len(v.Dispatches)
		o.Orders = v.Dispatches
		o.QueueID, o.ClusterID = queueID(r.Input.Snapshot.Queues, v.Policy)
	}
	for _, d := range r.Decisions {
		o := at(d.Overlay)
		o.Known, o.Sum, o.Schedule, o.Why = true, d.Figures, d.Schedule, d.Why(committed(report, d.Overlay))
		o.Decision, o.Oldest = &d, d.Observation.Oldest(d.Overlay)
	}
	for _, s := range r.Suspended {
		at(s.Overlay)
	}
	var all []Overlay
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		o := byName[name]
		o.Conditions = condition.Of(report.Conditions, name)
		o.State = condition.State(o.Conditions)
		all = append(all, *o)
	}
	return all
}

// queueID returns the identifiers of a policy's queue and of its cluster; empty if several queues have
// the key, or none.
func queueID(all []plan.Queue, p plan.Policy) (queue, cluster string) {
	for _, q := range all {
		if q.Key != p.Queue || p.Cluster != "" && p.Cluster != q.Cluster && p.Cluster != q.ClusterName {
			continue
		}
		if queue != "" {
			return "", ""
		}
		queue, cluster = q.ID, q.Cluster
	}
	return queue, cluster
}

// committed reports whether the dispatches of an overlay are in git.
func committed(report generator.Report, overlay string) bool {
	return !report.DryRun && slices.ContainsFunc(report.Result.Operations, func(a ledger.Draft) bool {
		return a.Kind == ledger.Dispatch && a.Decision.Overlay == overlay
	})
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

// operations are those of this tick before those of the ticks before.
func operations(r generator.Report, before []ledger.Operation) []ledger.Operation {
	var all []ledger.Operation
	for _, a := range slices.Backward(append(slices.Clone(r.Result.Landed), r.Result.Operations...)) {
		o := a.Operation("")
		o.Observation = plan.Observation{}
		all = append(all, o)
	}
	all = append(all, before...)
	return all[:min(len(all), maxOperations)]
}
