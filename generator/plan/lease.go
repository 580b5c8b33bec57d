package plan

import "time"

// The lease is what makes the accounting exact. Every dispatch is given a time,
// NotAfter, and an agent that starts later exits at once. So each index of a
// dispatch is in exactly one of three states: registered (Buildkite has seen
// its agent, now or before), in flight (it may still register), or lost (the
// lease and the grace are over). Only registered agents that are connected, and
// agents in flight, are counted on.

// Grace is how long after its lease an index that was not seen is presumed
// lost: the clocks of muster and of the agents may differ by that much.
const Grace = time.Minute

// Expired reports whether no agent of the dispatch can start any more.
func (d Dispatch) Expired(now time.Time) bool {
	return now.After(d.NotAfter.Add(Grace))
}

// Stale reports whether the dispatch's lease ended so long ago that Buildkite is
// not asked any more what became of it: muster was away. It is retired without
// an outcome.
func (d Dispatch) Stale(now time.Time) bool {
	return now.After(d.NotAfter.Add(time.Hour))
}

// inFlight counts the overlay's agents that are dispatched, have not registered,
// and may still do so.
func (s *share) inFlight(now time.Time) int {
	agents := 0
	for _, d := range s.overlay.Dispatches {
		if !d.Expired(now) {
			agents += d.Agents - s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
		}
	}
	return agents
}
