package buildkite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"muster/generator/plan"
	"muster/gitops/branch"
)

// Metrics reads the numbers of jobs and agents from Buildkite, with one request for each token.
// It is safe for concurrent use.
type Metrics struct {
	*agentAPI

	asking sync.Mutex // guards what follows
	last   plan.Counts
	names  []string // of the clusters, by token; nil if unknown
	err    error
	next   time.Time // earliest time of the next request
	needed bool      // a client depends on the metrics
}

// NewMetrics returns a client of the metrics. It sends no request.
func NewMetrics(cfg AgentConfig) (*Metrics, error) {
	api, err := newAgentAPI(cfg)
	return &Metrics{agentAPI: api}, err
}

// longestPoll limits the pause between two requests that Buildkite requests.
const longestPoll = time.Hour

// afterFailure is the pause after a failed request, and soonAfterFailure the pause if a client
// depends on the metrics.
const (
	afterFailure     = time.Minute
	soonAfterFailure = 5 * time.Second
)

// pollHeader is the header with the minimum pause between two requests, in whole seconds
// (buildkite/buildkite-agent-metrics collector/collector.go, PollDurationHeader).
const pollHeader = "Buildkite-Agent-Metrics-Poll-Duration"

// Counts returns the current counts. It returns the last counts or the last error, without a
// request, until the time that the last response allows the next one. After a failure it
// sends no request for a minute, or for 5 seconds if a [Client] depends on the metrics. At is
// the caller's time.
func (m *Metrics) Counts(ctx context.Context, at time.Time) (plan.Counts, error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	if at.Before(m.next) && m.next.Sub(at) <= longestPoll {
		return m.last, m.err
	}
	counts, poll := plan.Counts{At: at}, time.Duration(0)
	var names []string
	for _, read := range m.cfg.Tokens {
		one, wait, err := m.ofToken(ctx, at, read)
		if err != nil {
			if wait = afterFailure; m.needed {
				wait = soonAfterFailure
			}
			if reset := resetOf(err); reset > 0 {
				if wait = reset; passing(err) {
					wait = min(reset, answersFor)
				}
			}
			err = limitedStack(err, scopeMetrics)
			if limited, ok := errors.AsType[*RateLimited](err); ok {
				limited.Reset = wait
			}
			m.last, m.err, m.next = plan.Counts{}, err, at.Add(wait)
			return m.last, m.err
		}
		poll, names = max(poll, wait), append(names, one.Cluster)
		if !slices.ContainsFunc(counts.Clusters, func(k plan.ClusterCounts) bool { return k.Cluster == one.Cluster }) {
			counts.Clusters = append(counts.Clusters, one)
		}
	}
	m.last, m.names, m.err, m.next = counts, names, nil, at.Add(min(poll, longestPoll))
	return counts, nil
}

// need shortens the pause after a failed request.
func (m *Metrics) need() {
	m.asking.Lock()
	defer m.asking.Unlock()
	m.needed = true
}

// clusters returns the names of the tokens' clusters in the last counts; nil before the first.
func (m *Metrics) clusters() []string {
	m.asking.Lock()
	defer m.asking.Unlock()
	return m.names
}

// metricsRecord is a response of the metrics (docs apis/agent_api/metrics.md). The
// cluster's name is in no sample there; buildkite-agent-metrics reads it. A response without
// totals is invalid.
type metricsRecord struct {
	Agents struct {
		Total  *int `json:"total"`
		Queues map[string]struct {
			Idle  int  `json:"idle"`
			Busy  *int `json:"busy"`
			Total int  `json:"total"`
		} `json:"queues"`
	} `json:"agents"`
	Jobs struct {
		Total  *int `json:"total"`
		Queues map[string]struct {
			Scheduled int `json:"scheduled"`
			Running   int `json:"running"`
		} `json:"queues"`
	} `json:"jobs"`
	Organization struct {
		Slug string `json:"slug"`
	} `json:"organization"`
	Cluster struct {
		Name string `json:"name"`
	} `json:"cluster"`
}

// ofToken requests the metrics of a token's cluster. It also returns the pause before the next
// request.
func (m *Metrics) ofToken(ctx context.Context, at time.Time, read func() (string, error)) (plan.ClusterCounts, time.Duration, error) {
	var counts plan.ClusterCounts
	token, err := agentToken(read)
	if err != nil {
		return counts, 0, err
	}
	var r metricsRecord
	var said answered
	err = m.retries.do(ctx, m.cfg.Timeout*3/2, "metrics", func() error {
		r = metricsRecord{}
		said, err = m.ask(ctx, http.MethodGet, "metrics", token, nil, &r, biggestSmall)
		return err
	})
	if err != nil {
		return counts, 0, err
	}
	date, _ := http.ParseTime(said.header.Get("Date")) // zero if the header is absent
	switch {
	case r.Agents.Total == nil || r.Jobs.Total == nil || r.Organization.Slug == "":
		return counts, 0, errors.New("the answer to metrics lacks the totals or the organisation")
	case r.Organization.Slug != m.cfg.Org:
		return counts, 0, fmt.Errorf("the agent token is of the organisation %q, not of %q", branch.OneLine(r.Organization.Slug, longestMessage, token), m.cfg.Org)
	case !date.IsZero() && at.Sub(date).Abs() > plan.ClockSkew:
		return counts, 0, fmt.Errorf("the clock here differs by more than %s from Buildkite's", plan.ClockSkew)
	}
	counts = plan.ClusterCounts{Cluster: r.Cluster.Name, Queues: map[string]plan.QueueCounts{}}
	for key, jobs := range r.Jobs.Queues {
		counts.Queues[key] = plan.QueueCounts{Scheduled: jobs.Scheduled, Running: jobs.Running}
	}
	for key, agents := range r.Agents.Queues {
		q := counts.Queues[key]
		q.Agents, q.Idle = agents.Total, agents.Idle
		q.Invalid = agents.Busy != nil && agents.Total-agents.Idle != *agents.Busy
		counts.Queues[key] = q
	}
	for key, q := range counts.Queues {
		if q.Running <= q.Agents-q.Idle {
			q.Running = 0
		}
		counts.Queues[key] = q
	}
	poll, _ := strconv.Atoi(said.header.Get(pollHeader)) // zero if the header is absent
	return counts, seconds(poll), nil
}
