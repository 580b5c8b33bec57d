package generator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/plan"
)

// TestUnreadIsAProblem: what cannot be read of Buildkite is among the problems for
// as long as that lasts, also while a tick fails, and is logged when it begins and
// when it is over.
func TestUnreadIsAProblem(t *testing.T) {
	const text = "clusters cannot be read: no scope"
	b := newBench("a")
	b.snapshot.Unread = text
	var shown []bool
	b.run(t, 15*time.Second, func(ticks int, _ generator.Result, _ error) bool { return ticks < 4 }, func(c *generator.Config) {
		c.Watch = reports(func(r generator.Report) {
			is := false
			for _, c := range r.Conditions {
				is = is || c.Type == condition.Degraded && c.Message == text && c.Reason == condition.ListUnread
			}
			shown = append(shown, is)
			switch len(shown) {
			case 2:
				b.err = context.DeadlineExceeded
			case 3:
				b.err, b.snapshot.Unread = nil, ""
			}
		})
	})
	if len(shown) != 4 || !shown[0] || !shown[1] || !shown[2] || shown[3] {
		t.Errorf("among the problems of each tick: %v", shown)
	}
	for _, want := range []string{`level=WARN msg="` + text + `" condition=Degraded reason=ListUnread`, `level=INFO msg="resolved: ` + text + `" condition=Degraded reason=ListUnread duration=45s`} {
		if n := strings.Count(b.log.String(), want); n != 1 {
			t.Errorf("%d lines %s, want one:\n%s", n, want, b.log.String())
		}
	}
}

// TestUnservedOfEachCluster: the log names each cluster in which jobs wait in a queue
// that no overlay is for, although an overlay serves a queue of that key elsewhere, and
// says of each when it is over.
func TestUnservedOfEachCluster(t *testing.T) {
	b := newBench("a")
	b.snapshot.Queues = []plan.Queue{{Cluster: "c1", ClusterName: "one", Key: "a"}}
	for _, cluster := range []string{"c1", "c2", "c3"} {
		b.snapshot.Jobs = append(b.snapshot.Jobs, plan.Job{ID: cluster, Cluster: cluster, Rules: []string{"queue=a"}, State: plan.JobPending})
	}
	b.run(t, 15*time.Second, func(ticks int, _ generator.Result, _ error) bool {
		if ticks == 2 {
			b.snapshot.Jobs = b.snapshot.Jobs[:2]
		}
		return ticks < 3
	})
	const text = `msg="jobs are pending in a queue that no overlay serves" queue=a cluster=`
	for line, want := range map[string]int{
		"level=WARN " + text + "c1": 0, "level=WARN " + text + "c2": 1, "level=WARN " + text + "c3": 1,
		strings.Replace("level=INFO "+text, `"jobs`, `"resolved: jobs`, 1) + "c3": 1, "resolved": 1,
	} {
		if n := strings.Count(b.log.String(), line); n != want {
			t.Errorf("%d lines have %s, want %d:\n%s", n, line, want, b.log.String())
		}
	}
}
