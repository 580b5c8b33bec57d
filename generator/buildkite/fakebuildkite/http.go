package fakebuildkite

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// answer is what a request gets.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func message(status int, text string) answer {
	return answer{status: status, body: encode(map[string]string{"message": text})}
}

// ServeHTTP answers as api.buildkite.com does, and below /v3 as
// agent.buildkite.com.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.opts.BeforeRequest != nil {
		s.opts.BeforeRequest(r)
	}
	var body []byte
	switch {
	case r.URL.Path == streamPath:
		s.stream(w, r)
		return
	case r.Body != nil:
		body, _ = io.ReadAll(r.Body) // half a request is invalid JSON
	}
	s.mu.Lock()
	header := http.Header{
		"Content-Type": {"application/json; charset=utf-8"},
		"Date":         {s.now.UTC().Format(http.TimeFormat)}, // RFC 9110, 6.6.1
	}
	f := s.fault(r.URL.RequestURI())
	var a answer
	switch {
	case f != nil && f.Hang:
		s.mu.Unlock()
		<-r.Context().Done()
		return
	case f != nil && f.Cut:
		s.mu.Unlock()
		if recorded, ok := w.(*recorder); ok {
			recorded.cut = true
			return
		}
		panic(http.ErrAbortHandler)
	case f != nil && f.Status != 0 && f.Body == "":
		a = message(f.Status, http.StatusText(f.Status))
	case f != nil && f.Body != "":
		a = answer{status: max(f.Status, http.StatusOK), body: []byte(f.Body)}
	case strings.HasPrefix(r.URL.Path, "/v3/"):
		a = s.answerAgent(r, body)
	default:
		a = s.answer(r, header, body)
	}
	s.unlock()
	maps.Copy(w.Header(), header)
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	if f != nil {
		for name, values := range f.Header {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		if f.Half {
			a.body = a.body[:len(a.body)/2]
		}
		if f.Trickle {
			w.(*recorder).slow = true
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client has disconnected
}

// answer authenticates, counts against the limits and routes.
func (s *Server) answer(r *http.Request, header http.Header, body []byte) answer {
	// Bearer and nothing else: docs apis/rest_api.md "Authentication". The
	// texts of 401, 403 and 404 are not documented.
	if r.Header.Get("Authorization") != "Bearer "+s.opts.Token {
		return message(http.StatusUnauthorized, "Authentication required.")
	}
	if a, over := s.limit(header); over {
		return a
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) == 2 && path[0] == "v2" && path[1] == "access-token" {
		// docs apis/rest_api/access_token.md; expires_at is null for a token
		// without an end (docs apis/managing_api_tokens.md).
		return answer{status: http.StatusOK, body: encode(map[string]any{
			"uuid": "00000000-0000-4000-8000-000000000000", "scopes": s.opts.Scopes, "expires_at": stamp(s.opts.TokenExpires),
		})}
	}
	if len(path) < 4 || path[0] != "v2" || path[1] != "organizations" {
		return message(http.StatusNotFound, "Not Found")
	}
	if path[2] != s.opts.Org {
		return message(http.StatusNotFound, "No organization found")
	}
	return s.route(r, path[3:], body)
}

func (s *Server) route(r *http.Request, path []string, body []byte) answer {
	scope := scopeOf(r, path)
	if scope == "" {
		return message(http.StatusNotFound, "Not Found")
	}
	if !slices.Contains(s.opts.Scopes, scope) {
		return message(http.StatusForbidden, "Forbidden: the token lacks the scope "+scope)
	}
	query := r.URL.Query()
	switch {
	case r.Method != http.MethodGet:
		return s.change(r, path, body)
	case path[0] == "agents" && len(path) == 1:
		n, record := s.listAgents(query.Get("cluster_queue_id"))
		return s.page(r, "agents", n, record)
	case path[0] == "agents" && len(path) == 2:
		a := s.agentByID[path[1]]
		if a == nil {
			return message(http.StatusNotFound, "No agent found")
		}
		return answer{status: http.StatusOK, body: encode(s.agentRecordJSON(a))}
	case path[0] == "pipelines" && len(path) == 1:
		return s.listPipelines(r)
	case path[0] == "builds" && len(path) == 1, scope == "read_builds" && len(path) == 3:
		builds, err := s.listBuilds(query)
		if path[0] == "pipelines" {
			builds, err = s.buildsOf(path[1], query)
		}
		if err != nil {
			return message(http.StatusBadRequest, err.Error())
		}
		retried, bare := query.Get("include_retried_jobs") == "true", query.Get("exclude_pipeline") == "true"
		return s.page(r, "builds", len(builds), func(i int) []byte { return s.encodeBuild(builds[i], retried, bare) })
	case path[0] == "clusters" && len(path) == 1:
		return s.page(r, "clusters", len(s.clusters), func(i int) []byte {
			c := s.clusters[i]
			record := clusterJSON{ID: c.id, Name: c.name}
			if c.def != nil {
				record.DefaultQueueID = &c.def.id
			}
			return encode(record)
		})
	case path[0] == "clusters" && len(path) == 3 && (path[2] == "queues" || path[2] == "tokens"):
		i := slices.IndexFunc(s.clusters, func(c *cluster) bool { return c.id == path[1] })
		if i < 0 {
			return message(http.StatusNotFound, "No cluster found")
		}
		if path[2] == "tokens" {
			return s.listTokens(r, s.clusters[i])
		}
		queues := s.clusters[i].queues
		return s.page(r, "queues", len(queues), func(i int) []byte { return queues[i].encode() })
	}
	return message(http.StatusNotFound, "Not Found")
}

func (q *queue) encode() []byte {
	record := queueJSON{ID: q.id, Key: q.key, Description: q.description, DispatchPaused: q.paused, Hosted: q.hosted}
	if q.hosted {
		record.HostedAgents = &hostedAgents{InstanceShape: map[string]any{"machine_type": "linux", "name": "LINUX_AMD64_2X4"}}
	}
	return encode(record)
}

// listAgents lists connected and stopping agents only (docs
// apis/rest_api/agents.md "List agents"), the newest first; the order is not
// documented. With cluster_queue_id they are those of one queue; what is answered for one
// that is not there is not documented.
func (s *Server) listAgents(queue string) (int, func(int) []byte) {
	list := s.connected
	if queue != "" && !s.opts.NoAgentFilter {
		list = slices.DeleteFunc(slices.Clone(list), func(a *agent) bool { return a.cluster.id == "" || a.queues[0].id != queue })
	}
	n := len(list)
	return n, func(i int) []byte { return encode(s.agentRecordJSON(list[n-1-i])) }
}

// listBuilds applies the filters of docs
// apis/rest_api/_builds_list_query_strings.md, newest build first.
func (s *Server) listBuilds(query url.Values) ([]*build, error) {
	states := append(query["state[]"], query["state"]...)
	from, err := timeOf(query, "finished_from")
	if err != nil {
		return nil, err
	}
	created, err := timeOf(query, "created_from")
	if err != nil {
		return nil, err
	}
	var builds []*build
	for _, b := range s.candidates(states, from) {
		if !b.deleted && (len(query["branch"]) == 0 || slices.Contains(query["branch"], b.spec.Branch)) && (len(states) == 0 || slices.ContainsFunc(states, b.hasState)) &&
			(from.IsZero() || b.over() && !b.finishedAt.Before(from) && !(b.blocked && s.opts.BlockedUnfinished)) &&
			!b.created.Before(created) {
			builds = append(builds, b)
		}
	}
	slices.SortFunc(builds, func(x, y *build) int { return y.order - x.order })
	return slices.Compact(builds), nil
}

// timeOf returns the time in a parameter of a query; zero if it is absent.
func timeOf(query url.Values, name string) (t time.Time, err error) {
	if raw := query.Get(name); raw != "" {
		if t, err = time.Parse(time.RFC3339, raw); err != nil {
			return t, errors.New(name + " is not an ISO 8601 time")
		}
	}
	return t, nil
}

// candidates returns the builds that may match, so that a long history is not
// searched for the few builds under way.
func (s *Server) candidates(states []string, from time.Time) []*build {
	if !from.IsZero() {
		first := sort.Search(len(s.finished), func(i int) bool { return !s.finished[i].at.Before(from) })
		var builds []*build
		for _, f := range s.finished[first:] {
			if f.build.finishedAt.Equal(f.at) {
				builds = append(builds, f.build)
			}
		}
		return builds
	}
	under := []string{"creating", "scheduled", "running", "failing", "canceling"}
	over := func(state string) bool { return !slices.Contains(under, state) }
	if len(states) == 0 || slices.ContainsFunc(states, over) {
		return s.builds
	}
	return s.active
}

// hasState reports whether a build matches a state of the filter: finished includes passed, failed,
// blocked and canceled.
func (b *build) hasState(state string) bool {
	switch state {
	case "blocked":
		return b.blocked
	case "finished":
		return b.blocked || b.state == "passed" || b.state == "failed" || b.state == "canceled"
	}
	return b.state == state
}

// page answers with one page of a list: 30 records unless told, at most 100,
// with a Link header to the others (docs apis/rest_api.md "Pagination").
func (s *Server) page(r *http.Request, name string, n int, record func(int) []byte) answer {
	query := r.URL.Query()
	page, size := number(query.Get("page"), 1), min(number(query.Get("per_page"), 30), 100)
	var records [][]byte
	for i := (page - 1) * size; i < min(page*size, n); i++ {
		records = append(records, record(i))
	}
	for _, odd := range s.invalid[name] {
		records = append(records, []byte(odd))
	}
	header := http.Header{}
	if link := links(r, page, (n+size-1)/size); link != "" {
		header.Set("Link", link)
	}
	return answer{status: http.StatusOK, header: header, body: list(records)}
}

// number reads a positive number of a query.
func number(raw string, otherwise int) int {
	if n, err := strconv.Atoi(raw); err == nil && n > 0 {
		return n
	}
	return otherwise
}

func links(r *http.Request, page, last int) string {
	var parts []string
	link := func(to int, rel string) {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(to))
		u := url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path, RawQuery: query.Encode()}
		parts = append(parts, fmt.Sprintf("<%s>; rel=%q", u.String(), rel))
	}
	if page > 1 {
		link(1, "first")
		link(page-1, "prev")
	}
	if page < last {
		link(page+1, "next")
		link(last, "last")
	}
	return strings.Join(parts, ", ")
}

