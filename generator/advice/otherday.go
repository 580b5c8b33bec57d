package advice

import (
	"context"

	"muster/generator/plan"
	"muster/generator/simulation"
)

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
