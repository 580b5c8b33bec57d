// Package advice searches for policies that would have served an overlay's jobs sooner or at a lower
// cost. It simulates them, and returns the frontier of wait and cost.
package advice

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/simulation"
)

// Question is the input of the advice.
type Question struct {
	// Policy is the current policy. Its queue, max, tags and schedules do not change.
	Policy plan.Policy
	// Scenario is the environment of muster, such as the syncer and webhooks. Its policy is unused.
	Scenario simulation.Scenario
	// Workload contains the simulated jobs.
	Workload simulation.Workload
	// More is the share of additional pod time that a proposal may cost: 0.1 is a tenth. If it is
	// negative, a proposal must cost less.
	More float64
	// Reuse allows proposals of reusable agents although the current ones are not: builds then share a
	// pod, which is a decision of people.
	Reuse bool
	// Workers is the number of concurrent simulations, at least one.
	Workers int
}

// Option is one policy and its simulated measures.
type Option struct {
	Policy plan.Policy
	// Changes are the differences from the current policy.
	Changes []ledger.Change
	simulation.Measures
}

// Answer is the result of a search.
type Answer struct {
	// Today is the current policy.
	Today Option
	// Frontier is the list of options that are not dominated: no other option has both a p95 as
	// short and a cost as low. It is sorted by p95, the longest first, and includes Today's option if
	// that qualifies.
	Frontier []Option
	// Proposed is the option of the frontier with the shortest p95 at the allowed cost; nil if that is
	// the current policy or not better.
	Proposed *Option
	// Played is the number of simulated policies.
	Played int
}

// Find simulates policies without idle agents, and then variants of those on the frontier with
// increasing numbers of idle agents. It returns only errors of the context.
func Find(ctx context.Context, q Question) (Answer, error) {
	today := q.play(Option{Policy: q.Policy})
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	all := append(q.playAll(ctx, q.bases(), today), today)
	kept := q.playAll(ctx, q.kept(frontier(all)), today)
	all = append(all, kept...)
	a := Answer{Today: today, Frontier: frontier(all), Played: len(all)}
	a.Proposed = q.propose(a)
	return a, ctx.Err()
}

// playAll simulates lists of policies concurrently.
func (q Question) playAll(ctx context.Context, lists [][]Option, today Option) (all []Option) {
	played := make([][]Option, len(lists))
	limit := make(chan struct{}, max(1, q.Workers))
	var wg sync.WaitGroup
	for i := range lists {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			played[i] = q.climb(ctx, lists[i], today)
		})
	}
	wg.Wait()
	return slices.Concat(played...)
}

// play simulates one policy.
func (q Question) play(o Option) Option {
	w := q.Scenario
	w.Policy = o.Policy
	o.Measures = simulation.Play(w, q.Workload, &simulation.Muster{}, nil)
	return o
}

// costFactor is the multiple of the allowed pod time above which policies with more idle agents are
// not simulated.
const costFactor = 1.5

// climb plays policies that keep increasing numbers of agents, until they cost too much or no job
// waits any more.
func (q Question) climb(ctx context.Context, list []Option, today Option) (played []Option) {
	limit := time.Duration(costFactor * (1 + q.More) * float64(today.Pods))
	for _, o := range list {
		if ctx.Err() != nil {
			return played
		}
		o = q.play(o)
		played = append(played, o)
		if o.Pods > limit || o.Wait.P95 == 0 {
			break
		}
	}
	return played
}

// frontier returns the options that are not dominated, by p95.
func frontier(all []Option) (kept []Option) {
	all = slices.DeleteFunc(slices.Clone(all), func(o Option) bool { return o.Unserved > 0 })
	slices.SortStableFunc(all, func(a, b Option) int {
		return cmp.Or(cmp.Compare(a.Wait.P95, b.Wait.P95), cmp.Compare(a.Pods, b.Pods), cmp.Compare(a.Wait.Mean, b.Wait.Mean), cmp.Compare(len(a.Changes), len(b.Changes)))
	})
	for _, o := range all {
		if len(kept) == 0 || o.Pods < kept[len(kept)-1].Pods {
			kept = append(kept, o)
		}
	}
	slices.Reverse(kept)
	return kept
}

// propose returns the option of the frontier with the shortest p95 at the allowed cost, if it is better
// than the current policy in p95 or cost by more than chance.
func (q Question) propose(a Answer) *Option {
	const clearly = 0.97
	limit := time.Duration((1 + q.More) * float64(a.Today.Pods))
	for i := len(a.Frontier) - 1; i >= 0; i-- {
		o := &a.Frontier[i]
		if o.Pods > limit {
			continue
		}
		sooner := a.Today.Unserved > 0 || float64(o.Wait.P95) < clearly*float64(a.Today.Wait.P95)
		cheaper := o.Wait.P95 <= a.Today.Wait.P95 && float64(o.Pods) < clearly*float64(a.Today.Pods)
		if len(o.Changes) > 0 && (sooner || cheaper) {
			return o
		}
		return nil
	}
	return nil
}

// anotherDay is added to a seed for the day from whose commits a policy is advised. moreForAnother
// is the share by which a proposal may cost more on that day: reusable agents are proposed in
// steps, and most steps cost less.
const (
	anotherDay     = 1000
	moreForAnother = 0.05
)

// ForAnotherDay returns the policy that would have been proposed on another day. It generates the
// workload with another seed, plays it with the scenario's policy, rebuilds a workload from the
// commits, and plays policies on that. It returns nil if no policy is proposed, or if the workload
// is of one day only. told is the scenario that the policy is proposed for.
func ForAnotherDay(ctx context.Context, c simulation.Case, told simulation.Scenario) (*plan.Policy, error) {
	if c.Workload.Again == nil {
		return nil, nil
	}
	var observed []plan.Observation
	w := c.Scenario
	w.Seed += anotherDay
	simulation.Play(w, c.Workload.Again(w.Seed), &simulation.Muster{}, func(a simulation.Operation) {
		if a.Decision != nil && a.Commits > 0 {
			observed = append(observed, a.Decision.Observation)
		}
	})
	load, err := simulation.Rebuild(c.Workload.Name, "default", observed)
	if err != nil {
		return nil, nil // nothing came
	}
	told.Seed = w.Seed
	answer, err := Find(ctx, Question{Policy: c.Scenario.Policy, Scenario: told, Workload: load, Reuse: true, More: moreForAnother})
	if err != nil || answer.Proposed == nil {
		return nil, err
	}
	return &answer.Proposed.Policy, nil
}
