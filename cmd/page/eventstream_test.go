package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestEvents asserts that listeners get an event after a tick, their maximum number, and that all
// streams end with the page.
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
	hears := func(r *http.Response, want string) {
		t.Helper()
		said := make([]byte, len(want))
		if _, err := io.ReadFull(r.Body, said); err != nil || string(said) != want {
			t.Errorf("%q, %v, want %q", said, err, want)
		}
	}
	const begins = "retry: 5000\n\n"
	var open []*http.Response
	for range maxListeners {
		r := listen()
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
		hears(r, begins)
		open = append(open, r)
	}
	r := listen()
	_ = r.Body.Close()
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", r.Status)
	}
	w.tick(nil)
	for _, r := range open {
		hears(r, "event: tick\ndata: {}\n\n")
	}
	w.HangUp()
	for _, r := range open {
		if said := text(t, r); said != "" {
			t.Errorf("at the end: %q", said)
		}
	}
	if told := text(t, listen()); told != begins {
		t.Errorf("after the end: %q", told)
	}
}
