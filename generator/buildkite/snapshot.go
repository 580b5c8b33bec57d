package buildkite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
)

// roundUp is added to a reset, which Buildkite returns in whole seconds.
const roundUp = time.Second

// Snapshot reads the organisation. At is the caller's time. If since is not zero, it also
// reads sightings from builds that finished since then.
//
// Snapshot returns an [*Unfinished] if it needs more requests than may be sent now, and a
// [*RateLimited] if Buildkite refuses a request. Until the reset it returns the latter
// without a request. Both contain how long to wait. The next call continues the poll where it
// stopped, unless the poll is older than [LongestPoll]. The result of a poll that took
// several calls was true from its At to its Until. With any error the snapshot is invalid:
// no decision may use it.
func (c *Client) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	c.observing.Lock()
	defer c.observing.Unlock()
	c.serve(query.Overlays)
	c.learnStepTimes(query.Lookahead())
	at, since := query.At, query.Since
	if err := c.refused(at); err != nil {
		return plan.Snapshot{}, err
	}
	c.mu.Lock()
	c.at, c.began = at, time.Time{}
	c.mu.Unlock()
	before := c.progress()
	snapshot, err := c.source.snapshot(ctx, at, since)
	succeeded := c.progress() - before
	if succeeded > 0 || err == nil {
		c.mu.Lock()
		c.answered = at
		c.mu.Unlock()
	}
	if err == nil {
		for _, api := range c.apis() {
			api.complete()
		}
	}
	if passing(err) && !c.answered.IsZero() && at.Sub(c.answered).Abs() <= answersFor {
		err = &Unfinished{Wait: max(nextAttempt, min(resetOf(err), answersFor)), Requests: succeeded, Failed: err.Error()}
	}
	snapshot.Gaps, snapshot.Failing = c.source.gaps(), c.failing()
	return snapshot, err
}

// After a failed request, a poll is merely unfinished if it has made progress in the last answersFor:
// a request succeeded that had not succeeded since the last complete poll. So a part that never answers
// makes the poll fail, although others answer. It continues after nextAttempt, or when the server asks for it, but within answersFor: a
// poll that does not succeed then fails.
const (
	answersFor  = time.Minute
	nextAttempt = 5 * time.Second
)

// apis are the retriers of all APIs that the client uses.
func (c *Client) apis() []*retrier {
	all := []*retrier{c.retries}
	if c.cfg.Stacks != nil {
		all = append(all, c.cfg.Stacks.retries)
	}
	if c.cfg.Metrics != nil {
		all = append(all, c.cfg.Metrics.retries)
	}
	return all
}

// progress returns how many different requests have succeeded since the last complete poll.
func (c *Client) progress() (n int) {
	for _, api := range c.apis() {
		n += api.progress()
	}
	return n
}

// failing returns a sentence if many of the last requests failed; otherwise it is empty.
func (c *Client) failing() string {
	for _, api := range c.apis() {
		if text := api.failing(); text != "" {
			return text
		}
	}
	return ""
}

// Gaps returns what cannot be read with the client's credentials, a sentence each; see
// [plan.Snapshot].
func (c *Client) Gaps() []string { return c.source.gaps() }

// snapshot reads agents, builds and jobs.
func (c apiToken) snapshot(ctx context.Context, at, since time.Time) (plan.Snapshot, error) {
	s, err := c.open()
	if err != nil {
		return plan.Snapshot{}, err
	}
	if s.poll, err = c.resume(at, since); err != nil {
		return plan.Snapshot{}, err
	}
	s.reader = newBuildReader(s)
	err = s.read(ctx)
	if waits(err) || passing(err) {
		return plan.Snapshot{}, c.pause(at, s.poll, err)
	}
	if err == nil {
		err = c.checkClock(at)
	}
	if err != nil {
		if s.poll.calls == 1 || s.poll.phase == fullPoll || errors.Is(err, errShifts) {
			c.poll = nil // starting again takes few requests
		}
		return plan.Snapshot{}, err
	}
	c.poll = nil
	c.noteActive(s.poll)
	c.listed(s.poll)
	c.withBudget(func(b *budget) { b.done(s.poll.requests) })
	s.watchToken(ctx, at)
	s.watchAgentTokens(ctx, at)
	return s.snapshot(at), nil
}

// pause keeps a poll for the next call.
func (c *Client) pause(at time.Time, l *poll, err error) error {
	if c.checkClock(at) != nil || l.requests == 0 {
		c.poll = nil
	}
	_, l.spread = errors.AsType[*Unfinished](err)
	l.interrupted = l.interrupted || !l.spread || c.failing() != ""
	if limited, ok := errors.AsType[*RateLimited](err); ok {
		return c.refuse(*limited)
	}
	return err
}

