package buildkite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
)

// takes is how long an observation may take, near enough: a reset is told in
// seconds from the answer, while the caller's clock is read before the first
// question.
const takes = 5 * time.Second

// Snapshot reads the organisation. At is the caller's time; since, when it is
// not zero, asks for sightings from builds that finished from then on too.
//
// The error is a [*RateLimited] when Buildkite refuses to answer, and then also
// until the reset, without asking. With any error the snapshot is of no use:
// nothing may be decided on it.
func (c *Client) Snapshot(ctx context.Context, at, since time.Time) (plan.Snapshot, error) {
	c.observing.Lock()
	defer c.observing.Unlock()
	if err := c.refused(at); err != nil {
		return plan.Snapshot{}, err
	}
	s, err := c.open()
	if err != nil {
		return plan.Snapshot{}, err
	}
	s.body = &c.body
	c.mu.Lock()
	c.began = time.Time{}
	c.mu.Unlock()
	snapshot, err := s.observe(ctx, at, since)
	var limited *RateLimited
	if errors.As(err, &limited) {
		err = c.refuse(at, *limited)
	}
	if err == nil {
		err = c.checkClock(at)
	}
	if err != nil {
		return plan.Snapshot{}, err
	}
	return snapshot, nil
}

// checkClock refuses an observation by a clock that is not Buildkite's, give or
// take what the leases of dispatches allow for. A clock that jumps for a moment
// would end leases before their time, and have agents ordered twice.
func (c *Client) checkClock(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	const slow = 2 * time.Second // Date has whole seconds, and the answer takes time
	switch off := at.Sub(c.began).Round(time.Second); {
	case c.began.IsZero():
	case off > plan.Grace:
		return fmt.Errorf("the clock here is %s ahead of Buildkite's: set it right; until then nothing is decided by it", length(off))
	case off < -plan.Grace-slow:
		return fmt.Errorf("the clock here is %s behind Buildkite's: set it right; until then nothing is decided by it", length(off))
	}
	return nil
}

// length is a difference of two clocks in words. Some are longer than a
// [time.Duration] can say.
func length(off time.Duration) string {
	const year = 365 * 24 * time.Hour
	if off > year || off < -year {
		return "more than a year"
	}
	return off.Abs().String()
}

// refused returns an error while a reset is still to come.
func (c *Client) refused(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.until.Sub(at); wait > 0 && wait <= longestReset+takes {
		return &RateLimited{Scope: c.scope, Reset: wait}
	}
	return nil
}

// refuse keeps the client quiet until the reset.
func (c *Client) refuse(at time.Time, limited RateLimited) error {
	limited.Reset += takes
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.scope = at.Add(limited.Reset), limited.Scope
	return &limited
}

func (s *session) observe(ctx context.Context, at, since time.Time) (plan.Snapshot, error) {
	agents, err := s.agents(ctx)
	if err != nil {
		return plan.Snapshot{}, fmt.Errorf("listing agents: %w", err)
	}
	builds, err := s.builds(ctx, since)
	if err != nil {
		return plan.Snapshot{}, fmt.Errorf("listing builds: %w", err)
	}
	if err := s.refreshClusters(ctx, at, func() []string { return unnamed(agents, builds) }); err != nil {
		return plan.Snapshot{}, fmt.Errorf("listing clusters: %w", err)
	}
	return s.snapshot(at, agents, builds), nil
}

// path is a path below the organisation.
func (s *session) path(rest string) string {
	return "v2/organizations/" + s.client.cfg.Org + "/" + rest
}

// agents reads the agents that are connected or stopping: the list holds no
// others (docs apis/rest_api/agents.md "List agents"). An agent that moves from
// one page to the next while they are read is listed twice; the later reading
// counts.
func (s *session) agents(ctx context.Context) (map[string]agentRecord, error) {
	agents := map[string]agentRecord{}
	known, odd := &s.client.knownAgents, s.odd("agent")
	known.next()
	err := s.list(ctx, s.path("agents"), nil, func(raw []byte) error {
		r, err := known.of(raw, func() (agentRecord, bool, error) {
			r, why, err := decode[agentRecord](raw)
			if why != "" {
				odd(why)
			}
			return r, why == "", err
		})
		if err == nil && r.odd() == "" {
			agents[string(r.ID)] = r
		}
		return err
	})
	return agents, err
}

// readBuild is a build with its jobs.
type readBuild struct {
	id, state, cluster string
	jobs               []jobRecord
	// active says that the build is under way: its jobs may want agents.
	active bool
}

// underWay are the states of builds whose jobs may want agents.
var underWay = []string{"scheduled", "running", "failing"}

// builds reads the builds under way, and then those finished since. A retried
// job is asked for as well: it wants no agent, but it had one (docs
// apis/rest_api/_builds_list_query_strings.md "include_retried_jobs").
func (s *session) builds(ctx context.Context, since time.Time) (map[string]readBuild, error) {
	builds := map[string]readBuild{}
	s.client.knownBuilds.next()
	err := s.readBuilds(ctx, url.Values{"state[]": underWay}, func(b readBuild) {
		b.active = true
		builds[b.id] = b
	})
	if err != nil || since.IsZero() {
		return builds, err
	}
	finished := url.Values{"finished_from": {since.UTC().Format(time.RFC3339)}}
	err = s.readBuilds(ctx, finished, func(b readBuild) {
		b.active = slices.Contains(underWay, b.state)
		builds[b.id] = b // the later reading counts
	})
	return builds, err
}

