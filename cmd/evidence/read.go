package evidence

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/generator/buildkite"
)

// source is a response, or several, that checks need.
type source string

const (
	sourceToken    source = "access-token"
	sourceAgents   source = "agents"
	sourceAgain    source = "agents, again"
	sourceQueue    source = "agents of a queue"
	sourceClusters source = "clusters"
	sourceQueues   source = "queues"
	sourceTokens   source = "agent tokens"
	sourceNewest   source = "builds"
	sourceActive   source = "builds under way"
	sourceFinished source = "finished builds"
	sourceBlocked  source = "blocked builds"
	sourceInvalid  source = "an invalid token"
	sourceMetrics  source = "metrics"
	sourceStack    source = "a stack"
)

// Limits of what is read: pages of agents, of queues and of builds under way, clusters whose queues are listed, the
// age of finished builds, and the time and the size of one response.
const (
	pageSize       = 100
	mostPages      = 5
	mostActive     = 3
	mostClusters   = 5
	recent         = time.Hour
	requestTimeout = 30 * time.Second
	biggestAnswer  = 64 << 20
)

// exchange is a request and its response.
type exchange struct {
	path           string
	status         int
	header         http.Header
	body           []byte
	sent, received time.Time // by the clock of this machine
}

// observations are what was read of Buildkite.
type observations struct {
	org       string
	absent    map[source]string // why a source was not read
	exchanges []exchange        // all responses of the REST API
	refusal   *exchange         // a response with the status 429

	token   record
	scopes  []string
	first   exchange // the first of several agents
	invalid int      // status of an invalid token
	scope   string   // which the token lacks; empty if it has all that were tried
	lacking int      // status without that scope

	// agents were read at agentsAt, by Buildkite's clock. whole reports whether these are all.
	agents   []record
	agentsAt time.Time
	whole    bool
	last     exchange // the last page of agents
	again    []record // the first page once more
	queue    string   // whose agents are ofQueue
	ofQueue  []record

	clusters, queues, tokens []record
	home                     map[string]string // the cluster of a queue, by identifiers

	newest                    []record // builds in any state, read before the agents
	active, finished, blocked []record // read after the agents
	activeWhole               bool     // active has all of them
	finishedWhole             bool
	since                     time.Time // of finished

	metrics exchange
	stack   exchange
}

// recorder sends requests within a budget and records the responses.
type recorder struct {
	next  http.RoundTripper
	clock buildkite.Clock
	waits bool // the sender waits for the end of a limit
	flood bool // more is sent than a limit allows
	o     *observations

	mu    sync.Mutex
	left  int
	spare int // requests of a minute's limit that are kept for the removal
}

// kept is the key of the exchange, in the context of a request, that gets its response.
type kept struct{}

var (
	errBudget  = errors.New(noRequestsLeft)
	errRefused = errors.New("a request was refused (429)")
)

// RoundTrip implements [http.RoundTripper].
func (t *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	over, refused := t.left <= 0, t.o.refusal != nil && !t.waits && !t.flood
	if !over && !refused {
		t.left--
	}
	t.mu.Unlock()
	switch {
	case refused:
		return nil, errRefused
	case over:
		return nil, errBudget
	}
	x := exchange{sent: t.clock.Now()}
	_, x.path, _ = strings.Cut(r.URL.RequestURI(), "/v2/organizations/"+t.o.org+"/")
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.body, err = io.ReadAll(io.LimitReader(response.Body, biggestAnswer+1))
	_ = response.Body.Close()
	switch {
	case err != nil:
		return nil, err
	case len(x.body) > biggestAnswer:
		return nil, fmt.Errorf("the answer is larger than %d MiB", biggestAnswer>>20)
	}
	x.received, x.status, x.header = t.clock.Now(), response.StatusCode, response.Header
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.status == http.StatusTooManyRequests {
		t.o.refusal = &x
	}
	if !t.waits && !t.flood && (x.header.Get("RateLimit-Remaining") == "0" || x.header.Get("RateLimit-User-Remaining") == "0") {
		t.left = 0
	}
	response.Body = http.NoBody
	if to, ok := r.Context().Value(kept{}).(*exchange); ok {
		*to = x
		x.body = nil // only its header is compared later, and bodies are large
	} else {
		response.Body = io.NopCloser(bytes.NewReader(x.body))
	}
	t.o.exchanges = append(t.o.exchanges, x)
	return response, nil
}

