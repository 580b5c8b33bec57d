package buildkite_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
	"muster/gitops/unraced"
)

var failingSeeds = flag.Int("failing-hours", 2, "hours that TestFailingAnswers plays of each share")

// retryClock is a simulated Buildkite's clock. A pause takes half a second, whatever was drawn.
type retryClock struct {
	*fakebuildkite.Server
	slept int
}

func (c *retryClock) Sleep(ctx context.Context, _ time.Duration) error {
	c.slept++
	c.Advance(500 * time.Millisecond)
	return ctx.Err()
}

// failSome lets a share of all answers fail in every way from which a client recovers.
func failSome(s *fakebuildkite.Server, share float64, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 0))
	kinds := []fakebuildkite.Fault{
		{Status: http.StatusInternalServerError}, {Status: http.StatusBadGateway, Body: "<html>"}, {Status: http.StatusServiceUnavailable},
		{Status: http.StatusGatewayTimeout}, {Half: true}, {Half: true}, {Cut: true}, {Body: " "},
	}
	for i, f := range kinds {
		// A fault is drawn only if the ones before it were not.
		own := share / float64(len(kinds)) / (1 - share*float64(i)/float64(len(kinds)))
		f.Times, f.Hits = -1, func() bool { return draw.Float64() < own }
		s.Fail(f)
	}
}

// retryingClient returns a client with one source of jobs, which pauses before it repeats a request.
func retryingClient(t *testing.T, s *fakebuildkite.Server, source string) *serving {
	t.Helper()
	clock := &retryClock{Server: s}
	agents := buildkite.AgentConfig{Org: "acme", HTTP: s.Transport(), Clock: clock, Tokens: []func() (string, error){token(leaktest.AgentToken)}}
	cfg := buildkite.Config{Org: "acme", HTTP: s.Transport(), Clock: clock, Token: token(secret)}
	var err error
	if source != "rest" {
		if cfg.Stacks, err = buildkite.NewStacks(buildkite.StacksConfig{Key: "muster-test", Clock: clock, AgentConfig: agents}); err != nil {
			t.Fatal(err)
		}
	}
	if source == "alone" {
		cfg.Token = nil
		if cfg.Metrics, err = buildkite.NewMetrics(agents); err != nil {
			t.Fatal(err)
		}
	}
	client, err := buildkite.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &serving{client, ofQueues("default")}
}

// TestFailingAnswers plays hours in which a share of all answers fail. With a tenth, every tick
// decides, except one in a thousand that the rate limit delays; with half, decisions are at most two
// minutes apart; the client never uses more than half of the rate limit. It logs the figures of
// docs/explanation/buildkite.md.
func TestFailingAnswers(t *testing.T) {
	unraced.Only(t)
	for _, share := range []float64{0.1, 0.5, 0.9} {
		for _, source := range sources {
			var gaps []time.Duration
			ticks, failed, most := 0, 0, ""
			for seed := range uint64(*failingSeeds) {
				o := newOrganisation(fakebuildkite.Options{UserLimit: 50, OrgLimit: 200, MetricsPoll: -1})
				ci := o.AddCluster("ci")
				o.AddQueue(ci, "default")
				o.SetDefaultQueue(ci, "default")
				o.AddAgentToken(ci, leaktest.AgentToken)
				o.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Parallelism: 20}}})
				c := retryingClient(t, o.Server, source)
				failSome(o.Server, share, seed)
				decided, end := o.Now(), o.Now().Add(time.Hour)
				for o.Now().Before(end) {
					began := o.Now()
					since := began.Add(-10 * time.Minute)
					_, err := c.Snapshot(t.Context(), plan.Query{At: began, Since: since})
					ticks++
					pause := 15*time.Second - o.Now().Sub(began)
					switch wait := plan.RetryError(nil); {
					case err == nil:
						gaps, decided = append(gaps, o.Now().Sub(decided)), o.Now()
					case errors.As(err, &wait):
						pause = max(pause, wait.RetryAfter())
					default:
						failed++
					}
					o.Advance(max(0, pause))
				}
				if source == "rest" { // the Agent API has limits of its own
					if n := o.most(); n > 25 {
						t.Errorf("%d requests in a minute, want at most half of 50", n)
					}
					most = fmt.Sprintf("; at most %d requests a minute", o.most())
				}
			}
			slices.Sort(gaps)
			longest, sum := gaps[len(gaps)-1], time.Duration(0)
			for _, gap := range gaps {
				sum += gap
			}
			t.Logf("%2.0f %% fail, %-6s: %4.1f %% of %d ticks decide, %3.1f %% fail; decisions are %s apart on average, 95 %% at most %s, all at most %s%s",
				share*100, source, 100*float64(len(gaps))/float64(ticks), ticks, 100*float64(failed)/float64(ticks),
				(sum / time.Duration(len(gaps))).Round(time.Second), gaps[len(gaps)*95/100].Round(time.Second), longest.Round(time.Second), most)
			switch {
			case share < 0.2 && (failed > 0 || len(gaps) < ticks*999/1000):
				t.Errorf("%.0f %% fail, %s: %d of %d ticks decide", share*100, source, len(gaps), ticks)
			case share < 0.6 && longest > 2*time.Minute:
				t.Errorf("%.0f %% fail, %s: decisions are %s apart", share*100, source, longest)
			}
		}
	}
}

