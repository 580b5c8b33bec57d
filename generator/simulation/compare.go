package simulation

import (
	"context"
	"sync"
)

// Case is one workload in its world.
type Case struct {
	Scenario Scenario
	Workload Workload
	// About says in a few words what the workload is; optional.
	About string
}

// Row is what one algorithm made of one workload.
type Row struct {
	Workload, Algorithm string
	Measures
}

// Compare runs every algorithm on every case, workers at a time, and returns a row for
// each run: by case, then by algorithm. After each run it calls finished, which may be
// nil, with the rows of the cases before the first incomplete one, and the number of runs
// so far. It returns the error of the context, or the first error of finished.
func Compare(ctx context.Context, cases []Case, algorithms []Named, workers int, finished func(complete []Row, runs int) error) ([]Row, error) {
	ctx, cancel := context.WithCancel(ctx)
	rows, done := make([]Row, len(cases)*len(algorithms)), make([]bool, len(cases)*len(algorithms))
	next, played := make(chan int, len(rows)), make(chan int, len(rows))
	for i := range rows {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				c, a := cases[i/len(algorithms)], algorithms[i%len(algorithms)]
				rows[i] = Row{c.Workload.Name, a.Name, Play(a.In(c.Scenario), c.Workload, a.New(), nil)}
				played <- i
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	first := 0 // without a result
	for runs := range len(rows) {
		select {
		case i := <-played:
			done[i] = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		for first < len(rows) && done[first] {
			first++
		}
		if finished == nil {
			continue
		}
		if err := finished(rows[:first/len(algorithms)*len(algorithms)], runs+1); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
