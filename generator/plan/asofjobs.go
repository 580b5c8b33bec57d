package plan

import (
	"slices"
	"time"
)

// unclustered is the cluster of a listed agent that is in no cluster. It takes no job of a
// cluster, because the builds of a cluster's pipelines run only on the agents of that
// cluster (docs pipelines/security/clusters.md).
const unclustered = "-"

// asOfJobs returns the agents as they were when the jobs were read: one that was
// read as idle and has a job by then is busy, one that came in between and has a job
// is there, and one that came and has had its job by then may not have left, or waits
// for another where it is of a dispatch whose agents stay.
func asOfJobs(s Snapshot, staying map[string]bool) []Agent {
	working := map[string]bool{}
	for _, g := range s.Sightings {
		if g.Running {
			working[g.Agent] = true
		}
	}
	agents := slices.Clone(s.Agents)
	listed := map[string]bool{}
	for i := range agents {
		listed[agents[i].ID] = true
		if agents[i].Cluster == "" {
			agents[i].Cluster = unclustered
		}
		switch {
		case agents[i].State != AgentIdle:
		case working[agents[i].ID]:
			agents[i].State = AgentBusy
		case lingers(agents[i], s.At), overstays(agents[i], s.At):
			agents[i].State = AgentStopping
		}
	}
	for _, g := range s.Sightings {
		if listed[g.Agent] { // otherwise it came after the agents were read, or left before
			continue
		}
		if x, there := unlisted(g, s, staying); there {
			listed[g.Agent] = true
			agents = append(agents, x)
		}
	}
	return agents
}

// unlisted is an agent of which only a job is known, and whether it may be there. Of one
// that stays and tells no tags it is not known what it can take.
func unlisted(g Sighting, s Snapshot, staying map[string]bool) (x Agent, there bool) {
	x = Agent{ID: g.Agent, Tags: g.tags(), State: AgentBusy}
	if g.Running {
		return x, true
	}
	end := s.At
	if !s.Until.IsZero() {
		end = s.Until
	}
	id, own := tagValue(x.Tags, TagDispatch)
	_, stays := uptimeOf(x.Tags)
	if x.State = AgentStopping; stays {
		x.State = AgentIdle
	}
	return x, own && g.Started.After(s.At) && (stays || staying[id] || end.Sub(g.Started) < longestLinger)
}

// longestLinger is how long an agent that has finished its one job may stay
// connected: 57 to 60 s were seen when streaming with versions 3.122 to 3.127
// (buildkite/agent pull request #3994), 2 to 9 s when polling with 3.138.
const longestLinger = 90 * time.Second

// lingers reports whether an agent of muster's has had its one job and is about
// to leave. It is listed as connected without a job, but takes no other. One
// that stays longer was told by its template to take more jobs, and one that was
// ordered to stay takes the next at once.
func lingers(a Agent, now time.Time) bool {
	_, own := tagValue(a.Tags, TagDispatch)
	_, stays := uptimeOf(a.Tags)
	return own && !stays && !a.LastJobFinished.IsZero() && now.Sub(a.LastJobFinished) < longestLinger
}

// overstays reports whether the uptime of an agent is over: without a job it is about
// to leave, and takes no other.
func overstays(a Agent, now time.Time) bool {
	uptime, stays := uptimeOf(a.Tags)
	return stays && !a.Connected.IsZero() && now.Sub(a.Connected) >= uptime
}

// staying are the dispatches in git whose agents take more than one job.
func staying(overlays []Overlay) map[string]bool {
	all := map[string]bool{}
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			if d.Uptime > 0 {
				all[d.ID] = true
			}
		}
	}
	return all
}
