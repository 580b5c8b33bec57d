package plan

import (
	"fmt"
	"slices"
	"time"
)

// countConnected goes through the agents that Buildkite shows.
func (r *reference) countConnected() {
	var nobodys []*refAgent
	for _, a := range r.snapshot.Agents {
		if r.idle(a) && !slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.owns(a) }) {
			nobodys = append(nobodys, &refAgent{tags: a.Tags, cluster: a.Cluster, of: r.standsIn(a)})
		}
	}
	for i, o := range r.overlays {
		for _, a := range r.snapshot.Agents {
			switch {
			case !o.owns(a):
				continue
			case r.stops(a) || !o.here(a):
				o.stopping++ // "In another queue or cluster than the policy's, as after an edit: stopping"
			default:
				o.current++
			}
			if !r.idle(a) {
				continue
			}
			agent := &refAgent{tags: a.Tags, cluster: a.Cluster, of: -1, replacing: r.replacing(o, a)}
			if o.here(a) && refTakes(a.Tags, o.tags()) {
				agent.of = i
			}
			r.agents = append(r.agents, agent)
		}
	}
	r.agents = append(r.agents, nobodys...)
}

// standsIn: "Agents that muster did not start lower `missing`", of the first overlay "in
// whose cluster it is and whose tags it has". Those that another muster started take jobs,
// and are part of no buffer here.
func (r *reference) standsIn(a Agent) int {
	return slices.IndexFunc(r.overlays, func(o *refOverlay) bool {
		return o.here(a) && refTakes(a.Tags, o.Policy.Tags) && !refTakes(a.Tags, []string{"overlay=*"})
	})
}

// uptimeLeft is for how long a reusable agent takes jobs: "The uptime (tag
// `muster-uptime=<seconds>`) begins when the agent connected. If Buildkite does not report
// when, the agent counts as idle until it disconnects."
func (r *reference) uptimeLeft(a Agent) (left time.Duration, stays bool) {
	for _, t := range a.Tags {
		var seconds int
		if n, _ := fmt.Sscanf(t, "muster-uptime=%d", &seconds); n == 1 {
			if a.Connected.IsZero() {
				return time.Hour * 24 * 365, true
			}
			return time.Duration(seconds)*time.Second - r.snapshot.At.Sub(a.Connected), true
		}
	}
	return 0, false
}

// leaves is how long a warm agent still waits for a job: "The time-out is that of the agent
// (tag `muster-warm=<seconds>`)". "For a reusable agent the end of its uptime counts instead
// where that ends before."
func (r *reference) leaves(o *refOverlay, a Agent) (left, timeout time.Duration, warm bool) {
	for _, t := range a.Tags {
		var seconds int
		if n, _ := fmt.Sscanf(t, "muster-warm=%d", &seconds); n == 1 && o.owns(a) && o.here(a) && r.idle(a) {
			timeout = time.Duration(seconds) * time.Second
			left = timeout - r.snapshot.At.Sub(a.IdleSince)
			if ends, stays := r.uptimeLeft(a); stays && !a.Connected.IsZero() {
				left, timeout = min(left, ends), 30*time.Minute // all have this uptime
			}
			return left, timeout, true
		}
	}
	return 0, 0, false
}

// replacing: "When the first credited one of an overlay is within five minutes of its idle
// time-out, it and those that follow within a sixth of that time-out are *replacing*: counted
// neither for `min` nor for `buffer`". So is "A credited idle reusable agent whose template
// (tag `muster-template`) is not the overlay's".
func (r *reference) replacing(o *refOverlay, a Agent) bool {
	old := refTakes(a.Tags, []string{"muster-template=*"}) && o.Template != "" && !slices.Contains(a.Tags, "muster-template="+o.Template)
	if old && r.idle(a) && o.here(a) && refTakes(a.Tags, o.tags()) {
		return true
	}
	left, _, warm := r.leaves(o, a)
	first, after := left, time.Duration(0)
	for _, other := range r.snapshot.Agents {
		if left, timeout, warm := r.leaves(o, other); warm && (left < first || left == first && timeout/6 > after) {
			first, after = left, timeout/6
		}
	}
	return warm && first <= 5*time.Minute && left <= first+after
}

// countInFlight: "Σ over dispatches within lease (agents − registered)".
func (r *reference) countInFlight() {
	for i, o := range r.overlays {
		late := r.overdue(o)
		for _, d := range o.Dispatches {
			// "An index that has not registered is *lost* two minutes after its lease"
			if r.snapshot.At.After(d.NotAfter.Add(2 * time.Minute)) {
				continue
			}
			for index := range d.Agents {
				seen := func(a Agent) bool {
					return slices.Contains(a.Tags, "dispatch="+d.ID) && slices.Contains(a.Tags, fmt.Sprint("index=", index))
				}
				switch {
				case slices.ContainsFunc(r.snapshot.Agents, seen):
				case d.Cluster != "*" && d.Cluster != o.Policy.Cluster:
					// "A dispatch for a queue or cluster that the policy no longer names counts
					// as stopping."
					o.stopping++
				default:
					o.current++
					o.inFlight++
					if late[d.ID] > 0 { // "neither for jobs and look-ahead nor for `min` and `buffer`, but against `max`"
						late[d.ID]--
						o.replacing++
						continue
					}
					// "Agents in flight count with the tags that their dispatch was given. They
					// can take jobs by these tags, and are credited to their overlay while these
					// include all its tags."
					agent := &refAgent{tags: o.tags(), cluster: o.cluster, of: i}
					if d.Tags != nil {
						agent.tags = d.Tags
					}
					if !refTakes(agent.tags, o.tags()) {
						agent.of = -1
					}
					r.agents = append(r.agents, agent)
				}
			}
		}
	}
}
