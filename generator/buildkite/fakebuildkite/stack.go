package fakebuildkite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The Stacks API, limited to scheduled jobs, job states and notifications (docs
// apis/agent_api/stacks.md, unless another source is named).

const (
	// maxStacks are allowed in an organisation: docs platform/limits.md.
	maxStacks = 30
	// maxListed is the maximum number of jobs in one response. someListed is the default, which is
	// not documented.
	maxListed, someListed = 1000, 100
	// maxNotes is the maximum number of notifications on one job's page, maxDetail the maximum
	// number of characters of each, and maxTogether the maximum in one request. The server rejects
	// notifications for a job that finished long ago.
	maxNotes, maxDetail, maxTogether = 100, 256, 1000
	notesUntil                       = 300 * time.Second
)

// stack is one that has registered.
type stack struct {
	id, key, kind, queue string
	cluster              *cluster
	metadata             map[string]string
	asked                map[string][]time.Time // by scope, within the last second
}

// Note is a stack's notification on a job's page.
type Note struct {
	Stack, Detail string
	At            time.Time
}

// Stacks returns the keys of the stacks that are registered, sorted.
func (s *Server) Stacks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.stacks))
}

// Notes returns the notifications by stacks on a job's page, the oldest first.
func (s *Server) Notes(job string) []Note {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobByID[job]; j != nil {
		return slices.Clone(j.notes)
	}
	return nil
}

func (s *Server) answerStack(r *http.Request, c *cluster, path []string, body []byte) answer {
	if r.Method == http.MethodPost && len(path) == 1 && path[0] == "register" {
		return s.registerStack(c, body)
	}
	if len(path) < 2 {
		return message(http.StatusNotFound, "Not Found")
	}
	k := s.stacks[path[0]]
	if k == nil || k.cluster != c {
		return message(http.StatusNotFound, "Stack not found")
	}
	switch r.Method + " " + strings.Join(path[1:], "/") {
	case "POST jobs/get-states":
		return s.limited(k, "batch-load-job-states", 20, func() answer { return s.jobStates(c, body) })
	case "GET scheduled-jobs":
		return s.limited(k, "list-scheduled-jobs", 10, func() answer { return s.scheduledJobs(r, c) })
	case "POST notifications":
		return s.limited(k, "stack-notification", 200, func() answer { return s.takeNotes(k, body) })
	case "POST deregister":
		return s.limited(k, "default", 10, func() answer {
			delete(s.stacks, k.key)
			return answer{status: http.StatusNoContent}
		})
	}
	return message(http.StatusNotFound, "Not Found")
}

// limited counts a request against its limit: the maximum in a sliding second, for each stack and
// scope.
func (s *Server) limited(k *stack, scope string, limit int, then func() answer) answer {
	k.asked[scope] = slices.DeleteFunc(k.asked[scope], func(t time.Time) bool { return !t.After(s.now.Add(-time.Second)) })
	used := len(k.asked[scope]) + 1
	var a answer
	if used > limit {
		s.refused++
		a = tooMany(scope, limit, used, 1)
	} else {
		k.asked[scope] = append(k.asked[scope], s.now)
		a = then()
	}
	a.header = http.Header{
		"Ratelimit-Scope": {scope}, "Ratelimit-Limit": {strconv.Itoa(limit)},
		"Ratelimit-Remaining": {strconv.Itoa(max(0, limit-used))}, "Ratelimit-Reset": {"1"},
	}
	return a
}

// stackKey: alphanumeric characters, underscores and dashes, 80 bytes at most.
var stackKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

