package branch

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// longestRetryAfter limits Retry-After: a wrong clock or a typing error there must not stop a fleet for a day.
const longestRetryAfter = time.Hour

// RetryAfter returns how long a host asks its client to wait, at most an hour. It reports whether the header
// Retry-After contains a time, which is in seconds or a date (RFC 9110, 10.2.3). A date is relative to that
// of the response, so that the local clock does not matter.
func RetryAfter(header http.Header) (wait time.Duration, known bool) {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 32)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter), true
	}
	until, err := http.ParseTime(value)
	now, noDate := http.ParseTime(header.Get("Date"))
	if err != nil || noDate != nil {
		return 0, false
	}
	return min(max(0, until.Sub(now)), longestRetryAfter), true
}

// Limited is the error of a host that requires its client to wait.
type Limited struct {
	Err  error
	Wait time.Duration
}

// Error returns the text of Err.
func (e *Limited) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Limited) Unwrap() error { return e.Err }

// RetryAfter returns Wait. Callers in generator recognize the error by it.
func (e *Limited) RetryAfter() time.Duration { return e.Wait }
