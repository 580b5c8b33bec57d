package buildkite_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

// agentConfig is the configuration of a client of a simulated Agent API, with agent tokens.
func agentConfig(s *fakebuildkite.Server, tokens ...string) buildkite.AgentConfig {
	cfg := buildkite.AgentConfig{Org: "acme", HTTP: s.Transport()}
	for _, t := range tokens {
		cfg.Tokens = append(cfg.Tokens, token(t))
	}
	return cfg
}

func newMetrics(t *testing.T, s *fakebuildkite.Server, tokens ...string) *buildkite.Metrics {
	t.Helper()
	m, err := buildkite.NewMetrics(agentConfig(s, tokens...))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newStacks(t *testing.T, s *fakebuildkite.Server, key string, tokens ...string) *buildkite.Stacks {
	t.Helper()
	k, err := buildkite.NewStacks(buildkite.StacksConfig{Key: key, Clock: s, AgentConfig: agentConfig(s, tokens...)})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// twoClusters is an organisation with two clusters, an agent token for each.
func twoClusters(opts fakebuildkite.Options) (s *fakebuildkite.Server, ci, gpu string) {
	opts.Now, opts.Token = now, secret
	s = fakebuildkite.New(opts)
	ci, gpu = s.AddCluster("ci"), s.AddCluster("gpu")
	s.AddQueue(ci, "default")
	s.AddQueue(gpu, "large")
	s.AddAgentToken(ci, leaktest.AgentToken)
	s.AddAgentToken(gpu, "bkct_gpu")
	return s, ci, gpu
}

// TestCounts: the metrics of each token's cluster, and each once.
func TestCounts(t *testing.T) {
	s, ci, gpu := twoClusters(fakebuildkite.Options{})
	s.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{
		{Agents: []string{"queue=default"}, Parallelism: 3, ConcurrencyGroup: "one", Concurrency: 1}, {Agents: []string{"queue=default"}},
		{Type: fakebuildkite.Wait}, {Agents: []string{"queue=default"}},
	}})
	connect(t, s, fakebuildkite.Agent{Cluster: gpu, Tags: []string{"queue=large"}})
	got, err := newMetrics(t, s, leaktest.AgentToken, "bkct_gpu", leaktest.AgentToken).Counts(t.Context(), now)
	want := plan.Counts{At: now, Clusters: []plan.ClusterCounts{
		{Cluster: "ci", Queues: map[string]plan.QueueCounts{"default": {Scheduled: 4}}},
		{Cluster: "gpu", Queues: map[string]plan.QueueCounts{"large": {Agents: 1, Idle: 1}}},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestPollDuration: the metrics are requested at most as often as Buildkite's response allows, and after
// a failure once a minute, or after Retry-After.
func TestPollDuration(t *testing.T) {
	s, _, _ := twoClusters(fakebuildkite.Options{MetricsPoll: 20 * time.Second})
	m := newMetrics(t, s, leaktest.AgentToken)
	at := func(after time.Duration) (time.Time, error) {
		s.AdvanceTo(now.Add(after))
		c, err := m.Counts(t.Context(), now.Add(after))
		return c.At, err
	}
	for _, c := range []struct{ at, from time.Duration }{{0, 0}, {19 * time.Second, 0}, {20 * time.Second, 20 * time.Second}, {39 * time.Second, 20 * time.Second}} {
		if from, err := at(c.at); err != nil || !from.Equal(now.Add(c.from)) {
			t.Errorf("after %s: %s, %v", c.at, from.Sub(now), err)
		}
	}
	s.Fail(fakebuildkite.Fault{Path: "/v3/metrics", Status: http.StatusServiceUnavailable, Times: 5})
	s.Fail(fakebuildkite.Fault{Path: "/v3/metrics", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"90"}}})
	for _, c := range []struct {
		at   time.Duration
		want string
	}{
		{40 * time.Second, "503"}, {99 * time.Second, "503"}, {100 * time.Second, "rate limit (metrics)"}, {189 * time.Second, "rate limit (metrics)"}, {190 * time.Second, ""},
	} {
		from, err := at(c.at)
		if c.want == "" && (err != nil || !from.Equal(now.Add(c.at))) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("after %s: %s, %v", c.at, from.Sub(now), err)
		}
	}
	if stats := m.Stats(); stats.Requests != 9 || stats.Failures != 6 || stats.RateLimited != 1 || stats.Received == 0 {
		t.Errorf("%+v", stats)
	}
}

