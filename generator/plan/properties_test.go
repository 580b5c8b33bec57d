package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawn is a random fleet of one queue: overlays with tags, agents of all
// kinds, jobs with all sorts of rules.
type drawn struct {
	overlays []Overlay
	snapshot Snapshot
	mostJobs int // in one commit; zero: any number
}

func draw(t *rapid.T) drawn {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	tags := rapid.SampledFrom([][]string{nil, {"os=linux"}, {"gpu=a100"}, {"gpu=a100", "os=linux"}})
	small := rapid.IntRange(0, 6)
	var d drawn
	for i := range rapid.IntRange(1, 4).Draw(t, "overlays") {
		name := fmt.Sprintf("overlay-%d", i)
		p := Policy{
			Queue: "default", Tags: tags.Draw(t, "tags"), Min: small.Draw(t, "min"), Buffer: small.Draw(t, "buffer"),
			Lookahead: rapid.SampledFrom([]float64{0, 0, 0.3, 1}).Draw(t, "lookahead"),
			Lease:     lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour,
			Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Paused: rapid.IntRange(0, 5).Draw(t, "paused") == 0,
		}
		p.Max = p.Min + rapid.IntRange(0, 20).Draw(t, "max")
		o := Overlay{Name: name, Policy: p}
		drawStartupTimes(t, &o, now)
		for k := range rapid.IntRange(0, 3).Draw(t, "dispatches") {
			at := now.Add(-time.Duration(rapid.IntRange(1, 20).Draw(t, "age")) * time.Minute)
			o.Dispatches = append(o.Dispatches, Dispatch{ID: fmt.Sprintf("%s-%d", name, k), Agents: rapid.IntRange(1, 5).Draw(t, "agents"), At: at, NotAfter: at.Add(lease)})
		}
		d.overlays = append(d.overlays, o)
	}
	d.snapshot = Snapshot{At: now}
	for i := range rapid.IntRange(0, 15).Draw(t, "connected") {
		a := Agent{ID: fmt.Sprint("agent-", i), Tags: append([]string{"queue=default"}, tags.Draw(t, "agent tags")...),
			State: rapid.SampledFrom([]AgentState{AgentIdle, AgentBusy, AgentStopping}).Draw(t, "state")}
		if o := rapid.IntRange(0, len(d.overlays)).Draw(t, "owner"); o < len(d.overlays) {
			v := d.overlays[o]
			a.Tags = slices.Concat(v.AgentTags(), []string{fmt.Sprintf("dispatch=%s-%d", v.Name, rapid.IntRange(0, 3).Draw(t, "of")), fmt.Sprintf("index=%d", small.Draw(t, "index"))})
		}
		d.snapshot.Agents = append(d.snapshot.Agents, a)
	}
	for i := range rapid.IntRange(0, 25).Draw(t, "jobs") {
		d.snapshot.Jobs = append(d.snapshot.Jobs, drawJob(t, i, now))
	}
	return d
}

func drawJob(t *rapid.T, i int, now time.Time) Job {
	rules := rapid.SampledFrom([][]string{nil, nil, {"os=linux"}, {"os=*"}, {"gpu=a100"}, {"os=linux", "gpu=*"}, {"os=windows"}}).Draw(t, "rules")
	return Job{ID: fmt.Sprint("job-", i), Rules: append([]string{"queue=default"}, rules...), Since: now,
		State: rapid.SampledFrom([]JobState{JobPending, JobPending, JobPending, JobUpcoming, JobLimited, JobBlocked}).Draw(t, "job state")}
}

func (d drawn) decide() []Decision {
	var r Registrations
	r.Note(d.snapshot)
	r.Reconcile(d.overlays, d.snapshot.At)
	var all []Decision
	for _, o := range Observe(d.overlays, d.snapshot, &r) {
		for i := range o.Overlays {
			o.Overlays[i].MaxJobs = d.mostJobs
		}
		all = append(all, Decide("c0ffee", d.overlays, o)...)
	}
	return all
}

func ordered(decisions []Decision) int {
	n := 0
	for _, d := range decisions {
		n += d.Sum.Dispatch
	}
	return n
}

func TestOrderOfListingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		before, _ := json.Marshal(d.decide())
		d.snapshot.Agents = rapid.Permutation(d.snapshot.Agents).Draw(t, "agents")
		d.snapshot.Jobs = rapid.Permutation(d.snapshot.Jobs).Draw(t, "jobs")
		d.overlays = rapid.Permutation(d.overlays).Draw(t, "overlays")
		for i, j := range d.snapshot.Jobs {
			d.snapshot.Jobs[i].Rules = rapid.Permutation(j.Rules).Draw(t, "rules")
		}
		if after, _ := json.Marshal(d.decide()); string(before) != string(after) {
			t.Fatalf("listed one way:\n%s\nlisted another:\n%s", before, after)
		}
	})
}

func TestWhatIsOrderedIsNotOrderedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for _, x := range d.decide() {
			i := slices.IndexFunc(d.overlays, func(o Overlay) bool { return o.Name == x.Overlay })
			kept := slices.DeleteFunc(slices.Clone(d.overlays[i].Dispatches), func(k Dispatch) bool {
				return !x.Empty() && slices.ContainsFunc(x.Retire, func(r Retirement) bool { return r.ID == k.ID })
			})
			d.overlays[i].Dispatches = append(kept, x.Dispatch...)
			if !x.Empty() {
				d.overlays[i].State = x.State
			}
		}
		for _, x := range d.decide() {
			if !x.Empty() {
				t.Fatalf("decided again from what was just decided: %+v", x)
			}
		}
	})
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

func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		runnable, waiting, upkeep := 0, 0, 0
		for _, j := range d.snapshot.Jobs {
			switch j.State {
			case JobPending:
				runnable++
			case JobUpcoming:
				waiting++
			}
		}
		decisions := d.decide()
		for _, x := range decisions {
			i := slices.IndexFunc(d.overlays, func(o Overlay) bool { return o.Name == x.Overlay })
			p := d.overlays[i].Policy
			upkeep += p.Min + p.Buffer
			stopping := x.Observation.Supply(x.Overlay).Stopping
			if n := x.Sum.Current + stopping + x.Sum.Dispatch; x.Sum.Dispatch > 0 && n > p.Max {
				t.Fatalf("%s would have %d agents of at most %d: %+v", x.Overlay, n, p.Max, x.Sum)
			}
			if p.Paused && x.Sum.Dispatch > 0 {
				t.Fatalf("%s is paused and orders %d", x.Overlay, x.Sum.Dispatch)
			}
			sum := 0
			for _, o := range x.Dispatch {
				sum += o.Agents
				if o.Agents < 1 || o.Agents > JobAgents {
					t.Fatalf("a Job of %d agents, at most %d", o.Agents, JobAgents)
				}
			}
			if sum != x.Sum.Dispatch || x.Sum.Demand+x.Sum.WarmPool != sum || x.Sum.Demand < 0 || x.Sum.WarmPool < 0 {
				t.Fatalf("the parts do not make the whole: %+v %+v", x.Sum, x.Dispatch)
			}
		}
		if n := ordered(decisions); n > runnable+waiting+upkeep {
			t.Fatalf("%d agents for %d jobs, %d to come and %d of upkeep", n, runnable, waiting, upkeep)
		}
	})
}

func TestMoreDemandNeverOrdersFewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		before := ordered(d.decide())
		extra := drawJob(t, 1000, d.snapshot.At)
		extra.State = JobPending
		d.snapshot.Jobs = append(d.snapshot.Jobs, extra)
		if after := ordered(d.decide()); after < before {
			t.Fatalf("%d agents, and %d with one job more (%v)", before, after, extra.Rules)
		}
	})
}

// TestEveryJobIsServed: while no ceiling is in the way, jobs that some overlay
// can serve have, each, an agent that is idle, starting or ordered for them.
func TestEveryJobIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for i := range d.overlays {
			d.overlays[i].Policy.Max, d.overlays[i].Policy.Paused = 1000, false
		}
		decisions := d.decide()
		for j, demand := range decisions[0].Observation.Jobs {
			supply := 0
			for _, g := range decisions[0].Observation.Idle {
				if g.Jobs.Has(j) {
					supply += g.Agents
				}
			}
			for _, x := range decisions {
				if slices.Contains(demand.Overlays, x.Overlay) {
					supply += x.Sum.InFlight - x.Sum.Overdue + x.Sum.Demand
				}
			}
			if supply < demand.Pending {
				t.Fatalf("demand %d: %+v has a supply of %d: %+v", j, demand, supply, decisions)
			}
		}
	})
}

func TestIndexesTextIsTheSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s, back Indexes
		want := map[int]bool{}
		for _, i := range rapid.SliceOf(rapid.IntRange(-2, 300)).Draw(t, "indexes") {
			s.Add(i)
			if i >= 0 {
				want[i] = true
			}
		}
		if err := back.UnmarshalText([]byte(s.String())); err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(0, 320).Draw(t, "below")
		count := 0
		for i := range 320 {
			if s.Has(i) != want[i] || back.Has(i) != want[i] {
				t.Fatalf("%q: index %d", s, i)
			}
			if want[i] && i < n {
				count++
			}
		}
		if s.Below(n) != count {
			t.Fatalf("%q has %d below %d, counted %d", s, s.Below(n), n, count)
		}
	})
}
