package remote_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/gitops/git/remote"
)

// TestTransportCounts: requests, failures, bytes of both ways, and the limit that
// the last answer told.
func TestTransportCounts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		w.Header().Set("X-RateLimit-Limit", "60")
		w.Header().Set("X-RateLimit-Remaining", "59")
		if len(asked) == 0 {
			w.Header().Set("X-RateLimit-Remaining", "half")
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = io.WriteString(w, "an answer")
	}))
	defer server.Close()
	var c remote.Counter
	client := &http.Client{Transport: c.Transport(http.DefaultTransport)}
	ask := func(method, address, text string) {
		request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return
		}
		defer func() { _ = response.Body.Close() }()
		if got, err := io.ReadAll(response.Body); string(got) != "an answer" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	ask("POST", server.URL, "four")
	ask("GET", server.URL, "")
	ask("GET", "http://127.0.0.1:0", "")
	want := remote.Stats{Requests: 3, Failures: 2, Sent: 4, Received: 18, Limit: 60, Remaining: 59}
	if got := c.Stats(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// TestSessionCounts: what goes over a pipe.
func TestSessionCounts(t *testing.T) {
	var c remote.Counter
	c.Session(nil)
	c.Session(io.ErrUnexpectedEOF)
	from, to := io.Pipe()
	go func() {
		w := c.Writer(to)
		_, _ = io.WriteString(w, "words")
		_ = w.Close()
	}()
	if text, err := io.ReadAll(c.Reader(from)); string(text) != "words" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if got, want := c.Stats(), (remote.Stats{Requests: 2, Failures: 1, Sent: 5, Received: 5}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
