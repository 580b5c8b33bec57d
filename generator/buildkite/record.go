package buildkite

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// The records below read only what is needed, and each field on its own: a
// value of an unexpected kind counts as missing. What cannot be done without
// is checked by the record's own odd method. A record's read method consumes
// one value of the stream; what is no object reads as a record without fields.

// record is a pointer to one of the records.
type record[T any] interface {
	*T
	read(s *stream) error
	invalid() string
}

// decode reads one record; why is set when it is invalid.
func decode[T any, P record[T]](s *stream) (value T, why string, err error) {
	if err := P(&value).read(s); err != nil {
		return value, "", err
	}
	return value, P(&value).invalid(), nil
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

func (r *agentRecord) read(s *stream) error {
	_, err := s.object(func(name []byte) error {
		switch string(name) {
		case "id":
			return s.into(&r.ID)
		case "name":
			return s.into(&r.Name)
		case "connection_state":
			return s.into(&r.State)
		case "created_at":
			return s.into(&r.Created)
		case "connected_at":
			return s.into(&r.Connected)
		case "last_job_finished_at":
			return s.into(&r.LastJob)
		case "web_url":
			return s.into(&r.WebURL)
		case "meta_data":
			return s.into(&r.MetaData)
		case "cluster_id":
			return s.into(&r.Cluster)
		case "paused":
			return s.into(&r.Paused)
		case "job":
			return r.readJob(s)
		}
		return s.skip()
	})
	return err
}

func (r *agentRecord) readJob(s *stream) (err error) {
	r.JobState, r.JobID = "", ""
	r.HasJob, err = s.object(func(name []byte) error {
		switch string(name) {
		case "state":
			return s.into(&r.JobState)
		case "id":
			return s.into(&r.JobID)
		}
		return s.skip()
	})
	return err
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
	Rules                 bytesOf // as JSON
	CreatedAt, RunnableAt bytesOf // as JSON
	StartedAt             bytesOf // as JSON
	Retried               flag
	ContinueOnFailure     flag
	HasAgent              bool
	timing                jobTiming
	Agent                 struct{ ID, Name, WebURL, Cluster, MetaData bytesOf }
}

func (r *jobRecord) read(s *stream) error {
	r.clear()
	_, err := s.object(func(name []byte) error {
		switch string(name) {
		case "id":
			return r.ID.text(s)
		case "type":
			return r.Type.text(s)
		case "state":
			return r.State.text(s)
		case "web_url":
			return r.WebURL.text(s)
		case "agent_query_rules":
			return r.Rules.json(s)
		case "cluster_id":
			return r.Cluster.text(s)
		case "cluster_queue_id":
			return r.Queue.text(s)
		case "retried":
			return s.into(&r.Retried)
		case "continue_on_failure":
			return s.into(&r.ContinueOnFailure)
		case "created_at":
			return r.CreatedAt.json(s)
		case "runnable_at":
			return r.RunnableAt.json(s)
		case "started_at":
			return r.StartedAt.json(s)
		case "agent":
			return r.readAgent(s)
		}
		return r.timing.read(name, s)
	})
	return err
}

func (r *jobRecord) clear() {
	r.timing.clear()
	for _, b := range []*bytesOf{
		&r.ID, &r.WebURL, &r.Type, &r.State, &r.Cluster, &r.Queue, &r.Rules, &r.CreatedAt, &r.RunnableAt, &r.StartedAt,
	} {
		*b = (*b)[:0]
	}
	r.Retried, r.ContinueOnFailure, r.HasAgent = false, false, false
}

func (r *jobRecord) readAgent(s *stream) (err error) {
	a := &r.Agent
	for _, b := range []*bytesOf{&a.ID, &a.Name, &a.WebURL, &a.Cluster, &a.MetaData} {
		*b = (*b)[:0]
	}
	r.HasAgent, err = s.object(func(name []byte) error {
		switch string(name) {
		case "id":
			return a.ID.text(s)
		case "name":
			return a.Name.text(s)
		case "web_url":
			return a.WebURL.text(s)
		case "cluster_id":
			return a.Cluster.text(s)
		case "meta_data":
			return a.MetaData.json(s)
		}
		return s.skip()
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
type clusterRecord struct{ ID, Name, DefaultQueue text }

func (r *clusterRecord) read(s *stream) error {
	_, err := s.object(func(name []byte) error {
		switch string(name) {
		case "id":
			return s.into(&r.ID)
		case "name":
			return s.into(&r.Name)
		case "default_queue_id":
			return s.into(&r.DefaultQueue)
		}
		return s.skip()
	})
	return err
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

func (r *agentTokenRecord) read(s *stream) error {
	_, err := s.object(func(name []byte) error {
		switch string(name) {
		case "id":
			return s.into(&r.ID)
		case "description":
			return s.into(&r.Description)
		case "expires_at":
			return s.into(&r.Expires)
		}
		return s.skip()
	})
	return err
}

func (r *agentTokenRecord) invalid() string {
	if r.ID == "" {
		return "it has no id"
	}
	return ""
}

// queueRecord is a cluster queue. Hosted is set for a queue of Buildkite hosted agents:
// the response that creates one has hosted and hosted_agents (docs
// apis/rest_api/clusters/queues.md "Create a Buildkite hosted queue"), and "Queue data
// model" has hosted_agents only.
type queueRecord struct {
	ID, Key        text
	Paused, Hosted flag
}

func (r *queueRecord) read(s *stream) error {
	_, err := s.object(func(name []byte) error {
		switch string(name) {
		case "id":
			return s.into(&r.ID)
		case "key":
			return s.into(&r.Key)
		case "dispatch_paused":
			return s.into(&r.Paused)
		case "hosted":
			var hosted flag
			err := s.into(&hosted)
			r.Hosted = r.Hosted || hosted
			return err
		case "hosted_agents":
			there, err := s.object(func([]byte) error { return s.skip() })
			r.Hosted = r.Hosted || flag(there)
			return err
		}
		return s.skip()
	})
	return err
}

func (r *queueRecord) invalid() string {
	if r.ID == "" || r.Key == "" {
		return "it has no id or key"
	}
	return ""
}

// bytesOf is a field that is read into again and again, for its room.
type bytesOf []byte

// json consumes a value and keeps it as it is written.
func (b *bytesOf) json(s *stream) error {
	raw, err := s.raw()
	*b = append((*b)[:0], raw...)
	return err
}

// text consumes a value and keeps what its string holds; anything else counts
// as missing.
func (b *bytesOf) text(s *stream) error {
	raw, err := s.raw()
	if err != nil {
		return err
	}
	if plain, ok := plainString(raw); ok {
		*b = append((*b)[:0], plain...)
		return nil
	}
	var t text
	err = t.UnmarshalJSON(raw)
	*b = append((*b)[:0], t...)
	return err
}

// text is a string; anything else counts as missing.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	if plain, ok := plainString(raw); ok {
		*t = text(plain)
		return nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = ""
	}
	*t = text(s)
	return nil
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
