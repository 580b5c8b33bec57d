package buildkite

import (
	"bytes"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/generator/plan"
)

// Records contain only the fields that are needed. A field with a value of an unexpected type
// counts as missing. A record's invalid method checks the fields that are required. A value that
// is not an object is a record without fields.

// record is a pointer to one of the records.
type record[T any] interface {
	*T
	invalid() string
}

// decode reads one record. It reports an invalid one and returns false.
func decode[T any, P record[T]](s *session, kind string, d *decoder) (value T, valid bool, err error) {
	var r optional[T]
	if err := r.UnmarshalJSONFrom(d); err != nil {
		return value, false, err
	}
	why := P(&r.value).invalid()
	if why != "" {
		s.reportInvalid(kind, why)
	}
	return r.value, why == "", nil
}

// optional is an object, or missing: a value of another type.
type optional[T any] struct {
	there bool
	value T
}

func (o *optional[T]) UnmarshalJSONFrom(d *decoder) error {
	*o = optional[T]{there: d.PeekKind() == '{'}
	if !o.there {
		return d.SkipValue()
	}
	return json.UnmarshalDecode(d, &o.value)
}

// agentRecord is an agent of the agents list (docs apis/rest_api/agents.md
// "Agent data model"). The identifiers of cluster and queue are in no documented field of their
// own: they are in the address of the agent's page. The field paused is known
// from GraphQL (docs agent/self_hosted/pausing_and_resuming.md) and is read
// where REST should have it.
type agentRecord struct {
	ID      text `json:"id"`
	Name    text `json:"name"`
	State   text `json:"connection_state"`
	WebURL  text `json:"web_url"`
	Cluster text `json:"cluster_id"`
	// Created is when the agent registered, Connected when it connected.
	Created   moment `json:"created_at"`
	Connected moment `json:"connected_at"`
	LastJob   moment `json:"last_job_finished_at"`
	MetaData  texts  `json:"meta_data"`
	Paused    flag   `json:"paused"`
	// Job is the job that the agent has.
	Job optional[struct {
		ID    text `json:"id"`
		State text `json:"state"`
	}] `json:"job"`
}

func (r *agentRecord) invalid() string {
	switch "" {
	case string(r.ID):
		return "it has no id"
	case string(r.State):
		return "it has no connection_state"
	}
	return ""
}

// jobRecord is a job of a build (docs apis/rest_api/builds.md "Job data model").
// meta_data of its agent is not documented, but other programs read it; see
// [session.sightings]. continue_on_failure of a waiter is not documented either. A jobRecord is
// reused for all jobs, so what is kept of it is copied.
type jobRecord struct {
	ID, WebURL            bytesOf
	Type, State           bytesOf
	Cluster, Queue        bytesOf
	Rules                 bytesOf // as JSON
	CreatedAt, RunnableAt bytesOf // as JSON
	StartedAt, FinishedAt bytesOf // as JSON
	Retried               flag
	ContinueOnFailure     flag
	Agent                 jobAgent
	// Key, Name and SoftFailed tell how long the job's step takes. Name is the label of a step
	// that has one.
	Key, Name  bytesOf
	SoftFailed flag
}

// jobAgent is the agent of a job.
type jobAgent struct {
	there                     bool
	ID, Name, WebURL, Cluster bytesOf
	Tags                      words
}

func (r *jobRecord) UnmarshalJSONFrom(d *decoder) error {
	for _, b := range []*bytesOf{
		&r.ID, &r.WebURL, &r.Type, &r.State, &r.Cluster, &r.Queue, &r.Key, &r.Name,
		&r.Rules, &r.CreatedAt, &r.RunnableAt, &r.StartedAt, &r.FinishedAt,
	} {
		*b = (*b)[:0]
	}
	r.Retried, r.ContinueOnFailure, r.SoftFailed, r.Agent.there = false, false, false, false
	_, err := object(d, func(name []byte) json.UnmarshalerFrom {
		switch string(name) {
		case "id":
			return &r.ID
		case "type":
			return &r.Type
		case "state":
			return &r.State
		case "web_url":
			return &r.WebURL
		case "agent_query_rules":
			return (*verbatim)(&r.Rules)
		case "cluster_id":
			return &r.Cluster
		case "cluster_queue_id":
			return &r.Queue
		case "retried":
			return &r.Retried
		case "continue_on_failure":
			return &r.ContinueOnFailure
		case "created_at":
			return (*verbatim)(&r.CreatedAt)
		case "runnable_at":
			return (*verbatim)(&r.RunnableAt)
		case "started_at":
			return (*verbatim)(&r.StartedAt)
		case "finished_at":
			return (*verbatim)(&r.FinishedAt)
		case "agent":
			return &r.Agent
		case "step_key":
			return &r.Key
		case "name":
			return &r.Name
		case "soft_failed":
			return &r.SoftFailed
		}
		return nil
	})
	return err
}