// TestPageThatTakesTooLong: a page that is too large for Buildkite or a proxy is requested again
// with half its size, and no record is missed or listed twice.
func TestPageThatTakesTooLong(t *testing.T) {
	for _, largest := range []int{100, 70, 30, 12} {
		sizes := map[string]int{}
		o := newOrganisation(fakebuildkite.Options{})
		for i := range 457 {
			o.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Label: fmt.Sprint(i), Agents: []string{"queue=none"}}}})
			connect(t, o.Server, fakebuildkite.Agent{Name: fmt.Sprint("agent-", i)})
		}
		slow := roundTrip(func(r *http.Request) (*http.Response, error) {
			size := 0
			if _, err := fmt.Sscan(r.URL.Query().Get("per_page"), &size); err == nil {
				sizes[r.URL.Query().Get("per_page")]++
			}
			if size <= largest {
				return o.Transport().RoundTrip(r)
			}
			if size%2 == 0 {
				return nil, context.DeadlineExceeded
			}
			response := (&static{}).answer(r, "", "")
			response.StatusCode = http.StatusGatewayTimeout
			return response, nil
		})
		c := newClient(t, buildkite.Config{HTTP: slow, Clock: &retryClock{Server: o.Server}})
		var snapshot plan.Snapshot
		calls := 0
		for err := errors.New(""); err != nil && calls < 10; calls++ {
			snapshot, err = c.Snapshot(t.Context(), plan.Query{At: o.Now()})
			o.Advance(15 * time.Second)
		}
		if len(snapshot.Agents) != 457 || len(snapshot.Jobs) != 457 {
			t.Errorf("pages of %d: %d agents and %d jobs in %d calls, by size of the page: %v", largest, len(snapshot.Agents), len(snapshot.Jobs), calls, sizes)
		}
	}
}

// TestCancelledRetries: a context that ends ends the attempts at once, also in a pause.
func TestCancelledRetries(t *testing.T) {
	for _, source := range sources {
		for pauses := range 3 {
			requests := 0
			s, _, _ := twoClusters(fakebuildkite.Options{BeforeRequest: func(*http.Request) { requests++ }})
			ctx, cancel := context.WithCancel(t.Context())
			c := retryingClient(t, s, source)
			_ = observe(t, c, now, time.Time{})
			s.Advance(20 * time.Second)
			before, left := requests, pauses
			s.Fail(fakebuildkite.Fault{Times: -1, Status: http.StatusServiceUnavailable, Hits: func() bool {
				if left--; left < 0 {
					cancel()
				}
				return true
			}})
			_, err := c.Snapshot(ctx, plan.Query{At: s.Now()})
			if !errors.Is(err, context.Canceled) || requests != before+pauses+1 {
				t.Errorf("%s, in attempt %d: %d requests, %v", source, pauses+1, requests-before, err)
			}
		}
	}
}

