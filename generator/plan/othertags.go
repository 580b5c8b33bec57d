package plan

import (
	"slices"
	"time"
)

// otherTags is a dispatch whose agents were told other tags than the policy has now.
type otherTags struct {
	overlay  int
	dispatch string
	takes    string // the classes, as of a kind of idle agents
	spare    bool   // they could stand in for the overlay's agents
}

// otherTags lists the dispatches with agents in flight that are of other use than those
// which would be dispatched now. What they will be able to take once they register
// is known by what they were told. Those for another queue or cluster are left
// out: they count as stopping.
func (q queueReader) otherTags(classes []*class, supplies []Supply, now time.Time) (all []otherTags) {
	for i, o := range q.overlays {
		at := slices.IndexFunc(supplies, func(s Supply) bool { return s.Overlay == o.Name })
		for _, d := range o.Dispatches {
			lost := d.Agents - supplies[at].Dispatches[d.ID].Registered.Below(d.Agents)
			if d.Tags == nil || lost == 0 || d.Expired(now) || o.strayed(d) || slices.Equal(d.Tags, q.tags[i]) {
				continue
			}
			x := otherTags{overlay: i, dispatch: d.ID, spare: q.creditTo(Agent{Cluster: q.clusters[i], Tags: d.Tags}) == i}
			set, same := make([]byte, len(classes)/8+1), x.spare
			for j, c := range classes {
				takes := c.pending > 0 && q.reaches(i, c) && Satisfies(d.Tags, c.rules)
				if takes {
					set[j/8] |= 1 << (j % 8)
				}
				same = same && takes == (c.pending > 0 && slices.Contains(c.overlays, o.Name))
			}
			x.takes = string(set)
			if !same {
				all = append(all, x)
			}
		}
	}
	return all
}

// flight is a group of agents of one overlay in flight that are of the same use.
type flight struct {
	share  int
	agents int
	// other is nil where they are as those that are dispatched now; else they are
	// of the dispatch.
	other    *OtherTags
	dispatch string
}

// flights are the agents in flight that are counted on: first one group for each
// overlay, and then those that were told other tags.
func flights(shares []*share) []flight {
	all := make([]flight, len(shares))
	for i, s := range shares {
		all[i] = flight{share: i, agents: s.expected()}
	}
	for i, s := range shares {
		for _, x := range s.otherTags {
			n := x.agents - s.late[x.dispatch]
			if s.breaker.Open() {
				n = 0
			}
			all[i].agents -= n
			all = append(all, flight{share: i, agents: n, other: &x.tags, dispatch: x.dispatch})
		}
	}
	return all
}

// otherFlight is a dispatch with agents in flight that were told other tags.
type otherFlight struct {
	dispatch string
	agents   int
	tags     OtherTags
}

// otherFlights lists the overlay's.
func (s *share) otherFlights() (all []otherFlight) {
	for _, d := range s.overlay.Dispatches {
		if tags, ok := s.supply.OtherTags[d.ID]; ok {
			n := d.Agents - s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
			all = append(all, otherFlight{dispatch: d.ID, agents: n, tags: tags})
		}
	}
	return all
}
