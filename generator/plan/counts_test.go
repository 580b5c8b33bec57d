package plan_test

import (
	"testing"

	"muster/generator/plan"
)

// TestMore: jobs have come where more are scheduled in a queue of an overlay than before.
func TestMore(t *testing.T) {
	type queues = map[string]plan.QueueCounts
	overlays := []plan.Overlay{{Policy: plan.Policy{Queue: "a"}}, {Policy: plan.Policy{Queue: "b"}}}
	counts := func(cluster string, q queues) plan.Counts {
		return plan.Counts{Clusters: []plan.ClusterCounts{{Cluster: cluster, Queues: q}}}
	}
	before := counts("ci", queues{"a": {Scheduled: 2}})
	for name, c := range map[string]struct {
		now  plan.Counts
		want bool
	}{
		"the same":             {before, false},
		"more":                 {counts("ci", queues{"a": {Scheduled: 3}}), true},
		"fewer":                {counts("ci", queues{"a": {Scheduled: 1}}), false},
		"in the other":         {counts("ci", queues{"a": {Scheduled: 2}, "b": {Scheduled: 1}}), true},
		"in nobody's":          {counts("ci", queues{"a": {Scheduled: 2}, "c": {Scheduled: 1}}), false},
		"agents":               {counts("ci", queues{"a": {Scheduled: 2, Agents: 3, Idle: 1}}), false},
		"of another cluster":   {counts("gpu", queues{"a": {Scheduled: 9}}), false},
		"of no cluster at all": {plan.Counts{}, false},
	} {
		if got := c.now.More(overlays, before); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
