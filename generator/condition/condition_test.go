package condition

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
)

var now = time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)

// TestConditions asserts the state, the abnormal conditions and their words.
func TestConditions(t *testing.T) {
	overdue := plan.Decision{Queue: "linux", Arrival: plan.Arrival{Agents: 10, Registered: 1, Ordered: now.Add(-6 * time.Minute)}}
	changed := overdue
	changed.Arrival.Agents, changed.Arrival.Registered, changed.Arrival.NewTemplate = 4, 0, true
	failed := overdue
	failed.Arrival.FailedOrders = 2
	failed.State.Breaker = plan.Breaker{Failures: 2, Agents: 16, At: now.Add(-time.Minute), Cause: plan.NeverRegistered}
	open := plan.Decision{State: plan.State{Breaker: plan.Breaker{Failures: 3, Agents: 7, At: now, Cause: plan.NoJobTaken}}}
	full := plan.Decision{Figures: plan.Figures{Pending: 4, Missing: 4, Current: 10, Max: 10}}
	night := full
	night.Schedule, night.Figures.Current, night.Figures.Stopping = "night", 6, 4
	hourly := plan.Decision{Figures: plan.Figures{Pending: 4, Missing: 4, Max: 10, Room: 10, Limits: []plan.Remaining{{Term: "leftThisHour", Most: 5, Left: 1}}, Dispatch: 1}}
	unmatched := plan.Decision{Queue: "linux", Observation: plan.Observation{Unmatched: []plan.Unmatched{{Rules: []string{"os=mac"}, Missing: []string{"os=mac"}, Jobs: 3, Example: "u"}}}}
	shared := full
	shared.Observation.Overlays = []plan.Capacity{{Overlay: "a", OtherFleets: 2}}
	trial := now.Add(time.Minute)
	for name, test := range map[string]struct {
		overlay Overlay
		state   string
		want    []string
	}{
		"normal":        {Overlay{Decision: &plan.Decision{}}, "Ready", nil},
		"not decided":   {Overlay{}, "Unknown", nil},
		"paused":        {Overlay{Decision: &plan.Decision{}, Suspended: plan.Suspension{Code: plan.Paused}}, "Paused", []string{"overlay a: Suspended=True (Paused): spec.paused is true"}},
		"invalid":       {Overlay{Suspended: plan.Suspension{Code: plan.Invalid, Finding: "x\ny"}}, "Invalid", []string{"overlay a: Suspended=True (Invalid): x | y"}},
		"refused":       {Overlay{Decision: &plan.Decision{}, Suspended: plan.Suspension{Code: plan.PushRefused, Finding: "no"}}, "PushRefused", []string{"overlay a: PushAccepted=False (PushRefused): no"}},
		"overdue":       {Overlay{Decision: &overdue}, "Overdue", []string{"overlay a: AgentsArriving=False (Overdue): 1 of 10 agents registered, the oldest order is 6 min old"}},
		"new template":  {Overlay{Decision: &changed}, "Overdue", []string{"overlay a: AgentsArriving=False (Overdue): 0 of 4 agents registered, the oldest order is 6 min old; agents of an earlier template did, but none since the template changed"}},
		"orders failed": {Overlay{Decision: &failed}, "OrdersFailed", []string{"overlay a: AgentsArriving=False (OrdersFailed): the last 2 orders failed: 0 of 16 agents registered"}},
		"breaker open": {Overlay{Decision: &open, Suspended: plan.Suspension{Code: plan.BreakerOpen, NextTrial: &trial}}, "BreakerOpen",
			[]string{"overlay a: AgentsArriving=False (BreakerOpen): the circuit breaker is open: the last orders failed: no agent took a job; next trial at 2026-11-21T02:16:00Z"}},
		"full":          {Overlay{Decision: &full}, "MaxReached", []string{"overlay a: ScalingLimited=True (MaxReached): 4 agents fewer than needed: max is 10, and 10 are connected or in flight"}},
		"full at night": {Overlay{Decision: &night}, "MaxReached", []string{`overlay a: ScalingLimited=True (MaxReached): 4 agents fewer than needed: max is 10 while the schedule "night" is in force, and 10 are connected or in flight, 4 of them stopping or paused in Buildkite`}},
		"hourly":        {Overlay{Decision: &hourly}, "HourlyLimitReached", []string{"overlay a: ScalingLimited=True (HourlyLimitReached): 3 agents fewer than needed: maxPerHour leaves 1 in this hour"}},
		"unmatched": {Overlay{Decision: &unmatched}, "NoMatch",
			[]string{`queue linux: JobsServed=False (NoMatch): jobs match no overlay of the queue: 3 with the agent query rules ["os=mac"] (missing ["os=mac"]), for example "u"`}},
		"edited":          {Overlay{Decision: &plan.Decision{}, Repair: "a: repair", Repaired: now.Add(-14 * time.Minute)}, "EditedByHand", []string{"overlay a: Drifted=True (EditedByHand): muster repaired a manual edit at 2026-11-21T02:01:00Z: a: repair"}},
		"edited long ago": {Overlay{Decision: &plan.Decision{}, Repair: "a: repair", Repaired: now.Add(-15 * time.Minute)}, "Ready", nil},
		"invalid state":   {Overlay{Decision: &plan.Decision{}, StateError: "bad"}, "StateInvalid", []string{"overlay a: Degraded=True (StateInvalid): bad"}},
		// The most severe condition is the state, and another one of its level instead of a pause.
		"full, and another muster": {Overlay{Decision: &shared}, "OtherMuster", []string{
			"overlay a: Degraded=True (OtherMuster): the queue has agents of another muster: 2 are connected. They count neither for min nor against max, and both musters order agents for the same jobs",
			"overlay a: ScalingLimited=True (MaxReached): 4 agents fewer than needed: max is 10, and 10 are connected or in flight",
		}},
		"paused, and invalid state": {Overlay{Decision: &plan.Decision{}, Suspended: plan.Suspension{Code: plan.Paused}, StateError: "bad"}, "StateInvalid",
			[]string{"overlay a: Suspended=True (Paused): spec.paused is true", "overlay a: Degraded=True (StateInvalid): bad"}},
		"full, and edited": {Overlay{Decision: &full, Repair: "a: repair", Repaired: now.Add(-14 * time.Minute)}, "MaxReached", []string{
			"overlay a: ScalingLimited=True (MaxReached): 4 agents fewer than needed: max is 10, and 10 are connected or in flight",
			"overlay a: Drifted=True (EditedByHand): muster repaired a manual edit at 2026-11-21T02:01:00Z: a: repair",
		}},
		"breaker open, paused": {Overlay{Decision: &open, Suspended: plan.Suspension{Code: plan.Paused}}, "BreakerOpen", []string{
			"overlay a: AgentsArriving=False (BreakerOpen): the circuit breaker is open: the last orders failed: no agent took a job",
			"overlay a: Suspended=True (Paused): spec.paused is true",
		}},
		// Without a later poll, neither a success nor a failure is known.
		"overdue in git": {Overlay{Decision: &overdue, Polled: now.Add(-6 * time.Minute)}, "NotRecorded", nil},
		"breaker open, no poll in git": {Overlay{Recorded: open.State.Breaker, Suspended: plan.Suspension{Code: plan.BreakerOpen, NextTrial: &trial}}, "BreakerOpen",
			[]string{"overlay a: AgentsArriving=False (BreakerOpen): the circuit breaker is open: the last orders failed: no agent took a job; next trial at 2026-11-21T02:16:00Z"}},
		"full in git":          {Overlay{Decision: &full, Polled: now.Add(-2 * time.Minute)}, "MaxReached", []string{"overlay a: ScalingLimited=True (MaxReached): 4 agents fewer than needed: max is 10, and 10 are connected or in flight, as of the last poll in git at 2026-11-21T02:13:00Z"}},
		"orders failed in git": {Overlay{Decision: &overdue, Polled: now.Add(-6 * time.Minute), Recorded: failed.State.Breaker}, "OrdersFailed", []string{"overlay a: AgentsArriving=False (OrdersFailed): the last 2 orders failed: 0 of 16 agents registered"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.overlay.Name, test.overlay.Now = "a", now
			all := test.overlay.Conditions()
			var got []string
			for _, c := range Problems(all) {
				got = append(got, c.String())
				if c.Remedy == "" {
					t.Errorf("%s has no remedy", c)
				}
			}
			if state := State(all); state != test.state || !slices.Equal(got, test.want) {
				t.Errorf("state %s, problems %q; want %s, %q", state, got, test.state, test.want)
			}
		})
	}
	early := plan.Decision{State: plan.State{Breaker: plan.Breaker{Failures: 1, Agents: 1, At: now, Cause: plan.NoJobTaken}}}
	if c, _ := Find(Overlay{Decision: &early, Suspended: plan.Suspension{Code: plan.AgentsCannotWork}, Now: now}.Conditions(), AgentsArriving); c.Reason != "AgentsCannotWork" || c.Remedy != tagsRemedy {
		t.Errorf("agents that cannot work after others left without a job: %s %s", c, c.Remedy)
	}
	c, _ := Find(Overlay{Decision: &overdue, Now: now, Polled: now.Add(-6 * time.Minute)}.Conditions(), AgentsArriving)
	if c.Status != Unknown || c.Reason != NotRecorded || !strings.Contains(c.Message, "of 10 agents ordered 6 min ago") {
		t.Errorf("without a poll since the order: %s", c)
	}
}

