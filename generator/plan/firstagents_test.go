package plan

import (
	"cmp"
	"testing"
	"time"
)

// TestFirstAgents: until an agent of an overlay with lease: auto has registered, ten are in flight,
// and one at a time beside overdue ones or after a failed order.
func TestFirstAgents(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	order := func(agents int, age time.Duration) Dispatch {
		return Dispatch{ID: "a-" + age.String(), Agents: agents, At: now.Add(-age), NotAfter: now.Add(-age + lease), Purpose: ForDemand}
	}
	otherQueue := order(10, 5*time.Minute)
	otherQueue.Cluster = "former"
	var startup StartupTimes
	startup.Add(40*time.Second, 1)
	var beyond IndexSet
	beyond.Add(10)
	const all = 30 // jobs
	for name, test := range map[string]struct {
		fixed      bool // lease
		max        int
		dispatches []Dispatch
		supply     Capacity
		state      State
		want       int
	}{
		"no order":              {want: 10},
		"fixed lease":           {fixed: true, want: all},
		"max allows as many":    {max: 10, want: 10},
		"max allows one more":   {max: 11, want: 10},
		"in flight":             {dispatches: []Dispatch{order(4, time.Minute)}, want: 6},
		"as many as allowed":    {dispatches: []Dispatch{order(4, 2*time.Minute), order(6, time.Minute)}, want: 0},
		"overdue":               {dispatches: []Dispatch{order(10, 4*time.Minute)}, want: 1},
		"overdue and another":   {dispatches: []Dispatch{order(10, 8*time.Minute), order(1, 3*time.Minute)}, want: 0},
		"two overdue":           {dispatches: []Dispatch{order(10, 8*time.Minute), order(1, 4*time.Minute)}, want: 1},
		"failed now":            {dispatches: []Dispatch{order(10, 18*time.Minute)}, want: 1},
		"failed before":         {state: State{Breaker: Breaker{Failures: 2, Cause: NeverRegistered}}, want: 1},
		"in another queue":      {dispatches: []Dispatch{otherQueue}, want: 10},
		"registered in part":    {dispatches: []Dispatch{order(10, 5*time.Minute)}, supply: Capacity{Dispatches: map[string]Observed{"a-5m0s": {Registered: indexes(1)}}}, want: all - 9},
		"registered beyond":     {dispatches: []Dispatch{order(10, 5*time.Minute)}, supply: Capacity{Dispatches: map[string]Observed{"a-5m0s": {Registered: beyond}}}, want: 1},
		"connected agent":       {supply: Capacity{Own: 1}, want: all},
		"stopping agent":        {supply: Capacity{Stopping: 1}, want: all},
		"known start-up times":  {state: State{StartupTimes: startup}, want: all},
		"served order":          {state: State{ServedAt: now.Add(-time.Hour)}, want: all},
		"served and overdue":    {state: State{ServedAt: now.Add(-time.Hour)}, dispatches: []Dispatch{order(10, 5*time.Minute)}, want: all - 10},
		"served, failed before": {state: State{ServedAt: now.Add(-time.Hour), Breaker: Breaker{Failures: 2, Cause: NeverRegistered}}, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			o := Overlay{Name: "a", Policy: Policy{Queue: "a", Max: cmp.Or(test.max, 50), Lease: lease, LeaseAuto: !test.fixed, IdleTimeout: 5 * time.Minute}, Dispatches: test.dispatches, State: test.state}
			test.supply.Overlay = "a"
			seen := Observation{At: now, Queue: "a", Jobs: []Demand{{Overlays: []string{"a"}, Pending: all}}, Overlays: []Capacity{test.supply}}
			d := Decide("head", []Overlay{o}, seen)[0]
			limited := len(d.Limits()) > 0 && d.Limits()[0].Name == "firstAgents"
			if d.Figures.Dispatch != test.want || limited != (test.want <= 10 && test.max != 10) {
				t.Errorf("%d agents are dispatched, want %d; limits %v", d.Figures.Dispatch, test.want, d.Limits())
			}
		})
	}
}
