package plan

import (
	"fmt"
	"testing"
	"time"
)

// fleetOf makes overlays on ten queues and jobs of a hundred kinds, half of
// them waiting, with an agent for every twentieth job.
func fleetOf(overlays, jobs int) ([]Overlay, Snapshot, *Registrations) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	var fleet []Overlay
	for i := range overlays {
		o := Overlay{Name: fmt.Sprintf("overlay-%02d", i), Policy: Policy{
			Queue: fmt.Sprintf("queue-%d", i%10), Tags: []string{"os=linux", fmt.Sprintf("size=%d", i/10)},
			Min: 5, Max: 2000, Buffer: 10, Lookahead: 0.2, MaxDispatch: 100, Lease: lease,
			IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour, Priority: i % 3,
		}}
		for k := range 20 {
			o.Dispatches = append(o.Dispatches, Dispatch{ID: fmt.Sprintf("%s-%08d", o.Name, k), Agents: 50, At: at, NotAfter: at.Add(lease)})
		}
		fleet = append(fleet, o)
	}
	s := Snapshot{At: at}
	for i := range jobs {
		state := JobPending
		if i%2 == 1 {
			state = JobUpcoming
		}
		rules := []string{fmt.Sprintf("queue=queue-%d", i%10), "os=linux"}
		if i%7 == 0 {
			rules = append(rules, fmt.Sprintf("size=%d", i%5))
		}
		s.Jobs = append(s.Jobs, Job{ID: fmt.Sprint(i), Rules: rules, State: state, Since: at.Add(-time.Duration(i%600) * time.Second), URL: "https://buildkite.com/acme/app/builds/1"})
		if i%20 == 0 {
			o := fleet[i/20%overlays]
			s.Agents = append(s.Agents, Agent{ID: fmt.Sprint("agent-", i), State: AgentIdle, IdleSince: at,
				Tags: append(o.AgentTags(), fmt.Sprintf("dispatch=%s-%08d", o.Name, i%20), fmt.Sprintf("index=%d", i/20%50))})
		}
	}
	r := &Registrations{}
	r.Note(s)
	r.Reconcile(fleet, at)
	return fleet, s, r
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ overlays, jobs int }{{1, 100}, {10, 10_000}, {50, 100_000}} {
		b.Run(fmt.Sprintf("overlays=%d/jobs=%d", size.overlays, size.jobs), func(b *testing.B) {
			overlays, snapshot, register := fleetOf(size.overlays, size.jobs)
			b.ReportAllocs()
			agents := 0
			for b.Loop() {
				agents = 0
				for _, o := range Observe(overlays, snapshot, register) {
					for _, d := range Decide("c0ffee", overlays, o) {
						agents += d.Sum.Dispatch
					}
				}
			}
			b.ReportMetric(float64(agents), "agents")
		})
	}
}

// chainOf makes rule sets that overlap like the links of a chain: an idle agent
// can take the jobs of its own rule set and of the next, so that a job which is
// left over can be handed on along the whole chain.
func chainOf(ruleSets, idle int) ([]Overlay, Snapshot) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	s := Snapshot{At: at}
	all := Overlay{Name: "all", Policy: Policy{Queue: "default", Max: 10_000, MaxDispatch: 100, Lease: lease, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour}}
	for i := range ruleSets {
		all.Policy.Tags = append(all.Policy.Tags, fmt.Sprintf("k%04d=v", i))
		for range 2 {
			s.Jobs = append(s.Jobs, Job{Rules: []string{"queue=default", fmt.Sprintf("k%04d=v", i)}, State: JobPending, Since: at})
		}
	}
	for i := range idle {
		s.Agents = append(s.Agents, Agent{ID: fmt.Sprint(i), State: AgentIdle, Tags: []string{
			"queue=default", fmt.Sprintf("k%04d=v", i%ruleSets), fmt.Sprintf("k%04d=v", (i+1)%ruleSets),
		}})
	}
	return []Overlay{all}, s
}

// crossOf makes overlays of which each serves other rule sets, and several serve
// each.
func crossOf(overlays, ruleSets, most int) ([]Overlay, Snapshot) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	s := Snapshot{At: at}
	var fleet []Overlay
	for i := range overlays {
		o := Overlay{Name: fmt.Sprintf("overlay-%02d", i), Policy: Policy{Queue: "default", Max: most, MaxDispatch: 100, Lease: lease, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour}}
		for r := range ruleSets {
			if (r*7+i*i+r/overlays)%3 != 0 {
				o.Policy.Tags = append(o.Policy.Tags, fmt.Sprintf("k%04d=v", r))
			}
		}
		fleet = append(fleet, o)
	}
	for r := range ruleSets {
		for range overlays {
			s.Jobs = append(s.Jobs, Job{Rules: []string{"queue=default", fmt.Sprintf("k%04d=v", r)}, State: JobPending, Since: at})
		}
	}
	return fleet, s
}

// BenchmarkGrowth has what grew with the fourth power: each step doubles the
// size, so that the ratio of two steps is the power.
func BenchmarkGrowth(b *testing.B) {
	run := func(name string, overlays []Overlay, s Snapshot) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, o := range Observe(overlays, s, &Registrations{}) {
					Decide("c0ffee", overlays, o)
				}
			}
		})
	}
	for _, n := range []int{75, 150, 300} {
		overlays, s := chainOf(n, n*3/2)
		run(fmt.Sprintf("chain/ruleSets=%d", n), overlays, s)
	}
	for _, n := range []int{250, 500, 1000} {
		overlays, s := crossOf(20, n, 1000)
		run(fmt.Sprintf("cross/ruleSets=%d", n), overlays, s)
	}
}
