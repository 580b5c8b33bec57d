package buildkite_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

func TestNew(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  buildkite.Config
		want string
	}{
		{"no organisation", buildkite.Config{Token: token("t")}, "is not a slug"},
		{"a path as organisation", buildkite.Config{Org: "../x", Token: token("t")}, "is not a slug"},
		{"a name as organisation", buildkite.Config{Org: "My Org", Token: token("t")}, "is not a slug"},
		{"no token", buildkite.Config{Org: "acme"}, "token is needed"},
		{"not a URL", buildkite.Config{Org: "acme", Token: token("t"), URL: "api.buildkite.com"}, "write it as in https://api.buildkite.com/"},
		{"another scheme", buildkite.Config{Org: "acme", Token: token("t"), URL: "ftp://x/"}, "write it as in"},
		{"a secret in the URL", buildkite.Config{Org: "acme", Token: token("t"), URL: "https://u:" + secret + "@x/"}, "must have no user"},
		{"too many a page", buildkite.Config{Org: "acme", Token: token("t"), PerPage: 101}, "1 to 100"},
	} {
		_, err := buildkite.New(test.cfg)
		checkError(t, test.name, err, test.want)
	}
}

// checkError asserts that an error is one line with the words and without the secret.
func checkError(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: no error, want %q", name, want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%s: %q does not say %q", name, err, want)
	case strings.Contains(err.Error(), secret):
		t.Errorf("%s: the error holds the token", name)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("%s: %q is not one line", name, err)
	}
}

func TestFailures(t *testing.T) {
	type fault = fakebuildkite.Fault
	for _, test := range []struct {
		name  string
		fault fault
		want  string
	}{
		{"token refused", fault{Status: 401}, "does not accept the API token (401): make one at"},
		{"scope missing for agents", fault{Path: "/agents", Status: 403}, "needs the scope read_agents"},
		{"scope missing for builds", fault{Path: "/builds", Status: 403}, "needs the scope read_builds"},
		{"organisation unknown", fault{Status: 404}, `no agents for the organisation "acme" (404): check its slug`},
		{"too deep", fault{Path: "page=2", Status: 400, Body: `{"message":"Listing builds this deep is not supported."}`},
			"page 2: Buildkite does not list builds as asked (400): Listing builds this deep is not supported.; when it is too deep"},
		{"server error", fault{Path: "/agents", Status: 500}, "listing agents: page 1: Buildkite answers agents with 500 Internal Server Error"},
		{"gateway with a page of HTML", fault{Status: 502, Body: "<html>\n" + secret}, "502 Bad Gateway"},
		{"the token echoed", fault{Status: 500, Body: `{"message":"no\n` + secret + `"}`}, "no [secret]"},
		{"a redirect", fault{Status: 302, Header: http.Header{"Location": {"https://elsewhere.example/"}}}, "302 Found"},
		{"half a page of agents", fault{Path: "/agents", Half: true}, "listing agents: page 1: asking agents: unexpected EOF"},
		{"second page of finished builds", fault{Path: "finished_from", Status: 503}, "listing builds: page 1:"},
		{"JSON that ends early", fault{Path: "/builds", Body: `[{"id":`}, "the response is not complete JSON"},
		{"not a list", fault{Path: "/builds", Body: `{"builds":[]}`}, "the answer is not a list"},
		{"a web page", fault{Path: "/builds", Body: "\n <!DOCTYPE html>\n<html><head><title>Sign in &amp;\n" + secret + "</title>"}, "listing builds: page 1: the response is a web page (Sign in & [secret]), not JSON: check the address"},
		{"a web page without a title", fault{Path: "/agents", Body: "<html>" + secret}, "listing agents: page 1: the response is a web page, not JSON: check the address"},
		{"a text", fault{Path: "/clusters", Status: 203, Body: "Blocked by policy " + secret}, "listing clusters: page 1: the response is not JSON: check the address"},
		{"nothing", fault{Path: "/agents", Body: " "}, "the answer is empty"},
		{"clusters fail", fault{Path: "/clusters", Status: 500}, "listing clusters: page 1:"},
		{"queues fail", fault{Path: "/queues", Status: 500}, "listing clusters: queues of cluster"},
		{"a page that leads to itself", fault{Path: "/agents", Header: http.Header{"Link": {`<https://x/?page=1>; rel="next"`}}}, "has no valid next page"},
		{"a page that leads nowhere", fault{Path: "/agents", Header: http.Header{"Link": {`<https://x/>; rel="next"`}}}, "has no valid next page"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
			s.AddQueue(s.AddCluster("One"), "default")
			for range 101 {
				s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{}}})
			}
			test.fault.Times = -1
			s.Fail(test.fault)
			var log bytes.Buffer
			c := newClient(t, buildkite.Config{HTTP: s.Transport(), Log: slog.New(slog.NewTextHandler(&log, nil))})
			_, err := c.Snapshot(context.Background(), plan.Query{At: now, Since: now})
			checkError(t, "error", err, test.want)
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds the token:\n%s", &log)
			}
			s.Recover()
			observe(t, c, now, now) // once the fault is over, all is well
		})
	}
}

