package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawnLife is a drawn fleet with what the reference does not cover: open circuit
// breakers, schedules, polls spread over several ticks, dispatches of the warm pool and of
// other templates, renamed overlays, agents that registered and disconnected.
type drawnLife struct {
	drawn
	earlier []Snapshot // what was seen before, oldest first
}

func drawLife(t *rapid.T) drawnLife {
	d := drawnLife{drawn: drawSmall(t).withoutFormerAgents()}
	now := d.snapshot.At
	one := func(of int, what string) bool { return rapid.IntRange(0, of-1).Draw(t, what) == of-1 }
	if one(3, "spread") {
		d.snapshot.Until = now.Add(time.Duration(rapid.SampledFrom([]int{1, 4, 14}).Draw(t, "minutes")) * time.Minute)
	}
	for i := range d.overlays {
		o := &d.overlays[i]
		if one(4, "schedule") {
			number := rapid.IntRange(0, 5)
			least, most, buffer := number.Draw(t, "min"), number.Draw(t, "max"), number.Draw(t, "buffer")
			from := rapid.SampledFrom([]int{60, 135, 136}).Draw(t, "from")
			o.Policy.Schedules = []Schedule{{Name: "night", Days: [7]bool{true, true, true, true, true, true, true}, From: from, To: 180, Zone: time.UTC, Min: &least, Max: &most, Buffer: &buffer}}
		}
		if one(4, "failures") {
			o.State.Breaker = Breaker{
				Failures: rapid.IntRange(1, 5).Draw(t, "failed"), At: now.Add(-time.Duration(rapid.SampledFrom([]int{0, 2, 5, 40}).Draw(t, "failed minutes ago")) * time.Minute),
				Dispatch: "gone", Cause: rapid.SampledFrom([]Failure{NeverRegistered, NoJobTaken}).Draw(t, "cause"),
			}
		}
		for k := range o.Dispatches {
			x := &o.Dispatches[k]
			x.Purpose = rapid.SampledFrom([]Purpose{ForDemand, ForWarmPool}).Draw(t, "purpose")
			x.IdleTimeout = o.Policy.IdleTimeout
			if x.Purpose == ForWarmPool {
				x.IdleTimeout = o.Policy.WarmIdleTimeout
			}
			x.Template = rapid.SampledFrom([]string{"", "new", "old"}).Draw(t, "template")
			x.Withdrawn = one(9, "withdrawn")
			if one(2, "seen before") {
				d.earlier = append(d.earlier, drawEarlier(t, *x, now))
			}
		}
		if one(4, "renamed") {
			d.rename(i)
		}
	}
	slices.SortStableFunc(d.earlier, func(a, b Snapshot) int { return a.At.Compare(b.At) })
	return d
}

// withoutFormerAgents removes the agents with a former identifier: they count only while their dispatch is
// in git, so that other agents may be needed after its retirement.
func (d drawn) withoutFormerAgents() drawn {
	d.snapshot.Agents = slices.DeleteFunc(d.snapshot.Agents, func(a Agent) bool { return slices.Contains(a.Tags, "muster=former") })
	return d
}

// drawEarlier draws an earlier snapshot in which agents of a dispatch are connected.
func drawEarlier(t *rapid.T, d Dispatch, now time.Time) Snapshot {
	s := Snapshot{At: d.At.Add(now.Sub(d.At) / 2)}
	for index := range rapid.IntRange(1, d.Agents).Draw(t, "seen before") {
		s.Agents = append(s.Agents, Agent{
			ID: fmt.Sprint(d.ID, "-", index), Tags: []string{"dispatch=" + d.ID, fmt.Sprint("index=", index)}, Connected: s.At,
			State: rapid.SampledFrom([]AgentState{AgentIdle, AgentBusy}).Draw(t, "state before"),
		})
	}
	return s
}

// rename gives an overlay's directory another name: earlier dispatches and agents have the
// former one, and its identifier.
func (d *drawnLife) rename(i int) {
	o := &d.overlays[i]
	if o.Identity.ID == "" {
		o.Identity.ID = "renamed-" + o.Name
	}
	id := "muster=" + o.Identity.ID
	for k, x := range o.Dispatches {
		if x.Tags == nil {
			o.Dispatches[k].Tags = o.AgentTags()
		}
	}
	for k, a := range d.snapshot.Agents {
		if _, known := TagValue(a.Tags, "muster"); !known && slices.Contains(a.Tags, "overlay="+o.Name) {
			d.snapshot.Agents[k].Tags = append(slices.Clone(a.Tags), id)
		}
	}
	o.Name += "-renamed"
}