// reader reads Buildkite.
type reader struct {
	Config
	rest, agent *recorder // of the REST API and the Agent API
	base        string    // of the REST API, with the organisation
	token       string
	o           *observations
}

// connect verifies the token. An error means that Buildkite does not accept it or the organisation, or is not
// reached.
func connect(ctx context.Context, c Config) (*reader, error) {
	o := &observations{org: c.Org, absent: map[source]string{}, home: map[string]string{}}
	next := c.HTTP
	if next == nil {
		next = http.DefaultTransport
	}
	t := &recorder{next: next, clock: c.Clock, left: c.Budget, o: o}
	agents := &recorder{next: next, clock: c.Clock, left: AgentRequests, o: &observations{}}
	if c.Write != nil {
		t.left, agents.left, t.waits, agents.waits = t.left+WriteRequests-removalRequests, AgentRequests+WriteAgentRequests, true, true
		t.spare = spareRequests
	}
	client, err := buildkite.New(buildkite.Config{Org: c.Org, URL: c.URL, Token: c.Token, HTTP: t, Clock: c.Clock})
	if err != nil {
		return nil, err
	}
	c.Doing("reading Buildkite")
	if _, err := client.Verify(ctx); err != nil {
		return nil, err
	}
	token, err := c.Token()
	if err != nil {
		return nil, err
	}
	c.URL = strings.TrimSuffix(strings.TrimSuffix(cmp.Or(c.URL, buildkite.DefaultURL), "/"), "/v2")
	o.keepVerified()
	return &reader{Config: c, rest: t, agent: agents, base: c.URL + "/v2/organizations/" + c.Org + "/", token: strings.TrimSpace(token), o: o}, nil
}

// read reads Buildkite. Its error is that of the context.
func (r *reader) read(ctx context.Context) error {
	for _, part := range []struct {
		source source
		read   func(context.Context) error
	}{
		{sourceClusters, r.readClusters},
		{sourceNewest, r.readNewest},
		{sourceAgents, r.readAgents},
		{sourceActive, r.readActive},
		{sourceFinished, r.readFinished},
		{sourceBlocked, r.readBlocked},
		{sourceAgain, r.readAgain},
		{sourceQueues, r.readQueues},
		{sourceQueue, r.readOfQueue},
		{sourceTokens, r.readTokens},
		{sourceInvalid, r.readInvalid},
		{sourceMetrics, r.readMetrics},
		{sourceStack, r.readStack},
	} {
		err := part.read(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.o.absent[part.source] = reason(err)
		}
	}
	return nil
}

// reason returns the reason why a source was not read, without addresses.
func reason(err error) string {
	var status statusError
	var why absent
	switch {
	case errors.Is(err, errBudget):
		return noRequestsLeft
	case errors.Is(err, errRefused):
		return errRefused.Error()
	case errors.As(err, &status), errors.As(err, &why):
		return err.Error()
	}
	return "a request failed"
}

// absent is the reason why a source was not read.
type absent string

func (a absent) Error() string { return string(a) }

// statusError is a response with an error status.
type statusError struct {
	what   string
	status int
}

func (e statusError) Error() string { return fmt.Sprintf("the status of %s is %d", e.what, e.status) }

// keepVerified keeps the responses to the requests of [buildkite.Client.Verify].
func (o *observations) keepVerified() {
	for _, x := range o.exchanges {
		switch {
		case strings.HasPrefix(x.path, "agents?"):
			o.first = x
		case x.status == http.StatusOK:
			_ = json.Unmarshal(x.body, &o.token) // the client has decoded it
			o.scopes, _ = o.token.texts("scopes")
		}
	}
}

// send sends a request, with a body in JSON unless that is nil. If live writes, it waits for the end of a limit.
func (r *reader) send(ctx context.Context, by *recorder, method, address, authorization string, body any) (x exchange, err error) {
	var raw []byte
	if body != nil {
		if raw, err = json.Marshal(body); err != nil {
			return x, err
		}
	}
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: by, CheckRedirect: stop, Timeout: requestTimeout}
	for {
		request, err := http.NewRequestWithContext(context.WithValue(ctx, kept{}, &x), method, address, bytes.NewReader(raw))
		if err != nil {
			return x, err
		}
		request.Header.Set("Authorization", authorization)
		if body != nil {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := client.Do(request)
		if err != nil {
			return x, err
		}
		_ = response.Body.Close() // the recorder has read it
		limited := x.status == http.StatusTooManyRequests
		if wait := by.limitLeft(x.header); by.waits && (limited || wait > 0) {
			if err := r.Clock.Sleep(ctx, max(wait, time.Second)); err != nil || !limited {
				return x, err
			}
			continue
		}
		return x, nil
	}
}

