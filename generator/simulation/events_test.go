package simulation

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"
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

// TestWaitsWithoutEventsOfAgents asserts that agents which exit soon are seen without webhooks about
// agents: one that registers, gets no job and exits between two polls would count as in flight until
// its lease ends, so that agents would be missing.
func TestWaitsWithoutEventsOfAgents(t *testing.T) {
	for _, load := range []string{"steady", "time-zones"} {
		p95 := func(events []string) time.Duration {
			a := algorithmNamed(t, "muster-told-reuse-5s")
			w := a.In(DefaultScenario())
			w.plan = func(r *run) { r.events = events }
			return Play(w, loadNamed(t, load).Generate(1, 2*time.Hour), a.New(), nil).Wait.P95
		}
		jobs, all := p95([]string{"job.scheduled", "job.finished"}), p95(Events())
		if t.Logf("%s: %s and %s", load, jobs, all); 100*jobs > 105*all {
			t.Errorf("%s: p95 is %s with events of jobs, and %s with all documented events", load, jobs, all)
		}
	}
}
