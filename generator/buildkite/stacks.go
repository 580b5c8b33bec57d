package buildkite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/plan"
)

// Leave removes the stacks that this process has registered, for a check: an organisation may
// have 30 of them. It keeps a stack that existed before, because it is another process's.
func (k *Stacks) Leave(ctx context.Context) error {
	var all []error
	for _, c := range k.clusters {
		if !c.created {
			continue
		}
		token, err := agentToken(c.token)
		if err == nil {
			err = k.deregister(ctx, c, token)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// deregister removes a stack that was registered for a check (docs apis/agent_api/stacks.md
// "De-register a stack").
func (k *Stacks) deregister(ctx context.Context, c *stackCluster, token string) error {
	c.registered, c.created = false, false
	if _, err := k.ask(ctx, http.MethodPost, "stacks/"+c.key+"/deregister", token, map[string]any{}, nil, biggestSmall); err != nil {
		return fmt.Errorf("removing the stack %s, which was registered for a check: %w", c.key, err)
	}
	return nil
}

// StacksConfig configures a client of the Stacks API (docs apis/agent_api/stacks.md). What
// [AgentConfig] requires is required.
type StacksConfig struct {
	AgentConfig
	// Key identifies this stack in the organisation: letters, digits, dashes and underscores,
	// 70 at most. There may be 30 stacks (docs platform/limits.md). Each token registers one; a
	// muster that restarts uses it again. If it is empty, the identifiers of the overlays determine
	// it; see [Stacks.name].
	Key string
	// Clock paces the requests, to stay below the limits. It is required.
	Clock Clock
}

// Clock returns the time and waits.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Stacks reads the jobs that can run from the Stacks API, with agent tokens alone. Unlike
// those of REST they are certainly runnable, and do not count against REST's rate limit. The
// API does not list jobs that wait for other steps. A Stacks is used by one [Client].
type Stacks struct {
	*agentAPI
	clock    Clock
	key      string // empty: not yet known
	clusters []*stackCluster
	seen     map[string]time.Time // when a job was first listed
}

// stackCluster is the stack of one token, in the token's cluster.
type stackCluster struct {
	token      func() (string, error)
	key        string
	registered bool
	checked    bool                   // registered by the poll under way
	answered   map[string][]time.Time // times of the last responses, by scope
	absent     map[string]time.Time   // queues that the cluster did not have, and when
	created    bool                   // by this process
	jobs       map[string]*listedJob  // listed jobs, without an API token
}

// NewStacks returns a client. It sends no request.
func NewStacks(cfg StacksConfig) (*Stacks, error) {
	api, err := newAgentAPI(cfg.AgentConfig)
	if err != nil {
		return nil, err
	}
	if cfg.Key != "" && (!slug.MatchString(cfg.Key) || len(cfg.Key) > 70) {
		return nil, fmt.Errorf("invalid stack key %q", cfg.Key)
	}
	if cfg.Clock == nil {
		return nil, errors.New("the Stacks API needs a clock")
	}
	k := &Stacks{agentAPI: api, clock: cfg.Clock, key: cfg.Key, seen: map[string]time.Time{}}
	for i, token := range cfg.Tokens {
		k.clusters = append(k.clusters, &stackCluster{
			token: token, key: fmt.Sprintf("%s-%d", cfg.Key, i+1),
			absent: map[string]time.Time{}, jobs: map[string]*listedJob{}, answered: map[string][]time.Time{},
		})
	}
	return k, nil
}

// name derives the key from the overlays if it is empty: from the first identifier that a state.yaml
// contains, or else from the first of the others. A fleet that has no identifier yet, as before its first
// commit, has the key of a check. It returns the queues of the overlays.
func (k *Stacks) name(overlays []plan.Overlay) (queues []string) {
	var stored, others []string
	for _, o := range overlays {
		queues = append(queues, o.Policy.Queue)
		if id := o.Identity.ID; id != "" && id == o.State.Identity.ID {
			stored = append(stored, id)
		} else {
			others = append(others, id)
		}
	}
	if k.key == "" && len(overlays) > 0 {
		slices.Sort(stored)
		slices.Sort(others)
		k.key = "muster-" + cmp.Or(append(append(stored, others...), "check")...)
		for i, c := range k.clusters {
			c.key = fmt.Sprintf("%s-%d", k.key, i+1)
		}
	}
	return queues
}

// stackReading is what the Stacks API returned for some queues.
type stackReading struct {
	done   map[string]bool // by cluster and queue
	jobs   []stackJob
	paused map[string]bool // by the queue's identifier
	found  map[string]bool // queues, by key
	queues []stackQueue
}

// stackQueue is a queue that was read.
type stackQueue struct {
	of      *stackCluster
	id, key string
}

// stackJob is a job that can run, in the queue whose list contains it.
type stackJob struct {
	scheduledRecord
	of             *stackCluster
	queueID, queue string
}

// scheduledPage is a page of scheduled jobs. Of a paused queue docs
// apis/agent_api/stacks.md has dispatch_paused, buildkite/stacksapi 1.0.2
// scheduled_jobs.go reads paused.
type scheduledPage struct {
	Jobs  *[]scheduledRecord `json:"jobs"`
	Queue struct {
		ID             text `json:"id"`
		DispatchPaused flag `json:"dispatch_paused"`
		Paused         flag `json:"paused"`
	} `json:"cluster_queue"`
	Page struct {
		More   flag `json:"has_next_page"`
		Cursor text `json:"end_cursor"`
	} `json:"page_info"`
}

type scheduledRecord struct {
	ID        text   `json:"id"`
	Rules     texts  `json:"agent_query_rules"`
	Scheduled moment `json:"scheduled_at"`
	Pipeline  struct {
		Slug text `json:"slug"`
	} `json:"pipeline"`
	Build struct {
		Number verbatim `json:"number"`
	} `json:"build"`
}

const (
	// jobsPerPage is the maximum of one response, and maxStackPages that of one
	// queue: as many jobs as [maxKept].
	jobsPerPage   = 1000
	maxStackPages = maxKept / jobsPerPage
	// biggestList is the maximum size of a page of jobs: each has some hundred bytes, and its
	// rules.
	biggestList = 64 << 20
	// absentQueue is how long a queue is not requested after a cluster did not have it.
	absentQueue = time.Minute
)

// read reads each queue in each cluster. Clusters take turns, because each token's stack has
// its own limits. into keeps what was read, so that a poll that fails because of a limit can
// be continued.
func (k *Stacks) read(ctx context.Context, at time.Time, queues []string, into *stackReading) error {
	if into.done == nil {
		into.done, into.paused, into.found = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	for _, c := range k.clusters {
		c.checked = false
	}
	for _, queue := range queues {
		for _, c := range k.clusters {
			id := c.key + " " + queue
			if into.done[id] || at.Sub(c.absent[queue]).Abs() < absentQueue {
				continue
			}
			token, err := agentToken(c.token)
			if err != nil {
				return err
			}
			if err := k.readQueue(ctx, c, token, at, queues, queue, into); err != nil {
				return err
			}
			into.done[id] = true
			if into.found[id] {
				delete(c.absent, queue)
			} else {
				c.absent[queue] = at
			}
		}
	}
	return nil
}

// readQueue reads the jobs of one queue of one cluster, if the cluster has it.
func (k *Stacks) readQueue(ctx context.Context, c *stackCluster, token string, at time.Time, queues []string, queue string, into *stackReading) error {
	var jobs []stackJob
	after := ""
	for range maxStackPages {
		page, there, err := k.page(ctx, c, token, at, queues, queue, after)
		switch {
		case err != nil:
			return fmt.Errorf("queue %s: %w", queue, err)
		case !there:
			return nil
		case page.Jobs == nil:
			return fmt.Errorf("queue %s: the answer has no list of jobs", queue)
		}
		for _, r := range *page.Jobs {
			jobs = append(jobs, stackJob{r, c, string(page.Queue.ID), queue})
		}
		if !page.Page.More {
			into.jobs = append(into.jobs, jobs...)
			into.paused[string(page.Queue.ID)] = bool(page.Queue.DispatchPaused) || bool(page.Queue.Paused)
			into.found[queue], into.found[c.key+" "+queue] = true, true
			into.queues = append(into.queues, stackQueue{c, string(page.Queue.ID), queue})
			return nil
		}
		if after = string(page.Page.Cursor); after == "" {
			return fmt.Errorf("queue %s: the response has no valid next page", queue)
		}
	}
	return fmt.Errorf("queue %s: the list continues after %d pages", queue, maxStackPages)
}

// page reads one page; it returns false if the cluster does not have the queue. It registers
// the stack if that is needed, at most once in a poll: Buildkite may have removed it.
func (k *Stacks) page(ctx context.Context, c *stackCluster, token string, at time.Time, queues []string, queue, after string) (p scheduledPage, there bool, err error) {
	query := url.Values{"queue_key": {queue}, "limit": {strconv.Itoa(jobsPerPage)}}
	if after != "" {
		query.Set("after", after)
	}
	for {
		if !c.registered {
			if there, err = k.register(ctx, c, token, queues); err != nil {
				return p, false, err
			}
			if !there {
				for _, absent := range queues {
					c.absent[absent] = at
				}
				return p, false, nil
			}
			c.checked = true
		}
		p = scheduledPage{}
		err = k.askPaced(ctx, c, scopeStackJobs, http.MethodGet, "stacks/"+c.key+"/scheduled-jobs?"+query.Encode(), token, nil, &p)
		switch {
		case err == nil:
			return p, true, nil
		case !hasStatus(err, http.StatusNotFound):
			return p, false, err
		case c.checked:
			return p, false, nil // the stack is registered: the queue does not exist
		}
		c.registered = false // either the stack or the queue does not exist
	}
}

// stackLimits are the requests per second that a stack may send, by scope (docs
// apis/agent_api/stacks.md "Rate limiting").
var stackLimits = map[string]int{scopeStackJobs: 10, scopeStackStates: 20}

// askPaced sends a request that changes nothing within the rate limit of its scope. It repeats
// the request if it failed, and after a 429. It returns a [RateLimited] error if waiting after
// 429 responses takes longer than longestPause: the limits are per second, so a longer wait means
// that somebody else uses up the limit of the same stack.
func (k *Stacks) askPaced(ctx context.Context, c *stackCluster, scope, method, path, token string, body, into any) error {
	name, _, _ := strings.Cut(path, "after=") // cursors may differ
	return k.retries.do(ctx, k.cfg.Timeout*3/2, name, func() error {
		return k.attemptPaced(ctx, c, scope, method, path, token, body, into)
	})
}

// attemptPaced sends a request once, and again after a 429.
func (k *Stacks) attemptPaced(ctx context.Context, c *stackCluster, scope, method, path, token string, body, into any) error {
	for waited := time.Duration(0); ; {
		// The server counts a request before it answers. So if each request follows at
		// least a second after the response to an earlier one, no second has more requests
		// than the limit allows.
		if last := c.answered[scope]; len(last) == stackLimits[scope] {
			c.answered[scope] = last[1:]
			if wait := last[0].Add(time.Second).Sub(k.clock.Now()); wait > 0 && wait <= time.Second {
				if err := k.clock.Sleep(ctx, wait); err != nil {
					return err
				}
			}
		}
		_, err := k.ask(ctx, method, path, token, body, into, biggestList)
		c.answered[scope] = append(c.answered[scope], k.clock.Now())
		var limited *RateLimited
		if err = limitedStack(err, scope); !errors.As(err, &limited) {
			return err
		}
		if waited += limited.Reset; waited > longestPause {
			return err
		}
		if err := k.clock.Sleep(ctx, limited.Reset); err != nil {
			return err
		}
	}
}

// limitedStack returns a 429 as a [RateLimited] error with the scope that the response
// names, or else the given one. It returns other errors unchanged.
func limitedStack(err error, scope string) error {
	if refusal, ok := errors.AsType[*statusError](err); ok && refusal.status == http.StatusTooManyRequests {
		return &RateLimited{Scope: cmp.Or(refusal.scope, scope), Reset: max(refusal.reset, shortestReset)}
	}
	return err
}

// register registers the stack for one of the queues; false if the cluster has none of them. A
// stack can read other queues than its own.
func (k *Stacks) register(ctx context.Context, c *stackCluster, token string, queues []string) (bool, error) {
	for _, queue := range queues {
		var said answered
		// It may be repeated: a key that exists is the same stack.
		err := k.retries.do(ctx, k.cfg.Timeout*3/2, "register "+c.key, func() (err error) {
			said, err = k.ask(ctx, http.MethodPost, "stacks/register", token, map[string]any{
				"key": c.key, "type": "custom", "queue_key": queue, "metadata": map[string]string{"name": "muster"},
			}, nil, biggestSmall)
			return err
		})
		switch {
		case err == nil:
			c.registered, c.created = true, c.created || said.status == http.StatusCreated
			return true, nil
		case hasStatus(err, http.StatusNotFound):
		case hasStatus(err, http.StatusForbidden):
			return false, fmt.Errorf("registering a stack: %w: an organisation may have 30; see docs/reference/limits.md", err)
		default:
			return false, fmt.Errorf("registering a stack: %w", limitedStack(err, "register"))
		}
	}
	return false, nil
}

// readStacks reads the jobs that can run. This is the last part of a poll: jobs are read after
// agents, and the clusters of the queues are then known.
func (s *session) readStacks(ctx context.Context) error {
	c := s.client
	if c.cfg.Stacks == nil {
		return nil
	}
	return c.cfg.Stacks.read(ctx, s.poll.begun, c.serves, &s.poll.stacks)
}

// stackJobs returns the jobs of the Stacks API. A job's cluster is that of its queue in REST. If
// clusters cannot be read, it is that of the queue's agents, or else one with the queue's
// identifier that contains nothing else: stacks are for queues of clusters (docs
// apis/agent_api/stacks.md), so that no agent in no cluster can take the job. Jobs of a paused
// queue are then limited, because no agent can take them.
func (s *session) stackJobs() []plan.Job {
	c, l := s.client, s.poll
	k := c.cfg.Stacks
	jobs := make([]plan.Job, 0, len(l.stacks.jobs))
	seen := make(map[string]time.Time, len(l.stacks.jobs))
	homes := map[string]string{}
	for _, r := range l.agents {
		if cluster, queue := place(string(r.WebURL), string(r.Cluster)); queue != "" {
			homes[queue] = cluster
		}
	}
	for i := range l.stacks.jobs {
		r := &l.stacks.jobs[i]
		id := string(r.ID)
		if id == "" {
			s.reportInvalid("scheduled job", "it has no id")
			continue
		}
		if _, twice := seen[id]; twice {
			continue
		}
		seen[id] = l.begun
		if before, ok := k.seen[id]; ok && before.Before(l.begun) {
			seen[id] = before
		}
		job := plan.Job{
			ID: id, Cluster: cmp.Or(c.clusters.homes[r.queueID], homes[r.queueID], r.queueID), State: plan.JobPending, Created: r.Scheduled.at,
			URL: fmt.Sprintf("https://buildkite.com/%s/%s/builds/%s#%s", c.cfg.Org, url.PathEscape(string(r.Pipeline.Slug)), url.PathEscape(string(r.Build.Number)), url.PathEscape(id)),
		}
		// The record contains when a job was scheduled, but not since when nothing limits it: it
		// is runnable at least since it was first listed.
		if job.Since = seen[id]; r.Scheduled.at.After(job.Since) {
			job.Since = r.Scheduled.at
		}
		job.Rules = withoutStar(r.Rules)
		if !hasQueue(job.Rules) {
			job.Rules = append(job.Rules, "queue="+r.queue)
		}
		if c.clusters.unread != "" && l.stacks.paused[r.queueID] {
			job.State, job.Since = plan.JobLimited, time.Time{}
		}
		jobs = append(jobs, job)
	}
	k.seen = seen
	return jobs
}

// stackQueues returns the queues, paused as in the Stacks API, which was read after REST.
func (s *session) stackQueues(queues []plan.Queue) []plan.Queue {
	c := s.client
	for id, paused := range s.poll.stacks.paused {
		for i := range queues {
			if queues[i].Key == c.clusters.queues[id] && queues[i].Cluster == c.clusters.homes[id] {
				queues[i].Paused = paused
			}
		}
	}
	return queues
}

// unlisted returns a message about the queues that no token's cluster has; it may be
// empty.
func (s *session) unlisted() string {
	missing := slices.DeleteFunc(slices.Clone(s.client.serves), func(q string) bool { return s.poll.stacks.found[q] })
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("no cluster of the agent tokens has the queue %s: its jobs are unknown; give an agent token of its cluster with --agent-token-file", strings.Join(missing, ", "))
}

// joined joins two texts with a semicolon. Either may be empty.
func joined(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return cmp.Or(a, b)
}