// limitLeft returns the time until the end of the minute of a limit that few requests remain of; zero if enough do.
func (t *recorder) limitLeft(h http.Header) (wait time.Duration) {
	for _, scope := range []string{"RateLimit-", "RateLimit-User-"} {
		remaining, err := strconv.Atoi(h.Get(scope + "Remaining"))
		limit, _ := strconv.Atoi(h.Get(scope + "Limit"))
		enough := max(2, min(t.spare, limit/2))
		if reset, invalid := strconv.Atoi(h.Get(scope + "Reset")); err == nil && invalid == nil && remaining < enough {
			wait = max(wait, time.Duration(min(reset, 60)+1)*time.Second)
		}
	}
	return wait
}

// get requests a path of the organisation.
func (r *reader) get(ctx context.Context, path, token string) (exchange, error) {
	return r.send(ctx, r.rest, http.MethodGet, r.base+path, "Bearer "+token, nil)
}

// list reads the pages of a list, and reports whether they are all. The last response is returned.
func (r *reader) list(ctx context.Context, path string, pages int) (all []record, last exchange, whole bool, err error) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for page := 1; page <= pages; page++ {
		if last, err = r.get(ctx, fmt.Sprintf("%s%spage=%d&per_page=%d", path, separator, page, pageSize), r.token); err != nil {
			return nil, last, false, err
		}
		what, _, _ := strings.Cut(path, "?")
		if last.status != http.StatusOK {
			return nil, last, false, statusError{what[strings.LastIndex(what, "/")+1:], last.status}
		}
		var records []record
		if err := json.Unmarshal(last.body, &records); err != nil {
			return nil, last, false, absent("a response is not a list")
		}
		all = append(all, records...)
		if !hasNext(last.header) {
			return all, last, true, nil
		}
	}
	return all, last, false, nil
}

// hasNext reports whether a response names a next page.
func hasNext(h http.Header) bool { return strings.Contains(h.Get("Link"), `rel="next"`) }

func (r *reader) readClusters(ctx context.Context) (err error) {
	r.o.clusters, _, _, err = r.list(ctx, "clusters", 1)
	return err
}

// jobsWhole selects what muster requests of builds.
const jobsWhole = "include_retried_jobs=true&exclude_pipeline=true"

func (r *reader) readNewest(ctx context.Context) (err error) {
	r.o.newest, _, _, err = r.list(ctx, "builds?"+jobsWhole, 1)
	return err
}

func (r *reader) readAgents(ctx context.Context) (err error) {
	if r.Write != nil { // agents have connected since the first request
		if r.o.first, err = r.get(ctx, "agents?per_page=1", r.token); err != nil {
			return err
		}
	}
	r.o.agents, r.o.last, r.o.whole, err = r.list(ctx, "agents", mostPages)
	r.o.agentsAt, _ = http.ParseTime(r.o.last.header.Get("Date"))
	if r.o.agentsAt.IsZero() {
		r.o.agentsAt = r.o.last.received
	}
	return err
}

func (r *reader) readAgain(ctx context.Context) (err error) {
	r.o.again, _, _, err = r.list(ctx, "agents", 1)
	return err
}

func (r *reader) readActive(ctx context.Context) (err error) {
	r.o.active, _, r.o.activeWhole, err = r.list(ctx, "builds?state[]=scheduled&state[]=running&state[]=failing&"+jobsWhole, mostActive)
	return err
}

func (r *reader) readFinished(ctx context.Context) (err error) {
	r.o.since = r.Clock.Now().Add(-recent).UTC().Truncate(time.Second)
	r.o.finished, _, r.o.finishedWhole, err = r.list(ctx, "builds?finished_from="+url.QueryEscape(r.o.since.Format(time.RFC3339))+"&"+jobsWhole, 1)
	return err
}

func (r *reader) readBlocked(ctx context.Context) (err error) {
	r.o.blocked, _, _, err = r.list(ctx, "builds?state[]=blocked&"+jobsWhole, 1)
	return err
}

