package generator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// work is the workload of a simulation.
type work struct {
	builds float64       // each hour and queue
	bursts float64       // each hour and queue
	burst  int           // jobs of a burst
	job    time.Duration // the longest one takes
	// Shares of builds.
	limited, unmatched, blocked, chained, flaky, cancelled, reserved float64
	foreign                                                          float64 // agents each hour and queue
}

// begin plans the whole workload at once, so that faults do not change it.
func (k work) begin(w *scenario) {
	r := rand.New(rand.NewPCG(w.seed, 3))
	for _, queue := range w.queues() {
		k.each(w, r, k.builds, func() func() { return k.build(w, r, queue) })
		k.each(w, r, k.bursts, func() func() {
			spec := fakebuildkite.Build{Cluster: w.cluster, Steps: []fakebuildkite.Step{{
				Agents: k.rules(w, r, queue), Parallelism: 1 + r.IntN(k.burst), Duration: k.duration(r),
			}}}
			return func() { w.server.CreateBuild(spec) }
		})
		k.each(w, r, k.foreign, func() func() {
			for_ := time.Minute + time.Duration(r.Int64N(int64(20*time.Minute)))
			once := r.IntN(2) == 0
			return func() { k.visit(w, queue, for_, once) }
		})
	}
}

// each calls f at random, a number of times per hour.
func (k work) each(w *scenario, r *rand.Rand, perHour float64, what func() func()) {
	if perHour <= 0 {
		return
	}
	for at := time.Duration(0); ; {
		at += time.Duration(r.ExpFloat64() / perHour * float64(time.Hour))
		if at >= w.length {
			return
		}
		w.at(at, what())
	}
}

func (k work) duration(r *rand.Rand) time.Duration {
	return 5*time.Second + time.Duration(r.Int64N(int64(k.job)))
}

// rules are those of a job that some overlay of the queue can serve.
func (k work) rules(w *scenario, r *rand.Rand, queue string) []string {
	rules := []string{"queue=" + queue}
	var serving []*overlay
	for _, o := range w.overlays {
		if o.spec.queue == queue {
			serving = append(serving, o)
		}
	}
	for _, t := range serving[r.IntN(len(serving))].tags {
		if r.IntN(2) == 0 {
			rules = append(rules, t)
		}
	}
	return rules
}

// build draws a build of one of several kinds.
func (k work) build(w *scenario, r *rand.Rand, queue string) func() {
	step := fakebuildkite.Step{Agents: k.rules(w, r, queue), Parallelism: 1 + r.IntN(4), Duration: k.duration(r)}
	steps := []fakebuildkite.Step{step}
	dice := r.Float64()
	pick := func(share float64) bool {
		picked := dice >= 0 && dice < share
		dice -= share
		return picked
	}
	after := func() {}
	later := time.Duration(r.Int64N(int64(10 * time.Minute)))
	var id string
	switch {
	case pick(k.limited):
		steps[0].ConcurrencyGroup, steps[0].Concurrency, steps[0].Parallelism = "deploy", 1+r.IntN(2), 2+r.IntN(6)
	case pick(k.unmatched):
		steps[0].Agents = append(slices.Clone(step.Agents), "os=plan9")
	case pick(k.blocked):
		steps = append(steps, fakebuildkite.Step{Type: fakebuildkite.Block}, step)
		if r.IntN(2) == 0 {
			after = func() { w.server.At(w.server.Now().Add(later+20*time.Minute), func() { w.server.Unblock(id) }) }
		}
	case pick(k.chained):
		steps = append(steps, fakebuildkite.Step{Type: fakebuildkite.Wait}, step, step)
	case pick(k.flaky):
		steps[0].Fail, steps[0].Retries = 1+r.IntN(2), r.IntN(3)
	case pick(k.cancelled):
		steps = append(steps, fakebuildkite.Step{Type: fakebuildkite.Wait}, step)
		after = func() { w.server.At(w.server.Now().Add(later/2), func() { w.server.CancelBuild(id) }) }
	case pick(k.reserved):
		after = func() { w.server.At(w.server.Now().Add(later/20), func() { w.reserve(id, later) }) }
	}
	if step.Parallelism%2 == 0 { // how long the others take is never known
		for i := range steps {
			steps[i].Label = fmt.Sprintf("step %d of %d for %s", i, len(steps), queue)
		}
	}
	spec := fakebuildkite.Build{Cluster: w.cluster, Steps: steps}
	return func() {
		id = w.server.CreateBuild(spec)
		after()
	}
}

// reserve lets another scaler take the build's runnable jobs, for a while.
func (w *scenario) reserve(build string, wait time.Duration) {
	for _, j := range w.server.Jobs() {
		if j.Build == build && w.server.Reserve(j.ID, 0) {
			w.audit.reserved++
			w.server.At(w.server.Now().Add(wait), func() { w.server.Unreserve(j.ID) })
		}
	}
}

// visit connects an agent that muster did not start.
func (k work) visit(w *scenario, queue string, stay time.Duration, once bool) {
	id, err := w.server.Connect(fakebuildkite.Agent{
		Cluster: w.cluster, Tags: []string{"queue=" + queue}, AfterJob: once, IdleTimeout: stay,
	})
	if err == nil {
		w.foreign[id] = true
		w.server.At(w.server.Now().Add(4*stay), func() { w.server.StopAgent(id) })
	}
}
