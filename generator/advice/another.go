package advice

import (
	"context"

	"muster/generator/plan"
	"muster/generator/simulation"
)

// anotherDay is added to a seed for the day from whose commits a policy is advised, and
// moreForAnother is how much more a proposal may cost on that day: agents that stay are
// proposed in steps, of which most cost less.
const (
	anotherDay     = 1000
	moreForAnother = 0.05
)

// ForAnotherDay is the policy that would have been proposed on another day: the workload
// is made again with another seed and played with the world's policy, what its commits
// tell is rebuilt, and policies are played on that. Nil: none is proposed, or the
// workload is of one day only. Told is the world that it is proposed for.
func ForAnotherDay(ctx context.Context, c simulation.Case, told simulation.World) (*plan.Policy, error) {
	if c.Workload.Again == nil {
		return nil, nil
	}
	var observed []plan.Observation
	w := c.World
	w.Seed += anotherDay
	simulation.Play(w, c.Workload.Again(w.Seed), &simulation.Muster{}, func(a simulation.Act) {
		if a.Decision != nil && a.Commits > 0 {
			observed = append(observed, a.Decision.Observation)
		}
	})
	load, err := simulation.Rebuild(c.Workload.Name, "default", observed)
	if err != nil {
		return nil, nil // nothing came
	}
	told.Seed = w.Seed
	answer, err := Find(ctx, Question{Policy: c.World.Policy, World: told, Workload: load, Reuse: true, More: moreForAnother})
	if err != nil || answer.Proposed == nil {
		return nil, err
	}
	return &answer.Proposed.Policy, nil
}
