// Package buildkite reads what Buildkite needs, through its REST API or with
// agent tokens alone, and reduces it to a [plan.Snapshot].
//
// One observation is this straight line:
//
//	agents    ← connected agents, all or by queue          1 request per 100
//	active    ← builds scheduled, running, failing         1 request per 100
//	finished  ← builds finished since a given time         1 request per 100
//	blocked   ← if a build is in neither of the two        1 request per 100
//	clusters  ← clusters and their queues, once a minute   1 request + 1 per cluster
//	snapshot  ← agents, jobs, sightings, queues            pure
//
// Agents are read before jobs. An agent that takes a job between the two
// readings counts as supply, and its job does not count as demand: muster orders
// too few agents, and the next observation corrects that. The reverse order would
// order too many. For the same reason finished builds are read after the active
// ones: a build that finishes between the two readings is in the second one, so
// that no build is in neither.
//
// An observation is complete, or it is an error. A request that fails or is truncated is
// repeated (see [retrier]), and if it fails again, the next call of [Client.Snapshot]
// continues. A page that is not a list fails the observation. An invalid record does
// not: it is counted, logged and left out, and the rest of the page is used. Pages are
// decoded as they arrive, with limits on size and time. Between observations the client
// keeps only the list of queues and the builds that are under way.
//
// Pages are numbered, so records move between pages if a list changes while it is
// read. A record that is listed twice counts once, by its later reading. No connected
// agent is missed, because muster would order an idle one again: pages of agents overlap
// (see [listing]). A build can be missed: muster then orders too few agents, and the next
// observation contains the build.
//
// # Request budget
//
// Buildkite allows 50 requests a minute to a user and 200 to an organisation
// (buildkite/docs pages/apis/rest_api/rate_limits.md), and returns both limits in each
// response. The client sends at most half of either in any minute; without a limit in
// a response, it applies none. With an observation every 15 seconds, up to 100
// agents, 100 active builds and five clusters, muster sends 4 × (1 + 1 + 1) + 6 =
// 18 requests a minute. An observation that needs more is spread over several calls
// of [Client.Snapshot]: all but the last return [*Unfinished]. Its maximum age is
// [LongestPoll]. A 429 is never retried at once: the client sends no request until the
// reset in Buildkite's response, and then continues where it stopped.
//
// # What the client depends on
//
// go-buildkite v3.13.0 provides the addresses, the authentication and the parsing
// of Link headers. The client does not use its decoder, because one unexpected value in a
// field that muster does not need would lose the page (go-buildkite #218). Its own
// retry never runs (see [RateLimited]). "docs" in this package's comments is
// the repository buildkite/docs, pages named below pages/.
package buildkite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"muster/generator/buildkite/steptime"
	"muster/generator/plan"

	buildkite "github.com/buildkite/go-buildkite/v3/buildkite"
)

// DefaultURL is Buildkite's own REST API.
const DefaultURL = buildkite.DefaultBaseURL

// DefaultTimeout is the longest that one request may take.
const DefaultTimeout = 30 * time.Second

// Config is the configuration of a [Client]. Org and Token are required; Stacks and Metrics
// replace Token.
type Config struct {
	// Org is the organisation's slug, as in buildkite.com/ORG.
	Org string
	// URL is the API's address; empty means [DefaultURL].
	URL string
	// Token returns the API access token. It is called for each poll,
	// so that a token can be replaced without a restart. If Token is nil, the client sends no
	// REST requests, and Metrics is the only source of the number of agents; see [plan.Counted].
	Token func() (string, error)
	// Metrics returns the number of agents if Token is nil. It has the same agent tokens as
	// Stacks, in the same order.
	Metrics *Metrics
	// Timeout is the longest that one request may take; zero means
	// [DefaultTimeout].
	Timeout time.Duration
	// PerPage is how many records to ask for at once, 1 to 100; zero means 100.
	PerPage int
	// CountLimited counts a scheduled job without runnable_at as demand. Such a
	// job is presumed to wait for its concurrency group: REST lists limited
	// jobs as scheduled, and runnable_at is set when limits are resolved (docs
	// pipelines/configure/defining_steps.md, two statements put together). Which jobs
	// have a concurrency group REST does not show: the job data model of docs
	// apis/rest_api/builds.md has no such field, and concurrency_wait_time_ms of docs
	// apis/rest_api/jobs.md is null without a group as well as before a slot. Turn
	// this on should Buildkite ever leave runnable_at out.
	CountLimited bool
	// WatchToken makes the client check once a day when the API token and the agent tokens of
	// the served clusters expire, and log it from [ExpiryWarning] on. It costs one request a
	// day, and one for each of these clusters.
	WatchToken bool
	// Stacks lists the jobs that can run, in place of REST; nil means REST. With Stacks, the
	// client reads builds only while it waits for agents, to see which of them have registered.
	Stacks *Stacks
	// Log is the logger; nil discards all records.
	Log *slog.Logger
	// HTTP sends the requests; nil means a transport of the client's own.
	HTTP http.RoundTripper
	// Clock is for the pauses before a failed request is repeated, and for the request budget. If it
	// is nil, a request is repeated at once, and requests are counted by the times of calls and of
	// Buildkite's responses, which are whole seconds.
	Clock Clock

	biggest int64 // maximum size of a response in bytes; zero means biggestAnswer
}

