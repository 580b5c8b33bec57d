package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEvents asserts the maximum number of listeners, and that all streams end with the page.
func TestEvents(t *testing.T) {
	w := newScenario(t, nil)
	server := httptest.NewServer(w.mux)
	defer server.Close()
	listen := func() *http.Response {
		r, err := http.Get(server.URL + "/events") //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var open []*http.Response
	for range maxListeners {
		r := listen()
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
		open = append(open, r)
	}
	r := listen()
	_ = r.Body.Close()
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", r.Status)
	}
	w.tick(nil)
	w.HangUp()
	for _, r := range open {
		if said := text(t, r); !strings.HasPrefix(said, "retry: 5000\n\n") {
			t.Errorf("%q", said)
		}
	}
	if told := text(t, listen()); told != "retry: 5000\n\n" {
		t.Errorf("after the end: %q", told)
	}
}

// TestEventAfterTick asserts that a listener gets an event after a tick.
func TestEventAfterTick(t *testing.T) {
	w := newScenario(t, nil)
	server := httptest.NewServer(w.mux)
	defer server.Close()
	r, err := http.Get(server.URL + "/events") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	const begins, told = "retry: 5000\n\n", "event: tick\ndata: {}\n\n"
	said := make([]byte, len(begins)+len(told))
	if _, err := io.ReadFull(r.Body, said[:len(begins)]); err != nil {
		t.Fatal(err)
	}
	w.tick(nil)
	if _, err := io.ReadFull(r.Body, said[len(begins):]); err != nil || string(said) != begins+told {
		t.Errorf("%q, %v", said, err)
	}
	w.HangUp()
}