// failing is a transport whose requests fail.
type failing struct{ error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.error }

// TestNetworkErrors asserts that an error of the network has its remedy.
func TestNetworkErrors(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for want, err := range map[string]error{
		`asking agents: there is no host "bk.example.com": check the address, and DNS`:     dial(&net.DNSError{Err: "no such host", Name: "bk.example.com", IsNotFound: true}),
		`asking agents: the host "bk.example.com" cannot be looked up: check DNS`:          dial(&net.DNSError{Err: "server misbehaving", Name: "bk.example.com"}),
		"refuses the connection: check the address, the proxy (HTTPS_PROXY) and firewalls": dial(syscall.ECONNREFUSED),
		"asking agents: the network does not reach ":                                       dial(syscall.ENETUNREACH),
		"is of an unknown authority: name the file of the authority in SSL_CERT_FILE":      &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"does not use TLS: check the scheme and the port":                                  tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake", Conn: &net.TCPConn{}},
		"ended the connection: try again":                                                  io.ErrUnexpectedEOF,
	} {
		c := newClient(t, buildkite.Config{HTTP: failing{err}})
		_, got := c.Snapshot(context.Background(), plan.Query{At: now, Since: now})
		checkError(t, want, got, want)
	}
}

func TestToken(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
	for _, test := range []struct {
		name  string
		token func() (string, error)
		want  string
	}{
		{"empty", token(" \n"), "token is empty"},
		{"two lines", token(secret + "\n" + secret), "has blanks or control characters"},
		{"cannot be read", func() (string, error) { return "", errors.New("no such file") }, "reading the Buildkite API token: no such file"},
		{"wrong", token("wrong"), "(401)"},
	} {
		_, err := newClient(t, buildkite.Config{HTTP: s.Transport(), Token: test.token}).Snapshot(context.Background(), plan.Query{At: now, Since: now})
		checkError(t, test.name, err, test.want)
	}
	current := "old"
	c := newClient(t, buildkite.Config{HTTP: s.Transport(), Token: func() (string, error) { return current + "\n", nil }})
	if _, err := c.Snapshot(context.Background(), plan.Query{At: now, Since: now}); err == nil {
		t.Error("the old token was accepted")
	}
	current = secret
	observe(t, c, now, now)
}

// TestRateLimit: a 429 costs one request; no more are made until the reset, and
// then all is well again. Others have used up the limit: the client itself never
// does.
func TestRateLimit(t *testing.T) {
	requests := 0
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, UserLimit: 50, OrgLimit: 200,
		BeforeRequest: func(*http.Request) { requests++ }})
	c := newClient(t, buildkite.Config{HTTP: s.Transport()})
	observe(t, c, now, now) // five requests
	if got, want := c.Stats().User, (buildkite.Limit{Limit: 50, Remaining: 45}); got != want {
		t.Errorf("user limit %+v, want %+v", got, want)
	}
	if got, want := c.Stats().Org, (buildkite.Limit{Limit: 200, Remaining: 195}); got != want {
		t.Errorf("organisation's limit %+v, want %+v", got, want)
	}
	s.Advance(15 * time.Second)
	s.Spend(195)
	_, err := c.Snapshot(context.Background(), plan.Query{At: s.Now(), Since: now})
	var limited *buildkite.RateLimited
	if !errors.As(err, &limited) || limited.Scope != "rest" || limited.Reset != 46*time.Second {
		t.Fatalf("got %#v, want the organisation's limit for 45 s and the second that is rounded up", err)
	}
	checkError(t, "limited", err, "rate limit (rest) is used up")
	if requests != 6 {
		t.Errorf("%d requests, want 4, one good and one refused", requests)
	}
	s.Advance(44 * time.Second)
	_, err = c.Snapshot(context.Background(), plan.Query{At: s.Now(), Since: now})
	if !errors.As(err, &limited) || limited.Reset != time.Second {
		t.Errorf("before the reset: got %v", err)
	}
	if requests != 6 {
		t.Errorf("asked before the reset")
	}
	s.Advance(time.Second)
	observe(t, c, s.Now(), now)
	if got := c.Stats(); got.RateLimited != 1 || got.Failures != 1 || got.Requests != int64(requests) {
		t.Errorf("counters %+v after %d requests", got, requests)
	}
	// A clock that was set back does not silence the client for ever: it asks.
	s.Advance(time.Minute)
	_, err = c.Snapshot(context.Background(), plan.Query{At: now.Add(-24 * time.Hour)})
	checkError(t, "set back", err, "the clock here is 24h")
}

