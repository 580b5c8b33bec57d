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
	base := func() (Overlay, Dispatch, Seen, idleAgent, *class) {
		o := Overlay{Name: "a", Policy: Policy{Queue: "q", Tags: []string{"os=linux"}}}
		d := Dispatch{ID: "a-1", Agents: 3, Tags: told, Purpose: ForDemand}
		var one Indexes
		one.Add(0)
		return o, d, Seen{Registered: one}, idleAgent{Agent: Agent{Tags: lost}, credit: -1}, &class{rules: []string{"queue=q", "os=linux"}, pending: 1}
	}
	for name, c := range map[string]struct {
		change            func(*Overlay, *Dispatch, *Seen, *idleAgent, *class)
		dispatch, overlay int // wrong tags that are counted
	}{
		"wrong":              {func(*Overlay, *Dispatch, *Seen, *idleAgent, *class) {}, 2, 2},
		"told by the policy": {func(_ *Overlay, d *Dispatch, _ *Seen, _ *idleAgent, _ *class) { d.Tags = nil }, 2, 2},
		"all have come":      {func(_ *Overlay, d *Dispatch, _ *Seen, _ *idleAgent, _ *class) { d.Agents = 1 }, 2, 0},
		"part of a buffer":   {func(_ *Overlay, _ *Dispatch, _ *Seen, a *idleAgent, _ *class) { a.credit = 0 }, 0, 0},
		"nobody's dispatch":  {func(_ *Overlay, _ *Dispatch, _ *Seen, a *idleAgent, _ *class) { a.Tags = told }, 0, 0},
		"the policy lost the tag": {func(_ *Overlay, d *Dispatch, _ *Seen, a *idleAgent, c *class) {
			d.Tags, a.Tags, c.rules = append([]string{"x=y"}, told...), append([]string{"dispatch=a-1"}, told...), []string{"no=such"}
		}, 2, 2},
		"one has worked": {func(_ *Overlay, _ *Dispatch, s *Seen, _ *idleAgent, _ *class) { s.HadJob = 1 }, 0, 0},
		"a tag was added since": {func(o *Overlay, _ *Dispatch, _ *Seen, _ *idleAgent, _ *class) {
			o.Policy.Tags = append(o.Policy.Tags, "x=y")
		}, 0, 0},
		"it can take a job":       {func(_ *Overlay, _ *Dispatch, _ *Seen, _ *idleAgent, c *class) { c.rules = []string{"queue=q"} }, 0, 0},
		"the job is not runnable": {func(_ *Overlay, _ *Dispatch, _ *Seen, _ *idleAgent, c *class) { c.rules, c.pending = nil, 0 }, 2, 2},
		"the job is elsewhere": {func(_ *Overlay, _ *Dispatch, _ *Seen, a *idleAgent, c *class) {
			c.rules, c.cluster, a.Cluster = nil, "x", "y"
		}, 2, 2},
		"the cluster is wrong": {func(_ *Overlay, _ *Dispatch, _ *Seen, a *idleAgent, _ *class) {
			a.Tags, a.Cluster = append([]string{"dispatch=a-1"}, told...), "y"
		}, 0, 2},
		"of the warm pool, and so": {func(_ *Overlay, d *Dispatch, _ *Seen, a *idleAgent, _ *class) {
			d.Purpose, a.Tags, a.Cluster = ForWarmPool, append([]string{"dispatch=a-1"}, told...), "y"
		}, 0, 0},
	} {
		o, d, seen, a, job := base()
		if name == "the cluster is wrong" || name == "of the warm pool, and so" {
			job.cluster = "x"
		}
		c.change(&o, &d, &seen, &a, job)
		o.Dispatches = []Dispatch{{ID: "a-0", Agents: 1}, d}
		supplies := []Supply{{Overlay: "a", Dispatches: map[string]Seen{"a-1": seen}}}
		queueReader{overlays: []Overlay{o}, clusters: []string{""}}.countWrongTags([]idleAgent{a, a}, []*class{{rules: []string{"no=such"}, pending: 1}, job}, supplies)
		_, other := supplies[0].Dispatches["a-0"]
		if got := supplies[0].Dispatches["a-1"].WrongTags; got != c.dispatch || supplies[0].WrongTags != c.overlay || other {
			t.Errorf("%s: %d of the dispatch and %d of the overlay, want %d and %d; another: %t", name, got, supplies[0].WrongTags, c.dispatch, c.overlay, other)
		}
	}
}

// TestCreditTo: an agent is part of the buffer of its own overlay, or, where muster
// did not start it, of the first whose tags it has.
func TestCreditTo(t *testing.T) {
	overlays := []Overlay{
		{Name: "a", Fleet: "f", Policy: Policy{Queue: "q", Tags: []string{"os=linux"}}},
		{Name: "b", Fleet: "f", Former: []string{"was-b"}, Policy: Policy{Queue: "q"}},
		{Name: "c", Fleet: "f", Policy: Policy{Queue: "q"}},
	}
	q := queueReader{overlays: overlays, clusters: []string{"one", "one", ""}}
	for _, o := range overlays {
		q.tags = append(q.tags, o.AgentTags())
	}
	for name, c := range map[string]struct {
		agent Agent
		want  int
	}{
		"its own":                 {Agent{Tags: overlays[1].AgentTags(), Cluster: "one"}, 1},
		"its own, without a tag":  {Agent{Tags: []string{"queue=q", "overlay=a", "muster=f"}, Cluster: "one"}, -1},
		"its own, elsewhere":      {Agent{Tags: overlays[1].AgentTags(), Cluster: "two"}, -1},
		"its own, by a former":    {Agent{Tags: []string{"queue=q", "overlay=was-b", "muster=f"}, Cluster: "one"}, 1},
		"of no fleet":             {Agent{Tags: []string{"queue=q", "overlay=b"}, Cluster: "one"}, 1},
		"of another fleet":        {Agent{Tags: []string{"queue=q", "overlay=b", "muster=g"}, Cluster: "one"}, -1},
		"nobody's, with all tags": {Agent{Tags: []string{"queue=q", "os=linux"}, Cluster: "one"}, 0},
		"nobody's":                {Agent{Tags: []string{"queue=q"}, Cluster: "one"}, 1},
		"nobody's, elsewhere":     {Agent{Tags: []string{"queue=q", "os=linux"}, Cluster: "two"}, 2},
		"of no queue":             {Agent{Cluster: "one"}, -1},
	} {
		if got := q.creditTo(c.agent); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestKinds: idle agents are given jobs in this order: those that are replaced, those of
// no buffer, and the others by overlay; alike ones together.
func TestKinds(t *testing.T) {
	classes := []*class{{rules: []string{"os=linux"}, pending: 1}, {pending: 0}, {pending: 1, cluster: "x"}}
	linux := Agent{Tags: []string{"os=linux"}, Cluster: "x"}
	agents := []idleAgent{{credit: 1}, {credit: 0, Agent: linux}, {credit: 0}, {credit: -1}, {credit: 2, replacing: true}, {credit: 0, Agent: Agent{Cluster: "y"}}, {credit: 0}}
	all, counts := kinds(agents, classes)
	var got []string
	for i, k := range all {
		got = append(got, fmt.Sprintf("%d of %d, %t: %03b", counts[i], k.credit, k.replacing, k.takes[0]))
	}
	want := []string{"1 of 2, true: 100", "1 of -1, false: 100", "1 of 0, false: 000", "2 of 0, false: 100", "1 of 0, false: 101", "1 of 1, false: 100"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
