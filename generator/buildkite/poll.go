package buildkite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// LongestPoll is the maximum age of a poll: an older one is dropped, and the next begins from
// the start. It limits how much may have changed since the first page. muster never orders
// twice, at any age of the poll (see docs/architecture.md, "Polls spread over several ticks").
// At 50 requests a minute, half of them used, a poll can read some 300 pages.
const LongestPoll = 15 * time.Minute

// poll is one poll of the organisation, which may take several calls. It keeps what
// was read, and requests a page that failed again.
type poll struct {
	begun    time.Time // by the caller's clock
	since    time.Time // from when on finished builds are wanted; zero: none
	calls    int
	requests int // with a good answer
	// spread: it waits for the budget. interrupted: a 429 or a request that failed delayed it.
	spread, interrupted bool
	phase               phase
	list                *listing // of the phase under way; nil before its first page

	// listing reports whether the poll has begun to list agents: all of them, or byQueue those
	// of the remaining queues.
	listing, byQueue bool
	// first is the list of all agents if it was begun to see how long it is; see readFirstAgents.
	first  *listing
	queues []string
	pages  int // of agents
	agents map[string]agentRecord
	builds map[string]*readBuild
	kept   int // jobs and agents in builds

	stacks stackReading // of a client with a [Stacks]

	fresh *clusters // being read
	found []clusterRecord
}

// phase is a part of a poll. The order of the phases matters; see the package comment.
type phase int

const (
	readFirstAgents phase = iota
	readFirstClusters
	readFirstQueues
	readAgents
	readActive
	readFinished
	readBlocked
	readPast
	readClusters
	readQueues
	readStacks
	fullPoll
)

// resume returns the unfinished poll, or a new one. It returns an error if the unfinished poll
// is older than [LongestPoll].
func (c *Client) resume(at, since time.Time) (*poll, error) {
	l := c.poll
	switch {
	case l == nil:
	case at.Before(l.begun):
		l = nil
	case l.byQueue && !slices.Equal(c.servedQueues(), c.lists.served):
		l = nil // it lacks the agents of newly served queues
	case at.Sub(l.begun) > LongestPoll && l.interrupted:
		l = nil // its age is not due to the budget
	case at.Sub(l.begun) > LongestPoll:
		c.poll = nil
		c.withBudget(func(b *budget) { b.done(l.requests) })
		return nil, fmt.Errorf("reading Buildkite has taken more than %s and is not done after %d requests, at %d a minute: "+
			"the result is too old to decide on; ask Buildkite for a higher limit, or cancel unused builds",
			LongestPoll, l.requests, c.perMinute())
	}
	c.mu.Lock()
	now := c.elapsed()
	c.mu.Unlock()
	if l == nil {
		if wait := c.wait(func(b *budget, perMinute int) time.Duration { return b.begin(now, perMinute) }); wait > 0 {
			return nil, c.unfinished(now, wait, 0)
		}
		l = &poll{begun: at, agents: map[string]agentRecord{}, builds: map[string]*readBuild{}}
		c.withBudget(func(b *budget) { b.last = now })
		if at.Sub(c.smaller).Abs() >= smallFor {
			c.pageSize = c.cfg.PerPage
		}
	} else if wait := c.wait(func(b *budget, perMinute int) time.Duration { return b.resume(now, l.requests, perMinute) }); wait > 0 && l.spread && l.phase < readStacks {
		return nil, c.unfinished(now, wait, l.requests)
	}
	l.spread = false
	if !since.IsZero() && (l.since.IsZero() || since.Before(l.since)) {
		l.since = since
		if l.phase >= readFinished {
			l.phase, l.list = readFinished, nil
		}
	}
	l.calls++
	if l.list != nil {
		l.list.check = l.list.read > 0
	}
	c.poll = l
	return l, nil
}

// unfinished returns the error of a poll that has to wait. It adds a second, because
// Buildkite's times are whole seconds.
func (c *Client) unfinished(at time.Time, wait time.Duration, sent int) error {
	wait += time.Second
	c.withBudget(func(b *budget) { b.tight = at.Add(tightFor) })
	if failing := c.failing(); failing != "" {
		return &Unfinished{Wait: wait, Requests: sent, Failed: failing}
	}
	return &Unfinished{Wait: wait, Requests: sent, PerMinute: c.perMinute()}
}

