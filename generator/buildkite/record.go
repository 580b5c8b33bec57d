package buildkite

import (
	"encoding/json"
	"strings"
	"time"
)

// The records below decode only what is needed, and each field on its own: a
// value of an unexpected kind counts as missing. What cannot be done without
// is checked by the record's own odd method.

// agentRecord is an agent of the agents list (docs apis/rest_api/agents.md
// "Agent data model"). Cluster and queue are in no documented field of their
// own: they are in the address of the agent's page. The field paused is known
// from GraphQL (docs agent/self_hosted/pausing_and_resuming.md) and is read
// where REST should have it.
type agentRecord struct {
	ID        text       `json:"id"`
	Name      text       `json:"name"`
	State     text       `json:"connection_state"`
	Created   moment     `json:"created_at"`
	Connected moment     `json:"connected_at"`
	LastJob   moment     `json:"last_job_finished_at"`
	WebURL    text       `json:"web_url"`
	MetaData  texts      `json:"meta_data"`
	Job       *jobRecord `json:"job"`
	Cluster   text       `json:"cluster_id"`
	Paused    flag       `json:"paused"`
}

func (r *agentRecord) odd() string {
	switch "" {
	case string(r.ID):
		return "it has no id"
	case string(r.State):
		return "it has no connection_state"
	}
	return ""
}

// buildRecord is a build of the builds list (docs apis/rest_api/builds.md).
type buildRecord struct {
	ID       text      `json:"id"`
	State    text      `json:"state"`
	Jobs     rawList   `json:"jobs"`
	Pipeline *pipeline `json:"pipeline"`
}

func (r *buildRecord) odd() string {
	switch {
	case r.ID == "":
		return "it has no id"
	case r.State == "":
		return "it has no state"
	case !r.Jobs.ok:
		return "it has no list of jobs"
	}
	return ""
}

type pipeline struct {
	Cluster text `json:"cluster_id"`
}

// jobRecord is a job of a build (docs apis/rest_api/builds.md "Job data model").
// That its agent carries meta_data is not documented, though programs in the
// field read it there; see [sightings].
type jobRecord struct {
	ID         text         `json:"id"`
	Type       text         `json:"type"`
	State      text         `json:"state"`
	WebURL     text         `json:"web_url"`
	Rules      texts        `json:"agent_query_rules"`
	Cluster    text         `json:"cluster_id"`
	Queue      text         `json:"cluster_queue_id"`
	Agent      *agentRecord `json:"agent"`
	Retried    flag         `json:"retried"`
	CreatedAt  moment       `json:"created_at"`
	RunnableAt moment       `json:"runnable_at"`
}

func (r *jobRecord) odd() string {
	switch "" {
	case string(r.ID):
		return "it has no id"
	case string(r.Type):
		return "it has no type"
	case string(r.State):
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

func (r *clusterRecord) odd() string {
	if r.ID == "" {
		return "it has no id"
	}
	return ""
}

type queueRecord struct {
	ID     text `json:"id"`
	Key    text `json:"key"`
	Paused flag `json:"dispatch_paused"`
}

func (r *queueRecord) odd() string {
	if r.ID == "" || r.Key == "" {
		return "it has no id or key"
	}
	return ""
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

// texts are the strings of a list; what is no string is left out.
type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	*t = nil
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

// flag is true, or not.
type flag bool

func (f *flag) UnmarshalJSON(raw []byte) error {
	*f = string(raw) == "true"
	return nil
}

// moment is a time. set says that there is a value, even one that cannot be
// read: for runnable_at that alone says that the job is runnable.
type moment struct {
	set bool
	at  time.Time
}

func (m *moment) UnmarshalJSON(raw []byte) error {
	*m = moment{}
	var s string
	if string(raw) == "null" || json.Unmarshal(raw, &s) == nil && s == "" {
		return nil
	}
	m.set = true
	// The second form is that of the documentation's access tokens and, in
	// go-buildkite, of events.
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST"} {
		if at, err := time.Parse(layout, s); err == nil {
			m.at = at.UTC()
			break
		}
	}
	return nil
}

// rawList is a list of records that are decoded one by one later.
type rawList struct {
	ok  bool
	raw json.RawMessage
}

func (l *rawList) UnmarshalJSON(raw []byte) error {
	l.ok = len(raw) > 0 && raw[0] == '['
	l.raw = append(l.raw[:0], raw...)
	return nil
}
