package buildkite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"muster/generator/plan"
)

// agentTokenPoll is a poll with agent tokens only. It may take several calls if there are many
// queues, because the Stacks API has limits of its own.
type agentTokenPoll struct {
	begun   time.Time
	calls   int
	counts  plan.Counts
	names   []string // of the tokens' clusters
	reading stackReading
}

// checkTokens returns an error if there is neither an API token nor what replaces it.
func (cfg Config) checkTokens() error {
	switch {
	case cfg.Token != nil:
	case cfg.Stacks == nil || cfg.Metrics == nil:
		return errors.New("a Buildkite API token is needed")
	case len(cfg.Stacks.clusters) != len(cfg.Metrics.cfg.Tokens):
		return errors.New("the Stacks API and the metrics use different agent tokens")
	}
	return nil
}

// snapshot reads with agent tokens alone: the counts of agents, then the jobs that can
// run, then the states of those that were listed before. So an agent that takes a job
// meanwhile is counted as idle and its job not as pending, which orders too few.
func (c agentTokens) snapshot(ctx context.Context, at, _ time.Time) (plan.Snapshot, error) {
	l := c.inferred
	if l == nil || at.Before(l.begun) || at.Sub(l.begun) > LongestPoll {
		counts, err := c.cfg.Metrics.Counts(ctx, at)
		if err != nil {
			return plan.Snapshot{}, fmt.Errorf("reading Buildkite's metrics: %w", err)
		}
		l = &agentTokenPoll{begun: at, counts: counts, names: c.cfg.Metrics.clusters()}
	}
	c.inferred, l.calls = nil, l.calls+1
	runs, err := c.cfg.Stacks.readRuns(ctx, at, c.serves, l)
	var limited *RateLimited
	switch {
	case errors.As(err, &limited):
		c.inferred = l
		return plan.Snapshot{}, c.refuse(*limited)
	case passing(err):
		c.inferred = l
		return plan.Snapshot{}, err
	case err != nil:
		return plan.Snapshot{}, err
	}
	snapshot := c.reduceInferred(l, runs)
	if l.calls > 1 {
		snapshot.Until = at
	}
	return snapshot, nil
}

// readRuns reads the jobs that can run into the poll, and returns those that were listed
// before and have been taken.
func (k *Stacks) readRuns(ctx context.Context, at time.Time, queues []string, l *agentTokenPoll) ([]stackRun, error) {
	if err := k.read(ctx, l.begun, queues, &l.reading); err != nil {
		return nil, fmt.Errorf("listing scheduled jobs: %w", err)
	}
	runs, err := k.follow(ctx, at, &l.reading)
	if err != nil {
		return nil, fmt.Errorf("reading the states of jobs: %w", err)
	}
	return runs, nil
}

// reduceInferred returns the snapshot of a completed poll. A cluster's name is that in the
// metrics, or the number of its token.
func (c *Client) reduceInferred(l *agentTokenPoll, runs []stackRun) plan.Snapshot {
	homes := map[*stackCluster]string{}
	for i, k := range c.cfg.Stacks.clusters {
		if homes[k] = fmt.Sprintf("of agent token %d", i+1); i < len(l.names) {
			homes[k] = cmp.Or(l.names[i], homes[k])
		}
	}
	snapshot := plan.Snapshot{At: l.begun, Counted: &plan.Counted{At: l.counts.At}}
	c.clusters = clusters{homes: map[string]string{}, queues: map[string]string{}}
	for _, q := range l.reading.queues {
		home := homes[q.of]
		c.clusters.homes[q.id], c.clusters.queues[q.id] = home, q.key
		queue := plan.Queue{Cluster: home, ClusterName: home, Key: q.key, Paused: l.reading.paused[q.id]}
		if slices.Contains(snapshot.Queues, queue) {
			continue // two tokens of one cluster
		}
		snapshot.Queues = append(snapshot.Queues, queue)
		counted := plan.CountedQueue{Queue: q.key, Cluster: home}
		i := slices.Index(c.cfg.Stacks.clusters, q.of)
		for _, k := range l.counts.Clusters {
			if i < len(l.names) && k.Cluster == l.names[i] {
				n := k.Queues[q.key]
				counted.Agents, counted.Idle, counted.Running, counted.Invalid = n.Agents, n.Idle, n.Running, n.Invalid
			}
		}
		snapshot.Counted.Queues = append(snapshot.Counted.Queues, counted)
	}
	s := &session{client: c, poll: &poll{begun: l.begun, stacks: l.reading}}
	snapshot.Jobs, snapshot.Unread = s.stackJobs(), s.unlisted()
	known := map[string]bool{}
	for _, r := range runs {
		if known[r.ID] {
			continue
		}
		r.Cluster, known[r.ID] = homes[r.of], true
		snapshot.Counted.Runs = append(snapshot.Counted.Runs, r.Run)
	}
	return snapshot
}

// listedJob is a job that the Stacks API has listed. It is kept until the job has ended: its
// state shows where agents have registered.
type listedJob struct {
	queue    string
	rules    []string
	started  bool      // an agent has it
	reserved bool      // by a stack, whose own agent takes it
	stateAt  time.Time // when its state was last read
}

