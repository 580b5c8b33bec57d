package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/cmd/invocation"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

// checkAgainst runs what check asks of Buildkite, for an overlay of the queue q.
func checkAgainst(t *testing.T, s *fakebuildkite.Server, limited bool) (findings []string, log string) {
	t.Helper()
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	client, err := buildkite.New(buildkite.Config{
		Org: "acme", HTTP: s.Transport(), Log: logger, CountLimited: limited, URL: "https://buildkite.example/",
		Token: func() (string, error) { return "test-token", nil },
	})
	check(t, err)
	tree := fstest.MapFS{"overlays/q/scaling.yaml": {Data: []byte("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: q, max: 5}\n")}}
	settings := &settings{program: program{invocation.Program{Clock: s}}}
	settings.git.Overlays = "overlays"
	for _, err := range settings.checkBuildkite(t.Context(), client, logger, tree, pollInterval) {
		findings = append(findings, err.Error())
	}
	return findings, text.String()
}

// TestCheckWarnsOfShortIdleTimeouts asserts that check warns of agents that no poll may show.
func TestCheckWarnsOfShortIdleTimeouts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		policy   plan.Policy
		interval time.Duration
		contains string // empty: nothing is logged
	}{
		{"reusable", plan.Policy{IdleTimeout: 5 * time.Minute, Reuse: plan.Reuse{Idle: 5 * time.Second, Uptime: time.Hour}}, 15 * time.Second, "idle=5s interval=15s"},
		{"of one job", plan.Policy{IdleTimeout: 10 * time.Second}, 15 * time.Second, "idle=10s interval=15s"},
		{"long interval", plan.Policy{IdleTimeout: 5 * time.Minute}, 10 * time.Minute, "idle=5m0s interval=10m0s"},
		{"long enough", plan.Policy{IdleTimeout: 15 * time.Second}, 15 * time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			warnUnseen(slog.New(slog.NewTextHandler(&log, nil)), test.interval, []plan.Overlay{{Name: "q", Policy: test.policy}})
			if test.contains == "" && log.Len() > 0 || test.contains != "" && !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), test.contains) {
				t.Errorf("the log is %q, want %q", &log, test.contains)
			}
		})
	}
}