func TestRateLimitForms(t *testing.T) {
	for _, test := range []struct {
		name   string
		body   string
		header http.Header
		want   buildkite.RateLimited
	}{
		{"the body tells", `{"message":"m","scope":"rest","reset":42}`, nil, buildkite.RateLimited{Scope: "rest", Reset: 43 * time.Second}},
		{"the user's header", `{"scope":"rest_user"}`, http.Header{"RateLimit-User-Reset": {"9"}, "RateLimit-Reset": {"50"}}, buildkite.RateLimited{Scope: "rest_user", Reset: 10 * time.Second}},
		{"headers alone", `-`, http.Header{"RateLimit-User-Remaining": {"0"}, "RateLimit-User-Reset": {"9"}}, buildkite.RateLimited{Scope: "rest_user", Reset: 10 * time.Second}},
		{"the organisation's header", `-`, http.Header{"RateLimit-Remaining": {"0"}, "RateLimit-Reset": {"8"}}, buildkite.RateLimited{Scope: "rest", Reset: 9 * time.Second}},
		{"nothing tells", `-`, nil, buildkite.RateLimited{Scope: "rest", Reset: 61 * time.Second}},
		{"unbelievable", `{"reset":99999999999}`, nil, buildkite.RateLimited{Scope: "rest", Reset: time.Hour + time.Second}},
		{"Retry-After alone", `-`, http.Header{"Retry-After": {"7"}}, buildkite.RateLimited{Scope: "rest", Reset: 8 * time.Second}},
		{"Retry-After as a time", `-`, http.Header{"Retry-After": {now.Add(7 * time.Second).Format(http.TimeFormat)}}, buildkite.RateLimited{Scope: "rest", Reset: 8 * time.Second}},
		{"in the past", `{"reset":-5}`, nil, buildkite.RateLimited{Scope: "rest", Reset: 61 * time.Second}},
	} {
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
		s.Fail(fakebuildkite.Fault{Status: 429, Body: test.body, Header: test.header})
		_, err := newClient(t, buildkite.Config{HTTP: s.Transport()}).Snapshot(context.Background(), plan.Query{At: now, Since: now})
		var got *buildkite.RateLimited
		if !errors.As(err, &got) || *got != test.want {
			t.Errorf("%s: got %#v, want %#v", test.name, err, test.want)
		}
	}
}

// TestTimeout: a server that never answers, or with a byte a second, costs two time-outs, of a page
// and of one half as large; a context that ends costs nothing more.
func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		fault           fakebuildkite.Fault
		timeout, cancel time.Duration // zero: the default, never
		want            time.Duration
		err             error
	}{
		{fakebuildkite.Fault{Hang: true}, 7 * time.Second, 0, 14 * time.Second, nil},
		{fakebuildkite.Fault{Hang: true}, 7 * time.Second, 2 * time.Second, 2 * time.Second, context.Canceled},
		{fakebuildkite.Fault{Trickle: true}, 0, 0, 2 * buildkite.DefaultTimeout, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
			s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{}}})
			c.fault.Path, c.fault.Times = "/builds", -1
			s.Fail(c.fault)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancel > 0 {
				time.AfterFunc(c.cancel, cancel)
			}
			began := time.Now()
			client := newClient(t, buildkite.Config{HTTP: s.Transport(), Timeout: c.timeout})
			_, err := client.Snapshot(ctx, plan.Query{At: now, Since: now})
			unfinished, _ := errors.AsType[*buildkite.Unfinished](err)
			if took := time.Since(began); took != c.want || c.err != nil && !errors.Is(err, c.err) ||
				c.err == nil && (unfinished == nil || !strings.Contains(unfinished.Failed, "page 1: asking builds: api.buildkite.com does not answer in time")) {
				t.Errorf("%+v: after %s: %v", c.fault, took, err)
			}
		})
	}
}

