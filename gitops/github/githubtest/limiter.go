package githubtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// GitHub's limits, as docs.github.com/rest, "Rate limits for the REST API" and
// docs.github.com/graphql, "Rate limits and query limits for the GraphQL API" have them.
const (
	// MinuteContent is the first of "no more than 80 content-generating requests per minute
	// and no more than 500 content-generating requests per hour are allowed". What generates
	// content is not said: here, every request that writes does.
	MinuteContent = 80
	// HourContent is the second.
	HourContent = 500
	// restPoints and graphPoints: "No more than 900 points per minute are allowed for REST
	// API endpoints, and no more than 2,000 points per minute are allowed for the GraphQL API
	// endpoint": 1 for what reads, 5 for what writes.
	restPoints, graphPoints = 900, 2000
	// hourly is the primary limit, of each API: 5,000 requests an hour, and 5,000 points an
	// hour; a mutation was seen to cost one (donaldgifford/repo-guardian, INV-0022, "Spike 1").
	hourly = 5000
)

// Limiter refuses requests beyond GitHub's limits, with a Retry-After. The window of each
// is the minute or the hour before a request; GitHub does not document its own.
type Limiter struct {
	// Now is the clock.
	Now func() time.Time

	mu      sync.Mutex
	spent   []spending
	until   time.Time
	writes  int
	refused int
	early   int
}

// spending is an accepted request.
type spending struct {
	at      time.Time
	graphQL bool
	writes  bool
}

// Writes returns the number of accepted requests that write.
func (l *Limiter) Writes() int { return l.read(&l.writes) }

// Refused returns the number of refused requests.
func (l *Limiter) Refused() int { return l.read(&l.refused) }

// Early returns the number of requests before the time in a refusal: "Continuing to make
// requests while you are rate limited may result in the banning of your integration".
func (l *Limiter) Early() int { return l.read(&l.early) }

func (l *Limiter) read(n *int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *n
}

// Spend counts a write of somebody else with the same token, unless it is refused.
func (l *Limiter) Spend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admit(spending{at: l.Now(), writes: true})
}

// Wrap limits a server.
func (l *Limiter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			reply(w, http.StatusBadRequest, map[string]string{"message": err.Error()})
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s := spending{graphQL: strings.HasSuffix(r.URL.Path, "graphql"), writes: r.Method != http.MethodGet}
		if s.graphQL {
			s.writes = bytes.Contains(body, []byte(`"mutation`))
		}
		wait := l.ask(s)
		if wait == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", fmt.Sprint(int((wait+time.Second-1)/time.Second)))
		reply(w, http.StatusForbidden, map[string]string{"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
			"documentation_url": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits"})
	})
}

// ask counts a request, and returns how long to wait if it is refused.
func (l *Limiter) ask(s spending) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.at = l.Now()
	if s.at.Before(l.until) {
		l.early++
	}
	wait := l.admit(s)
	if wait > 0 {
		l.refused++
		l.until = s.at.Add(wait)
	} else if s.writes {
		l.writes++
	}
	return wait
}

// admit accepts a request, or returns how long to wait.
func (l *Limiter) admit(s spending) time.Duration {
	for len(l.spent) > 0 && !l.spent[0].at.After(s.at.Add(-time.Hour)) {
		l.spent = l.spent[1:]
	}
	wait := l.wait(s, time.Minute, MinuteContent, func(o spending) int { return weight(o.writes, 1, 0) })
	wait = max(wait, l.wait(s, time.Hour, HourContent, func(o spending) int { return weight(o.writes, 1, 0) }))
	points := restPoints
	if s.graphQL {
		points = graphPoints
	}
	wait = max(wait, l.wait(s, time.Minute, points, func(o spending) int { return weight(o.graphQL == s.graphQL, weight(o.writes, 5, 1), 0) }))
	wait = max(wait, l.wait(s, time.Hour, hourly, func(o spending) int { return weight(o.graphQL == s.graphQL, 1, 0) }))
	if wait == 0 {
		l.spent = append(l.spent, s)
	}
	return wait
}

func weight(is bool, yes, no int) int {
	if is {
		return yes
	}
	return no
}

// wait returns how long to wait until a request fits into a window.
func (l *Limiter) wait(s spending, window time.Duration, most int, cost func(spending) int) time.Duration {
	sum := cost(s)
	if sum == 0 {
		return 0
	}
	for i := len(l.spent) - 1; i >= 0 && l.spent[i].at.After(s.at.Add(-window)); i-- {
		if sum += cost(l.spent[i]); sum > most {
			return l.spent[i].at.Add(window).Sub(s.at)
		}
	}
	return 0
}

// Limit is an answer that refuses a request.
type Limit struct {
	Status int
	Header map[string]string
	Words  string
}

// LimitNext makes the server refuse the next requests, one with each of these.
func (s *Server) LimitNext(limits ...Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = append(s.limits, limits...)
}

// limited answers with the next limit, if there is one.
func (s *Server) limited(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.limits) == 0 {
		return false
	}
	l := s.limits[0]
	s.limits = s.limits[1:]
	for name, value := range l.Header {
		w.Header().Set(name, value)
	}
	reply(w, l.Status, map[string]string{"message": l.Words, "documentation_url": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"})
	return true
}
