package fakebuildkite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// The JSON of docs apis/rest_api/{agents,builds,jobs}.md and clusters.md,
// clusters/queues.md: the fields that a reader of queues and agents may want,
// under their documented names.

type buildJSON struct {
	ID          string          `json:"id"`
	URL         string          `json:"url"`
	WebURL      string          `json:"web_url"`
	Number      int             `json:"number"`
	State       string          `json:"state"`
	Blocked     bool            `json:"blocked"`
	Message     string          `json:"message"`
	Commit      string          `json:"commit"`
	Branch      string          `json:"branch"`
	Source      string          `json:"source"`
	Author      string          `json:"author"`
	Jobs        json.RawMessage `json:"jobs"`
	CreatedAt   *string         `json:"created_at"`
	ScheduledAt *string         `json:"scheduled_at"`
	StartedAt   *string         `json:"started_at"`
	FinishedAt  *string         `json:"finished_at"`
	Pipeline    *pipelineJSON   `json:"pipeline,omitempty"`
}

type pipelineJSON struct {
	Slug      string  `json:"slug"`
	ClusterID *string `json:"cluster_id"`
}

type jobJSON struct {
	ID              string       `json:"id"`
	Type            string       `json:"type"`
	Name            string       `json:"name"`
	StepKey         *string      `json:"step_key"`
	Command         string       `json:"command,omitempty"`
	Priority        priorityJSON `json:"priority"`
	AgentQueryRules []string     `json:"agent_query_rules"`
	State           string       `json:"state"`
	WebURL          string       `json:"web_url"`
	SoftFailed      bool         `json:"soft_failed"`
	Agent           *agentJSON   `json:"agent"`
	CreatedAt       *string      `json:"created_at"`
	ScheduledAt     *string      `json:"scheduled_at"`
	RunnableAt      *string      `json:"runnable_at"`
	StartedAt       *string      `json:"started_at"`
	FinishedAt      *string      `json:"finished_at"`
	Retried         bool         `json:"retried"`
	RetriedInJobID  *string      `json:"retried_in_job_id"`
	RetriesCount    int          `json:"retries_count"`
	ClusterID       *string      `json:"cluster_id"`
	ClusterQueueID  *string      `json:"cluster_queue_id"`
	// ContinueOnFailure is not documented for a waiter; it is named as in the pipeline.
	ContinueOnFailure bool `json:"continue_on_failure,omitempty"`
}

type priorityJSON struct {
	Number int `json:"number"`
}

type agentJSON struct {
	ID                string        `json:"id"`
	WebURL            string        `json:"web_url"`
	Name              string        `json:"name"`
	ConnectionState   string        `json:"connection_state"`
	Version           string        `json:"version"`
	CreatedAt         *string       `json:"created_at"`
	Queue             string        `json:"queue"` // since June 2026
	ConnectedAt       *string       `json:"connected_at"`
	DisconnectedAt    *string       `json:"disconnected_at"`
	LostAt            *string       `json:"lost_at"`
	StoppedAt         *string       `json:"stopped_at"`
	Job               *agentJobJSON `json:"job"`
	LastJobFinishedAt *string       `json:"last_job_finished_at"`
	Priority          *int          `json:"priority"`
	MetaData          []string      `json:"meta_data"`
	Paused            bool          `json:"paused"` // not documented, see [Server.PauseAgent]
}

type agentJobJSON struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	State string `json:"state"`
}

type clusterJSON struct {
	ID             string  `json:"id"`
	DefaultQueueID *string `json:"default_queue_id"`
	Name           string  `json:"name"`
}

type queueJSON struct {
	ID             string `json:"id"`
	Key            string `json:"key"`
	Description    string `json:"description"`
	DispatchPaused bool   `json:"dispatch_paused"`
	// Hosted and HostedAgents are shown of a hosted queue (docs
	// apis/rest_api/clusters/queues.md "Create a Buildkite hosted queue").
	Hosted       bool          `json:"hosted,omitempty"`
	HostedAgents *hostedAgents `json:"hosted_agents,omitempty"`
}

type hostedAgents struct {
	InstanceShape map[string]any `json:"instance_shape"`
}

// agentVersion is the version of agents that are only simulated: the image's in
// the base.
const agentVersion = "3.138.3"

// stamp is a time as the API writes it; null when it has not come.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// orNull is null for an empty string.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode never fails: the records hold strings, numbers and booleans only.
func encode(record any) []byte {
	raw, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("fakebuildkite: encoding %T: %v", record, err))
	}
	return raw
}

// list returns a list of records.
func list(records [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(records, []byte{','}), []byte{']'})
}