// window is a minute of one rate limit.
type window struct {
	start time.Time
	used  int
}

// limit counts a request against both limits and writes the documented headers
// (docs apis/rest_api/rate_limits.md). Windows are minutes from the first
// request on; how Buildkite cuts them is not documented.
func (s *Server) limit(header http.Header) (answer, bool) {
	var refused answer
	over := false
	for i, l := range []struct {
		scope, prefix string
		limit         int
	}{{"rest", "RateLimit-", s.opts.OrgLimit}, {"rest_user", "RateLimit-User-", s.opts.UserLimit}} {
		if l.limit <= 0 {
			continue
		}
		w := s.window(i)
		w.used++
		reset := int((time.Minute - s.now.Sub(w.start) + time.Second - 1) / time.Second)
		header.Set(l.prefix+"Scope", l.scope)
		header.Set(l.prefix+"Limit", strconv.Itoa(l.limit))
		header.Set(l.prefix+"Remaining", strconv.Itoa(max(0, l.limit-w.used)))
		header.Set(l.prefix+"Reset", strconv.Itoa(reset))
		if w.used > l.limit {
			s.refused += count(!over)
			over = true
			refused = tooMany(l.scope, l.limit, w.used, reset)
		}
	}
	return refused, over
}

// SetLimits changes the limits of requests per minute, as [Options].UserLimit and OrgLimit.
func (s *Server) SetLimits(user, org int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.UserLimit, s.opts.OrgLimit = user, org
}

// Spend uses up requests of the organisation's limit, as its other users do.
func (s *Server) Spend(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window(0).used += requests
}

// window returns the minute under way of a limit.
func (s *Server) window(i int) *window {
	w := &s.windows[i]
	if s.now.Sub(w.start) >= time.Minute {
		*w = window{start: s.now}
	}
	return w
}

// tooMany refuses a request that is above a limit.
func tooMany(scope string, limit, used, reset int) answer {
	return answer{status: http.StatusTooManyRequests, body: encode(map[string]any{
		"message": fmt.Sprintf("You have exceeded your API rate limit. Please wait %d seconds before making more requests.", reset),
		"scope":   scope, "limit": limit, "current": used, "reset": reset,
	})}
}
