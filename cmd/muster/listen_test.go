package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
	"muster/generator/webhook"
)

// get returns the response of a handler to a GET request.
func get(t *testing.T, h http.Handler, path string, header ...string) (code int, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// statusOf sends a request for a host, by default that of the URL, and returns the status of the
// response.
func statusOf(t *testing.T, method, url, host string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	check(t, err)
	r.Host = host
	answer, err := http.DefaultClient.Do(r)
	check(t, err)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// testEndpoints returns the endpoints of a muster that has just started, and its time.
func testEndpoints(t *testing.T) (*endpoints, *time.Time) {
	t.Helper()
	clock := &jumpingClock{time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)}
	config := status.Config{Started: clock.now, Interval: 15 * time.Second, Longest: longestTick}
	ends, err := newEndpoints(clock, config, nil)
	check(t, err)
	t.Cleanup(ends.page.Close)
	return ends, &clock.now
}

// TestProbes asserts the responses of the probes at the start, after a successful tick, without
// git, with an invalid overlay, and in a tick that does not end.
func TestProbes(t *testing.T) {
	ends, now := testEndpoints(t)
	h, w := ends.handler(), ends.watcher()
	check := func(when, path string, code int, body string) {
		t.Helper()
		if c, b := get(t, h, path); c != code || b != body {
			t.Errorf("%s, %s: %d %q, want %d %q", when, path, c, b, code, body)
		}
	}
	tick := func(change func(*generator.Report)) {
		w.Began(*now)
		r := generator.Report{Began: *now, Ended: *now, Next: now.Add(15 * time.Second), Git: *now, Buildkite: *now, Outcome: generator.Unchanged}
		r.Result.Input.Snapshot.At = *now
		change(&r)
		r.Conditions = r.Result.Conditions(*now)
		w.Ended(r)
	}
	check("at the start", "/healthz", 200, "ok\n")
	check("at the start", "/readyz", 503, "RepositoryAvailable=Unknown (NoAnswer): git has not been read yet\nBuildkiteAvailable=Unknown (NoAnswer): Buildkite has not been read yet\n")
	tick(func(*generator.Report) {})
	check("after a good tick", "/readyz", 200, "ok\n")
	*now = now.Add(30 * time.Second)
	check("two intervals later", "/readyz", 200, "ok\n")
	tick(func(r *generator.Report) {
		r.Outcome, r.Failed, r.Err, r.Git, r.Buildkite = generator.Failed, generator.StepHead, errors.New("fleet repository: no route\nto host"), time.Time{}, time.Time{}
	})
	*now = now.Add(time.Second)
	check("without git", "/readyz", 503, "RepositoryAvailable=False (NoAnswer): the last successful read of git was 31s ago: fleet repository: no route | to host\nBuildkiteAvailable=Unknown (NoAnswer): the last successful read of Buildkite was 31s ago: no request was sent, because an earlier step failed\n")
	check("without git", "/healthz", 200, "ok\n")
	tick(func(r *generator.Report) {
		r.Result.Suspended = []generator.Suspended{{Overlay: "a", Why: plan.Suspension{Code: plan.Invalid, Finding: "overlays/a/scaling.yaml:3: no"}}}
	})
	check("with an invalid overlay", "/readyz", 503, "overlay a: Suspended=True (Invalid): overlays/a/scaling.yaml:3: no\n")
	w.Began(*now)
	*now = now.Add(longestTick + 15*time.Second)
	check("in a long tick", "/healthz", 200, "ok\n")
	*now = now.Add(time.Second)
	check("in a tick that hangs", "/healthz", 503, "a tick has been under way for 23m16s; at most 23m15s is normal\n")
	if code, body := get(t, h, "/metrics"); code != 200 || !strings.Contains(body, `muster_condition{overlay="",reason="Stuck",type="Ready"} 0`) || !strings.Contains(body, `muster_condition{overlay="a",reason="Invalid",type="Suspended"} 1`) {
		t.Errorf("/metrics: %d\n%.2000s", code, body)
	}
	if code, _ := get(t, h, "/debug/pprof/"); code != 404 {
		t.Errorf("profiles are served beside the metrics: %d", code)
	}
}

// TestServe asserts that a server ends with stop, rejects large headers, and reports a used
// address.
func TestServe(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	asked := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		_, _ = io.WriteString(w, "here")
	})
	s, err := serve(t.Context(), log, "a test", "127.0.0.1:0", h, time.Minute)
	check(t, err)
	address := listenAddress(said.String())
	if body := getText(t, "http://"+address); body != "here" {
		t.Errorf("%q", body)
	}
	<-asked
	if _, err := serve(t.Context(), log, "another", address, h, time.Minute); err == nil || !strings.Contains(err.Error(), "listening for another on "+address+": another program uses this port: give a free one") {
		t.Errorf("an address that is taken: %v", err)
	}
	large, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, http.NoBody)
	check(t, err)
	large.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if answer, err := http.DefaultClient.Do(large); err == nil {
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a large header: %s", answer.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	s.stop()
	if answer, err := http.Get("http://" + address); err == nil { //nolint:noctx // a test
		_ = answer.Body.Close()
		t.Error("it is served still")
	}
}

