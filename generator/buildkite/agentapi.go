package buildkite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"muster/gitops/branch"
)

// DefaultAgentURL is Buildkite's own Agent API (docs apis/agent_api.md).
const DefaultAgentURL = "https://agent.buildkite.com/v3/"

// AgentConfig configures a client of the public part of the Agent API. Org and Tokens are
// required.
type AgentConfig struct {
	// Org is the organisation's slug: a token of another is an error.
	Org string
	// URL is the API's address; empty means [DefaultAgentURL].
	URL string
	// Tokens return an agent token each, one for each Buildkite cluster. They are called
	// for each request, so that a token can be replaced without a restart.
	Tokens []func() (string, error)
	// Timeout is the longest that one request may take; zero means five seconds.
	Timeout time.Duration
	// Log is the logger; nil discards all records.
	Log *slog.Logger
	// HTTP sends the requests; nil means a transport of the client's own.
	HTTP http.RoundTripper
	// Clock is for the pauses before a failed request is repeated; nil: it is repeated at once.
	Clock Clock
}

// agentAPI is a client of the Agent API. It is safe for concurrent use.
type agentAPI struct {
	cfg     AgentConfig
	http    *http.Client
	retries *retrier

	mu    sync.Mutex
	stats Stats
}

func newAgentAPI(cfg AgentConfig) (*agentAPI, error) {
	if err := checkOrg(cfg.Org); err != nil {
		return nil, err
	}
	if len(cfg.Tokens) == 0 {
		return nil, errors.New("an agent token is needed")
	}
	cfg.URL = cmp.Or(cfg.URL, DefaultAgentURL)
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the address of Buildkite's Agent API is not a URL: write it as in " + DefaultAgentURL)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v3") + "/v3/"
	cfg.URL = u.String()
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.HTTP == nil {
		cfg.HTTP = ownTransport()
	}
	return &agentAPI{cfg: cfg, http: newHTTPClient(cfg.HTTP), retries: &retrier{clock: cfg.Clock}}, nil
}

// Stats returns the counters. Their limits are unset: the Agent API reports limits per endpoint.
func (a *agentAPI) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// agentToken reads a token.
func agentToken(read func() (string, error)) (string, error) {
	token, err := read()
	if err != nil {
		return "", fmt.Errorf("reading the agent token: %w", err)
	}
	if token = strings.TrimSpace(token); token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the agent token is empty, or has blanks or control characters: " + whereAgentTokens)
	}
	return token, nil
}

// whereAgentTokens says where to find a valid token.
const whereAgentTokens = "agent tokens are on the page of the Buildkite cluster, under Agent Tokens"

// biggestSmall is the maximum size of a response other than a list, in bytes.
const biggestSmall = 1 << 20

// answered is a response without its body.
type answered struct {
	status int
	header http.Header
}

// ask sends one request and decodes the response as JSON. The path has no leading slash. A nil
// body sends a request without a body.
func (a *agentAPI) ask(
	ctx context.Context, method, path, token string, body, into any, most int64,
) (answered, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answered{}, err
		}
		content = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.cfg.URL+path, content)
	if err != nil {
		return answered{}, errors.New("requesting the Agent API: its address is not a URL")
	}
	request.Header.Set("Authorization", "Token "+token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "muster")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := a.http.Do(request)
	if err != nil {
		a.count(0, true, false)
		return answered{}, fmt.Errorf("asking %s: %w", what(path), hide(connectionError{plain(err, request.URL.Host)}, token))
	}
	defer func() { _ = response.Body.Close() }()
	said := answered{response.StatusCode, response.Header}
	raw, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	a.count(len(raw), err != nil || response.StatusCode >= http.StatusMultipleChoices, response.StatusCode == http.StatusTooManyRequests)
	switch {
	case response.StatusCode >= http.StatusMultipleChoices:
		return said, a.refused(response, raw, path, token)
	case err != nil:
		return said, fmt.Errorf("reading %s: %w", what(path), hide(connectionError{err}, token))
	case int64(len(raw)) > most:
		return said, fmt.Errorf("the answer to %s is larger than %d MiB", what(path), most>>20)
	}
	if into != nil {
		switch err := jsonv2.Unmarshal(raw, into, lenient); {
		case errors.Is(err, io.ErrUnexpectedEOF) || len(bytes.TrimSpace(raw)) == 0:
			return said, connectionError{fmt.Errorf("the answer to %s ends too early", what(path))}
		case err != nil && !bytes.ContainsAny(bytes.TrimSpace(raw)[:1], "[{"):
			return said, fmt.Errorf("asking %s: %s", what(path), branch.OneLine(notJSON(bytes.TrimSpace(raw)), longestMessage, token))
		case err != nil:
			return said, fmt.Errorf("unexpected response to %s", what(path))
		}
	}
	return said, nil
}

func (a *agentAPI) count(received int, failed, limited bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Requests++
	a.stats.Received += int64(received)
	if failed {
		a.stats.Failures++
	}
	if limited {
		a.stats.RateLimited++
	}
}

// scopeName matches the name of a limit, which error messages contain.
var scopeName = regexp.MustCompile(`^[a-z][a-z_-]{0,39}$`)

// refused returns the error of a response with a status of 300 or more. The status of an unknown
// token is 401 (docs apis/agent_api/stacks.md "Error responses").
func (a *agentAPI) refused(response *http.Response, raw []byte, path, token string) error {
	e := &statusError{status: response.StatusCode}
	reset, known := branch.RetryAfter(response.Header)
	if n, err := strconv.Atoi(response.Header.Get("RateLimit-Reset")); err == nil && n >= 0 && e.status == http.StatusTooManyRequests {
		reset, known = max(reset, seconds(n)), true
	}
	if known {
		e.reset = max(reset, shortestReset)
	}
	if scope := response.Header.Get("RateLimit-Scope"); scopeName.MatchString(scope) {
		e.scope = scope
	}
	if e.status == http.StatusUnauthorized {
		e.text = "Buildkite does not accept the agent token (401): " + whereAgentTokens
		return e
	}
	var said struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &said) // if it is not JSON, there is no message
	e.text = fmt.Sprintf("Buildkite answers %s with %d %s", what(path), e.status, http.StatusText(e.status))
	if text := branch.OneLine(said.Message, longestMessage, token); text != "" {
		e.text += ": " + text
	}
	return e
}

// hide removes a token from an error.
func hide(err error, token string) error {
	if text := err.Error(); branch.Censor(text, token) == text {
		return err
	}
	hidden := errors.New(branch.OneLine(err.Error(), longestMessage, token))
	if passing(err) {
		return connectionError{hidden}
	}
	return hidden
}
