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

// reuseCandidates returns for how long agents may stay for further jobs. The shortest takes what is
// there when a job is over, and hardly waits; the uptime is such that a pod is a new one
// after some jobs.
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

// buffers are how many agents may be kept idle, and warmIdles their idle time-outs: the
// default, and one after which those that a pulse left behind are gone soon.
var (
	buffers   = []int{0, 1, 2, 4, 8, 16, 32}
	warmIdles = []time.Duration{time.Hour, 10 * time.Minute}
)

// with returns some values with today's among them, in order and each once.
func with[T int | float64 | time.Duration](today T, values ...T) []T {
	all := append(slices.Clone(values), today)
	slices.Sort(all)
	return slices.Compact(all)
}

// bases are the policies that keep no agents: a list each.
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

// aheads are the shares of upcoming jobs that agents are started for: where no job waits
// for another, as in what is rebuilt of a history, there is nothing to compare.
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

// options are policies and how they differ from today's, without today's.
func (q Question) options(policies ...plan.Policy) (all []Option) {
	for _, p := range policies {
		if c := history.Changes(q.Policy, p); len(c) > 0 {
			all = append(all, Option{Policy: p, Changes: c})
		}
	}
	return all
}

// Values are the fields of spec in which an option's policy is not today's, as
// [policy.Apply] takes them.
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
