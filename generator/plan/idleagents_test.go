package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMarkReplacing: an agent is replaced once it is close to its idle time-out, with
// all of its overlay that follow soon after the first of them.
func TestMarkReplacing(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	const hour, m, s = time.Hour, time.Minute, time.Second
	type agent struct {
		timeout, left time.Duration // of the idle time-out
		credit        int
		want          bool
	}
	for name, agents := range map[string][]agent{
		"five minutes of an hour":           {{hour, 5 * m, 0, true}},
		"more":                              {{hour, 5*m + s, 0, false}},
		"a twelfth of four hours":           {{4 * hour, 20 * m, 0, true}},
		"more of four hours":                {{4 * hour, 20*m + s, 0, false}},
		"half of eight minutes":             {{8 * m, 4 * m, 0, true}},
		"more of eight minutes":             {{8 * m, 4*m + s, 0, false}},
		"over already":                      {{hour, -m, 0, true}},
		"within a sixth of the first":       {{hour, 5 * m, 0, true}, {hour, 15 * m, 0, true}, {hour, 15*m + s, 0, false}},
		"the first is not the first listed": {{hour, 4 * m, 0, true}, {hour, m, 0, true}, {hour, 11 * m, 0, true}, {hour, 12 * m, 0, false}},
		"the first is listed first":         {{hour, m, 0, true}, {hour, 4 * m, 0, true}, {hour, 12 * m, 0, false}},
		"a sixth of the first one's":        {{2 * hour, 10 * m, 0, true}, {hour, 30 * m, 0, true}, {hour, 31 * m, 0, false}},
		"another overlay's":                 {{hour, m, 0, true}, {hour, 10 * m, 1, false}},
		"each overlay by itself":            {{hour, m, 0, true}, {hour, 5 * m, 1, true}, {hour, 14 * m, 1, true}, {hour, 14 * m, 0, false}},
		"nobody's":                          {{hour, m, -1, false}},
	} {
		var idle []idleAgent
		for _, a := range agents {
			tags := []string{"queue=q", fmt.Sprintf("%s=%d", TagWarm, a.timeout/time.Second)}
			idle = append(idle, idleAgent{Agent: Agent{Tags: tags, IdleSince: now.Add(a.left - a.timeout)}, credit: a.credit})
		}
		// Of these it is not known since when they are idle, or for how long they may be.
		idle = append(idle, idleAgent{Agent: Agent{Tags: []string{TagWarm + "=3600"}}}, idleAgent{Agent: Agent{IdleSince: now.Add(-hour)}})
		queueReader{overlays: []Overlay{{Name: "a"}, {Name: "b"}}, snapshot: Snapshot{At: now}}.markReplacing(idle)
		for i, got := range idle {
			if want := i < len(agents) && agents[i].want; got.replacing != want {
				t.Errorf("%s: agent %d is replaced: %t", name, i, got.replacing)
			}
		}
	}
}

