package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// roaming are jobs that ask for any queue.
func roaming(n int, more ...string) (all []Job) {
	for i := range n {
		all = append(all, Job{ID: fmt.Sprint("any-", more, i), Rules: append([]string{"queue=*"}, more...), State: JobPending, Since: orderedAt.Add(-time.Hour)})
	}
	return all
}

// ofQueue is an overlay of a queue of its own, of the same name.
func ofQueue(name string, changes ...func(*Overlay)) Overlay {
	o := Overlay{Name: name, Policy: Policy{Queue: name, Max: 10, Lease: lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour}}
	for _, change := range changes {
		change(&o)
	}
	return o
}

// sums are the decisions' sums by overlay, "pending/dispatched", and how many jobs are
// pending elsewhere.
func sums(overlays []Overlay, s Snapshot) (text []string) {
	for _, d := range (drawn{overlays: overlays, snapshot: s}).decide() {
		away := 0
		for _, j := range d.Observation.Jobs {
			away += j.OtherQueues
		}
		text = append(text, fmt.Sprintf("%s %d/%d (%d)", d.Overlay, d.Figures.Pending, d.Figures.Dispatch, away))
	}
	return text
}

// TestAnyQueue: jobs that ask for any queue are counted where an overlay can serve
// them now: first where an agent is idle, then where one is in flight, then where
// there is room, and each once.
func TestAnyQueue(t *testing.T) {
	most := func(n int) func(*Overlay) { return func(o *Overlay) { o.Policy.Max = n } }
	paused := func(o *Overlay) { o.Policy.Paused = true }
	invalid := func(o *Overlay) { o.Suspended = Suspension{Code: Invalid} }
	failing := func(ago time.Duration) func(*Overlay) {
		return func(o *Overlay) {
			o.State.Breaker = Breaker{Failures: Tolerance, At: orderedAt.Add(-ago), Cause: NeverRegistered}
		}
	}
	inFlight := func(n int) func(*Overlay) {
		return func(o *Overlay) {
			o.Dispatches = []Dispatch{{ID: o.Name + "-0000000a", Agents: n, At: orderedAt.Add(-time.Minute), NotAfter: orderedAt.Add(lease), Purpose: ForDemand}}
		}
	}
	idle := func(queue string, n int, tags ...string) (all []Agent) {
		for i := range n {
			all = append(all, Agent{ID: fmt.Sprint(queue, i), Tags: append([]string{"queue=" + queue}, tags...), State: AgentIdle})
		}
		return all
	}
	own := Job{ID: "own", Rules: []string{"queue=a"}, State: JobPending, Since: orderedAt}
	gpu := func(o *Overlay) { o.Policy.Tags = []string{"gpu=a100"} }
	for name, c := range map[string]struct {
		a, b   Overlay
		jobs   []Job
		agents []Agent
		queues []Queue
		want   []string
	}{
		"the first has room":        {ofQueue("a"), ofQueue("b"), roaming(3), nil, nil, []string{"a 3/3 (0)", "b 0/0 (3)"}},
		"the first is paused":       {ofQueue("a", paused), ofQueue("b"), roaming(3), nil, nil, []string{"a 0/0 (3)", "b 3/3 (0)"}},
		"paused in Buildkite":       {ofQueue("a"), ofQueue("b"), roaming(3), nil, []Queue{{Cluster: "c1", Key: "a", Paused: true}, {Cluster: "c1", Key: "b"}}, []string{"a 0/0 (3)", "b 3/3 (0)"}},
		"the first is invalid":      {ofQueue("a", invalid), ofQueue("b"), roaming(3), nil, nil, []string{"a 0/0 (3)", "b 3/3 (0)"}},
		"the first is small":        {ofQueue("a", most(2)), ofQueue("b"), roaming(3), nil, nil, []string{"a 2/2 (1)", "b 1/1 (2)"}},
		"the first has own jobs":    {ofQueue("a", most(2)), ofQueue("b"), append(roaming(3), own), nil, nil, []string{"a 2/2 (2)", "b 2/2 (1)"}},
		"its breaker is open":       {ofQueue("a", failing(time.Second)), ofQueue("b"), roaming(3), nil, nil, []string{"a 0/0 (3)", "b 3/3 (0)"}},
		"it is time for a trial":    {ofQueue("a", failing(time.Hour)), ofQueue("b"), roaming(3), nil, nil, []string{"a 1/1 (2)", "b 2/2 (1)"}},
		"in flight, and full":       {ofQueue("a", most(3), inFlight(3)), ofQueue("b"), roaming(3), nil, nil, []string{"a 3/0 (0)", "b 0/0 (3)"}},
		"in flight for own jobs":    {ofQueue("a", most(1), inFlight(1)), ofQueue("b"), append(roaming(1), own), nil, nil, []string{"a 1/0 (1)", "b 1/1 (0)"}},
		"in flight at the second":   {ofQueue("a"), ofQueue("b", inFlight(2)), roaming(3), nil, nil, []string{"a 1/1 (2)", "b 2/0 (1)"}},
		"paused, and in flight":     {ofQueue("a", paused, inFlight(2)), ofQueue("b"), roaming(3), nil, nil, []string{"a 2/0 (1)", "b 1/1 (2)"}},
		"idle at the second":        {ofQueue("a"), ofQueue("b"), roaming(3), idle("b", 2), nil, []string{"a 1/1 (2)", "b 2/0 (1)"}},
		"idle, and missing a rule":  {ofQueue("a", gpu), ofQueue("b", gpu), roaming(1, "gpu=*"), idle("b", 2), nil, []string{"a 1/1 (0)", "b 0/0 (1)"}},
		"min of the second":         {ofQueue("a"), ofQueue("b", func(o *Overlay) { o.Policy.Min = 2 }), roaming(3), nil, nil, []string{"a 1/1 (2)", "b 2/2 (1)"}},
		"nobody has room":           {ofQueue("a", most(0)), ofQueue("b", most(1)), roaming(3), nil, nil, []string{"a 2/0 (1)", "b 1/1 (2)"}},
		"nobody has, one is paused": {ofQueue("a", paused), ofQueue("b", most(1)), roaming(3), nil, nil, []string{"a 0/0 (3)", "b 3/1 (0)"}},
		"all are paused":            {ofQueue("a", paused), ofQueue("b", paused), roaming(3), nil, nil, []string{"a 3/0 (0)", "b 0/0 (3)"}},
		"the picky first":           {ofQueue("a", most(2), gpu), ofQueue("b", most(2)), append(roaming(2), roaming(2, "gpu=a100")...), nil, nil, []string{"a 2/2 (2)", "b 2/2 (0)"}},
		"only the second can":       {ofQueue("a"), ofQueue("b", gpu), roaming(2, "gpu=a100"), nil, nil, []string{"a 0/0 (0)", "b 2/2 (0)"}},
	} {
		for i := range c.jobs {
			if c.queues != nil {
				c.jobs[i].Cluster = c.queues[0].Cluster
			}
		}
		if got := sums([]Overlay{c.a, c.b}, Snapshot{At: orderedAt, Jobs: c.jobs, Agents: c.agents, Queues: c.queues}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAnyQueueUpcoming: upcoming jobs of any queue count for the first queue where an
// overlay looks ahead to them, and what any overlay remembers of them counts. Limited
// and blocked ones are counted once.
func TestAnyQueueUpcoming(t *testing.T) {
	var jobs []Job
	for i, state := range []JobState{JobUpcoming, JobUpcoming, JobLimited, JobBlocked} {
		jobs = append(jobs, Job{ID: fmt.Sprint(i), Rules: []string{"queue=*"}, State: state, Created: orderedAt.Add(-time.Minute)})
	}
	ahead := func(o *Overlay) { o.Policy.Lookahead = 1 }
	paused := func(o *Overlay) { o.Policy.Paused = true }
	before := func(o *Overlay) { o.State.LookedAhead = orderedAt }
	for name, c := range map[string]struct {
		a, b    Overlay
		ordered [2]int
		counted int // the queue that counts them
	}{
		"the first":               {ofQueue("a", ahead), ofQueue("b", ahead), [2]int{2, 0}, 0},
		"only the second looks":   {ofQueue("a"), ofQueue("b", ahead), [2]int{0, 2}, 1},
		"the first is paused":     {ofQueue("a", ahead, paused), ofQueue("b", ahead), [2]int{0, 2}, 1},
		"nobody looks":            {ofQueue("a"), ofQueue("b"), [2]int{0, 0}, 0},
		"dispatched for before":   {ofQueue("a", ahead, before), ofQueue("b", ahead), [2]int{0, 0}, 0},
		"before, and then paused": {ofQueue("a", ahead, before, paused), ofQueue("b", ahead), [2]int{0, 0}, 1},
	} {
		fleet := drawn{overlays: []Overlay{c.a, c.b}, snapshot: Snapshot{At: orderedAt, Jobs: jobs}}
		for i, d := range fleet.decide() {
			var upcoming, limited, blocked int
			for _, j := range d.Observation.Jobs {
				upcoming, limited, blocked = upcoming+j.Upcoming, limited+j.Limited, blocked+j.Blocked
			}
			want := [3]int{}
			if i == c.counted {
				want = [3]int{2, 1, 1}
			}
			if got := [3]int{upcoming, limited, blocked}; got != want {
				t.Errorf("%s: queue %s has %v upcoming, limited and blocked, want %v", name, d.Queue, got, want)
			}
			if d.Figures.Dispatch != c.ordered[i] {
				t.Errorf("%s: %s dispatches %d, want %d", name, d.Overlay, d.Figures.Dispatch, c.ordered[i])
			}
		}
	}
}

// TestAnyQueueIsJudged: agents that all left without a job, although a job of any queue
// waited all the while, have failed, although it is counted elsewhere.
func TestAnyQueueIsJudged(t *testing.T) {
	at := orderedAt.Add(-5 * time.Minute)
	d := Dispatch{ID: "b-0000000a", Agents: 1, At: at, NotAfter: at.Add(lease), Purpose: ForDemand, IdleTimeout: time.Minute}
	overlays := []Overlay{ofQueue("a"), ofQueue("b", func(o *Overlay) { o.Dispatches = []Dispatch{d} })}
	var r Registrations
	r.Reconcile(overlays, at)
	r.Note(registeredAt(d.ID, "0"))
	r.Reconcile(overlays, at.Add(time.Minute))
	s := Snapshot{At: orderedAt, Jobs: roaming(1)}
	got := Decide("c0ffee", overlays, Observe(overlays, s, &r)[1])[0]
	if len(got.Retire) != 1 || got.Retire[0].Failure != NoJobTaken {
		t.Errorf("retired %+v, want it failed: %s", got.Retire, NoJobTaken)
	}
}

// TestBufferIsNotOrderedAgainBesideAnyQueueJobs asserts that agents that were ordered for
// a buffer serve it, and not jobs for which another queue has agents in flight.
func TestBufferIsNotOrderedAgainBesideAnyQueueJobs(t *testing.T) {
	for _, c := range []struct{ buffer, jobs int }{{2, 20}, {4, 100}} {
		inFlight := Dispatch{ID: "b-0000000a", Agents: c.jobs, At: orderedAt.Add(-time.Minute), NotAfter: orderedAt.Add(lease), Purpose: ForDemand}
		overlays := []Overlay{
			ofQueue("a", func(o *Overlay) { o.Policy.Max, o.Policy.Buffer = 1000, c.buffer }),
			ofQueue("b", func(o *Overlay) { o.Policy.Max, o.Dispatches = 1000, []Dispatch{inFlight} }),
		}
		var r Registrations
		total := 0
		for tick := range 12 {
			s := Snapshot{At: orderedAt.Add(time.Duration(tick) * 15 * time.Second), Jobs: roaming(c.jobs)}
			r.Reconcile(overlays, s.At)
			for i, o := range Observe(overlays, s, &r) {
				for _, d := range Decide(fmt.Sprint(tick), overlays, o) {
					total += d.Figures.Dispatch
					overlays[i].Dispatches = append(overlays[i].Dispatches, d.Dispatch...)
				}
			}
		}
		if total != c.buffer {
			t.Errorf("a buffer of %d beside %d jobs: %d agents are ordered in 12 ticks", c.buffer, c.jobs, total)
		}
	}
}