// readQueues reads the queues of the clusters with most agents.
func (r *reader) readQueues(ctx context.Context) error {
	if why := r.o.absent[sourceClusters]; why != "" {
		return absent(why)
	}
	size := map[string]int{}
	for _, a := range r.o.agents {
		cluster, _, _ := place(a)
		size[cluster]++
	}
	clusters := slices.Clone(r.o.clusters)
	slices.SortStableFunc(clusters, func(a, b record) int { return size[b.text("id")] - size[a.text("id")] })
	for _, c := range clusters[:min(len(clusters), mostClusters)] {
		queues, _, whole, err := r.list(ctx, "clusters/"+url.PathEscape(c.text("id"))+"/queues", mostPages)
		if err == nil && !whole {
			err = absent("a cluster has more queues than are read")
		}
		if err != nil {
			return err
		}
		for _, q := range queues {
			r.o.home[q.text("id")] = c.text("id")
		}
		r.o.queues = append(r.o.queues, queues...)
	}
	return nil
}

// readOfQueue reads the agents of the queue with most agents, or of a default queue if their pages name none.
func (r *reader) readOfQueue(ctx context.Context) (err error) {
	size := map[string]int{}
	for _, a := range r.o.agents {
		if _, queue, ok := place(a); ok {
			size[queue]++
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(size)) {
		if size[queue] > size[r.o.queue] {
			r.o.queue = queue
		}
	}
	for _, c := range r.o.clusters {
		r.o.queue = cmp.Or(r.o.queue, c.text("default_queue_id"))
	}
	if r.o.queue == "" {
		return absent("no agent is in a cluster")
	}
	r.o.ofQueue, _, _, err = r.list(ctx, "agents?cluster_queue_id="+url.QueryEscape(r.o.queue), 1)
	return err
}

func (r *reader) readTokens(ctx context.Context) (err error) {
	if len(r.o.clusters) == 0 {
		return absent(cmp.Or(r.o.absent[sourceClusters], "no cluster is listed"))
	}
	r.o.tokens, _, _, err = r.list(ctx, "clusters/"+url.PathEscape(r.o.clusters[0].text("id"))+"/tokens", 1)
	return err
}

// readInvalid sends a token that does not exist, and a request whose scope the token lacks.
func (r *reader) readInvalid(ctx context.Context) error {
	x, err := r.get(ctx, "agents?per_page=1", missingName)
	if err != nil {
		return err
	}
	r.o.invalid = x.status
	for _, list := range []string{"pipelines", "teams"} {
		if scope := "read_" + list; !slices.Contains(r.o.scopes, scope) {
			x, err = r.get(ctx, list+"?per_page=1", r.token)
			r.o.scope, r.o.lacking = scope, x.status
			break
		}
	}
	return err
}

func (r *reader) readMetrics(ctx context.Context) (err error) {
	r.o.metrics, err = r.agentAPI(ctx, http.MethodGet, "metrics", nil)
	if err == nil && r.o.metrics.status != http.StatusOK {
		err = statusError{"metrics", r.o.metrics.status}
	}
	return err
}

func (r *reader) readStack(ctx context.Context) (err error) {
	r.o.stack, err = r.agentAPI(ctx, http.MethodGet, "stacks/"+missingName+"/scheduled-jobs?queue_key=default", nil)
	return err
}

// agentAPI requests a path of the Agent API.
func (r *reader) agentAPI(ctx context.Context, method, path string, body any) (x exchange, err error) {
	if r.AgentToken == nil {
		return x, absent("no agent token is given")
	}
	token, err := r.AgentToken()
	if err != nil {
		return x, err
	}
	base := strings.TrimSuffix(strings.TrimSuffix(cmp.Or(r.AgentURL, buildkite.DefaultAgentURL), "/"), "/v3")
	return r.send(ctx, r.agent, method, base+"/v3/"+path, "Token "+token, body)
}

// pageOfAgent matches the address of the page of an agent in a cluster.
var pageOfAgent = regexp.MustCompile(`/clusters/([^/?#]+)/queues/([^/?#]+)/agents/([^/?#]+)$`)

// place returns the cluster and the queue in the address of an agent's page; false if it has none, or that of another
// agent.
func place(agent record) (cluster, queue string, ok bool) {
	m := pageOfAgent.FindStringSubmatch(agent.text("web_url"))
	if m == nil || m[3] != agent.text("id") {
		return "", "", false
	}
	return m[1], m[2], true
}