func (s *Server) registerStack(c *cluster, body []byte) answer {
	var request struct {
		Key      string            `json:"key"`
		Type     string            `json:"type"`
		Queue    string            `json:"queue_key"`
		Metadata map[string]string `json:"metadata"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return message(http.StatusBadRequest, "the registration is no JSON")
	}
	switch {
	case !stackKey.MatchString(request.Key):
		return message(http.StatusUnprocessableEntity, "key is invalid")
	case !slices.Contains([]string{"kubernetes", "elastic", "custom"}, request.Type):
		return message(http.StatusUnprocessableEntity, "type is invalid")
	case request.Queue == "" || request.Metadata == nil:
		return message(http.StatusUnprocessableEntity, "queue_key and metadata are required")
	}
	q := c.stackQueue(request.Queue)
	if q == nil {
		return message(http.StatusNotFound, "Queue not found")
	}
	k, status := s.stacks[request.Key], http.StatusOK
	switch {
	case k != nil && k.cluster != c:
		return message(http.StatusUnprocessableEntity, "key is taken")
	case k == nil && len(s.stacks) >= maxStacks:
		return message(http.StatusForbidden, "Stack limit exceeded")
	case k == nil:
		k, status = &stack{id: s.id('5'), key: request.Key, cluster: c, asked: map[string][]time.Time{}}, http.StatusCreated
		s.stacks[request.Key] = k
	}
	k.kind, k.queue, k.metadata = request.Type, q.key, request.Metadata
	return answer{status: status, body: encode(map[string]any{
		"id": k.id, "key": k.key, "type": k.kind, "cluster_queue_key": k.queue, "metadata": k.metadata, "state": "connected",
	})}
}

// stackQueue returns a self-hosted queue of the cluster by its key, __default__ for its default
// one; nil if it does not exist.
func (c *cluster) stackQueue(key string) *queue {
	q := c.byKey[key]
	if key == "__default__" {
		q = c.def
	}
	if c.id == "" || q == nil || q.id == "" || q.hosted { // stacks are for queues of clusters
		return nil
	}
	return q
}

type stackJob struct {
	ID        string         `json:"id"`
	Priority  int            `json:"priority"`
	Rules     []string       `json:"agent_query_rules"`
	Scheduled any            `json:"scheduled_at"`
	Pipeline  map[string]any `json:"pipeline"`
	Build     map[string]any `json:"build"`
	Step      map[string]any `json:"step"`
}

// scheduledJobs lists the jobs of a queue that can run now, by scheduled_at, without reserved ones.
// Whether jobs for any queue are listed is not documented: here they are not.
func (s *Server) scheduledJobs(r *http.Request, c *cluster) answer {
	query := r.URL.Query()
	q := c.stackQueue(query.Get("queue_key"))
	if q == nil {
		return message(http.StatusNotFound, "Queue not found")
	}
	limit := someListed
	if raw := query.Get("limit"); raw != "" {
		n, err := strconv.Atoi(raw)
		if err != nil || n <= 0 {
			return message(http.StatusBadRequest, "limit must be a positive integer")
		}
		limit = min(n, maxListed)
	}
	after := query.Get("after")
	if after != "" && !cursor.MatchString(after) {
		return message(http.StatusBadRequest, "after is invalid")
	}
	var waiting []*job
	for _, b := range s.active {
		for _, j := range b.jobs {
			if j.queue == q && (j.state == stateScheduled || j.lags()) && after < place(j) {
				waiting = append(waiting, j)
			}
		}
	}
	slices.SortFunc(waiting, func(x, y *job) int { return cmp.Compare(place(x), place(y)) })
	jobs := []stackJob{}
	for _, j := range waiting[:min(limit, len(waiting))] {
		jobs = append(jobs, j.forStack())
	}
	last := ""
	if len(jobs) > 0 {
		last = place(waiting[len(jobs)-1])
	}
	paused := "dispatch_paused"
	if s.opts.StackPaused {
		paused = "paused"
	}
	return answer{status: http.StatusOK, body: encode(map[string]any{
		"jobs": jobs, "cluster_queue": map[string]any{"id": q.id, paused: q.paused},
		"page_info": map[string]any{"has_next_page": len(waiting) > len(jobs), "end_cursor": orNull(last)},
	})}
}

func (j *job) forStack() stackJob {
	return stackJob{
		ID: j.id, Priority: j.step.Priority, Rules: append([]string{}, j.step.Agents...), Scheduled: stamp(j.scheduled),
		Pipeline: map[string]any{"slug": j.build.spec.Pipeline, "uuid": nil},
		Build:    map[string]any{"number": j.build.number, "branch": j.build.spec.Branch, "uuid": j.build.id},
		Step:     map[string]any{"key": orNull(j.step.Key)},
	}
}

// cursor matches the place of a job in a list.
var cursor = regexp.MustCompile(`^[0-9]{19}-[0-9]{19}$`)

// place returns the place of a job. Places are in the order of scheduled_at, then of upload.
func place(j *job) string { return fmt.Sprintf("%019d-%019d", j.scheduled.UnixNano(), j.seq) }

// takeNotes accepts valid notifications, and returns the errors of the others. The texts are this
// package's own, except for the two in the documentation.
func (s *Server) takeNotes(k *stack, body []byte) answer {
	var request struct {
		Notifications []struct {
			Job    string `json:"job_uuid"`
			Detail string `json:"detail"`
			At     string `json:"timestamp"`
		} `json:"notifications"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.Notifications == nil {
		return message(http.StatusBadRequest, "notifications is not an array")
	}
	if len(request.Notifications) > maxTogether {
		return message(http.StatusUnprocessableEntity, "too many notifications")
	}
	wrong := map[string][]int{}
	for i, n := range request.Notifications {
		j, at := s.jobByID[n.Job], s.now
		var err error
		if n.At != "" {
			at, err = time.Parse(time.RFC3339, n.At)
		}
		why := ""
		switch {
		case j == nil || j.build.cluster != k.cluster:
			why = "job not found"
		case n.Detail == "":
			why = "detail is required"
		case utf8.RuneCountInString(n.Detail) > maxDetail:
			why = "detail is too long"
		case err != nil || at.After(s.now) || at.Before(j.created.Truncate(time.Second)):
			why = "timestamp is invalid"
		case !j.finished.IsZero() && s.now.Sub(j.finished) > notesUntil:
			why = "job has finished"
		case len(j.notes) >= maxNotes:
			why = "job stack notification count exceeded"
		default:
			j.notes = append(j.notes, Note{Stack: k.key, Detail: n.Detail, At: at})
			continue
		}
		wrong[why] = append(wrong[why], i)
	}
	errs := []map[string]any{}
	for _, why := range slices.Sorted(maps.Keys(wrong)) {
		errs = append(errs, map[string]any{"error": why, "indexes": wrong[why]})
	}
	return answer{status: http.StatusOK, body: encode(map[string]any{"errors": errs})}
}

// maxStates is the maximum number of jobs in one request (docs apis/agent_api/stacks.md "Get job
// states").
const maxStates = 1000

// jobStates returns the states of jobs of the stack's cluster (docs apis/agent_api/stacks.md
// "Get job states"; limit "batch-load-job-states"). The names are those of Buildkite's own
// states (docs pipelines/configure/defining_steps.md "Job states"), in which a job that has
// ended is finished; buildkite/stacksapi get_job_states_test.go also has failed, as REST
// does: see [Options].RESTStates. The response for an unknown job is not documented: here it is
// omitted.
func (s *Server) jobStates(c *cluster, body []byte) answer {
	var request struct {
		Jobs []string `json:"job_uuids"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.Jobs == nil {
		return message(http.StatusBadRequest, "job_uuids is not an array")
	}
	if len(request.Jobs) > maxStates {
		return message(http.StatusUnprocessableEntity, "too many job_uuids")
	}
	states := map[string]string{}
	for _, id := range request.Jobs {
		j := s.jobByID[id]
		if j == nil || j.build.cluster != c {
			continue
		}
		states[id] = j.state
		if !s.opts.RESTStates && (j.state == statePassed || j.state == stateFailed) {
			states[id] = "finished"
		}
	}
	return answer{status: http.StatusOK, body: encode(map[string]any{"states": states})}
}