// encodeBuild returns a build without its pipeline if exclude_pipeline asks for that (docs
// apis/rest_api/_builds_list_query_strings.md).
func (s *Server) encodeBuild(b *build, withRetried, bare bool) []byte {
	var jobs [][]byte
	for _, j := range b.jobs {
		if !j.retried || withRetried {
			jobs = append(jobs, s.encodeJob(j))
		}
	}
	for _, odd := range s.invalid["jobs"] {
		jobs = append(jobs, []byte(odd))
	}
	finished := b.finishedAt
	if b.blocked && s.opts.BlockedUnfinished {
		finished = time.Time{}
	}
	path := fmt.Sprintf("%s/%s/builds/%d", s.opts.Org, b.spec.Pipeline, b.number)
	record := buildJSON{
		ID: b.id, Number: b.number, State: b.state, Blocked: b.blocked,
		URL:     "https://api.buildkite.com/v2/organizations/" + path,
		WebURL:  "https://buildkite.com/" + path,
		Message: b.spec.Message, Commit: "HEAD", Branch: b.spec.Branch, Source: "api",
		// Given to the API as a string, it comes back as one (go-buildkite #218).
		Author: "A. Person <person@example.com>",
		Jobs:   list(jobs), CreatedAt: stamp(b.created), ScheduledAt: stamp(b.created),
		StartedAt: stamp(b.started), FinishedAt: stamp(finished),
	}
	if !bare {
		record.Pipeline = &pipelineJSON{Slug: b.spec.Pipeline, ClusterID: orNull(b.cluster.id)}
	}
	return encode(record)
}

func (s *Server) encodeJob(j *job) []byte {
	record := jobJSON{
		ID: j.id, Type: j.apiType(), Name: j.step.Label, StepKey: orNull(j.step.Key), Command: j.step.Command,
		Priority:        priorityJSON{Number: j.step.Priority},
		AgentQueryRules: append([]string{}, j.step.Agents...),
		State:           j.apiState(),
		WebURL:          s.pageOf(j),
		SoftFailed:      j.step.SoftFail && j.state == stateFailed,
		CreatedAt:       stamp(j.created), ScheduledAt: stamp(j.scheduled), RunnableAt: stamp(j.runnable),
		StartedAt: stamp(j.started), FinishedAt: stamp(j.finished),
		Retried: j.retried, RetriedInJobID: orNull(j.retriedIn), RetriesCount: j.attempt,
		ClusterID: orNull(j.build.cluster.id), ContinueOnFailure: j.step.ContinueOnFailure,
	}
	if j.queue != nil {
		record.ClusterQueueID = orNull(j.queue.id)
	}
	if j.lags() {
		record.State, record.StartedAt = stateScheduled, nil
	} else if j.agent != nil {
		agent := s.agentRecordJSON(j.agent)
		agent.Job = nil
		record.Agent = &agent
	}
	return encode(record)
}

// pageOf returns the address of a job's page.
func (s *Server) pageOf(j *job) string {
	if j.url == "" {
		b := j.build
		j.url = fmt.Sprintf("https://buildkite.com/%s/%s/builds/%d#%s", s.opts.Org, b.spec.Pipeline, b.number, j.id)
	}
	return j.url
}

// apiType is the type of the job: docs apis/rest_api/builds.md "Job data model".
func (j *job) apiType() string {
	switch j.step.Type {
	case Wait:
		return "waiter"
	case Block:
		return "manual"
	case Trigger:
		return "trigger"
	}
	return "script"
}

// apiState is the state as REST writes it: limited jobs are listed as
// scheduled (docs pipelines/configure/defining_steps.md "REST API state
// mapping"), and have no runnable_at yet. Nothing in the record names the concurrency
// group (docs apis/rest_api/builds.md "Job data model").
func (j *job) apiState() string {
	if j.state == stateLimited {
		return stateScheduled
	}
	return j.state
}

func (s *Server) agentRecordJSON(a *agent) agentJSON {
	record := agentJSON{
		ID: a.id, Name: a.spec.Name, ConnectionState: a.state, Version: agentVersion,
		WebURL:    fmt.Sprintf("https://buildkite.com/organizations/%s/agents/%s", s.opts.Org, a.id),
		CreatedAt: stamp(a.created), ConnectedAt: stamp(a.connect), LastJobFinishedAt: stamp(a.lastJob),
		MetaData: append([]string{}, a.spec.Tags...), Paused: a.paused, Queue: a.queues[0].key,
	}
	if a.remote != nil {
		record.Version = a.remote.build
	}
	switch a.state {
	case "disconnected":
		record.DisconnectedAt = stamp(a.ended)
	case "lost":
		record.LostAt = stamp(a.ended)
	case "stopped":
		record.StoppedAt = stamp(a.ended)
	}
	if a.cluster.id != "" {
		record.WebURL = fmt.Sprintf("https://buildkite.com/organizations/%s/clusters/%s/queues/%s/agents/%s",
			s.opts.Org, a.cluster.id, a.queues[0].id, a.id)
	}
	if a.spec.Priority != 0 {
		record.Priority = &a.spec.Priority
	}
	if a.job != nil {
		record.Job = &agentJobJSON{ID: a.job.id, Type: a.job.apiType(), State: a.job.apiState()}
	}
	return record
}
