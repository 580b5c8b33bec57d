package buildkite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/generator/plan"
)

// aloneLook is a look with agent tokens alone, which may take several calls where there are
// many queues: the Stacks API has limits of its own.
type aloneLook struct {
	begun   time.Time
	calls   int
	counts  plan.Counts
	names   []string // of the tokens' clusters
	reading stackReading
}

// checkTokens demands an API token, or what can do without.
func (cfg Config) checkTokens() error {
	switch {
	case cfg.Token != nil:
	case cfg.Stacks == nil || cfg.Metrics == nil:
		return errors.New("a Buildkite API token is needed")
	case len(cfg.Stacks.clusters) != len(cfg.Metrics.cfg.Tokens):
		return errors.New("the Stacks API and the metrics are asked with different agent tokens")
	}
	return nil
}

// inferring reports whether there is no API token: then the Stacks API and the metrics tell all
// there is, and agents are counted and not listed.
func (c *Client) inferring() bool { return c.cfg.Token == nil }

// snapshotAlone reads with agent tokens alone: the counts of agents, then the jobs that can
// run, then what became of those that were listed before. So an agent that takes a job
// meanwhile is counted as idle and its job not as pending, which orders too few.
func (c *Client) snapshotAlone(ctx context.Context, at time.Time) (plan.Snapshot, error) {
	l := c.alone
	if l == nil || at.Before(l.begun) || at.Sub(l.begun) > LongestLook {
		counts, err := c.cfg.Metrics.Counts(ctx, at)
		if err != nil {
			return plan.Snapshot{}, fmt.Errorf("asking for Buildkite's metrics: %w", err)
		}
		l = &aloneLook{begun: at, counts: counts, names: c.cfg.Metrics.clusters()}
	}
	c.alone, l.calls = nil, l.calls+1
	err := c.cfg.Stacks.read(ctx, l.begun, c.serves, &l.reading)
	if err != nil {
		err = named("listing scheduled jobs", err)
	}
	var runs []stackRun
	if err == nil {
		runs, err = c.cfg.Stacks.follow(ctx, at, &l.reading)
		err = named("asking for the states of jobs", err)
	}
	var limited *RateLimited
	if errors.As(err, &limited) {
		c.alone = l
		return plan.Snapshot{}, c.refuse(*limited)
	}
	if err != nil {
		return plan.Snapshot{}, err
	}
	snapshot := c.reduceAlone(l, runs)
	if l.calls > 1 {
		snapshot.Until = at
	}
	return snapshot, nil
}

// reduceAlone makes a snapshot of what was read. A cluster is called by its name, or where
// the metrics do not tell that, by the number of its token.
func (c *Client) reduceAlone(l *aloneLook, runs []stackRun) plan.Snapshot {
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
				counted.Agents, counted.Idle = k.Queues[q.key].Agents, k.Queues[q.key].Idle
			}
		}
		snapshot.Counted.Queues = append(snapshot.Counted.Queues, counted)
	}
	s := &session{client: c, look: &look{begun: l.begun, stacks: l.reading}}
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