// TestReplaceAgentsThatStay: those of the warm pool are replaced before their uptime is
// over, and all that were made from an older template are. None is for what is not
// known, or cannot be made.
func TestReplaceAgentsThatStay(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	const uptime = 30 * time.Minute
	for name, c := range map[string]struct {
		tags      []string
		connected time.Duration // before now; negative: not known
		idle      time.Duration // it waits for a job
		overlay   Overlay
		want      bool
	}{
		"its uptime ends":                 {[]string{"muster-warm=3600", "muster-uptime=1800"}, uptime - 5*time.Minute, time.Minute, Overlay{}, true},
		"a little later":                  {[]string{"muster-warm=3600", "muster-uptime=1800"}, uptime - 5*time.Minute - time.Second, time.Minute, Overlay{}, false},
		"its idle time-out comes first":   {[]string{"muster-warm=3600", "muster-uptime=7200"}, time.Hour, 55 * time.Minute, Overlay{}, true},
		"nobody knows since when":         {[]string{"muster-warm=3600", "muster-uptime=1800"}, -1, 40 * time.Minute, Overlay{}, false},
		"ordered for jobs":                {[]string{"muster-uptime=1800"}, uptime - time.Second, time.Minute, Overlay{}, false},
		"an older template":               {[]string{"muster-uptime=1800", "muster-template=old"}, time.Minute, time.Minute, Overlay{Template: "new"}, true},
		"the template of now":             {[]string{"muster-uptime=1800", "muster-template=new"}, time.Minute, time.Minute, Overlay{Template: "new"}, false},
		"a template that is not known":    {[]string{"muster-uptime=1800", "muster-template=old"}, time.Minute, time.Minute, Overlay{}, false},
		"made before it was said":         {[]string{"muster-uptime=1800"}, time.Minute, time.Minute, Overlay{Template: "new"}, false},
		"nothing is made of the new one":  {[]string{"muster-uptime=1800", "muster-template=old"}, time.Minute, time.Minute, Overlay{Template: "new", Refused: Suspension{Code: Invalid}}, false},
		"close to its end by neither one": {[]string{"muster-warm=3600", "muster-uptime=3600"}, time.Minute, time.Minute, Overlay{}, false},
	} {
		a := idleAgent{Agent: Agent{Tags: c.tags, IdleSince: now.Add(-c.idle)}}
		if c.connected >= 0 {
			a.Connected = now.Add(-c.connected)
		}
		other := a
		other.credit = -1
		idle := []idleAgent{a, other}
		queueReader{overlays: []Overlay{c.overlay}, snapshot: Snapshot{At: now}}.markReplacing(idle)
		if idle[0].replacing != c.want || idle[1].replacing {
			t.Errorf("%s: it is replaced: %t, and one of no overlay %t", name, idle[0].replacing, idle[1].replacing)
		}
	}
}