// perMinute returns how many requests may be sent in a minute; zero means any number.
func (c *Client) perMinute() int {
	stats := c.Stats()
	return allowed(stats.Org, stats.User)
}

// Spare returns how long to wait until an additional poll can begin without a delay to the
// regular polls, one each interval, by Buildkite's limit. Callers with a trigger use it. Zero
// means now; it is also returned if the limit is unknown. If the limit already delays the
// regular polls, the result is longer than any caller waits.
func (c *Client) Spare(now time.Time, interval time.Duration) time.Duration {
	return c.wait(func(b *budget, perMinute int) time.Duration { return b.spare(now, interval, perMinute) })
}

// withBudget calls f with the budget, under the lock.
func (c *Client) withBudget(f func(*budget)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.budget)
}

// wait calls f with the budget and the limit, and returns its result.
func (c *Client) wait(f func(b *budget, perMinute int) time.Duration) (wait time.Duration) {
	perMinute := c.perMinute()
	c.withBudget(func(b *budget) { wait = f(b, perMinute) })
	return wait
}

// read reads the remaining parts of the poll.
func (s *session) read(ctx context.Context) error {
	l := s.poll
	for ; l.phase != fullPoll; l.phase++ {
		part := parts[l.phase]
		if err := part.read(s, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// parts are the parts of a poll, by phase.
var parts = [fullPoll]struct {
	name string
	read func(*session, context.Context) error
}{
	readFirstAgents:   {"listing agents", (*session).readFirstAgents},
	readFirstClusters: {"listing clusters", (*session).readFirstClusters},
	readFirstQueues:   {"listing clusters", (*session).readQueues},
	readAgents:        {"listing agents", (*session).readAgents},
	readActive:        {"listing builds", (*session).readActive},
	readFinished:      {"listing builds", (*session).readFinished},
	readBlocked:       {"listing builds", (*session).readBlocked},
	readPast:          {"listing builds", (*session).readPast},
	readClusters:      {"listing clusters", (*session).readClusters},
	readQueues:        {"listing clusters", (*session).readQueues},
	readStacks:        {"listing scheduled jobs", (*session).readStacks},
}

// shared is how many agents each page of agents shares with the one before; see
// [listing]. No page may miss an agent, because muster would order an idle one again. A
// missed build causes too few orders until the following poll sees it.
const shared = 4

// underWay are the states of builds whose jobs may want agents.
var underWay = []string{"scheduled", "running", "failing"}

// readActive reads the builds under way. If the Stacks API lists the jobs, it reads the builds
// only while agents are awaited: no other source has the jobs that these agents ran.
func (s *session) readActive(ctx context.Context) error {
	if s.client.cfg.Stacks != nil && s.poll.since.IsZero() {
		return nil
	}
	return s.readBuilds(ctx, url.Values{"state[]": underWay}, func(b *readBuild) bool { b.active = true; return true })
}

func (s *session) readFinished(ctx context.Context) error {
	if s.poll.since.IsZero() {
		return nil
	}
	finished := url.Values{"finished_from": {s.poll.since.UTC().Format(time.RFC3339)}}
	return s.readBuilds(ctx, finished, func(b *readBuild) bool { b.active = slices.Contains(underWay, b.state); return true })
}

// readBlocked reads blocked builds in the first poll, and if a build that was running in
// the last poll is neither running nor finished now. A blocked build keeps its last state,
// such as passed, so that the list of running builds does not have it. Whether it has a
// finished_at is not documented: the table of docs apis/rest_api/builds.md gives that
// field to builds that passed, failed or were canceled. A build that is both created and
// blocked between two polls is missed if it has none.
func (s *session) readBlocked(ctx context.Context) error {
	l, c := s.poll, s.client
	if l.since.IsZero() {
		return nil
	}
	from, gone := l.since, c.active == nil
	if gone {
		from = from.Add(-pastPage)
	}
	for id, created := range c.active {
		if l.builds[id] == nil {
			gone = true
			if !created.IsZero() && created.Before(from) {
				from = created
			}
		}
	}
	if !gone && l.list == nil {
		return nil
	}
	blocked := url.Values{"state[]": {"blocked"}, "created_from": {from.UTC().Format(time.RFC3339)}}
	return s.readBuilds(ctx, blocked, func(b *readBuild) bool {
		b.active = slices.Contains(underWay, b.state)
		return b.finished.at.IsZero() // otherwise it was among the finished ones, or finished before
	})
}

// noteActive records which builds are running, and when they were created.
func (c *Client) noteActive(l *poll) {
	c.active = map[string]time.Time{}
	for id, b := range l.builds {
		if b.active {
			c.active[id] = b.created.at
		}
	}
}

// readBuilds reads builds. They include retried jobs, which need no agent but had one.
// They exclude the pipeline, which is more than half of the response: each job itself
// contains its cluster, the only field that muster would need of the pipeline
// (docs apis/rest_api/_builds_list_query_strings.md "include_retried_jobs",
// "exclude_pipeline").
func (s *session) readBuilds(ctx context.Context, query url.Values, keep func(*readBuild) bool) error {
	l := s.poll
	if l.list == nil {
		query.Set("include_retried_jobs", "true")
		query.Set("exclude_pipeline", "true")
		l.list = &listing{path: s.path("builds"), query: query}
	}
	err := s.list(ctx, l.list, func(d *decoder) (string, error) {
		id, b, why, err := s.reader.read(d)
		switch {
		case err != nil && id != "":
			return "", fmt.Errorf("build %s: %w", s.clean(string(id)), decodeError(err))
		case err != nil:
			return "", err
		case why != "":
			s.reportInvalid("build", why)
			return "", nil
		}
		if keep(b) {
			l.builds[string(id)] = b // the later record wins
		}
		return string(id), nil
	})
	if err == nil {
		l.list = nil
	}
	return err
}

// readClusters reads the clusters when they are due, or when a record names an unknown one
// (docs apis/rest_api/clusters.md "List clusters"). An unclustered organisation has none: the
// client logs that once. A token without read_clusters cannot read them: each snapshot
// contains that. Everything else still works.
func (s *session) readClusters(ctx context.Context) error {
	l, k := s.poll, &s.client.clusters
	if l.list == nil {
		if !k.due(l.begun) && (k.unread != "" || !k.unexplained(l.unnamed())) {
			l.fresh, l.found = nil, nil
			return nil
		}
		l.list = &listing{path: s.path("clusters")}
		l.fresh, l.found = &clusters{read: l.begun, requests: 1, queues: map[string]string{}, homes: map[string]string{}, defaults: map[string]string{}}, nil
	}
	err := readAll(ctx, s, "cluster", l.list, func(r clusterRecord) { l.found = append(l.found, r) })
	switch {
	case hasStatus(err, http.StatusForbidden, http.StatusNotFound):
		l.fresh, l.found = &clusters{read: l.begun, unread: "clusters cannot be read: paused queues and default queues other than " +
			defaultQueue + " are unknown; give the token the scope read_clusters if there are any: " + err.Error()}, nil
	case err != nil:
		return err
	case len(l.found) == 0:
		s.client.once("no clusters", func() {
			s.client.cfg.Log.Info("the organisation has no clusters: queues are agents' tags only, and none can be paused")
		})
	}
	l.list = nil
	slices.SortFunc(l.found, func(a, b clusterRecord) int { return cmp.Compare(a.ID, b.ID) })
	l.found = slices.CompactFunc(l.found, func(a, b clusterRecord) bool { return a.ID == b.ID })
	return nil
}

// readQueues reads the queues of each cluster that was found (docs
// apis/rest_api/clusters/queues.md "List queues").
func (s *session) readQueues(ctx context.Context) error {
	l := s.poll
	if l.fresh == nil {
		return nil
	}
	for len(l.found) > 0 {
		cluster := l.found[0]
		if l.list == nil {
			l.list = &listing{path: s.path("clusters/" + string(cluster.ID) + "/queues")}
			l.fresh.requests++
			l.fresh.defaults[string(cluster.ID)] = defaultQueue
		}
		err := readAll(ctx, s, "queue", l.list, func(r queueRecord) { l.fresh.addQueue(cluster, r) })
		if err != nil && !hasStatus(err, http.StatusNotFound) { // deleted since it was listed
			return fmt.Errorf("queues of cluster %s: %w", cluster.ID, err)
		}
		l.list, l.found = nil, l.found[1:]
	}
	s.client.clusters = *l.fresh
	s.client.clusters.settle(l.unnamed())
	return nil
}

// waits reports whether the poll can continue after err from where it stopped.
func waits(err error) bool {
	_, limited := errors.AsType[*RateLimited](err)
	_, unfinished := errors.AsType[*Unfinished](err)
	return limited || unfinished
}
