package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// looking is an overlay that looks ahead.
func looking(name string, change func(*Overlay)) Overlay {
	o := Overlay{Name: name, Policy: Policy{Queue: "q", Max: 50, Lookahead: 1, Lease: lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour}}
	if change != nil {
		change(&o)
	}
	return o
}

func before(d time.Duration) *time.Time { return new(orderedAt.Add(-d)) }

// TestLookedAhead: how far look-ahead has come is remembered once agents were
// dispatched for all of it.
func TestLookedAhead(t *testing.T) {
	earlier := orderedAt.Add(-time.Hour)
	for name, c := range map[string]struct {
		policy func(*Policy)
		jobs   []Demand
		idle   int
		want   time.Time
	}{
		"dispatched":             {nil, []Demand{{Upcoming: 2, New: 2, Newest: before(time.Minute)}}, 0, *before(time.Minute)},
		"the newest comes first": {nil, []Demand{{Upcoming: 2, New: 2, Newest: before(time.Minute)}, {Pending: 1, Upcoming: 2, New: 2, Newest: before(5 * time.Minute)}}, 0, *before(time.Minute)},
		"the newest comes last":  {nil, []Demand{{Upcoming: 2, New: 2, Newest: before(5 * time.Minute)}, {Pending: 1, Upcoming: 2, New: 2, Newest: before(time.Minute)}}, 0, *before(time.Minute)},
		"in part":                {func(p *Policy) { p.Max = 1 }, []Demand{{Upcoming: 2, New: 2, Newest: before(time.Minute)}}, 0, earlier},
		"a share of nothing":     {func(p *Policy) { p.Lookahead = 0.3 }, []Demand{{Pending: 1, Upcoming: 2, New: 2, Newest: before(time.Minute)}}, 0, earlier},
		"by agents that idle":    {nil, []Demand{{Upcoming: 2, New: 2, Newest: before(time.Minute)}}, 2, earlier},
		"no longer looks":        {func(p *Policy) { p.Lookahead = 0 }, []Demand{{Pending: 1, Upcoming: 2, New: 2, Newest: before(time.Minute)}}, 0, time.Time{}},
		"older":                  {nil, []Demand{{Upcoming: 2, New: 2, Newest: before(2 * time.Hour)}}, 0, earlier},
	} {
		o := looking("a", func(o *Overlay) { o.State.LookedAhead = earlier })
		if c.policy != nil {
			c.policy(&o.Policy)
		}
		observation := Observation{At: orderedAt, Queue: "q", Overlays: []Capacity{{Overlay: "a", Own: c.idle}}}
		for _, j := range c.jobs {
			j.Overlays = []string{"a"}
			observation.Jobs = append(observation.Jobs, j)
		}
		if c.idle > 0 {
			observation.Idle = []IdleAgents{{Agents: c.idle, Overlay: "a", Jobs: indexes(1)}}
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
	jobs := func(upcoming, newJobs, inPart int) []Demand {
		return []Demand{{Overlays: []string{"a"}, Upcoming: upcoming, New: newJobs, Newest: &until, Partial: map[string]int{"a": inPart, "b": 9}}}
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
		"older than what was looked to": {nil, Partial{Until: orderedAt.Add(-2 * time.Hour), Agents: 3}, jobs(0, 0, 0), 0, Partial{}},
	} {
		o := looking("a", func(o *Overlay) {
			o.Policy.Max = 5
			o.State = State{LookedAhead: orderedAt.Add(-time.Hour), Partial: c.before}
		})
		if c.policy != nil {
			c.policy(&o.Policy)
		}
		d := Decide("c0ffee", []Overlay{o}, Observation{At: orderedAt, Queue: "q", Overlays: []Capacity{{Overlay: "a"}}, Jobs: c.jobs})[0]
		if d.Figures.Dispatch != c.dispatched || !d.State.Equal(State{LookedAhead: d.State.LookedAhead, Ordered: d.State.Ordered, Partial: c.want}) {
			t.Errorf("%s: dispatches %d and remembers %+v, want %d and %+v", name, d.Figures.Dispatch, d.State.Partial, c.dispatched, c.want)
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
	overlays := []Overlay{
		looking("a", func(o *Overlay) { o.Policy.Max = 1 }),
		looking("b", func(o *Overlay) { o.Policy.Lookahead = 0 }),
	}
	o := Observation{
		At: orderedAt, Queue: "q", Overlays: []Capacity{{Overlay: "a", Own: 1}, {Overlay: "b"}},
		Idle: []IdleAgents{{Agents: 1, Overlay: "a", Jobs: indexes(1)}},
		Jobs: []Demand{{Overlays: []string{"a", "b"}, Pending: 1, Upcoming: 1, New: 1, Newest: before(time.Minute)}},
	}
	for _, d := range Decide("c0ffee", overlays, o) {
		if d.Figures.Dispatch > 0 {
			t.Errorf("%s dispatches %d, want none: %+v", d.Overlay, d.Figures.Dispatch, d.Figures)
		}
	}
}

// TestStageKeepsItsTime asserts that agents that another overlay dispatched for a stage
// long ago are not dispatched again when this overlay dispatches for the rest.
func TestStageKeepsItsTime(t *testing.T) {
	long := orderedAt.Add(-time.Hour)
	o := looking("a", nil)
	stage := Stage{Name: "one", Jobs: 2, Ordered: 1, Since: &long}
	job := Demand{Overlays: []string{"a"}, Upcoming: 2, Stages: []Stage{stage}}
	observation := Observation{At: orderedAt, Queue: "q", Overlays: []Capacity{{Overlay: "a"}}, Jobs: []Demand{job}}
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

// upcomingJobs are jobs of one stage.
func upcomingJobs(n int, stage string, created, due time.Time) []Job {
	var all []Job
	for i := range n {
		all = append(all, Job{ID: fmt.Sprintf("%s-%d", stage, i), Rules: []string{"queue=q"}, State: JobUpcoming, Created: created, Due: due, Stage: stage})
	}
	return all
}

// decideOn observes and decides at a moment.
func decideOn(now time.Time, jobs []Job, overlays ...Overlay) []Decision {
	s := Snapshot{At: now, Jobs: jobs}
	return Decide("c0ffee", overlays, Observe(overlays, s, &Registrations{})[0])
}

// TestDue: jobs that are due later than agents take to come are no demand, and those that
// are due by then are; what is not known is due now. Without look-ahead nothing differs.
func TestDue(t *testing.T) {
	created := *before(time.Minute)
	for name, c := range map[string]struct {
		due           time.Time
		later, orders int
	}{
		"now":          {orderedAt, 0, 3},
		"past":         {orderedAt.Add(-time.Hour), 0, 3},
		"in time":      {orderedAt.Add(startupAndTransport), 0, 3},
		"a bit later":  {orderedAt.Add(startupAndTransport + 1), 3, 0},
		"not known":    {time.Time{}, 0, 3},
		"in two hours": {orderedAt.Add(2 * time.Hour), 3, 0},
	} {
		jobs := upcomingJobs(3, "s", created, c.due)
		d := decideOn(orderedAt, jobs, looking("a", nil))[0]
		group := d.Observation.Jobs[0]
		if group.Later != c.later || d.Figures.Dispatch != c.orders || group.Upcoming != 3-c.later {
			t.Errorf("%s: %d are later, %d upcoming, and %d dispatched", name, group.Later, group.Upcoming, d.Figures.Dispatch)
		}
		if c.later > 0 && (group.Earliest == nil || !group.Earliest.Equal(c.due.Truncate(time.Second)) || group.Within != 75) {
			t.Errorf("%s: %+v", name, group)
		}
		off := looking("a", func(o *Overlay) { o.Policy.Lookahead = 0 })
		if o := decideOn(orderedAt, jobs, off)[0].Observation.Jobs[0]; o.Upcoming != 3 || o.Later+len(o.Stages)+o.Within > 0 {
			t.Errorf("%s: without look-ahead it is observed %+v", name, o)
		}
	}
	unknown := upcomingJobs(3, "s", created, time.Time{})
	plain := upcomingJobs(3, "", created, time.Time{})
	a, b := decideOn(orderedAt, unknown, looking("a", nil))[0], decideOn(orderedAt, plain, looking("a", nil))[0]
	if fmt.Sprintf("%+v %+v %+v", a.Observation, a.Figures, a.State) != fmt.Sprintf("%+v %+v %+v", b.Observation, b.Figures, b.State) {
		t.Errorf("a stage of which nothing is known is decided on as\n%+v, want\n%+v", a, b)
	}
}

// TestOnceForEachJob: whatever the order in which jobs were made, become due, are put off
// and can run, an agent is dispatched once for each that comes to be due, whether all
// have room or few, also when the agents idle out each time.
func TestOnceForEachJob(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 13))
		o := looking("a", func(o *Overlay) { o.Policy.Max = 1 + random.IntN(20) })
		minutes := func(n int) time.Duration { return time.Duration(random.IntN(n)) * time.Minute }
		type stage struct {
			name         string
			jobs         int
			created, due time.Time
		}
		var stages []*stage
		jobs := 0
		for i := range 1 + random.IntN(12) {
			s := &stage{name: fmt.Sprintf("s%d", i), jobs: 1 + random.IntN(6), created: orderedAt.Add(-minutes(60)), due: orderedAt.Add(minutes(120))}
			stages, jobs = append(stages, s), jobs+s.jobs
		}
		ordered := map[string]int{}
		for now := orderedAt; now.Before(orderedAt.Add(24 * time.Hour)); now = now.Add(6 * time.Minute) {
			var all []Job
			for _, s := range stages {
				if random.IntN(4) == 0 { // the prediction changes
					s.due = s.due.Add(minutes(60) - 30*time.Minute)
				}
				known := s.due
				if ordered[s.name] > 0 && random.IntN(5) == 0 { // by a process that knows nothing
					known = time.Time{}
				}
				all = append(all, upcomingJobs(s.jobs, s.name, s.created, known)...)
			}
			d := decideOn(now, all, o)[0]
			before := o.State.AheadOf
			o.State = d.State // its agents idle out before the next look
			due := 0
			for _, s := range stages {
				name := (&class{rules: []string{"queue=q"}}).stageName(s.name)
				n := agentsOf(o.State.AheadOf, name) - agentsOf(before, name)
				ordered[s.name] += n
				due += n
				if ordered[s.name] > s.jobs || n > 0 && ordered[s.name] == n && s.due.After(now.Add(startupAndTransport)) {
					t.Fatalf("seed %d: at %s %d of %d are ordered of a stage that is due at %s", seed, now, ordered[s.name], s.jobs, s.due)
				}
			}
			if due != d.Figures.Dispatch || d.State.LookedAhead.IsZero() == false {
				t.Fatalf("seed %d: %d are ordered, %d remembered, looked ahead to %s", seed, d.Figures.Dispatch, due, d.State.LookedAhead)
			}
		}
		for _, s := range stages {
			if ordered[s.name] != s.jobs {
				t.Fatalf("seed %d: %d are ordered for the %d jobs of %s", seed, ordered[s.name], s.jobs, s.name)
			}
		}
	}
}

func agentsOf(all []AheadOf, stage string) (agents int) {
	for _, a := range all {
		if a.Stage == stage {
			agents += a.Agents
		}
	}
	return agents
}

// TestAgentTaken: while the agent that was dispatched for a job cannot have idled out, one
// that another job took is dispatched again; afterwards none is.
func TestAgentTaken(t *testing.T) {
	o := looking("a", nil)
	jobs := upcomingJobs(1, "s", *before(time.Hour), orderedAt)
	first := decideOn(orderedAt, jobs, o)[0]
	o.State = first.State
	for after, want := range map[time.Duration]int{time.Minute: 1, 5*time.Minute - 1: 1, 5 * time.Minute: 0, time.Hour: 0} {
		repeated := decideOn(orderedAt.Add(after), jobs, o)[0]
		if repeated.Figures.Dispatch != want || len(repeated.State.AheadOf) != 1 || repeated.State.AheadOf[0] != first.State.AheadOf[0] {
			t.Errorf("%s after the order %d are dispatched, want %d, and %v is remembered", after, repeated.Figures.Dispatch, want, repeated.State.AheadOf)
		}
	}
	o.Dispatches = first.Dispatch
	if repeated := decideOn(orderedAt.Add(time.Minute), jobs, o)[0]; repeated.Figures.Dispatch != 0 {
		t.Errorf("%d are dispatched while one is in flight", repeated.Figures.Dispatch)
	}
	pending := append(slices.Clone(jobs), Job{ID: "p", Rules: []string{"queue=q"}, State: JobPending, Created: *before(time.Hour), Since: orderedAt})
	if repeated := decideOn(orderedAt.Add(time.Minute), pending, o)[0]; repeated.Figures.Dispatch != 1 {
		t.Errorf("%d are dispatched when another job will take it", repeated.Figures.Dispatch)
	}
}

// TestAgentTakenBeforeItsJob: an agent that was ordered before its job can run is ordered again while it can be about to
// start or idle, if another job took it, and not if it exited without a job.
func TestAgentTakenBeforeItsJob(t *testing.T) {
	o := looking("a", func(o *Overlay) { o.Policy.Reuse = Reuse{Idle: 20 * time.Second, Uptime: time.Hour} })
	jobs := upcomingJobs(1, "s", *before(time.Hour), orderedAt.Add(lead(o)))
	first := decideOn(orderedAt, jobs, o)[0]
	o.State, o.Dispatches = first.State, first.Dispatch
	agent := Agent{ID: "1", Tags: append(o.AgentTags(), "dispatch="+o.Dispatches[0].ID, "index=0"), State: AgentIdle}
	busy := agent
	busy.State = AgentBusy
	idle := []Agent{agent}
	for name, c := range map[string]struct {
		after   time.Duration
		earlier []Agent
		agents  []Agent
		pending bool
		retired bool
		want    int
	}{
		"in flight":                   {after: 30 * time.Second},
		"another job will take it":    {after: 30 * time.Second, pending: true, want: 1},
		"another job took it":         {after: 30 * time.Second, agents: []Agent{busy}, want: 1},
		"it is idle":                  {after: 30 * time.Second, agents: idle},
		"it exited without a job":     {after: 30 * time.Second, earlier: idle},
		"it exited with a job":        {after: 30 * time.Second, earlier: []Agent{busy}, want: 1},
		"its order is retired":        {after: 30 * time.Second, retired: true},
		"just before it can idle out": {after: 39 * time.Second, agents: []Agent{busy}, want: 1},
		"it can have idled out":       {after: 40 * time.Second, agents: []Agent{busy}},
	} {
		o, jobs, at := o, slices.Clone(jobs), orderedAt.Add(c.after)
		if c.retired {
			o.Dispatches = nil
		}
		if c.pending {
			jobs = append(jobs, Job{ID: "p", Rules: []string{"queue=q"}, State: JobPending, Created: orderedAt, Since: at})
		}
		d := drawn{overlays: []Overlay{o}, snapshot: Snapshot{At: at, Jobs: jobs, Agents: c.agents}}
		if got := ordered(d.decide(Snapshot{At: at.Add(-tickTime), Jobs: jobs, Agents: c.earlier})); got != c.want {
			t.Errorf("%s: %d agents are ordered, want %d", name, got, c.want)
		}
	}
}

// TestStagesOfOthers: what an overlay remembers of a stage counts for the others that could
// take its jobs, and is kept while the jobs are upcoming, also where they count for another
// queue.
func TestStagesOfOthers(t *testing.T) {
	jobs := upcomingJobs(3, "s", *before(time.Hour), orderedAt)
	a, b := looking("a", nil), looking("b", nil)
	first := decideOn(orderedAt, jobs, a, b)
	a.State, b.State = first[0].State, first[1].State
	a.Policy.Paused = true
	for i, d := range decideOn(orderedAt.Add(time.Hour), jobs, a, b) {
		if d.Figures.Dispatch != 0 || len(d.State.AheadOf) != 1-i {
			t.Errorf("%s dispatches %d and remembers %v", d.Overlay, d.Figures.Dispatch, d.State.AheadOf)
		}
	}
	for i, d := range decideOn(orderedAt.Add(time.Hour), nil, a, b) {
		if len(d.State.AheadOf) != 0 {
			t.Errorf("%d: %v is remembered of jobs that can run", i, d.State.AheadOf)
		}
	}
	any := upcomingJobs(3, "s", *before(time.Hour), orderedAt)
	for i := range any {
		any[i].Rules = []string{"queue=*"}
	}
	x, y := looking("x", func(o *Overlay) { o.Policy.Queue = "x" }), looking("y", func(o *Overlay) { o.Policy.Queue = "y" })
	total := 0
	for hour := range 4 {
		x.Policy.Paused = hour%2 == 1
		s := Snapshot{At: orderedAt.Add(time.Duration(hour) * time.Hour), Jobs: any}
		decisions := drawn{overlays: []Overlay{x, y}, snapshot: s}.decide()
		x.State, y.State = decisions[0].State, decisions[1].State
		total += ordered(decisions)
	}
	if total != 3 || len(x.State.AheadOf) != 1 {
		t.Errorf("%d are dispatched for 3 jobs of any queue; %v and %v are remembered", total, x.State.AheadOf, y.State.AheadOf)
	}
}

// TestShareOfAStage: a share of jobs that come one by one is that share of them.
func TestShareOfAStage(t *testing.T) {
	for _, share := range []float64{0.25, 0.5, 1} {
		o := looking("a", func(o *Overlay) { o.Policy.Lookahead = share })
		sum := 0
		for n := range 1000 {
			d := decideOn(orderedAt, upcomingJobs(1, fmt.Sprint(n), *before(time.Hour), orderedAt), o)[0]
			sum += d.Figures.Dispatch
		}
		if want := int(1000 * share); sum < want*9/10 || sum > want*11/10 {
			t.Errorf("of 1000 jobs %d are looked ahead to, want %d", sum, want)
		}
		if n := decideOn(orderedAt, upcomingJobs(40, "s", *before(time.Hour), orderedAt), o)[0].Figures.Dispatch; n < int(40*share) || n > int(40*share)+1 {
			t.Errorf("of 40 jobs %d are looked ahead to", n)
		}
	}
}

// TestManyStages: an observation and what is remembered are bounded, and those that are due
// first come first.
func TestManyStages(t *testing.T) {
	o := looking("a", func(o *Overlay) { o.Policy.Max = 100_000 })
	var jobs []Job
	for n := range 1000 {
		jobs = append(jobs, upcomingJobs(2, fmt.Sprint(n), *before(time.Hour), orderedAt.Add(-time.Duration(n)*time.Second))...)
	}
	d := decideOn(orderedAt, jobs, o)[0]
	group := d.Observation.Jobs[0]
	if len(group.Stages) != maxStages || len(d.State.AheadOf) != maxStages || d.Figures.Dispatch != 2*maxStages || group.Later != 2*(1000-maxStages) {
		t.Errorf("%d stages, %d remembered, %d dispatched, %d later", len(group.Stages), len(d.State.AheadOf), d.Figures.Dispatch, group.Later)
	}
	if first := (&class{rules: []string{"queue=q"}}).stageName("999"); group.Stages[0].Name != first {
		t.Errorf("the first is %v, want %s", group.Stages[0], first)
	}
	o.State = d.State
	if repeated := decideOn(orderedAt.Add(time.Hour), jobs, o)[0]; repeated.Figures.Dispatch != 0 || len(repeated.State.AheadOf) != maxStages {
		t.Errorf("an hour later %d are dispatched, %d remembered", repeated.Figures.Dispatch, len(repeated.State.AheadOf))
	}
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
		"breaker open":  {func(o *Overlay) { o.State.Breaker = Breaker{Failures: Tolerance, At: orderedAt.Add(-time.Second)} }, []string{"a", "b"}, [2]int{0, 10}},
		"does not look": {func(o *Overlay) { o.Policy.Lookahead = 0 }, []string{"a", "b"}, [2]int{0, 10}},
		"reuses":        {func(o *Overlay) { o.Policy.Reuse = Reuse{Idle: time.Minute, Uptime: time.Hour} }, []string{"a", "b"}, [2]int{0, 10}},
		"half":          {func(o *Overlay) { o.Policy.Lookahead = 0.5 }, []string{"a", "b"}, [2]int{5, 0}},
		"cannot":        {nil, []string{"b"}, [2]int{0, 10}},
		"full":          {func(o *Overlay) { o.Policy.Max = 4 }, []string{"a", "b"}, [2]int{10, 0}}, // not passed on
	} {
		overlays := []Overlay{looking("a", c.first), looking("b", nil)}
		decisions := Decide("c0ffee", overlays, Observation{At: orderedAt, Queue: "q", Jobs: []Demand{{Overlays: c.takes, Upcoming: 10, New: 10, Newest: before(time.Minute)}}})
		for i, d := range decisions {
			most := min(c.want[i], overlays[i].Policy.Max)
			if d.Figures.Lookahead != c.want[i] || d.Figures.Dispatch != most || !overlays[i].Suspended.Active() && d.Figures.Missing != c.want[i] {
				t.Errorf("%s: %s looks ahead to %d and dispatches %d of %d missing, want %d and %d", name, d.Overlay, d.Figures.Lookahead, d.Figures.Dispatch, d.Figures.Missing, c.want[i], most)
			}
		}
	}
}

// TestLookAheadBesideReuse: with reusable agents, only stages with a known due time count, less the jobs for which agents
// of their build are free by then; the start-up times that "idle: auto" learns shorten the time before.
func TestLookAheadBesideReuse(t *testing.T) {
	reuse := func(o *Overlay) { o.Policy.Reuse = Reuse{Idle: time.Minute, Uptime: time.Hour} }
	auto := func(o *Overlay) {
		o.Policy.Reuse = Reuse{Idle: FirstIdle, Uptime: time.Hour, Auto: true}
		o.State.StartupTimes.Add(10*time.Second, MinStartupTimes)
	}
	due := func(in time.Duration) func(*Job) { return func(j *Job) { j.Stage, j.Due = "one", orderedAt.Add(in) } }
	freed := func(j *Job) { due(time.Minute)(j); j.Freed = true }
	for name, c := range map[string]struct {
		change func(*Overlay)
		jobs   []func(*Job)
		want   int
	}{
		"unknown":                 {nil, []func(*Job){func(*Job) {}}, 1},
		"unknown, with reuse":     {reuse, []func(*Job){func(*Job) {}}, 0},
		"no time, with reuse":     {reuse, []func(*Job){func(j *Job) { j.Stage = "one" }}, 0},
		"due":                     {nil, []func(*Job){due(time.Minute), freed}, 2},
		"due, with reuse":         {reuse, []func(*Job){due(time.Minute), freed}, 1},
		"due, with a fast start":  {auto, []func(*Job){due(time.Minute)}, 0},
		"soon, with a fast start": {auto, []func(*Job){due(10 * time.Second)}, 1},
	} {
		s := Snapshot{At: orderedAt}
		for i, change := range c.jobs {
			j := Job{ID: fmt.Sprint(i), Rules: []string{"queue=q"}, State: JobUpcoming, Created: orderedAt}
			change(&j)
			s.Jobs = append(s.Jobs, j)
		}
		overlays := []Overlay{looking("a", c.change)}
		observed := Observe(overlays, s, &Registrations{})
		if got := Decide("c0ffee", overlays, observed[0])[0].Figures.Dispatch; got != c.want {
			t.Errorf("%s: %d agents are ordered, want %d", name, got, c.want)
		}
	}
}

// TestStagesAndUnknownTimes: an overlay with reuse looks ahead to the stage of a group, and the next one without to its
// jobs at an unknown time, which agents of two queues may take or of one.
func TestStagesAndUnknownTimes(t *testing.T) {
	for rule, want := range map[string][2]int{"queue=q": {2, 3}, "queue=*": {0, 5}} {
		a := looking("a", func(o *Overlay) { o.Policy.Reuse = Reuse{Idle: time.Minute, Uptime: time.Hour} })
		b := looking("b", func(o *Overlay) {
			if rule == "queue=*" {
				o.Policy.Queue = "r"
			}
		})
		jobs := slices.Concat(upcomingJobs(2, "due", orderedAt, orderedAt), upcomingJobs(3, "unknown", orderedAt, time.Time{}))
		for i := range jobs {
			jobs[i].Rules = []string{rule}
		}
		var got [2]int
		for i, d := range (drawn{overlays: []Overlay{a, b}, snapshot: Snapshot{At: orderedAt, Jobs: jobs}}).decide() {
			got[i] = d.Figures.Dispatch
		}
		if got != want {
			t.Errorf("%s: %v agents are ordered, want %v", rule, got, want)
		}
	}
}

// TestLead asserts that agents that take further jobs do not idle out before a stage while start-up times are
// unknown.
func TestLead(t *testing.T) {
	for name, c := range map[string]struct {
		reuse Reuse
		want  time.Duration
	}{
		"one job":        {Reuse{}, startupAndTransport},
		"auto":           {Reuse{Auto: true, Uptime: time.Hour}, FirstIdle},
		"short time-out": {Reuse{Idle: time.Minute, Uptime: time.Hour}, time.Minute},
		"long time-out":  {Reuse{Idle: time.Hour, Uptime: time.Hour}, startupAndTransport},
	} {
		o := looking("a", func(o *Overlay) { o.Policy.Reuse = c.reuse })
		if got := lead(o); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
