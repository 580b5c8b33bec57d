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

// TestAgentsThatNoPollShows asserts that webhooks about agents shorten waits if agents exit soon: an
// agent that registers, gets no job and exits between two polls counts as in flight until its lease
// ends, so that agents are missing.
func TestAgentsThatNoPollShows(t *testing.T) {
	p95 := func(idle time.Duration, events []string) time.Duration {
		a := algorithmNamed(t, "muster-told-reuse-5s")
		w := a.In(DefaultScenario())
		w.Policy.Reuse.Idle = idle
		w.plan = func(r *run) { r.events = events }
		return Play(w, loadNamed(t, "steady").Generate(1, 2*time.Hour), a.New(), nil).Wait.P95
	}
	jobs := []string{"job.scheduled", "job.finished"}
	if unseen, seen := p95(5*time.Second, jobs), p95(5*time.Second, Events()); 10*seen > 9*unseen {
		t.Errorf("p95 is %s with the documented events, and %s without those of agents", seen, unseen)
	}
}
