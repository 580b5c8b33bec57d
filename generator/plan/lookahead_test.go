package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var lookaheadAt = time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)

// looking is an overlay that looks ahead.
func looking(name string, change func(*Overlay)) Overlay {
	o := Overlay{Name: name, Policy: Policy{Queue: "q", Max: 50, Lookahead: 1, Lease: lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour}}
	if change != nil {
		change(&o)
	}
	return o
}

func before(d time.Duration) *time.Time {
	at := lookaheadAt.Add(-d)
	return &at
}

// TestWhoLooksAhead: upcoming jobs are the first overlay's that can take them, looks
// ahead and may dispatch.
func TestWhoLooksAhead(t *testing.T) {
	for name, c := range map[string]struct {
		first func(*Overlay)
		takes []string // of the jobs
		want  [2]int
	}{
		"the first":     {nil, []string{"a", "b"}, [2]int{10, 0}},
		"paused":        {func(o *Overlay) { o.Policy.Paused = true }, []string{"a", "b"}, [2]int{0, 10}},
		"invalid":       {func(o *Overlay) { o.Suspended = Suspension{Code: Invalid} }, []string{"a", "b"}, [2]int{0, 10}},
		"breaker open":  {func(o *Overlay) { o.State.Breaker = Breaker{Failures: Tolerance, At: lookaheadAt.Add(-time.Second)} }, []string{"a", "b"}, [2]int{0, 10}},
		"does not look": {func(o *Overlay) { o.Policy.Lookahead = 0 }, []string{"a", "b"}, [2]int{0, 10}},
		"half":          {func(o *Overlay) { o.Policy.Lookahead = 0.5 }, []string{"a", "b"}, [2]int{5, 0}},
		"cannot":        {nil, []string{"b"}, [2]int{0, 10}},
		"full":          {func(o *Overlay) { o.Policy.Max = 4 }, []string{"a", "b"}, [2]int{10, 0}}, // not passed on
	} {
		overlays := []Overlay{looking("a", c.first), looking("b", nil)}
		decisions := Decide("c0ffee", overlays, Observation{At: lookaheadAt, Queue: "q", Jobs: []Demand{{Overlays: c.takes, Upcoming: 10, Fresh: 10, Newest: before(time.Minute)}}})
		for i, d := range decisions {
			most := min(c.want[i], overlays[i].Policy.Max)
			if d.Sum.Lookahead != c.want[i] || d.Sum.Dispatch != most || !overlays[i].Suspended.Active() && d.Sum.Missing != c.want[i] {
				t.Errorf("%s: %s looks ahead to %d and dispatches %d of %d missing, want %d and %d", name, d.Overlay, d.Sum.Lookahead, d.Sum.Dispatch, d.Sum.Missing, c.want[i], most)
			}
		}
	}
}

