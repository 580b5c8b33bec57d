package prometheus_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
)

const (
	overlay = "linux"
	queue   = "default"
)

var errFailed = errors.New("failed")

// fleet simulates the jobs and agents of one overlay. Package plan decides, and the conditions are
// those of the generator. The fields after random are faults, which apply from then on.
type fleet struct {
	overlay         plan.Overlay
	random          *rand.Rand
	broken          bool           // agents that are ordered never register
	tagless         bool           // agents register without a tag
	stuck           bool           // idle agents take no job
	leaving         bool           // agents exit as soon as they have registered
	invalid         bool           // the files of the overlay are invalid
	refused         bool           // the git server refuses pushes
	conflict        bool           // another writer pushes before every attempt
	failsAt         generator.Step // the step in which ticks fail; empty: none
	limited         bool           // Buildkite answers with 429
	gitSlow         bool           // git takes 20 s
	requestsFail    bool           // half of the requests to Buildkite fail
	rewritten       bool           // the branch was rewritten
	otherMuster     bool           // another muster has an agent in the queue
	webhooksRefused bool           // a sender of webhooks has another secret
	spread          bool           // polls are spread over several ticks, and this one does not end
	misplaced       int            // agents in another queue
	unserved        int            // jobs in a queue without an overlay
	lost            float64        // share of agents that never register
	queuePaused     bool           // the queue is paused in Buildkite
	unmatched       int            // jobs in the queue that match no overlay

	jobs       []job
	agents     []*agent
	seen       map[string]plan.Observed
	conditions []condition.Condition
	runs       int
}

// job is a pending job.
type job struct {
	since time.Time
	takes time.Duration
}

// agent is an agent that was ordered.
type agent struct {
	dispatch  string
	index     int
	ordered   time.Time
	registers time.Time // zero: never
	connected bool
	tagless   bool
	leaves    bool
	idle      time.Time // since when
	until     time.Time // end of its job; zero: it has none
	waited    time.Duration
	started   time.Time
	run       int
}

// newFleet returns a fleet whose start-up times are known.
func newFleet(seed uint64) *fleet {
	f := &fleet{random: rand.New(rand.NewPCG(seed, 1)), seen: map[string]plan.Observed{}}
	f.overlay = plan.Overlay{Name: overlay, Policy: plan.Policy{
		Queue: queue, Tags: []string{"os=linux"}, Max: 20, Lease: plan.FirstLease, LeaseAuto: true, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour,
	}}
	f.overlay.State.StartupTimes.Add(time.Minute, plan.MinStartupTimes)
	f.overlay.State.StartupTimes.Add(90*time.Second, 1)
	return f
}

// add adds n pending jobs that take as long as given.
func (f *fleet) add(now time.Time, n int, takes time.Duration) {
	for range n {
		f.jobs = append(f.jobs, job{now, takes})
	}
}

// quiet reports whether no job is pending and no agent is expected.
func (f *fleet) quiet() bool {
	return len(f.jobs) == 0 && !slices.ContainsFunc(f.agents, func(a *agent) bool { return !a.connected })
}

// live lets agents register, take jobs and exit.
func (f *fleet) live(now time.Time) {
	for _, a := range f.agents {
		if !a.connected && !a.registers.IsZero() && !now.Before(a.registers) {
			a.connected, a.idle = true, now
			seen := f.seen[a.dispatch]
			seen.Registered.Add(a.index)
			seen.StartupTimes.Add(a.registers.Sub(a.ordered), 1)
			f.seen[a.dispatch] = seen
		}
		if a.connected && a.until.IsZero() && !a.tagless && !a.leaves && !f.stuck && !f.queuePaused && len(f.jobs) > 0 {
			f.runs++
			a.started, a.waited, a.until, a.run = now, now.Sub(f.jobs[0].since), now.Add(f.jobs[0].takes), f.runs
			f.jobs = f.jobs[1:]
			seen := f.seen[a.dispatch]
			seen.HadJob++
			f.seen[a.dispatch] = seen
		}
	}
	f.agents = slices.DeleteFunc(f.agents, func(a *agent) bool {
		switch {
		case !a.connected:
			return a.registers.IsZero() && now.Sub(a.ordered) > plan.FirstLease
		case a.until.IsZero():
			return a.leaves && now.After(a.idle) || now.Sub(a.idle) > f.overlay.Policy.IdleTimeout
		}
		return !now.Before(a.until)
	})
}