// Stats are the client's counters since it was made.
type Stats struct {
	// Requests counts the requests, Failures those that failed.
	Requests, Failures int64
	// RateLimited counts the 429 responses.
	RateLimited int64
	// Received is the size of the response bodies in bytes, uncompressed.
	Received int64
	// InvalidRecords counts the records that were invalid and left out.
	InvalidRecords int64
	// Org and User are the two limits in the last response.
	Org, User Limit
	// TokenExpires is when the token expires; zero if it does not, or if that was not
	// checked: see [Config].WatchToken.
	TokenExpires time.Time
}

// Limit is one rate limit: requests per minute, and how many are left. The zero
// value is an unknown limit.
type Limit struct{ Limit, Remaining int }

// Client reads one organisation. It is safe for concurrent use; observations
// are made one at a time.
type Client struct {
	cfg     Config
	http    *http.Client
	source  source
	retries *retrier

	observing sync.Mutex // held for a whole observation: guards what follows
	clusters  clusters
	poll      *poll // the unfinished poll, if any
	// pageSize is how many records a page has: fewer than PerPage since a page took too long, at
	// the time smaller.
	pageSize int
	smaller  time.Time
	// active are the builds that were running in the last poll, by creation time; nil before
	// the first poll.
	active   map[string]time.Time
	limited  int       // jobs without runnable_at at the last observation
	watched  time.Time // when the token's expiry was last read
	expiring time.Time // when the log first warned of the token's expiry; zero if it has not
	// agentTokens are the agent tokens that were last read, by cluster.
	agentTokens map[string]watchedTokens
	serves      []string        // queues of overlays, by key
	ownTags     map[string]bool // tags of the agents of overlays
	orders      []plan.Dispatch // of overlays
	lists       agentLists
	inferred    *agentTokenPoll     // the unfinished poll without an API token, if any
	times       *steptime.Times     // nil if no overlay looks ahead
	kinds       map[uint64][]string // rules of the jobs in times, by [steptime.Job].Rules
	pastRead    bool                // builds of the last day were read for them

	mu       sync.Mutex
	stats    Stats
	budget   budget
	at       time.Time // time of the current call of Snapshot, by the caller's clock
	began    time.Time // time of the first response to it, by Buildkite's clock
	answered time.Time // the last call in which a poll made progress
	latest   time.Time // time of the last response
	until    time.Time // earliest time of the next request, by the caller's clock
	scope    string    // scope of the limit that set until
	reported map[string]bool
}

// maxReported bounds what [Client.once] remembers.
const maxReported = 1000

// once calls log the first time for a key, so that an unchanged condition is not
// logged at each observation.
func (c *Client) once(key string, log func()) {
	c.mu.Lock()
	logged := c.reported[key] || len(c.reported) >= maxReported
	if !logged {
		if c.reported == nil {
			c.reported = map[string]bool{}
		}
		c.reported[key] = true
	}
	c.mu.Unlock()
	if !logged {
		log()
	}
}

// slug matches an organisation's slug, which is part of a path.
var slug = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

func checkOrg(org string) error {
	if slug.MatchString(org) {
		return nil
	}
	return fmt.Errorf("the Buildkite organisation %q is not a slug: write it as in buildkite.com/SLUG", org)
}

// New returns a client. It makes no request.
func New(cfg Config) (*Client, error) {
	if err := checkOrg(cfg.Org); err != nil {
		return nil, err
	}
	if err := cfg.checkTokens(); err != nil {
		return nil, err
	}
	if cfg.PerPage < 0 || cfg.PerPage > 100 {
		return nil, fmt.Errorf("%d records a page: Buildkite serves 1 to 100", cfg.PerPage)
	}
	var err error
	if cfg.URL, err = baseURL(cfg.URL); err != nil {
		return nil, err
	}
	cfg.PerPage = cmp.Or(cfg.PerPage, 100)
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.HTTP == nil {
		cfg.HTTP = ownTransport()
	}
	c := &Client{cfg: cfg, pageSize: cfg.PerPage, retries: &retrier{clock: cfg.Clock}}
	c.source = apiToken{c}
	if cfg.Token == nil {
		c.source = agentTokens{c}
		cfg.Metrics.need()
	}
	c.http = newHTTPClient(&transport{
		next: cfg.HTTP, note: c.note, received: c.received, biggest: cmp.Or(cfg.biggest, biggestAnswer),
	})
	return c, nil
}