func (a *jobAgent) UnmarshalJSONFrom(d *decoder) (err error) {
	for _, b := range []*bytesOf{&a.ID, &a.Name, &a.WebURL, &a.Cluster} {
		*b = (*b)[:0]
	}
	a.Tags.list = a.Tags.list[:0]
	a.there, err = object(d, func(name []byte) json.UnmarshalerFrom {
		switch string(name) {
		case "id":
			return &a.ID
		case "name":
			return &a.Name
		case "web_url":
			return &a.WebURL
		case "cluster_id":
			return &a.Cluster
		case "meta_data":
			return &a.Tags
		}
		return nil
	})
	return err
}

func (r *jobRecord) invalid() string {
	switch 0 {
	case len(r.ID):
		return "it has no id"
	case len(r.Type):
		return "it has no type"
	case len(r.State):
		return "it has no state"
	}
	return ""
}

// clusterRecord is a cluster (docs apis/rest_api/clusters.md), queueRecord a
// queue of it (docs apis/rest_api/clusters/queues.md).
type clusterRecord struct {
	ID           text `json:"id"`
	Name         text `json:"name"`
	DefaultQueue text `json:"default_queue_id"`
}

func (r *clusterRecord) invalid() string {
	switch {
	case r.ID == "":
		return "it has no id"
	case !slug.MatchString(string(r.ID)): // it is part of a path
		return "its id is invalid"
	}
	return ""
}

// agentTokenRecord is an agent token of a cluster (docs
// apis/rest_api/clusters/agent_tokens.md "Token data model").
type agentTokenRecord struct {
	ID          text   `json:"id"`
	Description text   `json:"description"`
	Expires     moment `json:"expires_at"`
}

func (r *agentTokenRecord) invalid() string {
	if r.ID == "" {
		return "it has no id"
	}
	return ""
}

// queueRecord is a cluster queue. A queue of Buildkite hosted agents has Hosted or
// HostedAgents: the response that creates one has both (docs
// apis/rest_api/clusters/queues.md "Create a Buildkite hosted queue"), and "Queue data
// model" has hosted_agents only.
type queueRecord struct {
	ID           text               `json:"id"`
	Key          text               `json:"key"`
	Paused       flag               `json:"dispatch_paused"`
	Hosted       flag               `json:"hosted"`
	HostedAgents optional[struct{}] `json:"hosted_agents"`
}

func (r *queueRecord) invalid() string {
	if r.ID == "" || r.Key == "" {
		return "it has no id or key"
	}
	return ""
}

// bytesOf is a string, in memory that is reused; a value of another type is empty.
type bytesOf []byte

func (b *bytesOf) UnmarshalJSONFrom(d *decoder) error {
	*b = (*b)[:0]
	raw, err := d.ReadValue()
	if err == nil && raw.Kind() == '"' {
		*b, _ = jsontext.AppendUnquote(*b, raw) // the only possible error is invalid UTF-8, which is replaced
	}
	return err
}

// verbatim is any value, as JSON.
type verbatim bytesOf

func (b *verbatim) UnmarshalJSONFrom(d *decoder) error {
	raw, err := d.ReadValue()
	*b = append((*b)[:0], raw...)
	return err
}

// text is a string; a value of another type is empty.
type text string

func (t *text) UnmarshalJSONFrom(d *decoder) error {
	if *t = ""; d.PeekKind() != '"' {
		return d.SkipValue()
	}
	token, err := d.ReadToken()
	if err == nil {
		*t = text(token.String())
	}
	return err
}

// texts are the strings of a list, without blanks around them and without empty ones. Values of
// other types are left out.
type texts []string

func (t *texts) UnmarshalJSONFrom(d *decoder) error {
	*t = nil
	_, err := list(d, func() error {
		var s text
		err := s.UnmarshalJSONFrom(d)
		if s := strings.TrimSpace(string(s)); s != "" {
			*t = append(*t, s)
		}
		return err
	})
	return err
}

// words are like [texts], in memory that is reused. Equal strings share the reader's copy.
type words struct {
	reader *buildReader
	list   []string
	item   bytesOf
}

func (w *words) UnmarshalJSONFrom(d *decoder) error {
	w.list = w.list[:0]
	_, err := list(d, func() error {
		err := w.item.UnmarshalJSONFrom(d)
		if word := bytes.TrimSpace(w.item); len(word) > 0 {
			w.list = append(w.list, w.reader.word(word))
		}
		return err
	})
	return err
}

// flag is a boolean; a value of another type is false.
type flag bool

func (f *flag) UnmarshalJSONFrom(d *decoder) error {
	*f = d.PeekKind() == 't'
	return d.SkipValue()
}

// moment is a time; zero if it is absent or invalid, as one that no commit can contain.
type moment struct{ at time.Time }

func (m *moment) UnmarshalJSONFrom(d *decoder) error {
	*m = moment{}
	var s text
	if err := s.UnmarshalJSONFrom(d); err != nil {
		return err
	}
	// The second form is that of the documentation's access tokens and, in
	// go-buildkite, of events.
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST"} {
		if at, err := time.Parse(layout, string(s)); err == nil && plan.Plausible(at) {
			m.at = at.UTC()
			break
		}
	}
	return nil
}