// checkClock returns an error if the caller's clock differs from Buildkite's by more than the
// leases of dispatches allow for. A clock that jumps ahead would end leases early, and agents
// would be ordered twice.
func (c *Client) checkClock(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	const slow = 2 * time.Second // Date has whole seconds, and the response takes time
	switch off := at.Sub(c.began).Round(time.Second); {
	case c.began.IsZero():
	case off > plan.ClockSkew:
		return fmt.Errorf("the clock here is %s ahead of Buildkite's: synchronize it; until then muster decides nothing", length(off))
	case off < -plan.ClockSkew-slow:
		return fmt.Errorf("the clock here is %s behind Buildkite's: synchronize it; until then muster decides nothing", length(off))
	}
	return nil
}

// length returns a difference of two clocks as text. Large ones do not fit into a
// [time.Duration].
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
	if wait := c.until.Sub(at); wait > 0 && wait <= longestReset+LongestPoll {
		return &RateLimited{Scope: c.scope, Reset: wait}
	}
	return nil
}

// refuse makes the client send no request until the reset, which is counted from the last
// response.
func (c *Client) refuse(limited RateLimited) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.scope = c.elapsed().Add(limited.Reset), limited.Scope
	limited.Reset += roundUp
	return &limited
}

// path returns a path below the organisation.
func (s *session) path(rest string) string {
	return "v2/organizations/" + s.client.cfg.Org + "/" + rest
}

// snapshot returns the snapshot of a completed poll, without a request.
func (s *session) snapshot(at time.Time) plan.Snapshot {
	c, l := s.client, s.poll
	snapshot := plan.Snapshot{At: l.begun, Queues: slices.Clone(c.clusters.list), Unread: c.clusters.unread}
	if l.calls > 1 {
		snapshot.Until = at
	}
	for _, id := range sorted(l.agents) {
		r := l.agents[id]
		if state, ok := agentState(&r); ok {
			cluster, _ := place(string(r.WebURL), string(r.Cluster))
			snapshot.Agents = append(snapshot.Agents, plan.Agent{
				ID: id, Cluster: cluster, Tags: s.tagsOf(&r), State: state,
				Connected: connected(&r), IdleSince: idleSince(&r, state), LastJobFinished: r.LastJob.at,
			})
		}
	}
	builds := sorted(l.builds)
	snapshot.Sightings = s.sightings(builds)
	if c.cfg.Stacks != nil {
		snapshot.Jobs, snapshot.Queues = s.withoutAgent(s.stackJobs()), s.stackQueues(snapshot.Queues)
		snapshot.Unread = joined(snapshot.Unread, s.unlisted())
		return snapshot
	}
	jobs := 0
	for _, b := range l.builds {
		jobs += len(b.jobs)
	}
	snapshot.Jobs = make([]plan.Job, 0, jobs)
	var limited []plan.Job
	c.endPoll()
	for _, id := range builds {
		if b := l.builds[id]; b.active {
			snapshot.Jobs = s.jobs(snapshot.Jobs, b, &limited)
		}
	}
	snapshot.Jobs = s.withoutAgent(snapshot.Jobs)
	if len(snapshot.Jobs) == 0 {
		snapshot.Jobs = nil
	}
	s.reportLimited(s.withoutAgent(limited))
	return snapshot
}