func TestClusters(t *testing.T) {
	asked := map[string]int{}
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BeforeRequest: func(r *http.Request) {
		asked[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
	}})
	one := s.AddCluster("One")
	s.AddQueue(one, "default")
	c := newClient(t, buildkite.Config{HTTP: s.Transport()})
	paused := func(want bool) {
		t.Helper()
		got := observe(t, c, s.Now(), time.Time{}).Queues
		if len(got) != 1 || got[0].Paused != want {
			t.Errorf("at %s: queues %+v, want paused %v", s.Now(), got, want)
		}
	}
	paused(false)
	s.PauseQueue(one, "default")
	s.Advance(59 * time.Second)
	paused(false) // from memory
	s.Advance(time.Second)
	paused(true)
	if asked["clusters"] != 2 || asked["queues"] != 2 || asked["agents"] != 3 {
		t.Errorf("asked %v: clusters and queues are read once a minute", asked)
	}
	// A queue that memory does not know, of a job that names none, is looked up
	// at once, and not again and again when nobody knows it: the job then has
	// its cluster's default queue.
	two := s.AddCluster("Two")
	s.AddQueue(two, "fast")
	s.CreateBuild(fakebuildkite.Build{Cluster: two, Steps: []fakebuildkite.Step{{}}})
	s.AddInvalid("jobs", `{"id":"j","type":"script","state":"waiting","cluster_queue_id":"nobody"}`)
	for range 3 {
		jobs := observe(t, c, s.Now(), time.Time{}).Jobs
		if len(jobs) != 2 || jobs[0].Rules[0] != "queue=fast" || jobs[1].Rules[0] != "queue=fast" {
			t.Errorf("jobs %+v", jobs)
		}
	}
	if asked["clusters"] != 3 || asked["queues"] != 4 {
		t.Errorf("asked %v, want one more look at both clusters", asked)
	}
}

// TestManyClusters: reading queues never takes more than ten requests a minute.
func TestManyClusters(t *testing.T) {
	requests := 0
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BeforeRequest: func(r *http.Request) {
		if strings.Contains(r.URL.Path, "/clusters") {
			requests++
		}
	}})
	for range 40 {
		s.AddQueue(s.AddCluster("c"), "default")
	}
	c := newClient(t, buildkite.Config{HTTP: s.Transport()})
	for range 60 * 4 {
		observe(t, c, s.Now(), time.Time{})
		s.Advance(15 * time.Second)
	}
	if requests > 11*60 {
		t.Errorf("%d requests for queues in an hour", requests)
	}
}

func TestNoClusters(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  *fakebuildkite.Fault
		unread string // for half an hour, and then no more
	}{
		{"scope missing", &fakebuildkite.Fault{Path: "/clusters", Status: 403, Times: 3}, "give the token the scope read_clusters if there are any: "},
		{"not enabled", &fakebuildkite.Fault{Path: "/clusters", Status: 404, Times: 3}, "clusters cannot be read: "},
		{"none", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BeforeRequest: countRequests("/clusters", &asked)})
			if test.fault != nil {
				s.Fail(*test.fault)
			}
			s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"os=x"}}}})
			var log bytes.Buffer
			c := newClient(t, buildkite.Config{HTTP: s.Transport(), Log: slog.New(slog.NewTextHandler(&log, nil))})
			for range 60 {
				got := observe(t, c, s.Now(), time.Time{})
				if !strings.Contains(got.Unread, test.unread) || test.unread == "" && got.Unread != "" {
					t.Fatalf("unread: %q, want %q", got.Unread, test.unread)
				}
				if len(got.Jobs) != 1 || got.Jobs[0].Rules[1] != "queue=default" || len(got.Queues) != 0 {
					t.Fatalf("got %+v", got)
				}
				s.Advance(30 * time.Second)
			}
			if unread := observe(t, c, s.Now(), time.Time{}).Unread; unread != "" {
				t.Errorf("unread when it can be read again: %q", unread)
			}
			if n := strings.Count(log.String(), "the organisation has no clusters"); n != 1 {
				t.Errorf("said %d times, want once:\n%s", n, &log)
			}
			if test.fault != nil && asked != 4 {
				t.Errorf("asked for clusters %d times in half an hour, want 4 with both ends", asked)
			}
		})
	}
}