const (
	// statesTogether is how many jobs one request names (docs apis/agent_api/stacks.md
	// "Get job states").
	statesTogether = 1000
	// unknownFor is how long a job without a state is kept. Then it was deleted.
	unknownFor = time.Hour
)

// follow returns the jobs that were listed before and that an agent has taken. After an error
// the listed jobs are unchanged.
func (k *Stacks) follow(ctx context.Context, at time.Time, reading *stackReading) ([]stackRun, error) {
	listed := map[*stackCluster]map[string]*stackJob{}
	for _, c := range k.clusters {
		listed[c] = map[string]*stackJob{}
	}
	for i := range reading.jobs {
		j := &reading.jobs[i]
		listed[j.of][string(j.ID)] = j
	}
	gone, states := map[*stackCluster][]string{}, map[*stackCluster]map[string]string{}
	for _, c := range k.clusters {
		gone[c] = slices.DeleteFunc(sorted(c.jobs), func(id string) bool { return listed[c][id] != nil })
		var err error
		if states[c], err = k.states(ctx, c, gone[c]); err != nil {
			return nil, err
		}
	}
	var runs []stackRun
	for _, c := range k.clusters {
		for id, j := range listed[c] {
			c.list(id, j, at)
		}
		for _, id := range gone[c] {
			if run, taken := c.settle(id, states[c][id], at); taken {
				runs = append(runs, run)
			}
		}
	}
	return runs, nil
}

// stackRun is a job that an agent has taken, and the cluster whose stack listed it.
type stackRun struct {
	plan.Run
	of *stackCluster
}

// states requests the states of jobs. A job that is not in the response has none.
func (k *Stacks) states(ctx context.Context, c *stackCluster, ids []string) (map[string]string, error) {
	all := map[string]string{}
	if len(ids) == 0 {
		return all, nil
	}
	token, err := agentToken(c.token)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(ids, statesTogether) {
		var answer struct {
			States map[string]text `json:"states"`
		}
		if err := k.askPaced(ctx, c, scopeStackStates, http.MethodPost, "stacks/"+c.key+"/jobs/get-states", token, map[string]any{"job_uuids": some}, &answer); err != nil {
			c.registered = c.registered && passing(err) // otherwise Buildkite may have removed it
			return nil, err
		}
		for id, state := range answer.States {
			all[id] = string(state)
		}
	}
	return all, nil
}

// list records that a job waits for an agent. If an agent had the job, it has returned it.
func (c *stackCluster) list(id string, j *stackJob, at time.Time) {
	known := c.jobs[id]
	if known == nil {
		known = &listedJob{queue: j.queue, rules: withoutStar(j.Rules)}
		c.jobs[id] = known
	}
	known.started, known.stateAt = false, at
}

// settle evaluates the state of a job that is no longer listed (docs
// pipelines/configure/defining_steps.md "Job states"; REST calls passed and failed jobs
// finished). It returns false if no agent is known to have taken the job. An agent may still
// refuse a job that is assigned to it. A job that was cancelled before a poll saw its agent
// counts as one that had no agent.
func (c *stackCluster) settle(id, state string, at time.Time) (run stackRun, taken bool) {
	j := c.jobs[id]
	running := false
	switch state {
	case "accepted", "running", "canceling", "timing_out":
		running, j.started, j.stateAt = true, j.started || state != "canceling", at
	case "finished", "passed", "failed", "timed_out":
		j.started = true
		delete(c.jobs, id)
	case "reserved":
		j.reserved, j.stateAt = true, at
	case "canceled", "expired", "skipped", "broken":
		delete(c.jobs, id)
	case "":
		if running = j.started; at.Sub(j.stateAt) > unknownFor {
			running = false
			delete(c.jobs, id)
		}
	default: // it waits, or the state is unknown
		j.stateAt = at
	}
	if !j.started || j.reserved {
		return run, false
	}
	return stackRun{plan.Run{ID: id, Queue: j.queue, Rules: j.rules, Running: running}, c}, true
}

// stacksGap is what the Stacks API does not list.
const stacksGap = "jobs come from the Stacks API: jobs that wait for other steps are unknown, so that look-ahead orders nothing, and so are jobs of queues that no overlay serves"

// verify returns no token: the first snapshot checks agent tokens.
func (c agentTokens) verify(context.Context) (Token, error) { return Token{}, nil }

// agentTokens returns nothing: the Agent API does not report when a token expires.
func (c agentTokens) agentTokens(context.Context) ([]AgentToken, error) { return nil, nil }

func (c agentTokens) gaps() []string {
	return []string{stacksGap,
		"no API token is given: agents are counted and not listed, and muster infers from the jobs that were taken which of them registered. " +
			"The queues must be muster's alone, agents must exit after their job, and lost agents, min, buffer and reuse cost waiting time: " +
			"see docs/explanation/buildkite.md#running-without-an-api-token",
		"without an API token muster cannot check whether the queues are for self-hosted agents, whether other agents are in them, and whether agents register with their tags"}
}
