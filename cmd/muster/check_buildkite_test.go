package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/canarytest"
)

// sleepingClock moves when somebody sleeps, and its Buildkite with it.
type sleepingClock struct{ server *fakebuildkite.Server }

func (c sleepingClock) Now() time.Time { return c.server.Now() }

func (c sleepingClock) Sleep(_ context.Context, d time.Duration) error {
	c.server.Advance(d)
	return nil
}

// checkAgainst runs what check asks of Buildkite, for an overlay of the queue q.
func checkAgainst(t *testing.T, s *fakebuildkite.Server, limited bool, transport http.RoundTripper) (findings []string, log string) {
	t.Helper()
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	client, err := buildkite.New(buildkite.Config{
		Org: "acme", HTTP: transport, Log: logger, CountLimited: limited, Token: func() (string, error) { return "test-token", nil },
		URL: "https://buildkite.example/",
	})
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{"overlays/q/scaling.yaml": {Data: []byte("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: q, max: 5}\n")}}
	settings := &settings{program: program{clock: sleepingClock{s}}}
	settings.git.overlays = "overlays"
	for _, err := range settings.checkBuildkite(t.Context(), client, logger, tree) {
		findings = append(findings, err.Error())
	}
	return findings, text.String()
}

func TestCheckBuildkite(t *testing.T) {
	all := []string{"read_agents", "read_builds", "read_clusters"}
	now := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name    string
		opts    fakebuildkite.Options
		hosted  bool
		finding string // empty: none
		log     string
	}{
		{"OK", fakebuildkite.Options{}, false, "", ""},
		{"no clusters", fakebuildkite.Options{Scopes: all[:2]}, false, "", "level=WARN msg=\"clusters cannot be read: "},
		{"a hosted queue", fakebuildkite.Options{}, true, `q: suspended: hosted queue: only Buildkite hosted agents can join the queue "q"; create a self-hosted queue in the cluster "ci"`, ""},
		{"a token for a month", fakebuildkite.Options{TokenExpires: now.AddDate(0, 1, 0)}, false, "", ""},
		{"a token for a week", fakebuildkite.Options{TokenExpires: now.AddDate(0, 0, 8)}, false, "", "level=WARN msg=\"the Buildkite API token expires in 7 days, at 2026-11-09T00:00:00Z: make one"},
		{"a token for a day", fakebuildkite.Options{TokenExpires: now.AddDate(0, 0, 1).Add(time.Hour)}, false, "the Buildkite API token expires in 1 day, at", ""},
		{"a token for an hour", fakebuildkite.Options{TokenExpires: now.Add(time.Hour)}, false, "the Buildkite API token expires in less than a day, at", ""},
		{"many pages", fakebuildkite.Options{UserLimit: 4}, false, "", "msg=waiting seconds=61 reason=\"listing clusters: page 1: reading Buildkite takes more requests than half of its limit allows"},
	} {
		test.opts.Now = now
		s := fakebuildkite.New(test.opts)
		cluster := s.AddCluster("ci")
		if test.hosted {
			s.AddHostedQueue(cluster, "q")
		} else {
			s.AddQueue(cluster, "q")
		}
		// One goes, three wait for it in their concurrency group; three others may run.
		step := fakebuildkite.Step{Parallelism: 4, ConcurrencyGroup: "one", Concurrency: 1}
		s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{step}})
		s.Advance(2 * time.Minute)
		findings, log := checkAgainst(t, s, false, s.Transport())
		if text := strings.Join(findings, "\n"); test.finding == "" && text != "" || !strings.HasPrefix(text, test.finding) {
			t.Errorf("%s: findings %q, want %q", test.name, text, test.finding)
		}
		if !strings.Contains(log, test.log) || test.log == "" && strings.Contains(log, "level=WARN") {
			t.Errorf("%s: the log does not say %s:\n%s", test.name, test.log, log)
		}
	}
}