// TestClusterDeletedBetween: a cluster that goes while it is read is left out.
func TestClusterDeletedBetween(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now})
	s.AddQueue(s.AddCluster("One"), "one")
	s.AddQueue(s.AddCluster("Two"), "two")
	s.Fail(fakebuildkite.Fault{Path: "/queues", Status: 404})
	got := observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), now, time.Time{}).Queues
	if len(got) != 1 || got[0].Key != "two" {
		t.Errorf("queues %+v, want only two", got)
	}
}

func TestVerify(t *testing.T) {
	all := []string{"read_agents", "read_builds", "read_clusters"}
	known := fakebuildkite.Options{Token: secret}
	const scopes = `{"scopes":["read_agents","read_builds"]`
	for _, test := range []struct {
		name  string
		opts  fakebuildkite.Options
		fault *fakebuildkite.Fault
		want  string
	}{
		{"sound", fakebuildkite.Options{Token: secret, Scopes: all}, nil, ""},
		{"without clusters", fakebuildkite.Options{Token: secret, Scopes: all[:2]}, nil, ""},
		{"wrong token", fakebuildkite.Options{Token: "another"}, nil, "(401)"},
		{"no builds", fakebuildkite.Options{Token: secret, Scopes: all[:1]}, nil, "lacks read_builds: make one"},
		{"no scopes", fakebuildkite.Options{Token: secret, Scopes: []string{}}, nil, "lacks read_agents and read_builds"},
		{"another organisation", fakebuildkite.Options{Token: secret, Org: "other"}, nil, `organisation "acme" (404)`},
		{"not Buildkite", known, &fakebuildkite.Fault{Body: "<html>"}, "not as Buildkite does"},
		{"a list", known, &fakebuildkite.Fault{Body: "[]"}, "not as Buildkite does"},
		{"a text", known, &fakebuildkite.Fault{Body: `"x"`}, "not as Buildkite does"},
		{"cut", known, &fakebuildkite.Fault{Body: scopes}, "not as Buildkite does"},
		{"two", known, &fakebuildkite.Fault{Body: scopes + "}{}"}, "not as Buildkite does"},
		{"not a list", known, &fakebuildkite.Fault{Path: "/agents", Body: "{}"}, "listing agents: the answer is not a list"},
		{"limited", known, &fakebuildkite.Fault{Status: 429}, "used up for another 1m0s"},
	} {
		s := fakebuildkite.New(test.opts)
		if test.fault != nil {
			test.fault.Times = -1
			s.Fail(*test.fault)
		}
		_, err := newClient(t, buildkite.Config{HTTP: s.Transport()}).Verify(context.Background())
		if test.want != "" {
			checkError(t, test.name, err, test.want)
		} else if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestConcurrent is for the race detector: observations, counters and a world
// that moves.
func TestConcurrent(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, Poll: time.Second})
	s.AddInvalid("agents", `{}`)
	c := newClient(t, buildkite.Config{HTTP: s.Transport()})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 25 {
				if _, err := s.Connect(fakebuildkite.Agent{Tags: []string{fmt.Sprintf("index=%d", j)}, AfterJob: true}); err != nil {
					t.Error(err)
				}
				s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Duration(i) * time.Minute}}})
				s.Advance(100 * time.Millisecond)
				if _, err := c.Snapshot(context.Background(), plan.Query{At: s.Now(), Since: s.Now().Add(-time.Hour)}); err != nil {
					t.Error(err)
				}
				_ = c.Stats()
			}
		})
	}
	wg.Wait()
	if got := c.Stats().InvalidRecords; got != 100 {
		t.Errorf("counted %d odd records, want one in each of 100 observations", got)
	}
}
