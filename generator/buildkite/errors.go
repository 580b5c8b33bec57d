package buildkite

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	buildkite "github.com/buildkite/go-buildkite/v3/buildkite"

	"muster/gitops/branch"
)

// makeToken is the remedy for an invalid token.
const makeToken = "make one at https://buildkite.com/user/api-access-tokens " +
	"with the scopes read_agents, read_builds and read_clusters"

// statusError is a response with an error status.
type statusError struct {
	status int
	text   string
	// reset and scope are those of the limit, in a response of the Agent API; zero if absent.
	reset time.Duration
	scope string
}

func (e *statusError) Error() string { return e.text }

// hasStatus reports whether the error is a response with one of the statuses.
func hasStatus(err error, statuses ...int) bool {
	answer, ok := errors.AsType[*statusError](err)
	return ok && slices.Contains(statuses, answer.status)
}

// networkError is an error of a connection, without the words of a library.
type networkError struct {
	text string
	error
}

func (e networkError) Error() string { return e.text }
func (e networkError) Unwrap() error { return e.error }

// plain returns an error of a request in the words of [branch.NetworkProblem], and any other without the address,
// which a url.Error repeats as a whole.
func plain(err error, host string) error {
	problem := branch.NetworkProblem(err, host, branch.SystemAuthorities)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if problem != "" {
		return networkError{problem, err}
	}
	return err
}

// explain returns an error of the library as one line with a remedy and without the token.
func (s *session) explain(err error, path string) error {
	if limited, ok := errors.AsType[*RateLimited](err); ok {
		return limited
	}
	if answer, ok := errors.AsType[*buildkite.ErrorResponse](err); ok {
		explained := s.explainStatus(answer.Response.StatusCode, answer.Message, path)
		explained.reset, _ = branch.RetryAfter(answer.Response.Header)
		return explained
	}
	return fmt.Errorf("asking %s: %w", what(path), hide(plain(err, s.api.BaseURL.Host), s.token))
}

func (s *session) explainStatus(status int, message, path string) *statusError {
	org := s.client.cfg.Org
	var text string
	switch status {
	case http.StatusUnauthorized:
		text = "Buildkite does not accept the API token (401): " + makeToken
	case http.StatusForbidden:
		text = fmt.Sprintf("Buildkite refuses %s (403): the API token needs the scope %s and access to the organisation %q",
			what(path), scopeFor(path), org)
	case http.StatusNotFound:
		text = fmt.Sprintf("Buildkite has no %s for the organisation %q (404): check its slug, and that the API token may access it",
			what(path), org)
	case http.StatusBadRequest:
		text = fmt.Sprintf("Buildkite does not list %s as asked (400): %s; when it is too deep, "+
			"there are too many builds: cancel stale ones", what(path), s.clean(message))
	default:
		text = fmt.Sprintf("Buildkite answers %s with %d %s", what(path), status, http.StatusText(status))
		if message := s.clean(message); message != "" {
			text += ": " + message
		}
	}
	return &statusError{status: status, text: text}
}

// longestMessage is the maximum number of bytes of a server's message in an error.
const longestMessage = 200

// clean returns a server's message as one line without the token.
func (s *session) clean(text string) string { return branch.OneLine(text, longestMessage, s.token) }

// what returns the name of the resource in a path.
func what(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path[strings.LastIndex(path, "/")+1:]
}

// scopeFor returns the scope that a path requires: docs apis/rest_api/agents.md,
// builds.md and clusters.md "Required scope".
func scopeFor(path string) string {
	switch what(path) {
	case "agents":
		return "read_agents"
	case "builds":
		return "read_builds"
	}
	return "read_clusters"
}
