package advice

import (
	"fmt"
	"slices"
	"time"

	"muster/generator/history"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/generator/simulation"
)

// reuseCandidates returns the candidates of reuse. The shortest takes only jobs that are pending when a
// job ends; the uptimes replace a pod after some jobs.
func reuseCandidates() []plan.Reuse {
	return []plan.Reuse{
		{Idle: 5 * time.Second, Uptime: 30 * time.Minute},
		{Idle: 15 * time.Second, Uptime: 30 * time.Minute},
		{Idle: 30 * time.Second, Uptime: 30 * time.Minute},
		{Idle: time.Minute, Uptime: 30 * time.Minute},
		{Idle: 2 * time.Minute, Uptime: time.Hour},
		{Idle: 5 * time.Minute, Uptime: 2 * time.Hour},
		{Idle: 10 * time.Minute, Uptime: 4 * time.Hour},
	}
}

// buffers are candidates of the number of idle agents, and warmIdles of their idle time-outs: the
// default, and a short one that ends unused agents soon after a burst of jobs.
var (
	buffers   = []int{0, 1, 2, 4, 8, 16, 32}
	warmIdles = []time.Duration{time.Hour, 10 * time.Minute}
)

// with returns sorted values that include the current one, without duplicates.
func with[T int | float64 | time.Duration](today T, values ...T) []T {
	all := append(slices.Clone(values), today)
	slices.Sort(all)
	return slices.Compact(all)
}

// bases returns the policies without idle agents, each in its own list.
func (q Question) bases() (all [][]Option) {
	reuses := []plan.Reuse{q.Policy.Reuse}
	if q.Reuse || q.Policy.Reuse.On() {
		for _, r := range reuseCandidates() {
			if r != q.Policy.Reuse {
				reuses = append(reuses, r)
			}
		}
	}
	for _, reuse := range reuses {
		for _, ahead := range q.aheads() {
			p := q.Policy
			p.Reuse, p.Lookahead, p.Buffer = reuse, ahead, 0
			all = append(all, q.options(p))
		}
	}
	return all
}

// aheads returns candidates of look-ahead; only the current one if no job depends on another, as in
// workloads that are rebuilt from history.
func (q Question) aheads() []float64 {
	chained := func(a simulation.Arrival) bool { return len(a.Build.Steps) > 1 }
	if !slices.ContainsFunc(q.Workload.Arrivals, chained) {
		return []float64{q.Policy.Lookahead}
	}
	return with(q.Policy.Lookahead, 0, 1)
}

// kept returns variants of other policies that keep agents, in lists in which each policy keeps
// more than the previous one.
func (q Question) kept(others []Option) (all [][]Option) {
	for _, o := range others {
		for _, idle := range with(q.Policy.WarmIdleTimeout, warmIdles...) {
			p := o.Policy
			var list []plan.Policy
			for _, buffer := range with(q.Policy.Buffer, buffers...) {
				if p.Buffer, p.WarmIdleTimeout = buffer, idle; buffer > 0 && buffer <= p.Max {
					list = append(list, p)
				}
			}
			all = append(all, q.options(list...))
		}
	}
	return all
}

// options returns policies with their differences from the current one, which is omitted.
func (q Question) options(policies ...plan.Policy) (all []Option) {
	for _, p := range policies {
		if c := history.Changes(q.Policy, p); len(c) > 0 {
			all = append(all, Option{Policy: p, Changes: c})
		}
	}
	return all
}

// Values returns the changed fields of spec, in the form of [policy.Apply].
func (o Option) Values() map[string]string {
	values := map[string]string{}
	for _, c := range o.Changes {
		values[c.Setting] = c.After
		if c.Setting == "reuse" {
			values[c.Setting] = reuse(o.Policy.Reuse)
		}
	}
	return values
}

// reuse returns r in the syntax of muster set.
func reuse(r plan.Reuse) string {
	if !r.On() {
		return "none"
	}
	return fmt.Sprintf("idle:%s,uptime:%s", policy.Span(r.Idle), policy.Span(r.Uptime))
}