func (s *session) readBuilds(ctx context.Context, query url.Values, each func(readBuild)) error {
	query.Set("include_retried_jobs", "true")
	return s.list(ctx, s.path("builds"), query, func(raw []byte) error {
		b, err := s.client.knownBuilds.of(raw, func() (readBuild, bool, error) { return s.decodeBuild(raw) })
		if err == nil && b.id != "" {
			each(b)
		}
		return err
	})
}

// decodeBuild decodes a build and its jobs; valid reports that
// nothing of it is invalid. An invalid build has no identifier.
func (s *session) decodeBuild(raw []byte) (b readBuild, valid bool, err error) {
	r, why, err := decode[buildRecord](raw)
	if err != nil {
		return b, false, err
	}
	if why != "" {
		s.odd("build")(why)
		return b, false, nil
	}
	b = readBuild{id: string(r.ID), state: string(r.State)}
	if r.Pipeline != nil {
		b.cluster = string(r.Pipeline.Cluster)
	}
	valid = true
	oddJob := s.odd("job")
	b.jobs, err = decodeList[jobRecord](r.Jobs.raw, func(why string) {
		valid = false
		oddJob(why)
	})
	if err != nil {
		return b, false, fmt.Errorf("build %s: %w", s.clean(b.id), err)
	}
	return b, valid, nil
}

// snapshot reduces what was read. It asks nothing.
func (s *session) snapshot(at time.Time, agents map[string]agentRecord, builds map[string]readBuild) plan.Snapshot {
	c := s.client
	snapshot := plan.Snapshot{At: at, Queues: c.clusters.snapshot()}
	for _, id := range sorted(agents) {
		r := agents[id]
		if state, ok := agentState(&r); ok {
			cluster, _ := place(&r)
			snapshot.Agents = append(snapshot.Agents, plan.Agent{
				ID: id, Cluster: cluster, Tags: c.clusters.agentTags(&r), State: state,
				IdleSince: idleSince(&r, state), LastJobFinished: r.LastJob.at,
			})
		}
	}
	jobs := map[string]plan.Job{}
	seen := map[string]plan.Sighting{}
	limited := 0
	for _, id := range sorted(builds) {
		b := builds[id]
		s.sightings(seen, &b, agents)
		if b.active {
			limited += s.jobs(jobs, &b)
		}
	}
	for _, id := range sorted(jobs) {
		snapshot.Jobs = append(snapshot.Jobs, jobs[id])
	}
	for _, id := range sorted(seen) {
		snapshot.Sightings = append(snapshot.Sightings, seen[id])
	}
	if limited > 0 && c.limited == 0 {
		c.cfg.Log.Info("jobs listed as scheduled have no runnable_at: presumed limited by concurrency",
			"jobs", limited, "counted", c.cfg.CountLimited)
	}
	c.limited = limited
	return snapshot
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// odd returns what to do with an invalid record: it is counted, and
// logged once for each reason.
func (s *session) odd(kind string) func(why string) {
	return func(why string) {
		c := s.client
		c.mu.Lock()
		c.stats.OddRecords++
		c.mu.Unlock()
		c.once(kind+": "+why, func() {
			c.cfg.Log.Warn("Buildkite listed an invalid record: ignored", "kind", kind, "because", why)
		})
	}
}

// idleSince is when an idle agent connected or finished its last job, whichever
// is later (docs apis/rest_api/agents.md, connected_at and last_job_finished_at).
// An agent that says only when it registered connected soon after that.
func idleSince(r *agentRecord, state plan.AgentState) time.Time {
	if state != plan.AgentIdle {
		return time.Time{}
	}
	since := r.Connected.at
	if since.IsZero() {
		since = r.Created.at
	}
	if r.LastJob.at.After(since) {
		since = r.LastJob.at
	}
	return since
}

// agentState tells what an agent is doing; false when it is not there. An agent
// in a state of connection that is not documented takes no jobs, as far as
// muster can know.
func agentState(r *agentRecord) (plan.AgentState, bool) {
	switch r.State {
	case "disconnected", "lost", "never_connected":
		return "", false
	case "connected":
	default:
		return plan.AgentStopping, true
	}
	switch {
	case bool(r.Paused):
		return plan.AgentStopping, true
	case r.Job != nil && !ended(string(r.Job.State)):
		// "Current job the agent is running (if any)": docs
		// apis/rest_api/agents.md. The sample there shows one that has passed,
		// which cannot be running.
		return plan.AgentBusy, true
	}
	return plan.AgentIdle, true
}

// place reads an agent's cluster and queue from the address of its page, as in
// …/clusters/ID/queues/ID/agents/ID (docs apis/rest_api/agents.md, samples).
func place(r *agentRecord) (cluster, queue string) {
	parts := strings.Split(string(r.WebURL), "/")
	for i := range len(parts) - 1 {
		switch parts[i] {
		case "clusters":
			cluster = parts[i+1]
		case "queues":
			queue = parts[i+1]
		}
	}
	if r.Cluster != "" {
		cluster = string(r.Cluster)
	}
	return cluster, queue
}