// TestCheckBuildkite asserts what check finds, and what it logs: jobs that wait for another or that
// no overlay serves, and tokens that expire soon, are no finding.
func TestCheckBuildkite(t *testing.T) {
	now := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	const expires = "the Buildkite API token expires in "
	const agentToken = `msg="the agent token \"Agents of ci\" of the Buildkite cluster \"ci\" expires in `
	const limitedJob = "url=https://buildkite.com/acme/app/builds/1#"
	tokenExpires := func(days, hours int) fakebuildkite.Options {
		return fakebuildkite.Options{TokenExpires: now.AddDate(0, 0, days).Add(time.Duration(hours) * time.Hour)}
	}
	agentTokenExpires := func(days int) func(*fakebuildkite.Server, string) {
		return func(s *fakebuildkite.Server, cluster string) {
			s.AddQueue(cluster, "q")
			s.AddAgentToken(cluster, "bkct_ci")
			s.ExpireAgentToken("bkct_ci", s.Now().AddDate(0, 0, days))
		}
	}
	for _, test := range []struct {
		name    string
		opts    fakebuildkite.Options
		prepare func(s *fakebuildkite.Server, cluster string) // nil: it has the queue
		counted bool                                          // jobs that wait for another count
		finding string                                        // empty: none
		log     []string                                      // nil: no warning
	}{
		{name: "OK"},
		{
			name: "no clusters", opts: fakebuildkite.Options{Scopes: []string{"read_agents", "read_builds"}},
			log: []string{`level=WARN msg="clusters cannot be read: `},
		},
		{
			name: "a hosted queue", prepare: func(s *fakebuildkite.Server, cluster string) { s.AddHostedQueue(cluster, "q") },
			finding: `q: suspended: hosted queue: only Buildkite hosted agents can join the queue "q"; ` +
				`create a self-hosted queue in the cluster "ci"`,
		},
		{name: "a token for a month", opts: tokenExpires(30, 0)},
		{
			name: "a token for a week", opts: tokenExpires(8, 0),
			log: []string{`level=WARN msg="` + expires + "7 days, at 2026-11-09T00:00:00Z: make one"},
		},
		{name: "a token for a day", opts: tokenExpires(1, 1), finding: expires + "1 day, at"},
		{name: "a token for an hour", opts: tokenExpires(0, 1), finding: expires + "less than a day, at"},
		{
			name: "many pages", opts: fakebuildkite.Options{UserLimit: 4},
			log: []string{`msg=waiting seconds=61 reason="listing clusters: page 1: ` +
				"reading Buildkite takes more requests than half of its limit allows"},
		},
		{name: "an agent token for a day", prepare: agentTokenExpires(1), log: []string{"level=ERROR " + agentToken}},
		{name: "an agent token for a week", prepare: agentTokenExpires(8), log: []string{"level=WARN " + agentToken}},
		{name: "an agent token for weeks", prepare: agentTokenExpires(20)},
		{name: "limited jobs", log: []string{"jobs=3 counted=false job=", limitedJob}},
		{name: "limited jobs that count", counted: true, log: []string{"jobs=3 counted=true job=", limitedJob}},
		{
			name: "jobs that no overlay serves",
			prepare: func(s *fakebuildkite.Server, cluster string) {
				other := s.AddCluster("other")
				s.AddQueue(cluster, "q")
				s.AddQueue(other, "q2")
				s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{Agents: []string{"queue=q", "os=none"}}}})
				s.CreateBuild(fakebuildkite.Build{Cluster: other, Steps: []fakebuildkite.Step{{}}})
				s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=q"}}}})
			},
			log: []string{
				`jobs that no overlay serves: missing [\"os=none\"]" queue=q`,
				`jobs that no overlay serves: in no cluster, and the queue is in one" queue=q`,
				`jobs are pending in a queue that no overlay serves in the cluster \"other\"" queue=q2 jobs=1`,
			},
		},
	} {
		test.opts.Now = now
		s := fakebuildkite.New(test.opts)
		cluster := s.AddCluster("ci")
		if test.prepare != nil {
			test.prepare(s, cluster)
		} else {
			s.AddQueue(cluster, "q")
		}
		// One goes, three wait for it in their concurrency group.
		step := fakebuildkite.Step{Parallelism: 4, ConcurrencyGroup: "one", Concurrency: 1}
		s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{step}})
		s.Advance(2 * time.Minute)
		findings, log := checkAgainst(t, s, test.counted)
		if text := strings.Join(findings, "\n"); test.finding == "" && text != "" || !strings.HasPrefix(text, test.finding) {
			t.Errorf("%s: findings %q, want %q", test.name, text, test.finding)
		}
		if test.log == nil && (strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR")) {
			t.Errorf("%s: the log has a warning:\n%s", test.name, log)
		}
		for _, want := range test.log {
			if !strings.Contains(log, want) {
				t.Errorf("%s: the log does not say %s:\n%s", test.name, want, log)
			}
		}
	}
}

// TestCheckWaitsOutRateLimits asserts that check waits after a 429, whichever request it
// answers.
func TestCheckWaitsOutRateLimits(t *testing.T) {
	for _, path := range []string{"/access-token", "/agents?per_page=1", "/builds", "/queues"} {
		s := fakebuildkite.New(fakebuildkite.Options{})
		s.AddQueue(s.AddCluster("ci"), "q")
		s.Fail(fakebuildkite.Fault{Path: path, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}})
		began := s.Now()
		findings, log := checkAgainst(t, s, false)
		if waited := s.Now().Sub(began); len(findings) > 0 || waited < 7*time.Second || waited > 8*time.Second {
			t.Errorf("%s: %v after %s, want none after 7s and the second that is rounded up", path, findings, waited)
		}
		if !strings.Contains(log, "level=INFO msg=waiting ") || !strings.Contains(log, "rate limit (rest) is used up for another") {
			t.Errorf("%s: the log does not say what check waits for:\n%s", path, log)
		}
	}
}

// TestCheckWaitsOutRateLimitOfMetrics asserts that a 429 of the metrics is no finding, and
// that check requests them again when Buildkite allows it.
func TestCheckWaitsOutRateLimitOfMetrics(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{})
	s.AddAgentToken(s.AddCluster("ci"), leaktest.AgentToken)
	s.Fail(fakebuildkite.Fault{Path: "/metrics", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}})
	server := serveHTTP(t, s)
	settings := &settings{program: program{invocation.Program{Clock: s}}}
	settings.buildkite.Org, settings.agent.files, settings.agent.url = "acme", []string{agentTokenFile(t)}, server.URL
	began := s.Now()
	findings := settings.checkMetrics(t.Context(), slog.New(slog.DiscardHandler), nil, plan.Snapshot{})
	if waited := s.Now().Sub(began); len(findings) > 0 || waited != 7*time.Second {
		t.Errorf("%v after %s, want none after 7s", findings, waited)
	}
}
