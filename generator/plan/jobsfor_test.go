package plan_test

import (
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
)

// TestJobsFor: the jobs that an overlay's agents could take, the longest pending first.
func TestJobsFor(t *testing.T) {
	at := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	overlays := []plan.Overlay{{Name: "a", Policy: plan.Policy{Queue: "q", Cluster: "ci", Tags: []string{"os=linux"}}}, {Name: "b", Policy: plan.Policy{Queue: "other"}}}
	job := func(id string, after time.Duration, cluster string, state plan.JobState, rules ...string) plan.Job {
		return plan.Job{ID: id, Cluster: cluster, State: state, Rules: rules, Since: at.Add(after)}
	}
	s := plan.Snapshot{At: at, Queues: []plan.Queue{{Cluster: "1", ClusterName: "ci", Key: "q"}, {Cluster: "2", ClusterName: "gpu", Key: "q"}}, Jobs: []plan.Job{
		job("later", 2, "1", plan.JobPending, "queue=q"), job("first", 1, "1", plan.JobPending, "queue=q", "os=linux"), job("second", 1, "1", plan.JobPending, "queue=*"),
		job("told", 0, "1", plan.JobPending, "queue=q"), job("limited", 0, "1", plan.JobLimited, "queue=q"), job("unmatched", 0, "1", plan.JobPending, "queue=q", "os=plan9"),
		job("elsewhere", 0, "2", plan.JobPending, "queue=q"), job("another", 0, "1", plan.JobPending, "queue=other"),
	}}
	for most, want := range []string{"", "first", "first second", "first second later", "first second later"} {
		var ids []string
		for _, j := range plan.JobsFor(overlays, s, "a", most, func(id string) bool { return id == "told" }) {
			ids = append(ids, j.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%d: %s, want %s", most, got, want)
		}
	}
}