// listening serves a handler on an address and returns the address with its port.
func listening(t *testing.T, address string, h http.Handler) string {
	t.Helper()
	var said bytes.Buffer
	s, err := serve(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), "a test", address, h, time.Minute)
	check(t, err)
	t.Cleanup(s.stop)
	_, port, err := net.SplitHostPort(listenAddress(said.String()))
	check(t, err)
	return net.JoinHostPort("127.0.0.1", port)
}

// TestManyConnections asserts that a client with many open connections takes a bounded
// amount of memory, and that other clients are served.
func TestManyConnections(t *testing.T) {
	address := listening(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	request := "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: " + strings.Repeat("x", 15_000) + "\r\n\r\n"
	var idle []net.Conn
	for range 2*maxConnections + 1 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		check(t, err)
		defer func() { _ = c.Close() }()
		_, err = io.WriteString(c, request)
		check(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v, %v", len(idle)+1, answer, err)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		check(t, err)
		_ = answer.Body.Close()
		idle = append(idle, c)
	}
	for i, c := range idle {
		if gone := i <= maxConnections; gone { // closed before the last one was answered
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("connection %d of %d is still open", i+1, len(idle))
			}
		} else if _, err := io.WriteString(c, request); err != nil {
			t.Errorf("connection %d of %d: %v", i+1, len(idle), err)
		} else if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Errorf("connection %d of %d is closed: %v", i+1, len(idle), err)
		} else {
			_ = answer.Body.Close()
		}
	}
}

// TestHostOfThisMachine asserts that on a loopback address requests for other hosts are
// rejected, except webhooks. On other addresses every host is accepted: addresses of pods,
// Services, ingresses.
func TestHostOfThisMachine(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	here, everywhere := listening(t, "127.0.0.1:0", h), listening(t, ":0", h)
	defer http.DefaultClient.CloseIdleConnections()
	for host, own := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST.:8080": true, "muster.localhost": true, "127.0.0.1": true, "127.0.0.1:9": true, "127.1.2.3": true, "[::1]:8080": true, "[::1]": true,
		"rebound.example.com": false, "rebound.example.com:8080": false, "localhost.example.com": false, "notlocalhost": false, "127.0.0.1.example.com": false, "192.168.1.2:8080": false, "0.0.0.0": false, "[::]:1": false,
	} {
		want := map[bool]int{true: http.StatusOK, false: http.StatusMisdirectedRequest}[own]
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions} {
			if got := statusOf(t, method, "http://"+here+"/debug/pprof/symbol", host); got != want {
				t.Errorf("%s for %s on a loopback address: %d, want %d", method, host, got, want)
			}
		}
		for _, path := range []string{webhook.BuildkitePath, webhook.GitPath} {
			if got := statusOf(t, http.MethodPost, "http://"+here+path, host); got != http.StatusOK {
				t.Errorf("a webhook for %s to %s: %d", host, path, got)
			}
		}
		if got := statusOf(t, http.MethodGet, "http://"+everywhere+"/status.json", host); got != http.StatusOK {
			t.Errorf("%s on every address: %d", host, got)
		}
	}
}

