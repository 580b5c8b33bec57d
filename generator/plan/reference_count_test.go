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
				o.stopping++ // they "count against max until they leave"
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

// standsIn: "Agents that muster did not start lower what is missing", of the first
// overlay that they could stand in for: they have all its tags. Those that
// another muster started take jobs, and are part of no buffer here.
func (r *reference) standsIn(a Agent) int {
	return slices.IndexFunc(r.overlays, func(o *refOverlay) bool {
		return o.here(a) && refTakes(a.Tags, o.Policy.Tags) && !refTakes(a.Tags, []string{"overlay=*"})
	})
}

// uptimeLeft is for how long an agent that stays takes jobs: "By when it connected, and
// `muster-uptime`; where Buildkite does not tell when, as idle until it has left".
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

// leaves is how long an agent of the warm pool still waits for a job: it has
// "`muster-warm=<seconds>`, its idle time-out", "or [...] its uptime where that ends
// before".
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

// replacing: "when the first of an overlay is within five minutes of its idle
// time-out, it and those that follow within a sixth of that time-out are counted
// neither for min nor for buffer". So is one that stays and "is idle, and its template is
// not that of now".
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
		late := r.late(o)
		for _, d := range o.Dispatches {
			// "muster presumes an index lost two minutes after that"
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
					// "A dispatch carries what it was given (tags, idle time-out, the policy's
					// cluster [...]), and its agents are judged by that".
					o.stopping++
				default:
					o.current++
					o.inFlight++
					if late[d.ID] > 0 { // "neither for jobs and look-ahead nor for min and buffer, but against `max`"
						late[d.ID]--
						o.replacing++
						continue
					}
					// "Agents in flight count with the tags that their dispatch was given", and
					// an idle agent "is part of its own overlay's look-ahead and buffer while it
					// has all its tags".
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
