package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// hostLimits are what git hosts do with long messages, in bytes. GitHub documents no
// limit for a commit that is pushed (go-gitea/gitea pull request 39269 found none below
// 10 MB).
var hostLimits = map[string]int{
	// A longer message is not shown: GitLab's lib/gitlab/git/commit.rb,
	// MAX_COMMIT_MESSAGE_DISPLAY_SIZE.
	"GitLab shows": 10 << 20,
	// What one write of GitHub's API may take is not documented; muster's own parser
	// reads no more.
	"muster reads": 4 << 20,
}

// TestLargestMessage: the message of an act in a fleet as large as any that muster
// promises to hold, 10,000 dispatches and 300 sets of rules, is within what hosts show, is
// read back, and git finds its trailers.
func TestLargestMessage(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	seen := map[string]plan.Observed{}
	var retired []plan.Retirement
	var registered plan.IndexSet
	for i := range 100 {
		registered.Add(i)
	}
	for i := range 10_000 {
		id := fmt.Sprintf("linux-large-%08d", i)
		seen[id] = plan.Observed{Registered: registered, FirstAt: &at, RegisteredAt: &at, HadJob: 100, Connected: 100}
		if i < 1000 {
			retired = append(retired, plan.Retirement{ID: id, Agents: 100, Registered: 100, Reason: plan.AllRegistered})
		}
	}
	var jobs []plan.Demand
	for i := range 300 {
		jobs = append(jobs, plan.Demand{Overlays: []string{"linux-large", fmt.Sprintf("overlay-%03d", i)}, Pending: 1000, Oldest: &at, Upcoming: 1000})
	}
	op := ledger.Draft{Kind: ledger.Retire, Path: "overlays/linux-large", Base: base, Decision: plan.Decision{Overlay: "linux-large", Queue: "large", Retire: retired,
		Observation: plan.Observation{At: at, Queue: "large", Jobs: jobs, Overlays: []plan.Capacity{{Overlay: "linux-large", Dispatches: seen}}}}}
	message := ledger.Message(op, "v1")
	for what, most := range hostLimits {
		if len(message) > most {
			t.Errorf("the message has %d bytes, and %s at most %d", len(message), what, most)
		}
	}
	e, err := ledger.Parse(message)
	if err != nil || len(e.Orders) != len(retired) || len(e.Observation.Overlays[0].Dispatches) != len(seen) {
		t.Fatalf("%v: %d dispatches are retired, and %d observed", err, len(e.Orders), len(e.Observation.Overlays[0].Dispatches))
	}
	wantTrailers(t, message)
	t.Logf("%d bytes", len(message))
}
