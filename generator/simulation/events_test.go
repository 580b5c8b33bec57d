package simulation

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestEventsAreThoseOfTheDocumentation asserts that the simulated webhook has the events that the
// documentation subscribes to, and no others.
func TestEventsAreThoseOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?s)\bevents (` + "`" + `job\..*?)\.\s`).FindSubmatch(page)
	if line == nil {
		t.Fatal("the page names no events")
	}
	var events []string
	for _, event := range regexp.MustCompile("`([a-z.]+)`").FindAllSubmatch(line[1], -1) {
		events = append(events, string(event[1]))
	}
	if !slices.Equal(events, Events()) {
		t.Errorf("the page subscribes to %q, and the simulator to %q", events, Events())
	}
}

// TestWaitsWithoutEventsOfAgents asserts that agents which exit soon are seen without events of agents,
// which trigger only while limits withhold agents: one that registers, gets no job and exits between two
// polls would count as in flight until its lease ends, so that agents would be missing.
func TestWaitsWithoutEventsOfAgents(t *testing.T) {
	for _, load := range []string{"steady", "time-zones"} {
		p95 := func(interval time.Duration) time.Duration {
			a := algorithmNamed(t, "muster-reuse-5s")
			w := a.In(DefaultScenario())
			w.Interval = interval
			return Play(w, loadNamed(t, load).Generate(1, 2*time.Hour), a.New(), nil).Wait.P95
		}
		usual, often := p95(15*time.Second), p95(4*time.Second)
		if t.Logf("%s: %s, with an interval of 4s %s", load, usual, often); 100*usual > 105*often {
			t.Errorf("%s: p95 is %s, and %s with polls that show each agent", load, usual, often)
		}
	}
}

// TestEventsOfAgentsAtMax asserts that an agent that exits triggers a tick while max withholds agents.
func TestEventsOfAgentsAtMax(t *testing.T) {
	mean := func(events []string) time.Duration {
		a := algorithmNamed(t, "muster")
		w := a.In(DefaultScenario())
		w.Policy.Max = 12
		w.plan = func(r *run) { r.events = events }
		return Play(w, loadNamed(t, "steady").Generate(1, 6*time.Hour), a.New(), nil).Wait.Mean
	}
	jobs, all := mean([]string{"job.scheduled"}), mean(Events())
	if t.Logf("%s, without events of agents %s", all, jobs); 100*jobs < 115*all {
		t.Errorf("the mean wait is %s, and %s without events of agents", all, jobs)
	}
}

// TestWaitsWithinTheRateLimit asserts that at Buildkite's 50 requests a minute, with the policies that init
// writes and the documented webhook, 95 % of the jobs wait at most 1.05 times as long as without a limit:
// on average of three workloads, because with reusable agents p95 varies by some per cent.
func TestWaitsWithinTheRateLimit(t *testing.T) {
	unraced.Only(t)
	for name, policy := range map[string]func(*Scenario){
		"one job per agent": func(*Scenario) {},
		"shared pods":       stay(plan.FirstIdle, 30*time.Minute),
	} {
		p95 := func(requests int) (sum time.Duration) {
			a := algorithmNamed(t, "muster")
			w := a.In(DefaultScenario())
			policy(&w)
			if w.Requests = requests; requests > 0 {
				w.Client = func(s *fakebuildkite.Server) Client {
					client, err := buildkite.New(buildkite.Config{Org: "acme", Token: func() (string, error) { return "test-token", nil }, HTTP: s.Transport()})
					if err != nil {
						t.Fatal(err)
					}
					return client
				}
			}
			for seed := range uint64(3) {
				w.Seed = seed + 1
				sum += Play(w, loadNamed(t, "steady").Generate(w.Seed, 3*time.Hour), a.New(), nil).Wait.P95
			}
			return sum / 3
		}
		limited, unlimited := p95(50), p95(0)
		if t.Logf("%s: %s, without a limit %s", name, limited, unlimited); 100*limited > 105*unlimited {
			t.Errorf("%s: p95 is %s, and %s without a limit", name, limited, unlimited)
		}
	}
}
