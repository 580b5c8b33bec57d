package simulation

import (
	"context"
	"sync"
)

// Case is one workload in its world.
type Case struct {
	World    World
	Workload Workload
	// About says in a few words what the workload is; optional.
	About string
}

// Row is what one algorithm made of one workload.
type Row struct {
	Workload, Algorithm string
	Measures
}

// Compare plays every algorithm through every case, as many at once as workers,
// and returns a row for each: by case, then by algorithm.
func Compare(ctx context.Context, cases []Case, algorithms []Named, workers int) ([]Row, error) {
	rows := make([]Row, len(cases)*len(algorithms))
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				c, a := cases[i/len(algorithms)], algorithms[i%len(algorithms)]
				rows[i] = Row{c.Workload.Name, a.Name, Play(c.World, c.Workload, a.New(), nil)}
			}
		})
	}
	for i := range rows {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return rows, ctx.Err()
}
