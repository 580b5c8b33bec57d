package fakebuildkite

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// counted is an answer of the metrics, and when it was made.
type counted struct {
	at   time.Time
	body []byte
}

// pollHeader is the minimum interval of requests for the metrics, in whole seconds
// (buildkite/buildkite-agent-metrics collector/collector.go, PollDurationHeader).
const pollHeader = "Buildkite-Agent-Metrics-Poll-Duration"

// answerMetrics is docs apis/agent_api/metrics.md; the cluster's name is in no sample
// there, but in what buildkite-agent-metrics reads.
func (s *Server) answerMetrics(c *cluster) answer {
	kept, ok := s.counted[c]
	if !ok || s.now.Sub(kept.at) >= s.opts.MetricsAge {
		kept = counted{at: s.now, body: encode(s.metricsOf(c))}
		s.counted[c] = kept
	}
	header := http.Header{}
	if poll := cmp.Or(s.opts.MetricsPoll, 10*time.Second); poll > 0 {
		header.Set(pollHeader, strconv.Itoa(int(poll/time.Second)))
	}
	return answer{status: http.StatusOK, header: header, body: kept.body}
}

type agentCounts struct {
	Idle  int `json:"idle"`
	Busy  int `json:"busy"`
	Total int `json:"total"`
}

type jobCounts struct {
	Scheduled int `json:"scheduled"`
	Running   int `json:"running"`
	Waiting   int `json:"waiting"`
	Total     int `json:"total"`
}

type metricsJSON struct {
	Agents struct {
		agentCounts
		Queues map[string]agentCounts `json:"queues"`
	} `json:"agents"`
	Jobs struct {
		jobCounts
		Queues map[string]jobCounts `json:"queues"`
	} `json:"jobs"`
	Organization struct {
		Slug string `json:"slug"`
	} `json:"organization"`
	Cluster *struct {
		Name string `json:"name"`
	} `json:"cluster,omitempty"`
}

// metricsOf counts the jobs and agents of a cluster. Queues are listed that it has, and
// those that anything names.
func (s *Server) metricsOf(c *cluster) metricsJSON {
	var m metricsJSON
	m.Organization.Slug = s.opts.Org
	if c.id != "" {
		m.Cluster = &struct {
			Name string `json:"name"`
		}{c.name}
	}
	m.Agents.Queues, m.Jobs.Queues = map[string]agentCounts{}, map[string]jobCounts{}
	for _, q := range c.queues {
		m.Agents.Queues[q.key], m.Jobs.Queues[q.key] = agentCounts{}, jobCounts{}
	}
	for _, b := range s.builds {
		if b.cluster != c || b.over() && !b.blocked { // a blocked build is in no list of builds under way
			continue
		}
		for _, j := range b.jobs {
			if j.step.Type == Command {
				m.job(j)
			}
		}
	}
	for _, a := range s.connected {
		if a.cluster == c {
			m.agent(a)
		}
	}
	return m
}

// job counts a job. Limited and unmatched ones are among the scheduled
// (buildkite/buildkite-agent-metrics issue 31), those behind block steps among the
// waiting (buildkite/buildkite-agent-scaler issue 199). One without a rule for a queue
// counts for "default". For which queue those count that ask for any is not documented,
// nor where reserved ones do.
func (m *metricsJSON) job(j *job) {
	one := jobCounts{Total: 1}
	switch j.state {
	case stateScheduled, stateLimited, statePlatformLimited:
		one.Scheduled = 1
	case stateAssigned, stateRunning, stateCanceling:
		one.Running = 1
	case stateWaiting, stateBlocked:
		one.Waiting = 1
	default:
		return
	}
	key := "default"
	for _, rule := range j.step.Agents {
		if k, ok := strings.CutPrefix(rule, "queue="); ok {
			key = cmp.Or(k, "*")
		}
	}
	m.Jobs.jobCounts = m.Jobs.plus(one)
	m.Jobs.Queues[key] = m.Jobs.Queues[key].plus(one)
}

func (c jobCounts) plus(o jobCounts) jobCounts {
	return jobCounts{c.Scheduled + o.Scheduled, c.Running + o.Running, c.Waiting + o.Waiting, c.Total + o.Total}
}

// agent counts a connected agent, in each of its queues.
func (m *metricsJSON) agent(a *agent) {
	one := agentCounts{Idle: 1, Total: 1}
	if a.job != nil {
		one = agentCounts{Busy: 1, Total: 1}
	}
	m.Agents.agentCounts = m.Agents.plus(one)
	for _, q := range a.queues {
		m.Agents.Queues[q.key] = m.Agents.Queues[q.key].plus(one)
	}
}

func (c agentCounts) plus(o agentCounts) agentCounts {
	return agentCounts{c.Idle + o.Idle, c.Busy + o.Busy, c.Total + o.Total}
}