// TestNoCounts: what is no answer to go by is an error, and no error has a token in it.
func TestNoCounts(t *testing.T) {
	good := `{"agents":{"total":0},"jobs":{"total":0},"organization":{"slug":"acme"}}`
	for name, c := range map[string]struct {
		fault fakebuildkite.Fault
		at    time.Duration // muster's clock, off Buildkite's
		want  string
	}{
		"nothing in it":        {fault: fakebuildkite.Fault{Body: "{}"}, want: "lacks the totals"},
		"a message":            {fault: fakebuildkite.Fault{Body: `{"message":"hello"}`}, want: "lacks the totals"},
		"without organisation": {fault: fakebuildkite.Fault{Body: strings.Replace(good, "acme", "", 1)}, want: "lacks the totals"},
		"another organisation": {fault: fakebuildkite.Fault{Body: strings.Replace(good, "acme", "evil "+leaktest.AgentToken, 1)}, want: `of the organisation "evil [secret]", not of "acme"`},
		"a list":               {fault: fakebuildkite.Fault{Body: "[]"}, want: "unexpected response"},
		"a web page":           {fault: fakebuildkite.Fault{Body: "<html><title>Sign in " + leaktest.AgentToken + "</title>"}, want: "the response is a web page (Sign in [secret]), not JSON"},
		"a text":               {fault: fakebuildkite.Fault{Status: 203, Body: "Blocked"}, want: "the response is not JSON"},
		"half":                 {fault: fakebuildkite.Fault{Half: true}, want: "unexpected EOF"},
		"large":                {fault: fakebuildkite.Fault{Body: `"` + strings.Repeat("x", 1<<20) + `"`}, want: "larger than 1 MiB"},
		"a redirect":           {fault: fakebuildkite.Fault{Status: http.StatusFound, Header: http.Header{"Location": {"https://evil.example/"}}}, want: "302"},
		"refused":              {fault: fakebuildkite.Fault{Status: http.StatusUnauthorized}, want: "does not accept the agent token (401)"},
		"words":                {fault: fakebuildkite.Fault{Status: http.StatusInternalServerError, Body: `{"message":"` + leaktest.AgentToken + ` is bad"}`}, want: "500 Internal Server Error: [secret] is bad"},
		"a clock ahead":        {fault: fakebuildkite.Fault{Body: good}, at: 61 * time.Second, want: "from Buildkite's"},
		"a clock behind":       {fault: fakebuildkite.Fault{Body: good}, at: -61 * time.Second, want: "from Buildkite's"},
	} {
		s, _, _ := twoClusters(fakebuildkite.Options{})
		c.fault.Times = -1
		s.Fail(c.fault)
		counts, err := newMetrics(t, s, leaktest.AgentToken).Counts(t.Context(), now.Add(c.at))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), leaktest.AgentToken) || !counts.At.IsZero() {
			t.Errorf("%s: %+v, %v", name, counts, err)
		}
	}
}

// TestAgentTokens: what cannot be a token is an error before it is sent, and so is one
// that cannot be read.
func TestAgentTokens(t *testing.T) {
	s, _, _ := twoClusters(fakebuildkite.Options{})
	for _, token := range []string{"", " \n", "two words", "x\x00"} {
		m := newMetrics(t, s, token)
		if _, err := m.Counts(t.Context(), now); err == nil || m.Stats().Requests != 0 {
			t.Errorf("%q: %v", token, err)
		}
	}
	gone := errors.New("gone")
	m, err := buildkite.NewMetrics(buildkite.AgentConfig{Org: "acme", HTTP: s.Transport(), Tokens: []func() (string, error){func() (string, error) { return "", gone }}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Counts(t.Context(), now); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// TestAgentConfig: invalid configurations are errors.
func TestAgentConfig(t *testing.T) {
	tokens := []func() (string, error){token("x")}
	for _, c := range []buildkite.AgentConfig{
		{Org: "a/b", Tokens: tokens}, {Org: "acme"}, {Org: "acme", Tokens: tokens, URL: "agent.buildkite.com"},
		{Org: "acme", Tokens: tokens, URL: "https://user@agent.buildkite.com/"}, {Org: "acme", Tokens: tokens, URL: "https://agent.buildkite.com/?x"},
	} {
		if _, err := buildkite.NewMetrics(c); err == nil {
			t.Errorf("%+v", c)
		}
	}
}

// TestContradictoryMetrics: numbers that contradict each other are marked.
func TestContradictoryMetrics(t *testing.T) {
	for body, want := range map[string]plan.QueueCounts{
		`"agents":{"total":3,"queues":{"x":{"idle":1,"busy":2,"total":3}}},"jobs":{"total":2,"queues":{"x":{"scheduled":0,"running":2}}}`: {Agents: 3, Idle: 1},
		`"agents":{"total":3,"queues":{"x":{"idle":1,"busy":2,"total":3}}},"jobs":{"total":2,"queues":{"x":{"scheduled":0,"running":3}}}`: {Agents: 3, Idle: 1, Running: 3},
		`"agents":{"total":0,"queues":{}},"jobs":{"total":2,"queues":{"x":{"scheduled":0,"running":3}}}`:                                  {Running: 3},
		`"agents":{"total":3,"queues":{"x":{"idle":1,"busy":1,"total":3}}},"jobs":{"total":0}`:                                            {Agents: 3, Idle: 1, Invalid: true},
		`"agents":{"total":3,"queues":{"x":{"idle":1,"total":3}}},"jobs":{"total":0}`:                                                     {Agents: 3, Idle: 1},
	} {
		s, _, _ := twoClusters(fakebuildkite.Options{})
		s.Fail(fakebuildkite.Fault{Body: "{" + body + `,"organization":{"slug":"acme"},"cluster":{"name":"ci"}}`})
		got, err := newMetrics(t, s, leaktest.AgentToken).Counts(t.Context(), now)
		if err != nil || got.Clusters[0].Queues["x"] != want {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}
