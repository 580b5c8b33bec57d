package buildkite_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/iotest"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
)

// TestFailedRequestsAreCounted: a request that no good answer came to has failed, and
// only one that was limited has been limited.
func TestFailedRequestsAreCounted(t *testing.T) {
	for status, limited := range map[int]int64{http.StatusBadRequest: 0, http.StatusNotFound: 0, http.StatusInternalServerError: 0, http.StatusTooManyRequests: 1} {
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret})
		s.Fail(fakebuildkite.Fault{Path: "/access-token", Status: status, Times: -1})
		requests := int64(1)
		if status == http.StatusInternalServerError {
			requests = 5
		}
		c := newClient(t, buildkite.Config{HTTP: s.Transport()})
		if token, err := c.Verify(t.Context()); err == nil || len(token.Scopes) > 0 {
			t.Errorf("%d: a token with %q: %v", status, token.Scopes, err)
		}
		if got := c.Stats(); got.Requests != requests || got.Failures != requests || got.RateLimited != limited {
			t.Errorf("%d: %+v", status, got)
		}
	}
	down := func(*http.Request) (*http.Response, error) { return nil, errors.New("the network is down") }
	c := newClient(t, buildkite.Config{HTTP: roundTrip(down)})
	_, err := c.Verify(t.Context())
	checkError(t, "no network", err, "the network is down")
	if got := c.Stats(); got.Failures != got.Requests || got.Requests == 0 || got.RateLimited != 0 {
		t.Errorf("no network: %+v", got)
	}
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Scopes: []string{"read_agents", "read_builds"}})
	c = newClient(t, buildkite.Config{HTTP: s.Transport()})
	token, err := c.Verify(t.Context())
	if got := c.Stats(); err != nil || got.Requests != 2 || got.Failures != 0 || !slices.Equal(token.Scopes, []string{"read_agents", "read_builds"}) {
		t.Errorf("all is well: %+v, %+v, %v", got, token, err)
	}
}

// TestTokenHalfRead: an answer that breaks off says why, and not that it is none of
// Buildkite's.
func TestTokenHalfRead(t *testing.T) {
	api := roundTrip(func(r *http.Request) (*http.Response, error) {
		response := (&static{}).answer(r, "", "")
		response.Body = io.NopCloser(iotest.ErrReader(errors.New("the connection is gone")))
		return response, nil
	})
	_, err := newClient(t, buildkite.Config{HTTP: api}).Verify(t.Context())
	checkError(t, "a connection that breaks", err, "the connection is gone")
}