// String is what was drawn, as YAML.
func (d drawnLife) String() string { return described(d.overlays, d.snapshot, d.earlier) }

func (d drawnLife) decide() []Decision { return d.drawn.decide(d.earlier...) }

// apply does what was decided.
func (d drawn) apply(decisions []Decision) {
	for _, x := range decisions {
		if x.Empty() {
			continue
		}
		o := &d.overlays[slices.IndexFunc(d.overlays, func(o Overlay) bool { return o.Name == x.Overlay })]
		var kept []Dispatch
		for _, k := range o.Dispatches {
			i := slices.IndexFunc(x.Retire, func(r Retirement) bool { return r.ID == k.ID })
			if i >= 0 && x.Retire[i].Reason != Withdrawn {
				continue
			}
			k.Withdrawn = k.Withdrawn || i >= 0
			kept = append(kept, k)
		}
		o.Dispatches, o.State = append(kept, x.Dispatch...), x.State
	}
}

// TestNothingIsOrderedTwice asserts that a repeated decision orders nothing. While a
// circuit breaker is open, other overlays order at most one agent, or trial, for each trial of the
// decision before, unless the circuit breaker closes by then.
func TestNothingIsOrderedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLife(t)
		text := d.String()
		decisions := d.decide()
		for repeated := range 2 {
			most := 0
			for _, x := range decisions {
				if x.Trial {
					most++
				}
			}
			d.apply(decisions)
			// Start-up times that are learned from a retired dispatch may make further
			// stages due.
			more := d.learned(decisions)
			decisions = d.decide()
			more = more || slices.ContainsFunc(decisions, func(x Decision) bool { return x.Closes })
			if n := ordered(decisions); n > most && !more {
				t.Fatalf("decided again (%d), %d more agents are ordered, at most %d may be\n%s", repeated+1, n, most, text)
			}
		}
	})
}

// learned reports whether an overlay that looks ahead has learned its start-up times.
func (d drawnLife) learned(decisions []Decision) bool {
	return slices.ContainsFunc(decisions, func(x Decision) bool {
		ahead := slices.ContainsFunc(d.overlays, func(o Overlay) bool {
			return o.Name == x.Overlay && o.Policy.LeaseAuto && o.Policy.Lookahead > 0
		})
		return ahead && !x.Empty() && len(x.Retire) > 0
	})
}

// agents counts an overlay's agents: those that are connected, and those that may come.
func (d drawnLife) agents(o Overlay) (n int) {
	seen := map[string]bool{}
	for _, s := range append(slices.Clone(d.earlier), d.snapshot) {
		for _, a := range s.Agents {
			dispatch, _ := TagValue(a.Tags, "dispatch")
			index, _ := TagValue(a.Tags, "index")
			seen[dispatch+" "+index] = true
		}
	}
	for _, a := range d.snapshot.Agents {
		id, known := TagValue(a.Tags, "muster")
		dispatch, _ := TagValue(a.Tags, "dispatch")
		switch {
		case !known || o.Identity.ID == "":
			if slices.Contains(a.Tags, "overlay="+o.Slug()) {
				n++
			}
		case id == o.Identity.ID:
			n++
		case slices.ContainsFunc(o.Dispatches, func(x Dispatch) bool { return x.ID == dispatch && !o.Copied(x) }):
			n++
		}
	}
	for _, x := range o.Dispatches {
		for index := range x.Agents {
			if !d.snapshot.At.After(x.NotAfter.Add(2*time.Minute)) && !seen[fmt.Sprint(x.ID, " ", index)] {
				n++
			}
		}
	}
	return n
}

