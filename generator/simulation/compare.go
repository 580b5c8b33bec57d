package simulation

import (
	"context"
	"sync"
	"time"
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
				rows[i] = Row{c.Workload.Name, a.Name, Play(a.In(c.World), c.Workload, a.New(), nil)}
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

// PodsPerJob is what a job costs: the time of all pods, shared by the jobs.
func (m Measures) PodsPerJob() time.Duration { return m.Pods / time.Duration(max(1, m.Jobs)) }

// Unreached returns, of the algorithms that muster's policies are compared with in one
// case, those with a frontier of their own: they act on their cluster themselves, their 95th percentile
// is shorter than the default policy's, and no policy has one that is as short for as few
// pod-hours. Rows are those of the case, the default policy's first.
func Unreached(algorithms []Named, rows []Row) []string {
	var names []string
	for i, a := range algorithms {
		r := rows[i]
		if a.Policy || a.Transport != direct || r.Unserved > 0 || r.Wait.P95 >= rows[0].Wait.P95 {
			continue
		}
		reached := false
		for j, b := range algorithms {
			m := rows[j]
			reached = reached || b.Policy && m.Unserved == 0 && m.Wait.P95 <= r.Wait.P95 && m.PodsPerJob() <= r.PodsPerJob()
		}
		if !reached {
			names = append(names, a.Name)
		}
	}
	return names
}
