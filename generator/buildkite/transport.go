package buildkite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// RateLimited says that Buildkite refuses requests until a limit is reset. The
// client sends none until then.
type RateLimited struct {
	// Scope is the limit that was reached: "rest" is the organisation's,
	// "rest_user" that of the token's user; others, as "list-scheduled-jobs", are a stack's.
	Scope string
	// Reset is how long to wait, from the moment of asking.
	Reset time.Duration
}

// Error implements error.
func (e *RateLimited) Error() string {
	whose := "the stack's"
	switch e.Scope {
	case scopeOrg:
		whose = "the organisation's"
	case scopeUser:
		whose = "the token's user's"
	case scopeMetrics:
		whose = "the agent token's"
	}
	return fmt.Sprintf("%s Buildkite rate limit (%s) is used up for another %s",
		whose, e.Scope, e.Reset.Round(time.Second))
}

// RetryAfter is how long not to ask, by which a caller knows the error.
func (e *RateLimited) RetryAfter() time.Duration { return e.Reset }

const (
	scopeOrg  = "rest"
	scopeUser = "rest_user"
	// Scopes of the Stacks API (docs apis/agent_api/stacks.md "Rate limiting").
	scopeStackJobs   = "list-scheduled-jobs"
	scopeStackStates = "batch-load-job-states"
	// scopeMetrics is this package's own name: no limit of the metrics is documented.
	scopeMetrics = "metrics"
)

// The bounds of a believable reset. Windows last a minute (docs
// apis/rest_api/rate_limits.md); an answer without one is taken as that.
const (
	shortestReset = time.Second
	unknownReset  = time.Minute
	longestReset  = time.Hour
)

const (
	// biggestAnswer is more than any page: a build has at most 4,000 jobs, of some
	// 1,300 bytes, and a page has a hundred builds.
	biggestAnswer = 640 << 20
	// biggestMessage is more than any error's message.
	biggestMessage = 1 << 20
)

// notice is the part of a response outside its body.
type notice struct {
	failed, refused bool
	date            time.Time // by the server's clock; zero: it did not say
	org, user       Limit
}

// transport stands between the library and the network. It notes the limits
// that every answer carries, and turns 429 into an error: the library would
// otherwise ask again by itself for up to 15 minutes, with no regard for the
// reset and no way to stop it (go-buildkite v3.13.0 buildkite.Client.Do).
type transport struct {
	next     http.RoundTripper
	note     func(notice)
	received func(bytes int64)
	biggest  int64 // bytes of one answer
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		t.note(notice{failed: true})
		return nil, err
	}
	n := notice{
		failed:  response.StatusCode >= http.StatusBadRequest,
		refused: response.StatusCode == http.StatusTooManyRequests,
		org:     limitOf(response.Header, "RateLimit-"),
		user:    limitOf(response.Header, "RateLimit-User-"),
	}
	// A server with a clock sends it with every answer: RFC 9110, 6.6.1.
	n.date, _ = http.ParseTime(response.Header.Get("Date"))
	t.note(n)
	if n.refused {
		defer func() { _ = response.Body.Close() }()
		return nil, rateLimited(response)
	}
	most := t.biggest
	if n.failed {
		most = biggestMessage
	}
	response.Body = &bounded{ReadCloser: response.Body, max: most, left: most, refuse: !n.failed, received: t.received}
	return response, nil
}

// bounded is a response body with a size limit. It counts uncompressed bytes, so
// that the limit also applies to a small response that decompresses into a large one.
type bounded struct {
	io.ReadCloser
	max    int64
	left   int64
	refuse bool // too much is an error; else it is left unread
	// received is called with the number of bytes read when the body is closed.
	received func(bytes int64)
}

// Close implements [io.Closer].
func (b *bounded) Close() error {
	if b.received != nil {
		b.received(b.max - b.left)
		b.received = nil
	}
	return b.ReadCloser.Close()
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 && !b.refuse {
		return 0, io.EOF
	}
	if b.left < 0 {
		return 0, &syntaxError{fmt.Sprintf("the answer is larger than %d MiB", b.max>>20)}
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left < 0 && b.refuse {
		return 0, &syntaxError{fmt.Sprintf("the answer is larger than %d MiB", b.max>>20)}
	}
	return n, err
}

// limitOf reads one of the two sets of headers that every answer carries
// (docs apis/rest_api/rate_limits.md "Checking rate limit details").
func limitOf(h http.Header, prefix string) Limit {
	limit, err := strconv.Atoi(h.Get(prefix + "Limit"))
	remaining, noNumber := strconv.Atoi(h.Get(prefix + "Remaining"))
	if err != nil || noNumber != nil {
		return Limit{}
	}
	return Limit{Limit: limit, Remaining: remaining}
}

// rateLimited reads which limit a 429 speaks of and when it is reset: from the
// body, which names it, else from the headers.
func rateLimited(response *http.Response) *RateLimited {
	var body struct {
		Scope string `json:"scope"`
		Reset int    `json:"reset"`
	}
	// A body that cannot be read leaves the headers to tell.
	raw, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	_ = json.Unmarshal(raw, &body)
	h := response.Header
	limited := &RateLimited{Scope: scopeOrg, Reset: max(seconds(body.Reset), retryAfter(h))}
	if body.Scope == scopeUser || body.Scope == "" && h.Get("RateLimit-User-Remaining") == "0" {
		limited.Scope = scopeUser
	}
	header := "RateLimit-Reset"
	if limited.Scope == scopeUser {
		header = "RateLimit-User-Reset"
	}
	if s, err := strconv.Atoi(h.Get(header)); err == nil {
		limited.Reset = max(limited.Reset, seconds(s))
	}
	limited.Reset = max(cmp.Or(limited.Reset, unknownReset), shortestReset)
	return limited
}

// retryAfter returns how long a server asks the client to wait, in seconds or until a time
// of the server's clock (RFC 9110, 10.2.3); zero if it does not say.
func retryAfter(h http.Header) time.Duration {
	raw := h.Get("Retry-After")
	if n, err := strconv.Atoi(raw); err == nil {
		return seconds(n)
	}
	until, err := http.ParseTime(raw)
	now, noDate := http.ParseTime(h.Get("Date"))
	if err != nil || noDate != nil {
		return 0
	}
	return seconds(int(until.Sub(now) / time.Second))
}

// seconds is a believable number of seconds, or zero.
func seconds(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	return time.Duration(min(n, int(longestReset/time.Second))) * time.Second
}

// newHTTPClient returns a client that sends a token to the address that was given and nowhere
// else: it follows no redirect.
func newHTTPClient(next http.RoundTripper) *http.Client {
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: next, CheckRedirect: stop}
}

// ownTransport is the default transport with a place of its own for idle
// connections.
func ownTransport() http.RoundTripper {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return http.DefaultTransport
}