// TestLimitsHoldForAllFleets asserts that an order exceeds neither max nor maxPerHour, as
// schedules and overrides set them, that nothing is ordered for a suspended overlay, and that all
// orders together do not exceed what jobs, min and buffers ask for.
func TestLimitsHoldForAllFleets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLife(t)
		total, bound := 0, 0
		for _, j := range d.snapshot.Jobs {
			if j.State == JobPending || j.State == JobUpcoming {
				bound++
			}
		}
		for _, x := range d.decide() {
			o := d.overlays[slices.IndexFunc(d.overlays, func(o Overlay) bool { return o.Name == x.Overlay })]
			p, _ := o.Policy.During(d.snapshot.At)
			n := 0
			for _, order := range x.Dispatch {
				n += order.Agents
				if order.Agents < 1 || order.Agents > JobAgents {
					t.Fatalf("a Job of %d agents, at most %d", order.Agents, JobAgents)
				}
			}
			if n != x.Figures.Dispatch || x.Figures.Demand+x.Figures.WarmPool != n || x.Figures.Demand < 0 || x.Figures.WarmPool < 0 {
				t.Fatalf("%s orders %d agents, and the figures are %+v", o.Name, n, x.Figures)
			}
			total, bound = total+n, bound+p.Min+p.Buffer
			if n == 0 {
				continue
			}
			if there := d.agents(o); there+n > p.Max {
				t.Fatalf("%s has %d agents, orders %d and may have %d\n%s", o.Name, there, n, p.Max, d)
			}
			end, hour := later(d.snapshot.At, d.snapshot.Until), n
			for _, before := range o.State.Ordered {
				if end.Sub(before.At) < time.Hour {
					hour += before.Agents
				}
			}
			if p.MaxPerHour > 0 && hour > p.MaxPerHour {
				t.Fatalf("%s orders %d, %d in an hour, and may order %d\n%s", o.Name, n, hour, p.MaxPerHour, d)
			}
			if x.Suspended.Active() || p.Paused || o.Suspended.Active() || x.Trial && n > 1 {
				t.Fatalf("%s orders %d although it is suspended or sends a trial\n%s", o.Name, n, d)
			}
		}
		if total > bound {
			t.Fatalf("%d agents are ordered; jobs, min and buffers ask for at most %d\n%s", total, bound, d)
		}
	})
}

// TestEveryJobIsServedOrExplained asserts that each pending job that an overlay could take
// counts in one queue, that each other job is reported as unmatched or unserved, and that
// a limit explains every agent that an overlay wants and does not order.
func TestEveryJobIsServedOrExplained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawLife(t)
		r := newReference(d.overlays, d.snapshot)
		matched, others := 0, 0
		for _, j := range d.snapshot.Jobs {
			switch {
			case j.State != JobPending:
			case slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.canTake(j) }):
				matched++
			default:
				others++
			}
		}
		pending, reported := 0, 0
		decisions := d.decide()
		for i, x := range decisions {
			if i > 0 && decisions[i-1].Queue == x.Queue {
				continue
			}
			for _, g := range x.Observation.Jobs {
				pending += g.Pending
			}
			for _, u := range x.Observation.Unmatched {
				reported += u.Jobs
			}
		}
		for _, u := range FindUnserved(d.overlays, d.snapshot) {
			reported += u.Jobs
		}
		if pending != matched || reported != others { // eight jobs are no more groups than an observation lists
			t.Fatalf("%d of %d jobs are counted, %d of %d that nobody could take are reported\n%s", pending, matched, reported, others, d)
		}
		for _, x := range decisions {
			if wanted := max(x.Figures.Missing, x.Figures.Min-(x.Figures.Current-x.Figures.Replacing)); wanted > x.Figures.Dispatch && len(x.Limits()) == 0 {
				t.Fatalf("%s wants %d and orders %d, and nothing explains it\n%s", x.Overlay, wanted, x.Figures.Dispatch, d)
			}
		}
		for _, x := range decisions {
			for j, g := range x.Observation.Jobs {
				if supply := d.servedOrMissing(decisions, x.Observation, j); g.Pending > 0 && supply < g.Pending {
					t.Fatalf("%d jobs %v are pending, %d have an agent or are missing one\n%s", g.Pending, g.Overlays, supply, d)
				}
			}
		}
	})
}

