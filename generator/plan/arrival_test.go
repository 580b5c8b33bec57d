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
	of := func(template string, d Dispatch) Dispatch {
		d.Template = template
		return d
	}
	withdrawn := order("a", 4, 5*time.Minute)
	withdrawn.Withdrawn = true
	failed := Breaker{Failures: 2, At: now.Add(-10 * time.Minute), Cause: NeverRegistered}
	for name, test := range map[string]struct {
		dispatches []Dispatch
		registered map[string]int // how many agents of a dispatch
		startup    StartupTimes
		served     time.Time
		breaker    Breaker
		want       Arrival
	}{
		"no order":                 {},
		"new order":                {dispatches: []Dispatch{order("a", 4, 3*time.Minute)}},
		"overdue":                  {dispatches: []Dispatch{order("a", 4, 4*time.Minute)}, want: Arrival{Agents: 4, Ordered: now.Add(-4 * time.Minute)}},
		"overdue in part":          {dispatches: []Dispatch{order("a", 4, 4*time.Minute)}, registered: map[string]int{"a": 1}, want: Arrival{Agents: 4, Registered: 1, Ordered: now.Add(-4 * time.Minute)}},
		"half has registered":      {dispatches: []Dispatch{order("a", 4, 4*time.Minute)}, registered: map[string]int{"a": 2}, want: Arrival{Agents: 4, Registered: 2, Ordered: now.Add(-4 * time.Minute)}},
		"one is missing":           {dispatches: []Dispatch{order("a", 50, 4*time.Minute)}, registered: map[string]int{"a": 49}, want: Arrival{Agents: 50, Registered: 49, Ordered: now.Add(-4 * time.Minute)}},
		"all have registered":      {dispatches: []Dispatch{order("a", 4, 4*time.Minute)}, registered: map[string]int{"a": 4}},
		"two orders":               {dispatches: []Dispatch{order("a", 4, 6*time.Minute), order("b", 3, 5*time.Minute)}, want: Arrival{Agents: 7, Ordered: now.Add(-6 * time.Minute)}},
		"learned start-up times":   {dispatches: []Dispatch{order("a", 4, 90*time.Second)}, startup: learned, want: Arrival{Agents: 4, Ordered: now.Add(-90 * time.Second)}},
		"newer order served":       {dispatches: []Dispatch{order("a", 50, 10*time.Minute), order("b", 2, 5*time.Minute)}, registered: map[string]int{"a": 10, "b": 2}, want: Arrival{Agents: 50, Registered: 10, Ordered: now.Add(-10 * time.Minute)}},
		"newer order retired":      {dispatches: []Dispatch{order("a", 1, 6*time.Minute)}, served: now.Add(-5 * time.Minute), want: Arrival{Agents: 1, Ordered: now.Add(-6 * time.Minute)}},
		"newer served, one failed": {dispatches: []Dispatch{order("b", 3, 12*time.Minute)}, registered: map[string]int{"b": 3}, breaker: Breaker{Failures: 1, At: now, Cause: NeverRegistered}},
		"older order served":       {dispatches: []Dispatch{order("a", 4, 6*time.Minute), order("b", 3, 7*time.Minute)}, registered: map[string]int{"b": 3}, want: Arrival{Agents: 4, Ordered: now.Add(-6 * time.Minute)}},
		"new template":             {dispatches: []Dispatch{of("2", order("a", 4, 6*time.Minute)), of("1", order("b", 3, 14*time.Minute))}, registered: map[string]int{"b": 3}, want: Arrival{Agents: 4, Ordered: now.Add(-6 * time.Minute), NewTemplate: true}},
		"template corrected":       {dispatches: []Dispatch{of("1", order("a", 4, 6*time.Minute)), of("2", order("b", 3, 5*time.Minute))}, registered: map[string]int{"b": 3}, want: Arrival{Agents: 4, Ordered: now.Add(-6 * time.Minute)}},
		"template unknown":         {dispatches: []Dispatch{order("a", 4, 6*time.Minute), of("1", order("b", 3, 14*time.Minute))}, registered: map[string]int{"b": 3}, want: Arrival{Agents: 4, Ordered: now.Add(-6 * time.Minute)}},
		"new template works":       {dispatches: []Dispatch{of("2", order("a", 4, 6*time.Minute)), of("1", order("b", 3, 14*time.Minute))}, registered: map[string]int{"a": 1, "b": 3}, want: Arrival{Agents: 4, Registered: 1, Ordered: now.Add(-6 * time.Minute)}},
		"both templates overdue":   {dispatches: []Dispatch{of("2", order("a", 4, 6*time.Minute)), of("1", order("b", 3, 14*time.Minute))}, registered: map[string]int{"b": 2}, want: Arrival{Agents: 7, Registered: 2, Ordered: now.Add(-14 * time.Minute)}},
		"withdrawn":                {dispatches: []Dispatch{withdrawn}},
		"lease expired":            {dispatches: []Dispatch{order("a", 4, lease+Grace+time.Second)}},
		"failed order":             {breaker: Breaker{Failures: 1, Cause: NoJobTaken}, want: Arrival{FailedOrders: 1}},
		"failed and overdue":       {dispatches: []Dispatch{order("a", 4, 5*time.Minute)}, breaker: failed, want: Arrival{Agents: 4, Ordered: now.Add(-5 * time.Minute), FailedOrders: 2}},
		"registered after failure": {dispatches: []Dispatch{order("a", 4, time.Minute)}, registered: map[string]int{"a": 1}, breaker: failed},
		"open breaker":             {breaker: Breaker{Failures: Tolerance, Cause: NeverRegistered}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &allocation{policy: Policy{Lease: lease}, overlay: Overlay{Dispatches: test.dispatches, Template: "2"}, startupTimes: test.startup, lastServed: test.served, breaker: test.breaker}
			s.capacity.Dispatches = map[string]Observed{}
			for id, n := range test.registered {
				s.capacity.Dispatches[id] = Observed{Registered: indexes(n)}
			}
			if got := s.arrival(now); got != test.want {
				t.Errorf("arrival is %+v, want %+v", got, test.want)
			}
		})
	}
}