// observation returns what a poll of Buildkite shows.
func (f *fleet) observation(now time.Time) plan.Observation {
	supply := plan.Capacity{Overlay: overlay, Dispatches: map[string]plan.Observed{}, Stopping: f.misplaced, OtherQueue: f.misplaced}
	if f.queuePaused {
		supply.Suspended = plan.Suspension{Code: plan.PausedInBuildkite, Queue: queue}
	}
	idle := 0
	for _, d := range f.overlay.Dispatches {
		seen, ok := f.seen[d.ID]
		if !ok {
			continue
		}
		if seen.Registered.Below(d.Agents) == d.Agents && seen.RegisteredAt == nil {
			seen.RegisteredAt = &now
			f.seen[d.ID] = seen
		}
		for _, a := range f.agents {
			if a.dispatch == d.ID && a.connected {
				seen.Connected++
				if a.tagless {
					seen.WrongTags++
				}
			}
		}
		if seen.WrongTags > 0 && seen.Registered.Below(d.Agents) < d.Agents {
			supply.WrongTags += seen.WrongTags
		}
		supply.Dispatches[d.ID] = seen
	}
	for _, a := range f.agents {
		switch {
		case !a.connected:
		case !a.until.IsZero():
			supply.Own, supply.Busy, supply.QueueBusy = supply.Own+1, supply.Busy+1, supply.QueueBusy+1
		default:
			supply.Own++
			if !a.tagless {
				idle++
			}
		}
	}
	if f.otherMuster {
		supply.OtherFleets = 2
	}
	o := plan.Observation{At: now, Queue: queue, Overlays: []plan.Capacity{supply}}
	var all plan.IndexSet
	if len(f.jobs) > 0 {
		oldest := f.jobs[0].since
		o.Jobs = []plan.Demand{{Overlays: []string{overlay}, Pending: len(f.jobs), Oldest: &oldest}}
		all.Add(0)
	}
	if f.unmatched > 0 {
		o.Unmatched = []plan.Unmatched{{Rules: []string{"queue=" + queue, "os=windows"}, Missing: []string{"os=windows"}, Jobs: f.unmatched}}
	}
	if idle > 0 {
		o.Idle = []plan.IdleAgents{{Agents: idle, Overlay: overlay, Jobs: all}}
	}
	return o
}