// TestCountWrongTags: agents that came without a tag that they were told to carry, and
// are of no other use, are counted while others of their dispatch are still to come.
func TestCountWrongTags(t *testing.T) {
	told := []string{"queue=q", "os=linux", "overlay=a"}
	lost := []string{"queue=q", "overlay=a", "dispatch=a-1"}
	base := func() (Overlay, Dispatch, Observed, idleAgent, *class) {
		o := Overlay{Name: "a", Policy: Policy{Queue: "q", Tags: []string{"os=linux"}}}
		d := Dispatch{ID: "a-1", Agents: 3, Tags: told, Purpose: ForDemand}
		return o, d, Observed{Registered: indexes(1)}, idleAgent{Agent: Agent{Tags: lost}, credit: -1}, &class{rules: []string{"queue=q", "os=linux"}, pending: 1}
	}
	for name, c := range map[string]struct {
		change            func(*Overlay, *Dispatch, *Observed, *idleAgent, *class)
		dispatch, overlay int // wrong tags that are counted
	}{
		"wrong":              {func(*Overlay, *Dispatch, *Observed, *idleAgent, *class) {}, 2, 2},
		"told by the policy": {func(_ *Overlay, d *Dispatch, _ *Observed, _ *idleAgent, _ *class) { d.Tags = nil }, 2, 2},
		"all have come":      {func(_ *Overlay, d *Dispatch, _ *Observed, _ *idleAgent, _ *class) { d.Agents = 1 }, 2, 0},
		"part of a buffer":   {func(_ *Overlay, _ *Dispatch, _ *Observed, a *idleAgent, _ *class) { a.credit = 0 }, 0, 0},
		"nobody's dispatch":  {func(_ *Overlay, _ *Dispatch, _ *Observed, a *idleAgent, _ *class) { a.Tags = told }, 0, 0},
		"the policy lost the tag": {func(_ *Overlay, d *Dispatch, _ *Observed, a *idleAgent, c *class) {
			d.Tags, a.Tags, c.rules = append([]string{"x=y"}, told...), append([]string{"dispatch=a-1"}, told...), []string{"no=such"}
		}, 2, 2},
		"one has worked": {func(_ *Overlay, _ *Dispatch, s *Observed, _ *idleAgent, _ *class) { s.HadJob = 1 }, 0, 0},
		"a tag was added since": {func(o *Overlay, _ *Dispatch, _ *Observed, _ *idleAgent, _ *class) {
			o.Policy.Tags = append(o.Policy.Tags, "x=y")
		}, 0, 0},
		"it can take a job":       {func(_ *Overlay, _ *Dispatch, _ *Observed, _ *idleAgent, c *class) { c.rules = []string{"queue=q"} }, 0, 0},
		"the job is not runnable": {func(_ *Overlay, _ *Dispatch, _ *Observed, _ *idleAgent, c *class) { c.rules, c.pending = nil, 0 }, 2, 2},
		"the job is elsewhere": {func(_ *Overlay, _ *Dispatch, _ *Observed, a *idleAgent, c *class) {
			c.rules, c.cluster, a.Cluster = nil, "x", "y"
		}, 2, 2},
		"the cluster is wrong": {func(_ *Overlay, _ *Dispatch, _ *Observed, a *idleAgent, _ *class) {
			a.Tags, a.Cluster = append([]string{"dispatch=a-1"}, told...), "y"
		}, 0, 2},
		"of the warm pool, and so": {func(_ *Overlay, d *Dispatch, _ *Observed, a *idleAgent, _ *class) {
			d.Purpose, a.Tags, a.Cluster = ForWarmPool, append([]string{"dispatch=a-1"}, told...), "y"
		}, 0, 0},
	} {
		o, d, seen, a, job := base()
		if name == "the cluster is wrong" || name == "of the warm pool, and so" {
			job.cluster = "x"
		}
		c.change(&o, &d, &seen, &a, job)
		o.Dispatches = []Dispatch{{ID: "a-0", Agents: 1}, d}
		capacities := []Capacity{{Overlay: "a", Dispatches: map[string]Observed{"a-1": seen}}}
		classes := []*class{{rules: []string{"no=such"}, pending: 1}, job}
		queueReader{overlays: []Overlay{o}, clusters: []string{""}}.countWrongTags([]idleAgent{a, a}, classes, indexOf(classes), capacities)
		_, other := capacities[0].Dispatches["a-0"]
		if got := capacities[0].Dispatches["a-1"].WrongTags; got != c.dispatch || capacities[0].WrongTags != c.overlay || other {
			t.Errorf("%s: %d of the dispatch and %d of the overlay, want %d and %d; another: %t", name, got, capacities[0].WrongTags, c.dispatch, c.overlay, other)
		}
	}
}

// TestJobsOfAClusterWithoutTheQueueAreUnserved asserts that jobs of a cluster get no
// agent, and are reported, if only agents in no cluster have the queue that they ask for.
func TestJobsOfAClusterWithoutTheQueueAreUnserved(t *testing.T) {
	overlays := []Overlay{{Name: "a", Policy: Policy{Queue: "default", Max: 5}}}
	rules := []string{"queue=default"}
	s := Snapshot{At: orderedAt, Queues: []Queue{{Cluster: "c1", ClusterName: "ci", Key: "other"}},
		Agents: []Agent{{ID: "x", Tags: rules, State: AgentBusy}},
		Jobs:   []Job{{ID: "1", Rules: rules, Cluster: "c1", State: JobPending, URL: "u1", Since: orderedAt}, {ID: "2", Rules: rules, State: JobPending, Since: orderedAt}}}
	if pending, _ := Observe(overlays, s, &Registrations{})[0].Count("a"); pending != 1 {
		t.Errorf("%d jobs are pending, want that in no cluster", pending)
	}
	want := []Unserved{{Queue: "default", Cluster: "ci", Jobs: 1, Example: "u1"}}
	if diff := cmp.Diff(want, FindUnserved(overlays, s)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
