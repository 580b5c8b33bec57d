package plan

import "time"

// The lease is what makes the accounting exact. Every dispatch is given a time,
// NotAfter, and an agent that starts later exits at once. So each index of a
// dispatch is in exactly one of three states: registered (Buildkite has seen
// its agent, now or before), in flight (it may still register), or lost (the
// lease and the grace are over). Only registered agents that are connected, and
// agents in flight, are counted on.

// ClocksApart is how far muster's clock may be off Buildkite's: what is further off
// decides nothing. Kubernetes' nodes are taken to be as exact.
const ClocksApart = time.Minute

// Grace is how long after its lease an index that was not seen is presumed
// lost: a minute for clocks that differ, and one for what follows the agent's
// last look at the lease.
//
// An agent looks at its lease when it starts and, once it is registered, again
// before it connects (base/job.yaml). Connecting is then tried for up to 45 s
// (buildkite-agent 3.138.2, ten times every five seconds).
const Grace = ClocksApart + time.Minute

// Expired reports whether no agent of the dispatch can start any more.
func (d Dispatch) Expired(now time.Time) bool {
	return now.After(d.NotAfter.Add(Grace))
}

// Withdrawable reports whether the dispatch has had the time to become a Job, if
// it can at all: a third of its lease, and five minutes at most, which is as long
// as Argo CD takes to look at git without a webhook.
func (d Dispatch) Withdrawable(now time.Time) bool {
	return !now.Before(d.At.Add(min(d.NotAfter.Sub(d.At)/3, 5*time.Minute)))
}

// Stale reports whether the dispatch's lease ended so long ago that Buildkite is
// not asked any more what became of it: muster was away. It is retired without
// an outcome.
func (d Dispatch) Stale(now time.Time) bool {
	return now.After(d.NotAfter.Add(time.Hour))
}

// inFlight counts the overlay's agents that are dispatched, have not registered,
// and may still do so. Those that will serve a cluster which the policy no longer
// names are counted apart: they are of no use, but they will run.
func (s *share) inFlight(now time.Time) (agents, strayed int) {
	for _, d := range s.overlay.Dispatches {
		if d.Expired(now) {
			continue
		}
		n := d.Agents - s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
		if s.overlay.strayed(d) {
			strayed += n
		} else {
			agents += n
		}
	}
	return agents, strayed
}
