package plan

import "time"

// Observation is a snapshot reduced to what the overlays of one queue need. It
// travels in the commit message: with the parent commit it is everything that
// a decision was made from, so that the decision can be made again.
type Observation struct {
	// At is when Buildkite was read, and the time of the decision.
	At time.Time `json:"at"`
	// Until is when a reading that was spread over minutes was complete; zero
	// when Buildkite was read at once. Everything is judged by At; what is ordered
	// bears this time, so that its lease is whole.
	Until time.Time `json:"until,omitzero"`
	// Queue is the queue's key.
	Queue string `json:"queue"`
	// Jobs are the queue's jobs that some overlay can serve, by which can.
	Jobs []Demand `json:"jobs,omitempty"`
	// Overlays are the overlays that serve the queue, by name.
	Overlays []Supply `json:"overlays"`
	// Unmatched are the queue's jobs that no overlay can serve.
	Unmatched []Unmatched `json:"unmatched,omitempty"`
}

// Demand counts the jobs that one set of overlays can serve.
type Demand struct {
	// Overlays are the names of the overlays whose agents may take the jobs, sorted.
	Overlays []string `json:"overlays"`
	// Pending jobs are runnable and have no agent; Idle of them need no
	// further agent, because a connected one is free to take them.
	Pending int `json:"pending,omitempty"`
	Idle    int `json:"idle,omitempty"`
	// Oldest is since when the longest waiting pending job has been runnable.
	Oldest *time.Time `json:"oldest,omitempty"`
	// Upcoming jobs become runnable when others finish.
	Upcoming int `json:"upcoming,omitempty"`
	// Limited and Blocked jobs are no demand: no agent would help them. They
	// are counted to explain why nothing is ordered for them.
	Limited int `json:"limited,omitempty"`
	Blocked int `json:"blocked,omitempty"`
}

// Supply counts the agents that matter to one overlay.
type Supply struct {
	// Overlay is the overlay's name.
	Overlay string `json:"overlay"`
	// Suspended says why Buildkite lets nothing be dispatched for the overlay
	// now, as when the queue is paused; zero when nothing does.
	Suspended Suspension `json:"suspended,omitzero"`
	// Spare agents are idle, could take any job of the overlay, and are not
	// needed for a pending one. One that muster did not start is credited to
	// the first overlay that it could stand in for. Replacing of them are about
	// to run into their idle time-out.
	Spare     int `json:"spare,omitempty"`
	Replacing int `json:"replacing,omitempty"`
	// WrongTags agents came without a tag that they were told to carry, while
	// others of their dispatch are still to come; see countUseless.
	WrongTags int `json:"wrongTags,omitempty"`
	// Busy agents run a job and carry the overlay's tag; QueueBusy are all of
	// the queue that run one, whoever started them.
	Busy      int `json:"busy,omitempty"`
	QueueBusy int `json:"queueBusy,omitempty"`
	// Own agents carry the overlay's tag and are connected, idle or busy.
	Own int `json:"own,omitempty"`
	// Stopping agents carry the overlay's tag too, but take no more jobs, or are
	// in another queue or cluster than the policy's.
	Stopping int `json:"stopping,omitempty"`
	// Dispatches is what Buildkite has seen of each dispatch in git. One of
	// which nothing was seen is left out.
	Dispatches map[string]Seen `json:"dispatches,omitempty"`
}

// Seen is what Buildkite has seen of one dispatch, now or before.
type Seen struct {
	// Registered are the indexes whose agents have registered.
	Registered Indexes `json:"registered,omitzero"`
	// RegisteredAt is when all indexes were first known to have registered; nil
	// while some have not.
	RegisteredAt *time.Time `json:"registeredAt,omitempty"`
	// Worked reports whether any of the agents has had a job.
	Worked bool `json:"worked,omitempty"`
	// Connected is how many of the agents are connected now; Useless of them
	// came without a tag that they were told to carry; see countUseless.
	Connected int `json:"connected,omitempty"`
	WrongTags int `json:"wrongTags,omitempty"`
}

// Unmatched is a group of jobs that no overlay of their queue can serve.
type Unmatched struct {
	// Rules are the jobs' agent query rules.
	Rules []string `json:"rules"`
	// Missing are the rules that the nearest overlay does not satisfy.
	Missing []string `json:"missing"`
	// Jobs is how many runnable jobs there are, and Example the page of one.
	Jobs    int    `json:"jobs"`
	Example string `json:"example,omitempty"`
}

// orderedAt is the time that new dispatches bear.
func (o Observation) orderedAt() time.Time {
	if o.Until.IsZero() {
		return o.At
	}
	return o.Until
}

// supply returns what was counted for the named overlay.
func (o Observation) supply(overlay string) Supply {
	for _, s := range o.Overlays {
		if s.Overlay == overlay {
			return s
		}
	}
	return Supply{Overlay: overlay}
}
