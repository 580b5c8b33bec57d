package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v50/github"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// tokens is a source of tokens.
type tokens struct {
	// get returns a valid token.
	get func(context.Context) (string, error)
	// refused is called with a token that GitHub rejects, and reports whether another is
	// available; nil means never.
	refused func(token string) bool
}

// newClient returns a client of the API that gets a token for each request.
func newClient(api string, base *http.Client, t tokens) (*github.Client, error) {
	base = cmp.Or(base, &http.Client{Timeout: time.Minute})
	next := base.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client := github.NewClient(&http.Client{
		Timeout:   base.Timeout,
		Transport: bearer{next: next, tokens: t},
		// [follow] follows redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if api == "" {
		return client, nil
	}
	address, err := url.Parse(api)
	if err != nil || address.Host == "" || address.User != nil {
		return nil, errors.New("the address of GitHub's API is not a URL, as in https://github.example.com/api/v3/")
	}
	if !strings.HasSuffix(address.Path, "/") {
		address.Path += "/"
	}
	client.BaseURL = address
	return client, nil
}

// bearer adds the token to requests.
type bearer struct {
	next http.RoundTripper
	tokens
}

// RoundTrip adds the token. A token that GitHub rejects, as after it was revoked, is replaced once. A
// successful response that is not JSON is an error: all requests of this package have one in JSON.
func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		defer request.Body.Close() // each try has a copy
	}
	for again := true; ; again = false {
		token, err := b.get(request.Context())
		if err != nil {
			return nil, err
		}
		asked, err := repeat(request, request.URL)
		if err != nil {
			return nil, err
		}
		asked.Header.Set("Authorization", "Bearer "+token)
		response, err := follow(b.next, asked)
		if err == nil {
			err = remote.NotJSON(response, func(text string) string { return branch.Censor(text, token) })
		}
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusUnauthorized || !again || b.refused == nil || !b.refused(token) {
			return response, nil
		}
		_ = response.Body.Close()
	}
}

// follow sends a request and follows redirects on the same host, as after a rename, with the same method
// and body: docs.github.com/rest, "Best practices for using the REST API", "Follow redirects". No other
// host receives the token.
func follow(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	const most = 3
	for n := 0; ; n++ {
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		switch response.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return response, nil
		}
		to, err := response.Location()
		if err != nil || n == most || to.Scheme != request.URL.Scheme || to.Host != request.URL.Host {
			return response, nil
		}
		if request, err = repeat(request, to); err != nil {
			return response, nil
		}
		_ = response.Body.Close()
	}
}

// repeat returns the same request for an address, with its body from the beginning.
func repeat(request *http.Request, to *url.URL) (*http.Request, error) {
	again := request.Clone(request.Context())
	again.URL, again.Host = to, to.Host
	if request.GetBody == nil {
		return again, nil
	}
	var err error
	again.Body, err = request.GetBody()
	return again, err
}

// refusal is the errors of a GraphQL response in one line, and the type of the first.
type refusal struct{ kind, words string }

func (r refusal) Error() string { return r.words }

// ask sends a request to GraphQL. data may be nil.
func (w *Writer) ask(ctx context.Context, question string, variables map[string]any, data any) error {
	request, err := w.client.NewRequest(http.MethodPost, graphQL(w.client.BaseURL), map[string]any{"query": question, "variables": variables})
	if err != nil {
		return err
	}
	answer := struct {
		Data   any
		Errors []struct{ Type, Message string }
	}{Data: data}
	response, err := w.client.Do(ctx, request, &answer)
	if err != nil {
		return explain(err)
	}
	var words []string
	for _, e := range answer.Errors {
		words = append(words, branch.OneLine(e.Message, longestMessage))
		// "The response status will still be 200" (docs.github.com/graphql, "Rate limits
		// and query limits for the GraphQL API", "Exceeding the rate limit").
		if e.Type == "RATE_LIMITED" || strings.Contains(strings.ToLower(e.Message), "rate limit") {
			wait := heldFor(response.Response)
			return &branch.Limited{Err: fmt.Errorf("GitHub asks to wait %s (%s)", wait, branch.OneLine(e.Message, longestMessage)), Wait: wait}
		}
	}
	if len(words) > 0 {
		return refusal{answer.Errors[0].Type, strings.Join(words, "; ")}
	}
	return nil
}

// graphQL returns the address of the GraphQL API for that of the REST API: on GitHub
// Enterprise Server /api/graphql for /api/v3/.
func graphQL(rest *url.URL) string {
	address := *rest
	address.Path = strings.TrimSuffix(address.Path, "v3/") + "graphql"
	return address.String()
}