// jobs appends the jobs of an unfinished build to jobs, and to limited those that are listed
// as scheduled and have no runnable_at.
func (s *session) jobs(jobs []plan.Job, b *readBuild, limited *[]plan.Job) []plan.Job {
	k := &s.client.clusters
	moments, expected := s.predict(b)
	for i := range expected[:min(len(expected), max(0, maxKept-len(jobs)))] {
		job := expected[i].Job
		job.Cluster = k.home(&expected[i], b)
		job.Rules = k.rules(&expected[i], job.Cluster)
		jobs = append(jobs, job)
	}
	for i := range b.jobs {
		j := &b.jobs[i]
		job := j.Job
		if job.State == plan.JobUpcoming {
			job.Due, job.Stage, job.Freed = moments[j.place].Due, moments[j.place].Stage, moments[j.place].Freed
		}
		job.Cluster = k.home(j, b)
		job.Rules = k.rules(j, job.Cluster)
		if job.State == noRunnableAt {
			if job.State = plan.JobLimited; s.client.cfg.CountLimited {
				job.State = plan.JobPending
			} else {
				job.Since = time.Time{}
			}
			*limited = append(*limited, job)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// withoutAgent removes the jobs that are in the record of an agent. The lists of jobs are
// eventually consistent (docs apis/agent_api/stacks.md), so that such a job may still be
// listed as waiting, although the agents were read before the jobs.
func (s *session) withoutAgent(jobs []plan.Job) []plan.Job {
	held := map[string]bool{}
	for _, r := range s.poll.agents {
		if _, there := agentState(&r); there && r.working() {
			held[string(r.Job.value.ID)] = true
		}
	}
	return slices.DeleteFunc(jobs, func(j plan.Job) bool { return held[j.ID] })
}

// tagsOf returns the tags of a connected agent, with those that only its name still has.
func (s *session) tagsOf(r *agentRecord) []string {
	cluster, queue := place(string(r.WebURL), string(r.Cluster))
	tags := s.client.clusters.agentTags(r.MetaData, cluster, queue)
	if lost := s.client.orderTags(r); lost != nil {
		tags = slices.Concat(tags, lost)
	}
	return tags
}

// sightings returns the agents that the jobs of builds have or had, each once.
// If a job lists its agent without tags, they are those of the connected agent; if it is not
// connected, its name may identify the dispatch (see [plan.Sighting]).
func (s *session) sightings(builds []string) []plan.Sighting {
	n := 0
	for _, b := range s.poll.builds {
		n += len(b.agents)
	}
	if n == 0 {
		return nil
	}
	all := make([]plan.Sighting, 0, n)
	seen := make(map[string]int, n)
	for _, build := range builds {
		for _, a := range s.poll.builds[build].agents {
			i, known := seen[a.id]
			if !known {
				i = len(all)
				seen[a.id] = i
				all = append(all, plan.Sighting{Agent: a.id})
			}
			sighting := &all[i]
			sighting.Name = a.name
			sighting.Running = sighting.Running || a.running
			if a.started.After(sighting.Started) {
				sighting.Started, sighting.Waited = a.started, a.waited
			}
			if len(sighting.Tags) > 0 {
				continue
			}
			switch connected, ok := s.poll.agents[a.id]; {
			case ok:
				sighting.Tags = s.tagsOf(&connected)
			case len(a.tags) > 0:
				sighting.Tags = s.client.clusters.agentTags(a.tags, a.cluster, a.queue)
			case !indexed.MatchString(a.name):
				s.client.once("agent without tags", func() {
					s.client.cfg.Log.Warn("Buildkite lists a job's agent without its tags, and its name does not end in an index: "+
						"muster misses its agents that connect and disconnect between two polls", "agent", a.name)
				})
			}
		}
	}
	return all
}

// indexed matches the name of an agent that got it from the agent Job.
var indexed = regexp.MustCompile(`.-[0-9]+$`)

// reportLimited logs that jobs are presumed to be limited, with one of them as an example. It
// logs once until no such job is left.
func (s *session) reportLimited(limited []plan.Job) {
	c := s.client
	if len(limited) > 0 && c.limited == 0 {
		c.cfg.Log.Info("jobs listed as scheduled have no runnable_at: presumed limited by concurrency",
			"jobs", len(limited), "counted", c.cfg.CountLimited, "job", limited[0].ID, "url", limited[0].URL)
	}
	c.limited = len(limited)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// reportInvalid counts an invalid record, and logs it once for each reason.
func (s *session) reportInvalid(kind, why string) {
	c := s.client
	c.mu.Lock()
	c.stats.InvalidRecords++
	c.mu.Unlock()
	c.once(kind+": "+why, func() {
		c.cfg.Log.Warn("Buildkite listed an invalid record: ignored", "kind", kind, "because", why)
	})
}

// idleSince returns when an idle agent connected or finished its last job, whichever
// is later (docs apis/rest_api/agents.md, connected_at and last_job_finished_at).
func idleSince(r *agentRecord, state plan.AgentState) time.Time {
	if state != plan.AgentIdle {
		return time.Time{}
	}
	return slices.MaxFunc([]time.Time{connected(r), r.LastJob.at}, time.Time.Compare)
}

// connected returns when an agent connected, or, if that is absent, when it registered shortly
// before.
func connected(r *agentRecord) time.Time {
	return cmp.Or(r.Connected.at, r.Created.at)
}

// agentState returns what an agent is doing; false if it is not connected. An agent
// in an undocumented connection state is presumed to take no jobs.
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
	case r.working():
		return plan.AgentBusy, true
	}
	return plan.AgentIdle, true
}

// working reports whether the agent has a job: "Current job the agent is running (if
// any)" (docs apis/rest_api/agents.md). The sample there shows one that has passed,
// which cannot be running.
func (r *agentRecord) working() bool { return r.Job.there && !ended(string(r.Job.value.State)) }

// place returns an agent's cluster and queue from the address of its page, as in
// …/clusters/ID/queues/ID/agents/ID (docs apis/rest_api/agents.md, samples). A
// non-empty own replaces the cluster in the address.
func place(webURL, own string) (cluster, queue string) {
	parts := strings.Split(webURL, "/")
	for i, part := range parts[1:] {
		switch parts[i] {
		case "clusters":
			cluster = part
		case "queues":
			queue = part
		}
	}
	return cmp.Or(own, cluster), queue
}
