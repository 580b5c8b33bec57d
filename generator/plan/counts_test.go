package plan_test

import (
	"testing"

	"muster/generator/plan"
)

func countsOf(cluster string, queues map[string]plan.QueueCounts) plan.ClusterCounts {
	c := plan.ClusterCounts{Cluster: cluster, Queues: queues}
	for _, q := range queues {
		c.Total.Scheduled, c.Total.Running = c.Total.Scheduled+q.Scheduled, c.Total.Running+q.Running
		c.Total.Waiting, c.Total.Agents = c.Total.Waiting+q.Waiting, c.Total.Agents+q.Agents
	}
	return c
}

// TestShowNothing: counts say that there is nothing only where they tell of the cluster
// of each overlay, and nothing is where its jobs may be.
func TestShowNothing(t *testing.T) {
	type queues = map[string]plan.QueueCounts
	last := plan.Snapshot{Queues: []plan.Queue{
		{Cluster: "1", ClusterName: "ci", Key: "default"}, {Cluster: "1", ClusterName: "ci", Key: "other"}, {Cluster: "1", ClusterName: "ci", Key: "stopped", Paused: true},
		{Cluster: "2", ClusterName: "gpu", Key: "large"}, {Cluster: "2", ClusterName: "gpu", Key: "twice"}, {Cluster: "1", ClusterName: "ci", Key: "twice"},
		{Cluster: "3", ClusterName: "alike", Key: "three"}, {Cluster: "4", ClusterName: "alike", Key: "four"},
	}}
	on := func(queue, cluster string, ahead float64) plan.Overlay {
		return plan.Overlay{Name: queue, Policy: plan.Policy{Queue: queue, Cluster: cluster, Lookahead: ahead}}
	}
	of := func(q queues) []plan.ClusterCounts { return []plan.ClusterCounts{countsOf("ci", q)} }
	others := countsOf("ci", nil)
	others.Total.Scheduled = 1
	unread := last
	unread.Unread = "clusters cannot be read"
	for name, c := range map[string]struct {
		overlays []plan.Overlay
		last     plan.Snapshot
		counts   []plan.ClusterCounts
		want     bool
	}{
		"nothing at all":           {[]plan.Overlay{on("default", "", 0)}, last, of(queues{"default": {}}), true},
		"a queue that is not told": {[]plan.Overlay{on("default", "", 0)}, last, of(nil), true},
		"no overlay":               {nil, last, of(nil), false},
		"scheduled":                {[]plan.Overlay{on("default", "", 0)}, last, of(queues{"default": {Scheduled: 1}}), false},
		"running":                  {[]plan.Overlay{on("default", "", 0)}, last, of(queues{"default": {Running: 1}}), false},
		"an agent":                 {[]plan.Overlay{on("default", "", 0)}, last, of(queues{"default": {Agents: 1}}), false},
		"waiting":                  {[]plan.Overlay{on("default", "", 0)}, last, of(queues{"default": {Waiting: 1}}), true},
		"waiting, looked ahead to": {[]plan.Overlay{on("default", "", 0.5)}, last, of(queues{"default": {Waiting: 1}}), false},
		"another's queue":          {[]plan.Overlay{on("default", "", 0)}, last, of(queues{"other": {Scheduled: 1, Agents: 2}}), true},
		"nobody's queue":           {[]plan.Overlay{on("default", "", 0)}, last, of(queues{"*": {Scheduled: 1}}), false},
		"in no queue":              {[]plan.Overlay{on("default", "", 0)}, last, []plan.ClusterCounts{others}, false},
		"a paused queue":           {[]plan.Overlay{on("stopped", "", 0)}, last, of(nil), true},
		"another cluster":          {[]plan.Overlay{on("default", "", 0), on("large", "", 0)}, last, of(nil), false},
		"both clusters":            {[]plan.Overlay{on("default", "", 0), on("large", "2", 0)}, last, append(of(nil), countsOf("gpu", nil)), true},
		"both, one busy":           {[]plan.Overlay{on("default", "", 0), on("large", "gpu", 0)}, last, append(of(nil), countsOf("gpu", queues{"large": {Scheduled: 1}})), false},
		"in two clusters":          {[]plan.Overlay{on("twice", "", 0)}, last, append(of(nil), countsOf("gpu", nil)), false},
		"in one of two":            {[]plan.Overlay{on("twice", "ci", 0)}, last, of(nil), true},
		"a queue of nobody":        {[]plan.Overlay{on("missing", "", 0)}, last, of(nil), false},
		"clusters of one name":     {[]plan.Overlay{on("three", "", 0)}, last, []plan.ClusterCounts{countsOf("alike", nil)}, false},
		"clusters unread":          {[]plan.Overlay{on("default", "", 0)}, unread, of(nil), false},
		"without clusters":         {[]plan.Overlay{on("default", "", 0)}, plan.Snapshot{}, []plan.ClusterCounts{countsOf("", nil)}, true},
		"a token of a cluster":     {[]plan.Overlay{on("default", "", 0)}, plan.Snapshot{}, of(nil), false},
	} {
		if got := (plan.Counts{Clusters: c.counts}).ShowNothing(c.overlays, c.last); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestMore: jobs have come where more are scheduled in a queue of an overlay than before.
func TestMore(t *testing.T) {
	type queues = map[string]plan.QueueCounts
	overlays := []plan.Overlay{{Policy: plan.Policy{Queue: "a"}}, {Policy: plan.Policy{Queue: "b"}}}
	counts := func(cluster string, q queues) plan.Counts {
		return plan.Counts{Clusters: []plan.ClusterCounts{countsOf(cluster, q)}}
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
		"agents":               {counts("ci", queues{"a": {Scheduled: 2, Agents: 3, Running: 1, Waiting: 1}}), false},
		"of another cluster":   {counts("gpu", queues{"a": {Scheduled: 9}}), false},
		"of no cluster at all": {plan.Counts{}, false},
	} {
		if got := c.now.More(overlays, before); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestShowsNothing: whatever an observation has that only a look can change, is something.
func TestShowsNothing(t *testing.T) {
	supply := func(s plan.Supply) plan.Observation { return plan.Observation{Overlays: []plan.Supply{s}} }
	for name, c := range map[string]struct {
		o    plan.Observation
		want bool
	}{
		"nothing":   {supply(plan.Supply{}), true},
		"blocked":   {plan.Observation{Jobs: []plan.Demand{{Blocked: 3}}}, true},
		"pending":   {plan.Observation{Jobs: []plan.Demand{{Pending: 1}}}, false},
		"away":      {plan.Observation{Jobs: []plan.Demand{{Away: 1}}}, false},
		"upcoming":  {plan.Observation{Jobs: []plan.Demand{{Upcoming: 1}}}, false},
		"limited":   {plan.Observation{Jobs: []plan.Demand{{Limited: 1}}}, false},
		"idle":      {plan.Observation{Idle: []plan.IdleAgents{{Agents: 1}}}, false},
		"unmatched": {plan.Observation{Unmatched: []plan.Unmatched{{Jobs: 1}}}, false},
		"own":       {supply(plan.Supply{Own: 1}), false},
		"others'":   {supply(plan.Supply{QueueBusy: 1}), false},
		"stopping":  {supply(plan.Supply{Stopping: 1}), false},
		"namesakes": {supply(plan.Supply{Namesakes: 1}), false},
		"paused":    {supply(plan.Supply{Suspended: plan.Suspension{Code: plan.PausedInBuildkite}}), false},
		"came":      {supply(plan.Supply{Dispatches: map[string]plan.Seen{"d": {}}}), false},
	} {
		if got := c.o.ShowsNothing(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