// baseURL checks the API's address and returns it with a slash at its end. Without the
// slash, resolving a path against it would drop the last segment.
func baseURL(address string) (string, error) {
	if address == "" {
		return DefaultURL, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the Buildkite URL is invalid: write it as in " + DefaultURL)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the Buildkite URL must have no user, query or fragment: write it as in " + DefaultURL)
	}
	// Buildkite's documentation shows the version as part of the address.
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v2") + "/"
	return u.String(), nil
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// note records the limits and the time in a response.
func (c *Client) note(n notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Requests++
	if c.began.IsZero() {
		c.began = n.date
	}
	if n.date.After(c.latest) || c.began.Equal(n.date) {
		c.latest = n.date
	}
	c.budget.note(c.elapsed())
	if n.failed {
		c.stats.Failures++
	}
	if n.refused {
		c.stats.RateLimited++
	}
	if n.org != (Limit{}) {
		c.stats.Org = n.org
	}
	if n.user != (Limit{}) {
		c.stats.User = n.user
	}
}

// received counts bytes of a response.
func (c *Client) received(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Received += bytes
}

// elapsed returns the time by the clock, since the caller's time is in whole seconds. Without a
// clock it returns the caller's time plus the time that has passed in the responses to the current
// call.
func (c *Client) elapsed() time.Time {
	if c.cfg.Clock != nil {
		return c.cfg.Clock.Now()
	}
	if c.began.IsZero() || c.latest.Before(c.began) {
		return c.at
	}
	return c.at.Add(c.latest.Sub(c.began))
}

// session sends the requests of one observation, with one token.
type session struct {
	client *Client
	api    *buildkite.Client
	token  string
	poll   *poll // nil if the requests are not part of an observation
	reader *buildReader
}

// open reads the token and returns a session.
func (c *Client) open() (*session, error) {
	token, err := c.cfg.Token()
	if err != nil {
		return nil, fmt.Errorf("reading the Buildkite API token: %w", err)
	}
	token = strings.TrimSpace(token)
	if token == "" {
		return nil, errors.New("the Buildkite API token is empty: " + makeToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the Buildkite API token has blanks or control characters: " + makeToken)
	}
	api, err := buildkite.NewOpts(
		buildkite.WithTokenAuth(token),
		buildkite.WithBaseURL(c.cfg.URL),
		buildkite.WithHTTPClient(c.http),
		buildkite.WithUserAgent("muster"),
	)
	if err != nil {
		return nil, errors.New("creating a Buildkite client: the URL is invalid")
	}
	return &session{client: c, api: api, token: token}, nil
}

// get requests a path, and calls read with a decoder of the response. It repeats a request that
// failed; read is then called again.
func (s *session) get(ctx context.Context, path string, read func(*decoder) error) error {
	return s.client.retries.do(ctx, s.client.longestRetry(), path, func() error {
		_, err := s.attempt(ctx, path, read)
		return err
	})
}

// getPage is like get for a page of at most the given size. After a page that took too long,
// pages have half the size.
func (s *session) getPage(ctx context.Context, path func(size int) string, read func(*decoder) error) (response *buildkite.Response, err error) {
	c := s.client
	err = c.retries.do(ctx, c.longestRetry(), path(c.pageSize), func() error {
		response, err = s.attempt(ctx, path(c.pageSize), read)
		if half := c.pageSize / 2; timedOut(err) && half >= smallestPage {
			c.pageSize, c.smaller = half, c.at
		}
		return err
	})
	return response, err
}

// longestRetry returns how long after its first attempt a request may be repeated in the same
// call. Once a call has succeeded, a request that took too long is up to the next call, which a
// loop makes at once; a command must succeed in its only one.
func (c *Client) longestRetry() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered.IsZero() {
		return c.cfg.Timeout * 3 / 2
	}
	return c.cfg.Timeout / 2
}

const (
	// smallestPage is the smallest size to which pages shrink, and smallFor how long they stay
	// small.
	smallestPage = 10
	smallFor     = 10 * time.Minute
)

// attempt sends one request.
func (s *session) attempt(ctx context.Context, path string, read func(*decoder) error) (*buildkite.Response, error) {
	if err := s.mayRequest(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.Timeout)
	defer cancel()
	request, err := s.api.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.api.Do(request.WithContext(ctx), sink{read, cancel})
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		syntax.text = s.clean(syntax.text)
		return response, err
	case err != nil:
		return response, s.explain(err, path)
	}
	if s.poll != nil {
		s.poll.requests++
	}
	return response, nil
}

// mayRequest returns an error if an observation may send no more requests now.
func (s *session) mayRequest() error {
	if s.poll == nil {
		return nil
	}
	c := s.client
	perMinute := c.perMinute()
	c.mu.Lock()
	now := c.elapsed()
	wait := c.budget.wait(now, 1, perMinute)
	if wait > 0 {
		wait = c.budget.resume(now, s.poll.requests, perMinute)
	}
	c.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return c.unfinished(now, wait, s.poll.requests)
}

// sink is a destination to which the library copies a response. It decodes the response.
type sink struct {
	read   func(*decoder) error
	cancel func() // ends the request if the response cannot be decoded
}

// Write implements [io.Writer], which the library requires; it is not called.
func (k sink) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// ReadFrom implements [io.ReaderFrom].
func (k sink) ReadFrom(r io.Reader) (int64, error) {
	err := decodeError(k.read(newDecoder(r)))
	if err != nil {
		k.cancel()
	}
	return 0, err
}