// TestRemedies: every suspension has a remedy.
func TestRemedies(t *testing.T) {
	for _, code := range plan.SuspensionCodes() {
		c := Overlay{Suspended: plan.Suspension{Code: code}, Decision: &plan.Decision{State: plan.State{Breaker: plan.Breaker{Failures: 3}}}}.Conditions()[0]
		if c.Abnormal() && c.Remedy == "" {
			t.Errorf("%s has no remedy", code)
		}
	}
}

// TestSince: a condition keeps the time of its last transition while its status stays.
func TestSince(t *testing.T) {
	first := Since(nil, []Condition{{Type: Ready, Status: True}, {Type: Drifted, Status: True, LastTransitionTime: now.Add(-time.Hour)}}, now)
	later := now.Add(time.Minute)
	second := Since(first, []Condition{{Type: Ready, Status: True, Reason: "Other"}}, later)
	third := Since(second, []Condition{{Type: Ready, Status: False}}, later)
	for i, test := range []struct{ got, want time.Time }{
		{first[0].LastTransitionTime, now}, {first[1].LastTransitionTime, now.Add(-time.Hour)}, {second[0].LastTransitionTime, now}, {third[0].LastTransitionTime, later},
	} {
		if !test.got.Equal(test.want) {
			t.Errorf("%d: %s, want %s", i, test.got, test.want)
		}
	}
}

// TestProblems: the most urgent condition comes first, and a condition of a queue once.
func TestProblems(t *testing.T) {
	all := []Condition{
		{Type: JobsServed, Status: False, Reason: NoMatch, Overlay: "a", Queue: "q"}, {Type: JobsServed, Status: False, Reason: NoMatch, Overlay: "b", Queue: "q"},
		{Type: Ready, Status: False, Reason: "Invalid", Overlay: "a"}, {Type: Suspended, Status: True, Reason: "Invalid", Overlay: "a"}, {Type: Ready, Status: True, Overlay: "b"},
	}
	got := Problems(all)
	if len(got) != 2 || got[0].Type != Suspended || got[0].Level() != slog.LevelError || got[1].Queue != "q" || got[1].Overlay != "" {
		t.Errorf("problems are %v", got)
	}
}
