package plan

import "time"

// Counted is what a reader tells that sees no agents: how many there are in each queue, and
// which jobs agents have taken.
type Counted struct {
	// At is when the agents were counted, by muster's clock: no later than the jobs were read.
	At time.Time
	// Queues are those that were asked for and are there.
	Queues []CountedQueue
	// Runs are the jobs that were pending at an earlier look and that an agent has taken
	// since: each for as long as it runs, and once when it has ended.
	Runs []Run
}

// CountedQueue is how many agents are connected to a queue.
type CountedQueue struct {
	// Queue is its key, and Cluster its Buildkite cluster as in [Queue].
	Queue, Cluster string
	// Agents are connected, whoever started them, and Idle of them have no job.
	Agents, Idle int
}

// Run is a job that an agent has taken.
type Run struct {
	// ID is the job's identifier.
	ID string
	// Queue, Cluster and Rules are the job's.
	Queue, Cluster string
	Rules          []string
	// Running reports whether it still runs.
	Running bool
}
