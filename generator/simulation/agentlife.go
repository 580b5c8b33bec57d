package simulation

import (
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// Life is how the agents of an order live that is not muster's. The zero value is an
// agent of base/job.yaml: it takes one job, and leaves when none comes.
type Life struct {
	// Stay, when it is not zero, lets an agent take job after job, and leave when it has
	// been idle for so long.
	Stay time.Duration
	// Acquire, when it is not empty, is the job that each index is started for, and takes
	// alone.
	Acquire []string
}

// shape makes an agent of that life.
func (l Life) shape(a *fakebuildkite.Agent, index int) {
	if l.Stay > 0 {
		a.AfterJob, a.IdleTimeout = false, l.Stay
	}
	if len(l.Acquire) > 0 {
		a.Acquire = l.Acquire[index]
	}
}
