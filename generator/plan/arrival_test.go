package plan

import (
	"testing"
	"time"
)

func TestArrival(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	order := func(id string, agents int, age time.Duration) Dispatch {
		at := now.Add(-age)
		return Dispatch{ID: id, Agents: agents, At: at, NotAfter: at.Add(lease)}
	}
	var learned StartupTimes
	learned.Add(40*time.Second, MinStartupTimes)
	withdrawn := order("a", 4, 5*time.Minute)
	withdrawn.Withdrawn = true
	failed := Breaker{Failures: 2, At: now.Add(-10 * time.Minute), Cause: NeverRegistered}
	for name, test := range map[string]struct {
		dispatches   []Dispatch
		registered   map[string]int // how many agents of a dispatch
		startup      StartupTimes
		breaker      Breaker
		reason, text string
	}{
		"no order":                 {},
		"new order":                {dispatches: []Dispatch{order("a", 4, 3*time.Minute)}},
		"overdue":                  {[]Dispatch{order("a", 4, 4*time.Minute)}, nil, StartupTimes{}, Breaker{}, Overdue, "0 of 4 agents registered in the 4m after their order"},
		"overdue in part":          {[]Dispatch{order("a", 4, 4*time.Minute)}, map[string]int{"a": 1}, StartupTimes{}, Breaker{}, Overdue, "1 of 4 agents registered in the 4m after their order"},
		"half has registered":      {dispatches: []Dispatch{order("a", 4, 4*time.Minute)}, registered: map[string]int{"a": 2}},
		"two orders":               {[]Dispatch{order("a", 4, 6*time.Minute), order("b", 3, 5*time.Minute)}, nil, StartupTimes{}, Breaker{}, Overdue, "0 of 7 agents registered in the 6m after their order"},
		"learned start-up times":   {[]Dispatch{order("a", 4, 90*time.Second)}, nil, learned, Breaker{}, Overdue, "0 of 4 agents registered in the 1m after their order"},
		"withdrawn":                {dispatches: []Dispatch{withdrawn}},
		"lease expired":            {dispatches: []Dispatch{order("a", 4, lease+Grace+time.Second)}},
		"failed order":             {nil, nil, StartupTimes{}, Breaker{Failures: 1, Cause: NoJobTaken}, OrdersFailed, "the last order failed: no agent took a job"},
		"failed and overdue":       {[]Dispatch{order("a", 4, 5*time.Minute)}, nil, StartupTimes{}, failed, OrdersFailed, "the last 2 orders failed: no agent registered; 0 of 4 agents registered in the 5m after their order"},
		"registered after failure": {dispatches: []Dispatch{order("a", 4, time.Minute)}, registered: map[string]int{"a": 1}, breaker: failed},
		"open breaker":             {breaker: Breaker{Failures: Tolerance, Cause: NeverRegistered}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &share{overlay: Overlay{Dispatches: test.dispatches}, startupTimes: test.startup, breaker: test.breaker}
			s.supply.Dispatches = map[string]Seen{}
			for id, n := range test.registered {
				var seen Seen
				for i := range n {
					seen.Registered.Add(i)
				}
				s.supply.Dispatches[id] = seen
			}
			a := s.arrival(now)
			if a.Reason() != test.reason || a.Describe(now) != test.text {
				t.Errorf("arrival is %q, %q; want %q, %q", a.Reason(), a.Describe(now), test.reason, test.text)
			}
		})
	}
}
