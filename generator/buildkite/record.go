package buildkite

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// The records below read only what is needed, and each field on its own: a
// value of an unexpected kind counts as missing. What cannot be done without
// is checked by the record's own invalid method. What is no object reads as a
// record without fields.

// record is a pointer to one of the records.
type record[T any] interface {
	*T
	object() object
	invalid() string
}

// decode reads one record of a kind; false: it is invalid, which is reported.
func decode[T any, P record[T]](s *session, kind string, st *stream) (value T, valid bool, err error) {
	if err := P(&value).object().read(st); err != nil {
		return value, false, err
	}
	why := P(&value).invalid()
	if why != "" {
		s.reportInvalid(kind, why)
	}
	return value, why == "", nil
}

// object is a JSON object: where its fields are read into, by name. A field that is
// absent is read as null.
type object struct {
	there  *bool // set to whether the value is an object; nil: not wanted
	fields map[string]json.Unmarshaler
	parts  []member
}

// member is a field of an object that is itself read in parts.
type member struct {
	name  string
	value interface {
		read(s *stream) error
		clear() // as if null was read
	}
}

// read consumes one value of the stream.
func (o object) read(s *stream) error {
	o.clear()
	there, err := s.object(func(name []byte) error {
		if field, ok := o.fields[string(name)]; ok {
			return s.into(field)
		}
		for _, inner := range o.parts {
			if string(name) == inner.name {
				return inner.value.read(s)
			}
		}
		return s.skip()
	})
	if o.there != nil {
		*o.there = there
	}
	return err
}

var null = []byte("null")

func (o object) clear() {
	for _, field := range o.fields {
		_ = field.UnmarshalJSON(null) // null is valid for each
	}
	for _, inner := range o.parts {
		inner.value.clear()
	}
	if o.there != nil {
		*o.there = false
	}
}

// into reads one value into a field.
func (s *stream) into(field json.Unmarshaler) error {
	raw, err := s.raw()
	if err != nil {
		return err
	}
	return field.UnmarshalJSON(raw)
}

// agentRecord is an agent of the agents list (docs apis/rest_api/agents.md
// "Agent data model"). Cluster and queue are in no documented field of their
// own: they are in the address of the agent's page. The field paused is known
// from GraphQL (docs agent/self_hosted/pausing_and_resuming.md) and is read
// where REST should have it.
type agentRecord struct {
	ID, Name, State text
	WebURL, Cluster text
	// Created is when the agent registered, Connected when it connected.
	Created, Connected, LastJob moment
	MetaData                    texts
	Paused                      flag
	// HasJob: the agent has a job, in the state JobState.
	HasJob   bool
	JobState text
	JobID    text
}