// TestNotificationsAreNotRepeated: a request that would have another effect twice is sent once,
// although it fails.
func TestNotificationsAreNotRepeated(t *testing.T) {
	sent := map[string]int{}
	s, _, _ := twoClusters(fakebuildkite.Options{BeforeRequest: func(r *http.Request) {
		if r.Method != http.MethodGet {
			sent[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
		}
	}})
	k := newStacks(t, s, "muster-test", leaktest.AgentToken)
	s.Fail(fakebuildkite.Fault{Path: "/notifications", Times: -1, Cut: true})
	if _, err := k.Notify(t.Context(), ofQueues("default"), []buildkite.JobNote{{Job: "x", Text: "y"}}); err == nil || sent["notifications"] != 1 {
		t.Errorf("%v, %v", sent, err)
	}
}

// TestWaitsAsAsked: with every source, a 429 to any request of a poll delays the poll by what
// Buildkite asks, in every form, and the error says so.
func TestWaitsAsAsked(t *testing.T) {
	for _, source := range sources {
		for name, c := range map[string]struct {
			header http.Header
			want   time.Duration
		}{
			"seconds":         {http.Header{"Retry-After": {"14"}}, 14 * time.Second},
			"a time":          {http.Header{"Retry-After": {now.Add(34 * time.Second).Format(http.TimeFormat)}}, 14 * time.Second},
			"a time that was": {http.Header{"Retry-After": {now.Format(http.TimeFormat)}}, time.Second},
			"reset":           {http.Header{"RateLimit-Reset": {"14"}}, 14 * time.Second},
			"both":            {http.Header{"RateLimit-Reset": {"4"}, "Retry-After": {"14"}}, 14 * time.Second},
			"zero":            {http.Header{"Retry-After": {"0"}}, time.Second},
			"more than a day": {http.Header{"Retry-After": {"99999999999999999999"}}, time.Hour},
		} {
			for skip := range 3 {
				o := newOrganisation(fakebuildkite.Options{UserLimit: 50, OrgLimit: 200, MetricsPoll: -1})
				ci := o.AddCluster("ci")
				o.AddQueue(ci, "default")
				o.AddAgentToken(ci, leaktest.AgentToken)
				o.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})
				o.Advance(20 * time.Second)
				c := c
				o.Fail(fakebuildkite.Fault{Status: http.StatusTooManyRequests, Body: "-", Header: c.header, Skip: skip})
				client := retryingClient(t, o.Server, source)
				began := o.Now()
				_, err := client.Snapshot(t.Context(), plan.Query{At: began})
				wait, limited := plan.RetryError(nil), (*buildkite.RateLimited)(nil)
				switch {
				case err == nil && c.want == time.Second: // the Agent API's limits are per second
				case !errors.As(err, &wait) || !errors.As(err, &limited) || wait.RetryAfter() < c.want || wait.RetryAfter() > c.want+time.Second:
					t.Errorf("%s, %s, request %d: %v", source, name, skip+1, err)
				default:
					o.Advance(wait.RetryAfter())
					if _, err := client.Snapshot(t.Context(), plan.Query{At: o.Now()}); err != nil {
						t.Errorf("%s, %s, request %d, after the wait: %v", source, name, skip+1, err)
					}
				}
			}
		}
	}
}

