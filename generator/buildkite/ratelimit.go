package buildkite

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"muster/gitops/branch"
)

// RateLimited reports that Buildkite refuses requests until a limit is reset. The
// client sends none until then.
type RateLimited struct {
	// Scope is the limit that was reached: "rest" is the organisation's,
	// "rest_user" that of the token's user; others, as "list-scheduled-jobs", are a stack's.
	Scope string
	// Reset is how long to wait from the request on.
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

// RetryAfter returns how long to wait. Callers recognise the error by this method.
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

// The limits of a plausible reset. Windows last a minute (docs
// apis/rest_api/rate_limits.md), which is assumed if a response has no reset.
const (
	shortestReset = time.Second
	unknownReset  = time.Minute
	longestReset  = time.Hour
)

// limitOf returns the limit in one of the two sets of headers of each response
// (docs apis/rest_api/rate_limits.md "Checking rate limit details").
func limitOf(h http.Header, prefix string) Limit {
	limit, err := strconv.Atoi(h.Get(prefix + "Limit"))
	remaining, noNumber := strconv.Atoi(h.Get(prefix + "Remaining"))
	if err != nil || noNumber != nil {
		return Limit{}
	}
	return Limit{Limit: limit, Remaining: remaining}
}

// rateLimited returns the limit of a 429 response and its reset: from the
// body, which names it, or else from the headers.
func rateLimited(response *http.Response) *RateLimited {
	var body struct {
		Scope string `json:"scope"`
		Reset *int   `json:"reset"`
	}
	// If the body cannot be read, the headers are used.
	raw, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	_ = json.Unmarshal(raw, &body)
	h := response.Header
	limited := &RateLimited{Scope: scopeOrg}
	reset, known := branch.RetryAfter(h)
	if body.Reset != nil && *body.Reset >= 0 {
		reset, known = max(reset, seconds(*body.Reset)), true
	}
	if body.Scope == scopeUser || body.Scope == "" && h.Get("RateLimit-User-Remaining") == "0" {
		limited.Scope = scopeUser
	}
	header := "RateLimit-Reset"
	if limited.Scope == scopeUser {
		header = "RateLimit-User-Reset"
	}
	if s, err := strconv.Atoi(h.Get(header)); err == nil && s >= 0 {
		reset, known = max(reset, seconds(s)), true
	}
	if !known {
		reset = unknownReset
	}
	limited.Reset = max(reset, shortestReset)
	return limited
}

// seconds returns n seconds, at most longestReset; zero if n is negative.
func seconds(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	return time.Duration(min(n, int(longestReset/time.Second))) * time.Second
}

// A client uses at most half of each limit, so that people and other programs of
// the same user and the same organisation have the other half. Limits are
// requests a minute (docs apis/rest_api/rate_limits.md); every response contains them.

// Unfinished reports that a poll is incomplete because it has used half of a limit, or because a
// request failed although others succeed. A later call continues it where it stopped. It is not a
// failure.
type Unfinished struct {
	// Wait is how long to wait from the call on.
	Wait time.Duration
	// Requests is the number of requests in this poll so far, PerMinute the number allowed.
	// PerMinute is zero if failed requests are the reason; Failed is then what failed, and Requests
	// the number of requests by which this call made progress.
	Requests, PerMinute int
	Failed              string
}

// Error implements error.
func (e *Unfinished) Error() string {
	if e.PerMinute == 0 {
		return fmt.Sprintf("reading Buildkite takes longer because requests fail: continuing in %s: %s", e.Wait.Round(time.Second), e.Failed)
	}
	return fmt.Sprintf("reading Buildkite takes more requests than half of its limit allows: %d were sent, %d a minute are allowed: continuing in %s",
		e.Requests, e.PerMinute, e.Wait.Round(time.Second))
}

// RetryAfter returns how long to wait. Callers recognise the error by this method.
func (e *Unfinished) RetryAfter() time.Duration { return e.Wait }

// Stretched returns the numbers that the wait is computed from. A refusal does not have this
// method.
func (e *Unfinished) Stretched() (requests, perMinute int) { return e.Requests, e.PerMinute }

// budget counts the requests of the last minute. The zero value is an empty budget.
type budget struct {
	sent []time.Time // in order, by the caller's clock
	// tight is the time until which polls are spread evenly, because one had to wait.
	tight time.Time
	// last is when the last poll began. Took is its number of requests, cost the larger number of
	// the last two polls: not every poll reads the clusters.
	last time.Time
	cost int
	took int
	// min is the smaller number of the last two polls. Dearest is the largest number of a poll in
	// the last minutes, which began at dearestAt: the clusters are read once a minute.
	min, dearest int
	dearestAt    time.Time
}

// done records the number of requests of a poll.
func (b *budget) done(requests int) {
	b.min = requests
	if b.took > 0 {
		b.min = min(requests, b.took)
	}
	b.cost, b.took = max(requests, b.took), requests
	if requests >= b.dearest || b.last.Sub(b.dearestAt) > 2*time.Minute {
		b.dearest, b.dearestAt = requests, b.last
	}
}

// tightFor is how long polls are spread evenly after one had to wait.
const tightFor = 5 * time.Minute

// allowed returns how many requests a minute may be sent; zero if no limit is known.
func allowed(org, user Limit) int {
	known := slices.DeleteFunc([]int{org.Limit, user.Limit}, func(limit int) bool { return limit <= 0 })
	if len(known) == 0 {
		return 0
	}
	return max(1, slices.Min(known)/2)
}

// note counts one request, and forgets those of other minutes.
func (b *budget) note(at time.Time) {
	b.sent = b.recent(at)
	i, _ := slices.BinarySearchFunc(b.sent, at, time.Time.Compare)
	b.sent = slices.Insert(b.sent, i, at)
}

// recent returns the requests of the minute before a time. Those more than a minute after it were
// sent before the clock was set back.
func (b *budget) recent(now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(b.sent), func(t time.Time) bool { return !t.After(now.Add(-time.Minute)) || t.After(now.Add(time.Minute)) })
}

