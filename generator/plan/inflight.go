package plan

import (
	"slices"
	"time"
)

// flight is a group of agents in flight of one overlay that can serve the same jobs.
type flight struct {
	allocation int
	agents     int
	// other is nil if they equal agents that are dispatched now; otherwise they belong to the
	// dispatch.
	other    *OtherTags
	dispatch string
}

// flights returns the groups of agents in flight that are expected to register: first one group
// for each overlay, then the groups that were ordered with other tags.
func flights(allocations []*allocation) []flight {
	all := make([]flight, len(allocations))
	for i, s := range allocations {
		all[i] = flight{allocation: i, agents: s.expected()}
	}
	for i, s := range allocations {
		for _, x := range s.otherTags {
			x.allocation = i
			x.agents -= s.overdue[x.dispatch]
			if s.breaker.Open() {
				x.agents = 0
			}
			all[i].agents -= x.agents
			all = append(all, x)
		}
	}
	return all
}

// otherFlights returns the overlay's dispatches with agents in flight and other tags.
func (s *allocation) otherFlights() (all []flight) {
	for _, d := range s.overlay.Dispatches {
		if _, ok := s.capacity.OtherTags[d.ID]; ok {
			tags := s.capacity.OtherTags[d.ID]
			n := d.Agents - s.capacity.Dispatches[d.ID].Registered.Below(d.Agents)
			all = append(all, flight{dispatch: d.ID, agents: n, other: &tags})
		}
	}
	return all
}

// otherTags is a dispatch that was ordered with other tags than the policy has now.
type otherTags struct {
	overlay  int
	dispatch string
	takes    string // the classes, as of a kind of idle agents
	spare    bool   // they could stand in for the overlay's agents
}

// otherTags returns the dispatches whose agents in flight can serve other jobs than the agents
// that would be dispatched now. The tags that they were ordered with determine which jobs they can
// take once they register. Dispatches for another queue or cluster are omitted: they count as
// stopping.
func (q queueReader) otherTags(classes []*class, index ruleIndex, capacities []Capacity, w *owners, now time.Time) (all []otherTags) {
	takes := func(i int, tags []string) []int32 {
		return slices.DeleteFunc(index.satisfied(nil, tags), func(j int32) bool {
			return classes[j].pending == 0 || !q.reaches(i, classes[j])
		})
	}
	for i, o := range q.overlays {
		for _, d := range o.Dispatches {
			lost := d.Agents - capacities[i].Dispatches[d.ID].Registered.Below(d.Agents)
			if d.Tags == nil || lost == 0 || d.Expired(now) || o.otherQueue(d) || slices.Equal(d.Tags, q.tags[i]) {
				continue
			}
			takesNow := takes(i, d.Tags)
			x := otherTags{overlay: i, dispatch: d.ID, takes: takesOf(takesNow), spare: q.creditTo(Agent{Cluster: q.clusters[i], Tags: d.PodTags()}, w) == i}
			if !x.spare || !slices.Equal(takesNow, takes(i, q.tags[i])) {
				all = append(all, x)
			}
		}
	}
	return all
}

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