// TestLongPauseOfFailedRequest asserts that a failed request whose server asks for a long pause does not
// keep muster from polling, and from reporting the failure, for longer than a minute.
func TestLongPauseOfFailedRequest(t *testing.T) {
	o := newOrganisation(fakebuildkite.Options{})
	c := newClient(t, buildkite.Config{HTTP: o.Transport(), Clock: &retryClock{Server: o.Server}})
	if _, err := c.Snapshot(t.Context(), plan.Query{At: o.Now()}); err != nil {
		t.Fatal(err)
	}
	o.Advance(15 * time.Second)
	o.Fail(fakebuildkite.Fault{Path: "/builds", Times: -1, Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"3600"}}})
	_, err := c.Snapshot(t.Context(), plan.Query{At: o.Now()})
	var unfinished *buildkite.Unfinished
	if !errors.As(err, &unfinished) || unfinished.Wait != time.Minute {
		t.Errorf("%v, want an unfinished poll that continues after a minute", err)
	}
}

// TestPartThatNeverAnswers: a poll is unfinished for at most a minute if one of its parts never
// answers, whatever else succeeds. It then fails, so that a condition reports it, and continues as
// soon as that part answers.
func TestPartThatNeverAnswers(t *testing.T) {
	builds := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/builds") }
	gpu := func(r *http.Request) bool { return strings.HasSuffix(r.Header.Get("Authorization"), "bkct_gpu") }
	for _, c := range []struct {
		source, path string
		only         func(*http.Request) bool // nil: all requests with that path
	}{
		{"rest", "/agents?", nil},
		{"rest", "/agents?page=2", nil},
		{"rest", "/builds?", nil},
		{"rest", "page=2&", builds},
		{"rest", "finished_from", nil},
		{"rest", "/clusters?", nil},
		{"stacks", "/builds?", nil},
		{"stacks", "/clusters?", nil},
		{"stacks", "/scheduled-jobs", gpu},
		{"stacks", "after=", nil},
		{"alone", "/metrics", gpu},
		{"alone", "/register", gpu},
		{"alone", "/scheduled-jobs", gpu},
		{"alone", "after=", nil},
		{"alone", "/get-states", nil},
		{"alone", "/get-states", gpu},
	} {
		var last *http.Request
		s, ci, other := twoClusters(fakebuildkite.Options{MetricsPoll: -1, BeforeRequest: func(r *http.Request) { last = r }})
		for range 151 {
			s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{Parallelism: 10, Duration: time.Hour}}})
		}
		gone := []string{s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})}
		gone = append(gone, s.CreateBuild(fakebuildkite.Build{Cluster: other, Steps: []fakebuildkite.Step{{Agents: []string{"queue=large"}}}}))
		for range 101 {
			connectTo(t, s, ci)
		}
		client, at := sourceClient(t, s, c.source), now
		if c.path != "/register" {
			observe(t, client, at, at.Add(-time.Minute))
		}
		for _, id := range gone {
			s.CancelBuild(id)
		}
		hit := false
		s.Fail(fakebuildkite.Fault{Path: c.path, Times: -1, Status: http.StatusBadGateway, Hits: func() bool {
			hit = hit || c.only == nil || c.only(last)
			return c.only == nil || c.only(last)
		}})
		failed, unfinished := 0, 0
		for range 30 {
			at = at.Add(15 * time.Second)
			s.AdvanceTo(at)
			_, err := client.Snapshot(t.Context(), plan.Query{At: at, Since: at.Add(-time.Minute)})
			switch pending := (*buildkite.Unfinished)(nil); {
			case err == nil:
				failed, unfinished = 0, 0
			case errors.As(err, &pending):
				failed, unfinished = 0, unfinished+1
			default:
				failed, unfinished = failed+1, 0
			}
			if unfinished > 5 {
				break
			}
		}
		if !hit || failed < 10 || unfinished > 5 {
			t.Errorf("%s without %s: %d unfinished polls, %d failed (the fault was hit: %t)", c.source, c.path, unfinished, failed, hit)
		}
		s.Recover()
		at = at.Add(15 * time.Second)
		s.AdvanceTo(at)
		observe(t, client, at, at.Add(-time.Minute))
	}
}
