package github

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/gitops/branch"

	"github.com/google/go-github/v50/github"
)

// longestMessage is the maximum number of bytes of a message of GitHub in an error.
const longestMessage = 600

// explain returns GitHub's error in one line. go-github recognizes GitHub's
// limits on content by a page that has since been renamed, so explain uses the
// status.
func explain(err error) error {
	wait, limited := limitOf(err)
	var answer *github.ErrorResponse
	if !errors.As(err, &answer) || answer.Response == nil {
		if limited {
			return &branch.Limited{Err: err, Wait: wait}
		}
		if problem := branch.NetworkProblem(err, "GitHub's API", branch.SystemAuthorities); problem != "" {
			return answered{problem, err}
		}
		return err
	}
	said := answer.Message
	for _, e := range answer.Errors {
		if e.Message != "" {
			said += "; " + e.Message
		}
	}
	said = branch.OneLine(said, longestMessage)
	status := answer.Response.StatusCode
	switch {
	case limited:
		return &branch.Limited{Err: answered{fmt.Sprintf("GitHub asks to wait %s (%d: %s)", wait, status, said), err}, Wait: wait}
	case status == http.StatusUnauthorized:
		return answered{fmt.Sprintf("GitHub does not accept the token or key (401: %s)", said), err}
	case status == http.StatusNotFound:
		return answered{fmt.Sprintf("not found, or the App has no access (404: %s)", said), err}
	}
	return answered{fmt.Sprintf("%d: %s", status, said), err}
}

// answered is the error of a response of GitHub, in one line.
type answered struct {
	text string
	err  error
}

func (a answered) Error() string { return a.text }
func (a answered) Unwrap() error { return a.err }

// longestHeld limits the wait: GitHub's windows are an hour.
const longestHeld = time.Hour

// limitOf reports whether a request exceeded one of GitHub's limits, and how long to wait: the time in
// Retry-After, else until the end of a window that is used up, else a minute
// (docs.github.com/rest, "Rate limits for the REST API", "Exceeding the rate limit"). Dates are relative
// to that of the response.
func limitOf(err error) (time.Duration, bool) {
	var primary *github.RateLimitError
	var abuse *github.AbuseRateLimitError
	var answer *github.ErrorResponse
	var response *http.Response
	switch {
	case errors.As(err, &primary):
		response = primary.Response
	case errors.As(err, &abuse):
		response = abuse.Response
	case errors.As(err, &answer) && answer.Response != nil:
		response = answer.Response
		status, after := response.StatusCode, response.Header.Get("Retry-After")
		words := strings.ToLower(answer.Message)
		if status != http.StatusTooManyRequests && (status != http.StatusForbidden || after == "" && !strings.Contains(words, "rate limit")) {
			return 0, false
		}
	default:
		return 0, false
	}
	return heldFor(response), true
}

// heldFor returns how long a response requires to wait.
func heldFor(response *http.Response) time.Duration {
	if response == nil {
		return secondaryWait
	}
	if wait, known := branch.RetryAfter(response.Header); known {
		return max(time.Second, wait)
	}
	reset, err := strconv.ParseInt(response.Header.Get("X-RateLimit-Reset"), 10, 64)
	now, dateErr := http.ParseTime(response.Header.Get("Date"))
	if err == nil && dateErr == nil && response.Header.Get("X-RateLimit-Remaining") == "0" {
		return min(max(time.Second, time.Unix(reset, 0).Sub(now)+time.Second), longestHeld)
	}
	return secondaryWait
}