// wait returns how long to wait before need requests can be sent; zero means now. It changes
// nothing, because the time may be a later one: see [budget.spare].
func (b *budget) wait(now time.Time, need, perMinute int) time.Duration {
	if perMinute <= 0 {
		return 0
	}
	recent := b.recent(now)
	first := len(recent) + min(need, perMinute) - perMinute // the number that must be a minute old
	if first <= 0 {
		return 0
	}
	return recent[first-1].Add(time.Minute).Sub(now)
}

// begin returns how long to wait before a poll begins: until all its requests, or those of a
// whole minute, can be sent at once. After a wait, the polls of the next minutes are spread
// evenly.
func (b *budget) begin(now time.Time, perMinute int) time.Duration {
	wait := b.wait(now, max(1, b.cost), perMinute)
	if perMinute > 0 && b.cost > 0 && now.Before(b.tight) && !now.Before(b.last) {
		every := time.Minute / time.Duration(max(1, perMinute/b.cost))
		wait = max(wait, b.last.Add(every).Sub(now))
	}
	return wait
}

// never is longer than any caller waits.
const never = time.Duration(math.MaxInt64)

// spare returns how long to wait until an additional reading can begin and still leave the
// requests that the regular readings need. These begin at each interval, the first of them
// one interval after the additional reading. [never] means that they need all requests.
func (b *budget) spare(now time.Time, interval time.Duration, perMinute int) time.Duration {
	wait := b.begin(now, perMinute)
	if perMinute <= 0 || interval <= 0 {
		return wait
	}
	need := max(1, b.cost, b.dearest)
	for at := time.Duration(0); at < time.Minute; at += interval {
		if need > perMinute {
			return never
		}
		wait = max(wait, b.wait(now, need, perMinute)-at)
		need += max(1, b.min)
	}
	return wait
}

// resume returns how long to wait before a poll that has sent the given number of requests
// continues: until it can presumably finish, or send the requests of a whole minute.
func (b *budget) resume(now time.Time, sent, perMinute int) time.Duration {
	left := max(b.cost, b.dearest) - sent
	switch {
	case b.cost == 0: // it is the first
		left = perMinute
	case left <= 0: // it is larger than the last ones: as much again
		left = sent
	}
	return b.wait(now, min(left, perMinute), perMinute)
}
