package main

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"muster/generator/advice"
	"muster/generator/simulation"
)

// advise finds the policies that muster advise would propose for each case, where they are
// to be played.
func (s *simulate) advise(ctx context.Context, cases []simulation.Case, algorithms []simulation.Named) error {
	at := slices.IndexFunc(algorithms, func(a simulation.Named) bool { return a.Name == simulation.Advised })
	if at < 0 {
		return nil
	}
	s.git.program.progress.Doing("looking for the policies that muster advise would propose")
	errs := make([]error, len(cases))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range cases {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			cases[i].World.Advised, errs[i] = advice.ForAnotherDay(ctx, cases[i], algorithms[at].In(cases[i].World))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