// TestLookAheadAgain: what jobs and buffers leave of the agents that are there serves
// upcoming jobs that were dispatched for before, and those since are dispatched for.
func TestLookAheadAgain(t *testing.T) {
	inFlight := func(n int) []Dispatch {
		return []Dispatch{{ID: "a-00000001", Agents: n, At: lookaheadAt.Add(-time.Minute), NotAfter: lookaheadAt.Add(lease), Purpose: ForDemand}}
	}
	jobs := func(pending, upcoming, fresh int) []Demand {
		return []Demand{{Overlays: []string{"a"}, Pending: pending, Upcoming: upcoming, Fresh: fresh, Newest: before(time.Minute)}}
	}
	for name, c := range map[string]struct {
		agents, buffer            int
		jobs                      []Demand
		idle                      int
		wantLookahead, wantOrders int
	}{
		"nobody there":               {0, 0, jobs(0, 10, 2), 0, 2, 2},
		"in flight":                  {4, 0, jobs(0, 10, 2), 0, 6, 2},
		"more than there are jobs":   {12, 0, jobs(0, 10, 2), 0, 10, 0},
		"some are the buffer's":      {4, 1, jobs(0, 10, 2), 0, 5, 2},
		"some are for pending jobs":  {4, 0, jobs(3, 10, 2), 0, 3, 2},
		"idle":                       {0, 0, jobs(0, 10, 2), 3, 5, 2},
		"nothing new":                {4, 0, jobs(0, 10, 0), 0, 4, 0},
		"nothing new, and a buffer":  {4, 6, jobs(0, 10, 0), 0, 0, 2},
		"all new":                    {4, 0, jobs(0, 10, 10), 0, 10, 6},
		"none upcoming, one pending": {1, 0, jobs(1, 0, 0), 0, 0, 0},
	} {
		o := looking("a", func(o *Overlay) { o.Policy.Buffer = c.buffer })
		if c.agents > 0 {
			o.Dispatches = inFlight(c.agents)
		}
		observation := Observation{At: lookaheadAt, Queue: "q", Jobs: c.jobs, Overlays: []Supply{{Overlay: "a", Own: c.idle}}}
		if c.idle > 0 {
			var all Indexes
			all.Add(0)
			observation.Idle = []IdleAgents{{Agents: c.idle, Overlay: "a", Jobs: all}}
		}
		d := Decide("c0ffee", []Overlay{o}, observation)[0]
		if d.Sum.Lookahead != c.wantLookahead || d.Sum.Dispatch != c.wantOrders {
			t.Errorf("%s: looks ahead to %d and dispatches %d, want %d and %d", name, d.Sum.Lookahead, d.Sum.Dispatch, c.wantLookahead, c.wantOrders)
		}
	}
}

