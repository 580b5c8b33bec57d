package buildkite

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
)

// script is the one type of job that an agent runs; waiter, manual and trigger
// need none (docs apis/rest_api/builds.md "Job data model").
const script = "script"

// occupied reports whether a job in the state has an agent to itself. States:
// docs pipelines/configure/defining_steps.md "Job states".
func occupied(state string) bool {
	switch state {
	case "assigned", "accepted", "running", "canceling", "timing_out":
		return true
	}
	return false
}

// ended reports whether a job in the state is over: same page. REST writes
// passed or failed for finished.
func ended(state string) bool {
	switch state {
	case "passed", "failed", "finished", "canceled", "timed_out", "skipped", "broken", "expired":
		return true
	}
	return false
}

// released reports whether a block step in the state holds nothing back.
func released(state string) bool {
	switch state {
	case "unblocked", "unblocked_failed":
		return true
	}
	return ended(state)
}

// jobs adds the jobs of a build that may want an agent, now or later, and
// returns how many are presumed limited for want of runnable_at.
func (s *session) jobs(jobs map[string]plan.Job, b *readBuild) (limited int) {
	c := s.client
	behind := false // an unreleased block step stands before, in the build's order
	for i := range b.jobs {
		r := &b.jobs[i]
		state := string(r.State)
		if r.Type == "manual" && !released(state) {
			behind = true
		}
		if r.Type != script || bool(r.Retried) {
			continue
		}
		job := plan.Job{ID: string(r.ID), Cluster: string(r.Cluster), Created: r.CreatedAt.at, URL: string(r.WebURL)}
		if job.Cluster == "" {
			job.Cluster = b.cluster
		}
		switch state {
		case "scheduled":
			job.State = plan.JobPending
			if !r.RunnableAt.set {
				limited++
				if !c.cfg.CountLimited {
					job.State = plan.JobLimited
				}
			}
		case "limiting", "limited", "platform_limiting", "platform_limited", "reserved":
			job.State = plan.JobLimited
		case "blocked":
			job.State = plan.JobBlocked
		case "waiting":
			job.State = plan.JobUpcoming
			if behind {
				job.State = plan.JobBlocked
			}
		default:
			if !known(state) {
				s.odd("job")("its state is not documented")
			}
			continue
		}
		if job.State == plan.JobPending {
			job.Since = runnableSince(r)
		}
		job.Rules = c.clusters.rules(r, job.Cluster)
		jobs[job.ID] = job
	}
	return limited
}

// known reports whether a state is one that wants no agent, now or later.
func known(state string) bool {
	switch state {
	case "pending", "waiting_failed", "blocked_failed":
		return true
	}
	return occupied(state) || released(state)
}

// runnableSince is when a job became runnable, or the next best that is known.
func runnableSince(r *jobRecord) time.Time {
	if !r.RunnableAt.at.IsZero() {
		return r.RunnableAt.at
	}
	return r.CreatedAt.at
}

// sightings adds the agents that the jobs of a build have or had. Their tags
// are in the job itself: programs in the field read meta_data there, though the
// samples of docs apis/rest_api/builds.md leave it out. An agent without is
// given the tags of the connected agent it is; failing that, its name may still
// tell (see [plan.Sighting]).
func (s *session) sightings(seen map[string]plan.Sighting, b *readBuild, agents map[string]agentRecord) {
	clusters := &s.client.clusters
	for i := range b.jobs {
		r := &b.jobs[i]
		running := occupied(string(r.State))
		if r.Type != script || r.Agent == nil || r.Agent.ID == "" || !running && !ended(string(r.State)) {
			continue
		}
		id := string(r.Agent.ID)
		sighting := seen[id]
		sighting.Agent, sighting.Name = id, string(r.Agent.Name)
		sighting.Running = sighting.Running || running
		if len(sighting.Tags) == 0 {
			switch connected, ok := agents[id]; {
			case len(r.Agent.MetaData) > 0:
				sighting.Tags = clusters.agentTags(r.Agent)
			case ok:
				sighting.Tags = clusters.agentTags(&connected)
			case !indexed.MatchString(sighting.Name):
				s.client.once("agent without tags", func() {
					s.client.cfg.Log.Warn("Buildkite lists a job's agent without its tags, and its name does not end in an index: "+
						"an agent of muster's that comes and goes between two observations will not be known", "agent", sighting.Name)
				})
			}
		}
		seen[id] = sighting
	}
}

// indexed is the name of an agent that the agent Job named.
var indexed = regexp.MustCompile(`.-[0-9]+$`)

// hasQueue reports whether tags or rules name a queue.
func hasQueue(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(tag, "queue=")
	})
}