// apply commits a decision: a new agent registers after 40 to 90 seconds.
func (f *fleet) apply(d plan.Decision) (ops []ledger.Draft) {
	if d.Empty() {
		return nil
	}
	if len(d.Dispatch) > 0 {
		ops = append(ops, ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/" + overlay, Decision: d})
	}
	if len(d.Retire) > 0 {
		ops = append(ops, ledger.Draft{Kind: ledger.Retire, Path: "overlays/" + overlay, Decision: d})
	}
	for _, r := range d.Retire {
		delete(f.seen, r.ID)
	}
	f.overlay.Dispatches = slices.DeleteFunc(slices.Concat(f.overlay.Dispatches, d.Dispatch), func(x plan.Dispatch) bool {
		return slices.ContainsFunc(d.Retire, func(r plan.Retirement) bool { return r.ID == x.ID })
	})
	f.overlay.State = d.State
	for _, x := range d.Dispatch {
		for i := range x.Agents {
			a := &agent{dispatch: x.ID, index: i, ordered: x.At, tagless: f.tagless, leaves: f.leaving}
			startup := 40*time.Second + time.Duration(f.random.Int64N(int64(50*time.Second)))
			if lost := f.random.Float64() < f.lost; !lost && !f.broken {
				a.registers = x.At.Add(startup)
			}
			f.agents = append(f.agents, a)
		}
	}
	return ops
}

// tick returns the report of a tick.
func (f *fleet) tick(now time.Time) generator.Report {
	f.live(now)
	r := generator.Report{
		Began: now, Ended: now.Add(time.Second), Next: now.Add(step), Outcome: generator.Unchanged, Git: now, Buildkite: now,
		Steps: map[generator.Step]time.Duration{generator.StepHead: time.Second},
	}
	switch f.failsAt {
	case "", generator.StepCommit:
	case generator.StepHead:
		r.Git, r.Buildkite = time.Time{}, time.Time{}
		return f.fail(r, generator.StepHead, generator.Failed, condition.Condition{Type: condition.RepositoryAvailable, Reason: condition.ReadFailed})
	case generator.StepLoad: // git has answered before
		r.Buildkite = time.Time{}
		return f.fail(r, generator.StepLoad, generator.Failed, condition.Condition{Type: condition.RepositoryAvailable, Reason: condition.ReadFailed})
	case generator.StepPoll:
		r.Buildkite = time.Time{}
		return f.fail(r, generator.StepPoll, generator.Failed, condition.Condition{Type: condition.BuildkiteAvailable, Reason: condition.PollFailed})
	default:
		return f.fail(r, f.failsAt, generator.Failed, condition.Condition{Type: condition.Ready, Reason: condition.InternalError})
	}
	if f.limited {
		r.Buildkite = time.Time{}
		return f.fail(r, generator.StepPoll, generator.Limited, condition.Condition{Type: condition.BuildkiteAvailable, Reason: condition.RateLimited})
	}
	if f.spread {
		r.Err, r.Outcome = errFailed, generator.Waiting
		r.Conditions = append(slices.Clone(f.conditions), condition.DegradedBy(condition.Condition{Reason: condition.RateLimited})...)
		return r
	}
	if f.gitSlow {
		r.Result.GitTook = 20 * time.Second
	}
	if f.requestsFail {
		r.Result.Input.Snapshot.Failing = "32 of the last 64 requests failed"
	}
	if f.rewritten {
		r.Result.Rewritten = &generator.Rewritten{From: "before", To: "after"}
	}
	if f.webhooksRefused {
		r.Result.Triggers = []condition.Condition{{Reason: condition.WebhooksRefused}}
	}
	if f.unserved > 0 {
		r.Result.Unserved = []plan.Unserved{{Queue: "gpu", Jobs: f.unserved}}
	}
	if f.invalid { // the only overlay: Buildkite is not polled
		r.Buildkite = time.Time{}
		r.Result.Suspended = []generator.Suspended{{Overlay: overlay, Why: plan.Suspension{Code: plan.Invalid, Finding: "scaling.yaml:4: max: must be a number"}}}
		return f.succeed(r)
	}
	d := plan.Decide(strconv.FormatInt(now.Unix(), 16), []plan.Overlay{f.overlay}, f.observation(now))[0]
	r.Result.Decisions = []plan.Decision{d}
	r.Result.Input.Overlays = []plan.Overlay{f.overlay}
	r.Result.Input.Snapshot.At = now
	for _, a := range f.agents {
		if !a.until.IsZero() {
			r.Result.Input.Snapshot.Sightings = append(r.Result.Input.Snapshot.Sightings, plan.Sighting{
				Agent: fmt.Sprint("agent-", a.run), Tags: []string{"overlay=" + overlay}, Running: true, Started: a.started, Waited: a.waited,
			})
		}
	}
	switch breaker := d.State.Breaker; {
	case d.Suspended.Active():
		r.Result.Suspended = []generator.Suspended{{Overlay: overlay, Why: d.Suspended}}
	case breaker.Open():
		r.Result.Suspended = []generator.Suspended{{Overlay: overlay, Why: plan.Suspension{Code: plan.BreakerOpen}}}
	}
	if !d.Empty() {
		switch {
		case f.conflict:
			r.Result.Conflicts = 16
			return f.fail(r, generator.StepCommit, generator.Conflict, condition.Condition{Type: condition.PushAccepted, Reason: condition.Conflict})
		case f.refused:
			return f.fail(r, generator.StepCommit, generator.Failed, condition.Condition{Type: condition.PushAccepted, Reason: condition.Refused})
		case f.failsAt == generator.StepCommit:
			return f.fail(r, generator.StepCommit, generator.Failed, condition.Condition{Type: condition.PushAccepted, Reason: condition.PushFailed})
		}
		r.Outcome, r.Result.Operations = generator.Committed, f.apply(d)
	}
	return f.succeed(r)
}

// succeed returns the report with its conditions.
func (f *fleet) succeed(r generator.Report) generator.Report {
	f.conditions = r.Result.Conditions(r.Began)
	r.Conditions = f.conditions
	return r
}

// fail returns the report of a tick that failed in a step. As in the generator, the conditions of
// earlier steps are normal, and the others stay.
func (f *fleet) fail(r generator.Report, step generator.Step, outcome generator.Outcome, c condition.Condition) generator.Report {
	r.Err, r.Failed, r.Outcome = errFailed, step, outcome
	c.Status, c.Message = condition.False, errFailed.Error()
	order := []condition.Type{condition.RepositoryAvailable, condition.BuildkiteAvailable, condition.PushAccepted}
	at := slices.Index(order, c.Type)
	all := []condition.Condition{c.WithRemedy()}
	for _, b := range f.conditions {
		i := slices.Index(order, b.Type)
		switch own := b.Overlay == "" && b.Queue == ""; {
		case own && b.Type == c.Type:
		case own && i >= 0 && i < at:
			all = append(all, condition.Normal(b.Type))
		default:
			all = append(all, b)
		}
	}
	f.conditions, r.Conditions = all, all
	return r
}
