package simulation

import (
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// Workload is what arrives in a run.
type Workload struct {
	// Name is what the workload is called.
	Name string
	// Modelled reports that it models a real organisation; others show one effect each.
	Modelled bool
	// Start is when the run begins; zero is [Start].
	Start time.Time
	// Length is how long builds come.
	Length time.Duration
	// Arrivals are the builds, by time.
	Arrivals []Arrival
}

// Arrival is one build that comes At so long after the start. It is cancelled when it
// is Cancel old, unless it is over then; zero is never.
type Arrival struct {
	At, Cancel time.Duration
	Build      fakebuildkite.Build
}

// Jobs counts the command steps' jobs of all builds, without retries.
func (w Workload) Jobs() int {
	n := 0
	for _, a := range w.Arrivals {
		for _, s := range a.Build.Steps {
			if s.Type == fakebuildkite.Command {
				n += max(1, s.Parallelism)
			}
		}
	}
	return n
}