// TestCheckWarnsOfJobsThatNoOverlayServes asserts that the log of check contains pending
// jobs that no overlay serves, and that they are no finding.
func TestCheckWarnsOfJobsThatNoOverlayServes(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{})
	cluster, other := s.AddCluster("ci"), s.AddCluster("other")
	s.AddQueue(cluster, "q")
	s.AddQueue(other, "q2")
	s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{Agents: []string{"queue=q", "os=none"}}}})
	s.CreateBuild(fakebuildkite.Build{Cluster: other, Steps: []fakebuildkite.Step{{}}})
	s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=q"}}}})
	s.Advance(time.Minute)
	findings, log := checkAgainst(t, s, false, s.Transport())
	if len(findings) > 0 {
		t.Errorf("findings %q", findings)
	}
	for _, want := range []string{
		`jobs that no overlay serves: missing [\"os=none\"]" queue=q`, `jobs that no overlay serves: in no cluster, and the queue is in one" queue=q`,
		`jobs are pending in a queue that no overlay serves in the cluster \"other\"" queue=q2 jobs=1`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not contain %s:\n%s", want, log)
		}
	}
}

// TestCheckWarnsOfAgentTokensThatExpire asserts that the log of check contains the agent
// tokens of served clusters that expire soon, and that they are no finding.
func TestCheckWarnsOfAgentTokensThatExpire(t *testing.T) {
	for days, want := range map[int]string{1: "level=ERROR", 8: "level=WARN", 20: ""} {
		s := fakebuildkite.New(fakebuildkite.Options{})
		cluster := s.AddCluster("ci")
		s.AddQueue(cluster, "q")
		s.AddAgentToken(cluster, "bkct_ci")
		s.ExpireAgentToken("bkct_ci", s.Now().AddDate(0, 0, days))
		findings, log := checkAgainst(t, s, false, s.Transport())
		if len(findings) > 0 {
			t.Errorf("%d days: findings %q", days, findings)
		}
		const token = `msg="the agent token \"Agents of ci\" of the Buildkite cluster \"ci\" expires in `
		if got := strings.Contains(log, token); got != (want != "") || got && !strings.Contains(log, want+" "+token) {
			t.Errorf("%d days: the log has no %s:\n%s", days, want, log)
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
		findings, log := checkAgainst(t, s, false, s.Transport())
		if waited := s.Now().Sub(began); len(findings) > 0 || waited < 7*time.Second || waited > 8*time.Second {
			t.Errorf("%s: %v after %s, want none after 7s and the second that is rounded up", path, findings, waited)
		}
		if !strings.Contains(log, "level=INFO msg=waiting ") || !strings.Contains(log, "rate limit (rest) is used up for another") {
			t.Errorf("%s: the log does not say what check waits for:\n%s", path, log)
		}
	}
}

// TestCheckWaitsOutRateLimitOfMetrics asserts that a 429 of the metrics is no finding, and
// that check requests them again a minute after a failure, when the client may.
func TestCheckWaitsOutRateLimitOfMetrics(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{})
	s.AddAgentToken(s.AddCluster("ci"), canarytest.AgentToken)
	s.Fail(fakebuildkite.Fault{Path: "/metrics", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}})
	server := httptest.NewServer(s)
	defer server.Close()
	settings := &settings{program: program{clock: sleepingClock{s}}}
	settings.org, settings.agent.files, settings.agent.url = "acme", []string{agentTokenFile(t)}, server.URL
	began := s.Now()
	findings := settings.checkMetrics(t.Context(), slog.New(slog.DiscardHandler), nil, plan.Snapshot{})
	if waited := s.Now().Sub(began); len(findings) > 0 || waited != time.Minute {
		t.Errorf("%v after %s, want none after a minute", findings, waited)
	}
}

// TestCheckNamesALimitedJob asserts that the log names a job without runnable_at.
func TestCheckNamesALimitedJob(t *testing.T) {
	for _, counted := range []bool{false, true} {
		s := fakebuildkite.New(fakebuildkite.Options{})
		cluster := s.AddCluster("ci")
		s.AddQueue(cluster, "q")
		s.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{Parallelism: 4, ConcurrencyGroup: "one", Concurrency: 1}}})
		s.Advance(2 * time.Minute)
		findings, log := checkAgainst(t, s, counted, s.Transport())
		if len(findings) > 0 {
			t.Errorf("findings %q, want none", findings)
		}
		if want := fmt.Sprintf("jobs=3 counted=%t job=", counted); !strings.Contains(log, want) || !strings.Contains(log, "url=https://buildkite.com/acme/app/builds/1#") {
			t.Errorf("the log names no job: %s", log)
		}
	}
}
