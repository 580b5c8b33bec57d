package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// word is text of anybody's, as UTF-8.
func word() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a=b\nOperation: retire", "\x1b[2J", "\u202e", "@acme/team", "closes #1", "\U000e0041", "日本", "Observation: {}"}))
}

func number() *rapid.Generator[int] { return rapid.IntRange(0, 200) }

func moment() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "seconds"), 0).UTC()
	})
}

func maybe(t *rapid.T) *time.Time {
	if !rapid.Bool().Draw(t, "known") {
		return nil
	}
	at := moment().Draw(t, "at")
	return &at
}

func words() *rapid.Generator[[]string] { return rapid.SliceOfN(word(), 1, 3) }

// observations are any that there may be.
func observations() *rapid.Generator[plan.Observation] {
	return rapid.Custom(func(t *rapid.T) plan.Observation {
		n := func(name string) int { return number().Draw(t, name) }
		o := plan.Observation{At: moment().Draw(t, "at"), Queue: word().Draw(t, "queue")}
		if until := maybe(t); until != nil {
			o.Until = *until
		}
		for range rapid.IntRange(0, 3).Draw(t, "jobs") {
			var part map[string]int
			if rapid.Bool().Draw(t, "in part") {
				part = map[string]int{word().Draw(t, "overlay in part"): n("jobs in part")}
			}
			var stages []plan.Stage
			for range rapid.IntRange(0, 2).Draw(t, "stages") {
				stages = append(stages, plan.Stage{Name: word().Draw(t, "stage"), Due: maybe(t), Jobs: n("jobs of the stage"), Ordered: n("ordered"), Since: maybe(t)})
			}
			o.Jobs = append(o.Jobs, plan.Demand{Stages: stages, Later: n("later"), Within: n("within"), Earliest: maybe(t), Partial: part, Overlays: words().Draw(t, "overlays"), Pending: n("pending"), OtherQueues: n("away"), Fresh: n("fresh"), Newest: maybe(t), Oldest: maybe(t), Upcoming: n("upcoming"), Limited: n("limited"), Blocked: n("blocked")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "idle") {
			g := plan.IdleAgents{Agents: n("agents"), Overlay: word().Draw(t, "of"), Replacing: rapid.Bool().Draw(t, "replacing")}
			for _, j := range rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "takes") {
				g.Jobs.Add(j)
			}
			o.Idle = append(o.Idle, g)
		}
		for range rapid.IntRange(0, 3).Draw(t, "overlays") {
			s := plan.Supply{Overlay: word().Draw(t, "overlay"), OtherQueue: n("strayed"), OtherFleets: n("namesakes"), WrongTags: n("wrong tags"), Busy: n("busy"), QueueBusy: n("queue busy"), Own: n("own"), Stopping: n("stopping")}
			if rapid.Bool().Draw(t, "suspended") {
				s.Suspended = plan.Suspension{Code: plan.SuspensionCode(word().Draw(t, "code")), Queue: word().Draw(t, "queue"), Cluster: word().Draw(t, "cluster"), NextProbe: maybe(t), Finding: word().Draw(t, "finding")}
			}
			for i := range rapid.IntRange(0, 3).Draw(t, "dispatches") {
				if s.Dispatches == nil {
					s.Dispatches = map[string]plan.Seen{}
				}
				seen := plan.Seen{FirstAt: maybe(t), RegisteredAt: maybe(t), HadJob: n("had a job"), Connected: n("connected"), WrongTags: n("wrong tags")}
				for _, index := range rapid.SliceOf(rapid.IntRange(0, 300)).Draw(t, "registered") {
					seen.Registered.Add(index)
				}
				for _, seconds := range rapid.SliceOf(rapid.IntRange(0, 2000)).Draw(t, "boots") {
					seen.StartupTimes.Add(time.Duration(seconds)*time.Second, 1+seconds%3)
				}
				s.Dispatches[fmt.Sprint(word().Draw(t, "id"), i)] = seen
			}
			for range rapid.IntRange(0, 2).Draw(t, "other tags") {
				if s.OtherTags == nil {
					s.OtherTags = map[string]plan.OtherTags{}
				}
				var jobs plan.Indexes
				for _, j := range rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "takes") {
					jobs.Add(j)
				}
				s.OtherTags[word().Draw(t, "id")] = plan.OtherTags{Jobs: jobs, Spare: rapid.Bool().Draw(t, "spare")}
			}
			o.Overlays = append(o.Overlays, s)
		}
		for range rapid.IntRange(0, 2).Draw(t, "unmatched") {
			o.Unmatched = append(o.Unmatched, plan.Unmatched{Rules: words().Draw(t, "rules"), Missing: words().Draw(t, "missing"), Jobs: n("jobs"), Example: word().Draw(t, "example")})
		}
		return o
	})
}

