package plan

import "time"

// inFlight returns the number of the overlay's agents in flight, and of agents in flight for a queue
// or cluster that the policy no longer names: they are useless, but will run.
func (s *allocation) inFlight(now time.Time) (agents, otherQueue int) {
	for _, d := range s.overlay.Dispatches {
		if d.Expired(now) {
			continue
		}
		n := d.Agents - s.capacity.Dispatches[d.ID].Registered.Below(d.Agents)
		if s.overlay.otherQueue(d) {
			otherQueue += n
		} else {
			agents += n
		}
	}
	return agents, otherQueue
}