// servedOrMissing returns an upper bound of the agents that a group of jobs has or is
// missing.
func (d drawnLife) servedOrMissing(decisions []Decision, o Observation, j int) (n int) {
	for _, g := range o.Idle {
		if g.Jobs.Has(j) {
			n += g.Agents
		}
	}
	missing := 0
	for _, x := range decisions {
		if !slices.Contains(o.Jobs[j].Overlays, x.Overlay) {
			continue
		}
		n += x.Figures.Demand
		if x.Trial { // for whatever it is sent, it takes a job
			n += x.Figures.WarmPool
		}
		if !x.State.Breaker.Open() {
			n += x.Figures.InFlight - x.Figures.Overdue
		}
		missing = max(missing, x.Figures.Missing-x.Figures.Dispatch)
	}
	return n + missing
}

// TestOrderOfListingChangesNothing asserts that the decision does not depend on the order in which
// Buildkite and git list anything.
func TestOrderOfListingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		listed := drawn{snapshot: d.snapshot, overlays: rapid.Permutation(d.overlays).Draw(t, "overlays")}
		listed.snapshot.Agents = rapid.Permutation(d.snapshot.Agents).Draw(t, "agents")
		listed.snapshot.Jobs = rapid.Permutation(d.snapshot.Jobs).Draw(t, "jobs")
		listed.snapshot.Queues = rapid.Permutation(d.snapshot.Queues).Draw(t, "queues")
		for i, j := range listed.snapshot.Jobs {
			listed.snapshot.Jobs[i].Rules = rapid.Permutation(j.Rules).Draw(t, "rules")
		}
		one, _ := json.Marshal(d.decide())
		if other, _ := json.Marshal(listed.decide()); string(one) != string(other) {
			t.Fatalf("listed one way:\n%s\nlisted another:\n%s", one, other)
		}
	})
}

// TestWhatIsOrderedIsNotOrderedAgain asserts that a repeated decision changes nothing.
func TestWhatIsOrderedIsNotOrderedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t).withoutFormerAgents()
		d.apply(d.decide())
		for _, x := range d.decide() {
			if !x.Empty() {
				t.Fatalf("the repeated decision is %+v\n%s", x, d)
			}
		}
	})
}

// TestMoreDemandNeverOrdersFewer asserts that a further pending job never lowers the number of
// agents that are ordered, unless an agent takes it that is about to be replaced.
func TestMoreDemandNeverOrdersFewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		for i := range d.snapshot.Agents {
			d.snapshot.Agents[i].IdleSince = time.Time{}
		}
		for i := range d.overlays {
			d.overlays[i].Template = ""
		}
		before := ordered(d.decide())
		extra := drawJob(t, 1000, d.snapshot.At)
		extra.State = JobPending
		d.snapshot.Jobs = append(d.snapshot.Jobs, extra)
		if after := ordered(d.decide()); after < before {
			t.Fatalf("%d agents, and %d with one job more (%v)\n%s", before, after, extra.Rules, d)
		}
	})
}

// TestMoreRoomNeverOrdersFewer: what was served with less room is served with
// more.
func TestMoreRoomNeverOrdersFewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		before := ordered(d.decide())
		i := rapid.IntRange(0, len(d.overlays)-1).Draw(t, "overlay")
		d.overlays[i].Policy.Max += rapid.IntRange(1, 3).Draw(t, "more")
		if after := ordered(d.decide()); after < before {
			t.Fatalf("%d agents, and %d with more room in %s\n%s", before, after, d.overlays[i].Name, d)
		}
	})
}

// TestAnIdleAgentMoreNeverOrdersMore: one that can take every job, whoever
// started it.
func TestAnIdleAgentMoreNeverOrdersMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		before := ordered(d.decide())
		extra := Agent{ID: "extra", State: AgentIdle, Tags: []string{"queue=default", "os=linux", "gpu=a100"}}
		if len(d.snapshot.Queues) > 0 {
			extra.Cluster = rapid.SampledFrom(d.snapshot.Queues).Draw(t, "cluster").Cluster
		}
		if rapid.Bool().Draw(t, "another fleet's") {
			extra.Tags = append(extra.Tags, "overlay=elsewhere", "muster=theirs", "dispatch=theirs", "index=0")
		}
		d.snapshot.Agents = append(d.snapshot.Agents, extra)
		if after := ordered(d.decide()); after > before {
			t.Fatalf("%d agents, and %d with an idle one more (%v)\n%s", before, after, extra.Tags, d)
		}
	})
}