// operations are any that there may be.
func operations() *rapid.Generator[ledger.Operation] {
	return rapid.Custom(func(t *rapid.T) ledger.Operation {
		n := func(name string) int { return number().Draw(t, name) }
		name := rapid.StringMatching(`[\pL\pN_@+~=,.-]{1,8}x(/[a-z ]{1,4}x){0,2}`).Draw(t, "name")
		a := ledger.Operation{
			Kind:     rapid.SampledFrom([]ledger.Kind{ledger.Repair, ledger.Dispatch, ledger.Retire}).Draw(t, "kind"),
			Path:     "overlays/" + name,
			Decision: plan.Decision{Overlay: name, Observation: observations().Draw(t, "observation"), Closes: rapid.Bool().Draw(t, "closes"), Probe: rapid.Bool().Draw(t, "probe"), Schedule: rapid.StringMatching(`[a-z ]{0,9}`).Draw(t, "schedule")},
		}
		failure := rapid.SampledFrom([]plan.Failure{"", plan.NeverRegistered, plan.NoJobTaken, plan.WrongTags})
		d := &a.Decision
		for i := range rapid.IntRange(1, 3).Draw(t, "dispatches") {
			id := fmt.Sprintf("x-%d", i)
			d.Dispatch = append(d.Dispatch, plan.Dispatch{ID: id, Agents: n("agents")})
			d.Retire = append(d.Retire, plan.Retirement{ID: id, Agents: n("agents"), Registered: n("registered"), Failure: failure.Draw(t, "failure"), Reason: rapid.SampledFrom([]plan.RetireReason{plan.Expired, plan.AllRegistered}).Draw(t, "reason")})
		}
		d.Sum = plan.Sum{Pending: n("pending"), OtherOverlays: n("elsewhere"), Lookahead: n("lookahead"), Idle: n("idle"), InFlight: n("in flight"), Busy: n("busy"), QueueBusy: n("queue busy"), Current: n("current"),
			Stopping: n("stopping"), Replacing: n("replacing"), Overdue: n("late"), OverdueAfter: n("late after"), MaxPerHour: n("per hour"), Min: n("min"), Max: n("max"), Buffer: n("buffer"), Missing: n("missing"), Dispatch: n("dispatch"), Demand: n("demand"), WarmPool: n("warm pool")}
		d.State.Breaker = plan.Breaker{Failures: n("failures"), At: moment().Draw(t, "failed at"), Dispatch: "x-0", Cause: failure.Draw(t, "cause")}
		a.Changes = []branch.Change{{Path: a.Path + "/dispatches/state.yaml"}}
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			a.Faults = append(a.Faults, ledger.Fault{File: "state.yaml", Problem: word().Draw(t, "problem")})
		}
		for range rapid.IntRange(0, 5).Draw(t, "suspects") {
			a.Suspects = append(a.Suspects, ledger.Suspect{Commit: "0123", Author: word().Draw(t, "author"), Subject: word().Draw(t, "subject")})
		}
		return a
	})
}

// TestRoundTrip: whatever an act holds, its message gives back.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		op := operations().Draw(r, "act")
		wantEntry(r, ledger.Message(op, "v1.2.3"), op, "v1.2.3")
	})
}