// TestLookedAhead: how far look-ahead has come is remembered once agents were
// dispatched for all of it.
func TestLookedAhead(t *testing.T) {
	earlier := lookaheadAt.Add(-time.Hour)
	var all Indexes
	all.Add(0)
	for name, c := range map[string]struct {
		policy func(*Policy)
		jobs   []Demand
		idle   int
		want   time.Time
	}{
		"dispatched":             {nil, []Demand{{Upcoming: 2, Fresh: 2, Newest: before(time.Minute)}}, 0, *before(time.Minute)},
		"the newest comes first": {nil, []Demand{{Upcoming: 2, Fresh: 2, Newest: before(time.Minute)}, {Pending: 1, Upcoming: 2, Fresh: 2, Newest: before(5 * time.Minute)}}, 0, *before(time.Minute)},
		"the newest comes last":  {nil, []Demand{{Upcoming: 2, Fresh: 2, Newest: before(5 * time.Minute)}, {Pending: 1, Upcoming: 2, Fresh: 2, Newest: before(time.Minute)}}, 0, *before(time.Minute)},
		"in part":                {func(p *Policy) { p.Max = 1 }, []Demand{{Upcoming: 2, Fresh: 2, Newest: before(time.Minute)}}, 0, earlier},
		"a share of nothing":     {func(p *Policy) { p.Lookahead = 0.3 }, []Demand{{Pending: 1, Upcoming: 2, Fresh: 2, Newest: before(time.Minute)}}, 0, earlier},
		"by agents that idle":    {nil, []Demand{{Upcoming: 2, Fresh: 2, Newest: before(time.Minute)}}, 2, earlier},
		"no longer looks":        {func(p *Policy) { p.Lookahead = 0 }, []Demand{{Pending: 1, Upcoming: 2, Fresh: 2, Newest: before(time.Minute)}}, 0, time.Time{}},
		"older":                  {nil, []Demand{{Upcoming: 2, Fresh: 2, Newest: before(2 * time.Hour)}}, 0, earlier},
	} {
		o := looking("a", func(o *Overlay) { o.State.LookedAhead = earlier })
		if c.policy != nil {
			c.policy(&o.Policy)
		}
		observation := Observation{At: lookaheadAt, Queue: "q", Overlays: []Supply{{Overlay: "a", Own: c.idle}}}
		for _, j := range c.jobs {
			j.Overlays = []string{"a"}
			observation.Jobs = append(observation.Jobs, j)
		}
		if c.idle > 0 {
			observation.Idle = []IdleAgents{{Agents: c.idle, Overlay: "a", Jobs: all}}
		}
		if got := Decide("c0ffee", []Overlay{o}, observation)[0].State.LookedAhead; !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestLookedAheadInPart: where there is room for some of the upcoming jobs, it is
// remembered how many agents were dispatched for them, and no more are for these.
func TestLookedAheadInPart(t *testing.T) {
	until := *before(time.Minute)
	part := func(agents int) Partial { return Partial{Until: until, Agents: agents} }
	jobs := func(upcoming, fresh, inPart int) []Demand {
		return []Demand{{Overlays: []string{"a"}, Upcoming: upcoming, Fresh: fresh, Newest: &until, Partial: map[string]int{"a": inPart, "b": 9}}}
	}
	for name, c := range map[string]struct {
		policy     func(*Policy)
		before     Partial
		jobs       []Demand
		dispatched int
		want       Partial // none: all
	}{
		"some":                          {nil, Partial{}, jobs(20, 20, 0), 5, part(5)},
		"some more":                     {nil, part(5), jobs(20, 20, 20), 5, part(10)},
		"the rest":                      {nil, part(15), jobs(20, 20, 20), 5, Partial{}},
		"nothing is left":               {nil, part(20), jobs(20, 20, 20), 0, part(20)},
		"most of them can run by now":   {nil, part(10), jobs(3, 3, 3), 0, part(10)},
		"and others came":               {nil, part(10), jobs(11, 11, 3), 5, part(8)},
		"and few others came":           {nil, part(10), jobs(5, 5, 3), 2, Partial{}},
		"half of them":                  {func(p *Policy) { p.Lookahead = 0.5 }, part(3), jobs(20, 20, 20), 5, part(8)},
		"half of them, the rest":        {func(p *Policy) { p.Lookahead = 0.5 }, part(8), jobs(20, 20, 20), 2, Partial{}},
		"no room":                       {func(p *Policy) { p.Max = 0 }, part(3), jobs(20, 20, 20), 0, part(3)},
		"the limit of an hour":          {func(p *Policy) { p.MaxPerHour = 2 }, part(3), jobs(20, 20, 20), 2, part(5)},
		"no longer looks":               {func(p *Policy) { p.Lookahead = 0 }, part(3), jobs(20, 20, 20), 0, Partial{}},
		"older than what was looked to": {nil, Partial{Until: lookaheadAt.Add(-2 * time.Hour), Agents: 3}, jobs(0, 0, 0), 0, Partial{}},
	} {
		o := looking("a", func(o *Overlay) {
			o.Policy.Max = 5
			o.State = State{LookedAhead: lookaheadAt.Add(-time.Hour), Partial: c.before}
		})
		if c.policy != nil {
			c.policy(&o.Policy)
		}
		d := Decide("c0ffee", []Overlay{o}, Observation{At: lookaheadAt, Queue: "q", Overlays: []Supply{{Overlay: "a"}}, Jobs: c.jobs})[0]
		if d.Sum.Dispatch != c.dispatched || !d.State.Equal(State{LookedAhead: d.State.LookedAhead, Ordered: d.State.Ordered, Partial: c.want}) {
			t.Errorf("%s: dispatches %d and remembers %+v, want %d and %+v", name, d.Sum.Dispatch, d.State.Partial, c.dispatched, c.want)
		}
		if all := c.dispatched > 0 && c.want == (Partial{}); all != d.State.LookedAhead.Equal(until) {
			t.Errorf("%s: has looked ahead until %s", name, d.State.LookedAhead)
		}
	}
}

// TestFreshLookAheadIsNotPassedOn asserts that an existing agent keeps its job although
// another overlay could dispatch for it and leave the agent to an upcoming job. Otherwise
// the overlay that looks ahead would dispatch nothing, record nothing, and dispatch in the
// next decision.
func TestFreshLookAheadIsNotPassedOn(t *testing.T) {
	var all Indexes
	all.Add(0)
	overlays := []Overlay{
		looking("a", func(o *Overlay) { o.Policy.Max = 1 }),
		looking("b", func(o *Overlay) { o.Policy.Lookahead = 0 }),
	}
	o := Observation{
		At: lookaheadAt, Queue: "q", Overlays: []Supply{{Overlay: "a", Own: 1}, {Overlay: "b"}},
		Idle: []IdleAgents{{Agents: 1, Overlay: "a", Jobs: all}},
		Jobs: []Demand{{Overlays: []string{"a", "b"}, Pending: 1, Upcoming: 1, Fresh: 1, Newest: before(time.Minute)}},
	}
	for _, d := range Decide("c0ffee", overlays, o) {
		if d.Sum.Dispatch > 0 {
			t.Errorf("%s dispatches %d, want none: %+v", d.Overlay, d.Sum.Dispatch, d.Sum)
		}
	}
}

// TestStageKeepsItsTime asserts that agents that another overlay dispatched for a stage
// long ago are not dispatched again when this overlay dispatches for the rest.
func TestStageKeepsItsTime(t *testing.T) {
	long := lookaheadAt.Add(-time.Hour)
	o := looking("a", nil)
	stage := Stage{Name: "one", Jobs: 2, Ordered: 1, Since: &long}
	job := Demand{Overlays: []string{"a"}, Upcoming: 2, Stages: []Stage{stage}}
	observation := Observation{At: lookaheadAt, Queue: "q", Overlays: []Supply{{Overlay: "a"}}, Jobs: []Demand{job}}
	d := Decide("c0ffee", []Overlay{o}, observation)[0]
	if len(d.State.AheadOf) != 1 || !d.State.AheadOf[0].At.Equal(long) {
		t.Errorf("remembers %+v, want the stage since %s", d.State.AheadOf, long)
	}
}

// TestOverlaysThatMayDispatchAreServedFirst: an agent in flight that another overlay's new agent
// replaces must not serve the look-ahead of its own overlay, which is full. Otherwise the other
// overlay's look-ahead would get an agent twice.
func TestOverlaysThatMayDispatchAreServedFirst(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	inFlight := func(id string) []Dispatch {
		return []Dispatch{{ID: id, Agents: 1, At: now.Add(-time.Minute), NotAfter: now.Add(lease)}}
	}
	policy := Policy{Queue: "default", Lease: lease, IdleTimeout: 5 * time.Minute}
	room, ahead, full := policy, policy, policy
	room.Max, room.Lookahead, room.Tags = 3, 1, []string{"gpu=a100"}
	ahead.Priority, ahead.Lookahead = 1, 1
	d := drawn{snapshot: Snapshot{At: now}, overlays: []Overlay{
		{Name: "room", Policy: room},
		{Name: "ahead", Policy: ahead, Dispatches: inFlight("ahead-1")},
		{Name: "full", Policy: full, Dispatches: inFlight("full-1")},
	}}
	for i, job := range []struct {
		state JobState
		rules []string
	}{{JobPending, nil}, {JobPending, nil}, {JobPending, nil}, {JobUpcoming, nil}, {JobUpcoming, room.Tags}} {
		rules := append([]string{"queue=default"}, job.rules...)
		d.snapshot.Jobs = append(d.snapshot.Jobs, Job{ID: fmt.Sprint("job-", i), Rules: rules, Since: now, State: job.state})
	}
	for _, want := range []int{2, 0} {
		decisions := d.decide()
		if n := ordered(decisions); n != want {
			t.Errorf("%d agents are dispatched, want %d: %+v", n, want, decisions)
		}
		for _, x := range decisions {
			i := slices.IndexFunc(d.overlays, func(o Overlay) bool { return o.Name == x.Overlay })
			d.overlays[i].Dispatches = append(d.overlays[i].Dispatches, x.Dispatch...)
		}
	}
}