// TestExemplars asserts that in the format of OpenMetrics the counters of agents and the buckets of
// registrations and of started jobs have the dispatch's ID; and the number of dispatches in git.
func TestExemplars(t *testing.T) {
	ends, now := testEndpoints(t)
	d := plan.Dispatch{ID: "a-7f3k9c2b", Purpose: plan.ForDemand, Agents: 3, At: now.Add(-10 * time.Second)}
	tick := func(ops []ledger.Draft, seen plan.Observed, sightings ...plan.Sighting) {
		r := generator.Report{Began: *now, Ended: *now, Outcome: generator.Unchanged}
		r.Result.Operations = ops
		r.Result.Input.Overlays = []plan.Overlay{{Name: "a", Dispatches: []plan.Dispatch{d}}}
		r.Result.Input.Snapshot = plan.Snapshot{At: *now, Sightings: sightings}
		supply := plan.Capacity{Overlay: "a", Dispatches: map[string]plan.Observed{d.ID: seen}}
		r.Result.Decisions = []plan.Decision{{Overlay: "a", Observation: plan.Observation{At: *now, Overlays: []plan.Capacity{supply}}}}
		ends.watcher().Ended(r)
	}
	warm := plan.Dispatch{ID: "a-warm-8g4m0d3c", Purpose: plan.ForWarmPool, Agents: 2, At: d.At}
	ordered := plan.Decision{Overlay: "a", Dispatch: []plan.Dispatch{d, warm}}
	tick([]ledger.Draft{{Kind: ledger.Dispatch, Decision: ordered}}, plan.Observed{})
	*now = now.Add(15 * time.Second)
	var registered plan.Observed
	registered.Registered.Add(0)
	tick(nil, registered, plan.Sighting{Agent: "1", Name: d.ID + "-0", Started: now.Add(-time.Second), Waited: 7 * time.Second})
	_, body := get(t, ends.handler(), "/metrics", "Accept", "application/openmetrics-text;version=1.0.0")
	for _, want := range []string{
		`muster_dispatched_agents_total{overlay="a",purpose="demand"} 3.0 # {dispatch="a-7f3k9c2b"} 3.0`,
		`muster_dispatched_agents_total{overlay="a",purpose="warm-pool"} 2.0 # {dispatch="a-warm-8g4m0d3c"} 2.0`,
		`muster_live_dispatches{overlay="a"} 1.0`,
		`muster_registration_seconds_bucket{overlay="a",le="30.0"} 1 # {dispatch="a-7f3k9c2b"} 25.0`,
		`muster_start_seconds_bucket{overlay="a",le="10.0"} 1 # {dispatch="a-7f3k9c2b"} 7.0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%.3000s", want, body)
		}
	}
}

// TestProfiles asserts that profiles have their own address, without other paths.
func TestProfiles(t *testing.T) {
	var said bytes.Buffer
	stop, err := (&runFlags{pprof: "127.0.0.1:0"}).serve(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), nil)
	defer stop()
	check(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	address := regexp.MustCompile(`for=profiles address=(\S+)`).FindStringSubmatch(said.String())[1]
	for path, want := range map[string]int{
		"/debug/pprof/": http.StatusOK, "/debug/pprof/heap": http.StatusOK, "/debug/pprof/goroutine?debug=1": http.StatusOK, "/debug/pprof/cmdline": http.StatusNotFound,
		"/debug/pprof/symbol": http.StatusOK, "/debug/pprof/nothing": http.StatusNotFound,
		"/metrics": http.StatusNotFound, "/healthz": http.StatusNotFound, "/": http.StatusNotFound,
	} {
		if got := statusOf(t, http.MethodGet, "http://"+address+path, ""); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