func (r *agentRecord) object() object {
	return object{
		fields: map[string]json.Unmarshaler{
			"id": &r.ID, "name": &r.Name, "connection_state": &r.State, "meta_data": &r.MetaData, "paused": &r.Paused,
			"created_at": &r.Created, "connected_at": &r.Connected, "last_job_finished_at": &r.LastJob,
			"web_url": &r.WebURL, "cluster_id": &r.Cluster,
		},
		parts: []member{{"job", object{
			there: &r.HasJob, fields: map[string]json.Unmarshaler{"id": &r.JobID, "state": &r.JobState},
		}}},
	}
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
// That its agent carries meta_data is not documented, though programs in the
// field read it there; see [Client.sightings]. One jobRecord is read into again
// and again: what is kept of it is copied. That a waiter has continue_on_failure, as
// the pipeline calls it, is not documented either.
type jobRecord struct {
	ID, WebURL            bytesOf
	Type, State           bytesOf
	Cluster, Queue        bytesOf
	Rules                 json.RawMessage
	CreatedAt, RunnableAt json.RawMessage
	StartedAt             json.RawMessage
	Retried               flag
	ContinueOnFailure     flag
	HasAgent              bool
	Agent                 struct {
		ID, Name, WebURL, Cluster bytesOf
		MetaData                  json.RawMessage
	}
	// What tells how long the job's step takes; names are of no other use.
	Key, Name  bytesOf
	FinishedAt json.RawMessage
	SoftFailed flag
}

// object returns the object that is read into the record, timed with the fields that tell
// how long the job's step takes.
func (r *jobRecord) object(timed bool) object {
	o := object{
		fields: map[string]json.Unmarshaler{
			"id": &r.ID, "type": &r.Type, "state": &r.State, "web_url": &r.WebURL, "retried": &r.Retried,
			"agent_query_rules": &r.Rules, "cluster_id": &r.Cluster, "cluster_queue_id": &r.Queue,
			"continue_on_failure": &r.ContinueOnFailure,
			"created_at":          &r.CreatedAt, "runnable_at": &r.RunnableAt, "started_at": &r.StartedAt,
		},
		parts: []member{{"agent", object{
			there: &r.HasAgent,
			fields: map[string]json.Unmarshaler{
				"id": &r.Agent.ID, "name": &r.Agent.Name, "web_url": &r.Agent.WebURL,
				"cluster_id": &r.Agent.Cluster, "meta_data": &r.Agent.MetaData,
			},
		}}},
	}
	if timed {
		o.fields["step_key"], o.fields["name"] = &r.Key, &r.Name // name is the label of a step that has one
		o.fields["finished_at"], o.fields["soft_failed"] = &r.FinishedAt, &r.SoftFailed
	}
	return o
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
type clusterRecord struct{ ID, Name, DefaultQueue text }

func (r *clusterRecord) object() object {
	return object{fields: map[string]json.Unmarshaler{
		"id": &r.ID, "name": &r.Name, "default_queue_id": &r.DefaultQueue,
	}}
}

func (r *clusterRecord) invalid() string {
	switch {
	case r.ID == "":
		return "it has no id"
	case !slug.MatchString(string(r.ID)): // it goes into a path
		return "its id is not one"
	}
	return ""
}

// agentTokenRecord is an agent token of a cluster (docs
// apis/rest_api/clusters/agent_tokens.md "Token data model").
type agentTokenRecord struct {
	ID, Description text
	Expires         moment
}

func (r *agentTokenRecord) object() object {
	return object{fields: map[string]json.Unmarshaler{
		"id": &r.ID, "description": &r.Description, "expires_at": &r.Expires,
	}}
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
	ID, Key        text
	Paused, Hosted flag
	HostedAgents   bool
}

func (r *queueRecord) object() object {
	return object{
		fields: map[string]json.Unmarshaler{
			"id": &r.ID, "key": &r.Key, "dispatch_paused": &r.Paused, "hosted": &r.Hosted,
		},
		parts: []member{{"hosted_agents", object{there: &r.HostedAgents}}},
	}
}

func (r *queueRecord) invalid() string {
	if r.ID == "" || r.Key == "" {
		return "it has no id or key"
	}
	return ""
}

// bytesOf is the text of a string, in memory that is used again; anything else
// counts as missing.
type bytesOf []byte

func (b *bytesOf) UnmarshalJSON(raw []byte) error {
	*b = append((*b)[:0], content(raw)...)
	return nil
}

// text is a string; anything else counts as missing.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	*t = text(content(raw))
	return nil
}

// content returns the content of a JSON string; nil for any other value.
func content(raw []byte) []byte {
	if plain, ok := plainString(raw); ok || raw[0] != '"' {
		return plain
	}
	var s string
	_ = json.Unmarshal(raw, &s) // which is valid
	return []byte(s)
}

// plainString returns the content of a JSON string that holds only ASCII and
// no escapes, which nearly all do.
func plainString(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	raw = raw[1 : len(raw)-1]
	for _, c := range raw {
		if c == '\\' || c >= 0x80 {
			return nil, false
		}
	}
	return raw, true
}

// texts are the strings of a list. Values of other types are left out.
type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	*t = nil
	if plain, ok := plainStrings(raw, func(b []byte) string { return string(b) }); ok {
		*t = plain
		return nil
	}
	var list []text
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, s := range list {
		if s = text(strings.TrimSpace(string(s))); s != "" {
			*t = append(*t, string(s))
		}
	}
	return nil
}

// plainStrings returns the strings of a list of nothing but plain ones, which
// have no blanks at their ends, each as word makes it.
func plainStrings(raw []byte, word func([]byte) string) ([]string, bool) {
	if len(raw) < 2 || raw[0] != '[' {
		return nil, false
	}
	list := make([]string, 0, bytes.Count(raw, []byte(`",`))+1)
	for rest := bytes.TrimSpace(raw[1 : len(raw)-1]); len(rest) > 0; {
		if rest[0] != '"' {
			return nil, false
		}
		end := bytes.IndexByte(rest[1:], '"') + 2
		plain, ok := plainString(rest[:end])
		if !ok || len(plain) == 0 || plain[0] == ' ' || plain[len(plain)-1] == ' ' {
			return nil, false
		}
		list = append(list, word(plain))
		if rest = bytes.TrimSpace(rest[end:]); len(rest) > 0 {
			if rest[0] != ',' {
				return nil, false
			}
			rest = bytes.TrimSpace(rest[1:])
		}
	}
	return list, len(list) > 0
}

// flag is true, or not.
type flag bool

func (f *flag) UnmarshalJSON(raw []byte) error {
	*f = string(raw) == "true"
	return nil
}

// moment is a time; zero if it is absent or invalid.
type moment struct{ at time.Time }

func (m *moment) UnmarshalJSON(raw []byte) error {
	*m = moment{}
	var s text
	if err := s.UnmarshalJSON(raw); err != nil {
		return err
	}
	// The second form is that of the documentation's access tokens and, in
	// go-buildkite, of events.
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST"} {
		if at, err := time.Parse(layout, string(s)); err == nil {
			m.at = at.UTC()
			break
		}
	}
	return nil
}
