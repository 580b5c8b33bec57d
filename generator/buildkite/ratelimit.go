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
