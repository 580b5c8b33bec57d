package simulation_test

import (
	"flag"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops/unraced"
)

var agentTokenHours = flag.Int("alone-hours", 1, "hours that TestAgentTokensOnlyLikeREST plays of each load")

// reader reads a simulated Buildkite as the program does: from REST, with the Stacks API
// beside it, or with an agent token alone.
func reader(t *testing.T, source string) func(*fakebuildkite.Server) simulation.Client {
	return func(s *fakebuildkite.Server) simulation.Client {
		agents := buildkite.AgentConfig{Org: "acme", HTTP: s.Transport(), Tokens: []func() (string, error){
			func() (string, error) { return simulation.AgentToken, nil },
		}}
		cfg := buildkite.Config{Org: "acme", HTTP: s.Transport(), Token: func() (string, error) { return "test-token", nil }}
		var err error
		if source != "rest" {
			if cfg.Stacks, err = buildkite.NewStacks(buildkite.StacksConfig{Key: "muster", Clock: s, AgentConfig: agents}); err != nil {
				t.Fatal(err)
			}
		}
		if source == "stacks alone" {
			cfg.Token = nil
			if cfg.Metrics, err = buildkite.NewMetrics(agents); err != nil {
				t.Fatal(err)
			}
		}
		client, err := buildkite.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
}

// TestAgentTokensOnlyLikeREST simulates the same workload with each source, prints waits and costs, and
// asserts that every job is served.
func TestAgentTokensOnlyLikeREST(t *testing.T) {
	unraced.Only(t)
	hours := time.Duration(*agentTokenHours) * time.Hour
	changes := []struct {
		name   string
		change func(*simulation.Scenario)
	}{
		{"default", func(*simulation.Scenario) {}},
		{"buffer: 4", func(w *simulation.Scenario) { w.Policy.Buffer = 4 }},
		{"reuse: {idle: 1m, uptime: 30m}", func(w *simulation.Scenario) {
			w.Policy.Reuse = plan.Reuse{Idle: time.Minute, Uptime: 30 * time.Minute}
		}},
		{"2 % never come", func(w *simulation.Scenario) { w.Faults.NoShow = 0.02 }},
		{"2 % never come, lease: 5m", func(w *simulation.Scenario) { w.Faults.NoShow, w.Policy.Lease = 0.02, 5*time.Minute }},
	}
	l := simulation.Loads()[0] // steady
	for _, c := range changes {
		var rest simulation.Measures
		for _, source := range []string{"rest", "stacks", "stacks alone"} {
			w := simulation.DefaultScenario()
			w.Client = reader(t, source)
			c.change(&w)
			m := simulation.Play(l.Scenario(w), l.Generate(1, hours), &simulation.Muster{}, nil)
			if source == "rest" {
				rest = m
			}
			t.Logf("%-10s %-32s %-12s wait mean %4.0f s, p95 %4.0f s; pods %6.1f h, %.2f of REST's; unused %d, commits %d, jobs %d", l.Name, c.name, source,
				m.Wait.Mean.Seconds(), m.Wait.P95.Seconds(), m.Pods.Hours(), m.Pods.Hours()/rest.Pods.Hours(), m.Unused, m.Commits, m.Jobs)
			if m.Unserved > 0 {
				t.Errorf("%s, %s, %s: %d jobs are not served", l.Name, c.name, source, m.Unserved)
			}
		}
	}
}
