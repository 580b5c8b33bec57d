package simulation

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// newCluster returns a cluster of a Buildkite of its own.
func newCluster(fate func() Fate) *Cluster {
	c := &Cluster{Fate: fate}
	c.Buildkite = fakebuildkite.New(fakebuildkite.Options{OnAgentEnd: c.AgentEnded})
	return c
}

// TestRegistering: pods whose agents Buildkite refuses try again, keep their nodes
// while they do, and give up when the hook finds their lease over or their Job is
// deleted.
func TestRegistering(t *testing.T) {
	const m = time.Minute
	// There are three pods and two nodes: the third starts when one of the first
	// has ended.
	for _, test := range []struct {
		name         string
		away, lease  time.Duration
		skew         time.Duration
		noHook       bool
		deleted      time.Duration // zero: never
		came, failed int
	}{
		{name: "let in", away: 2 * m, lease: 3 * m, came: 3},
		{name: "let in after the lease", away: 4 * m, lease: 3 * m, failed: 3},
		{name: "let in after the lease, the clock is slow", away: 4 * m, lease: 3 * m, skew: -2 * m, came: 3},
		{name: "let in after the lease, no hook", away: 4 * m, lease: 3 * m, noHook: true, came: 2, failed: 1},
		{name: "started after the lease", lease: 10 * time.Second, failed: 3},
		{name: "never let in", away: time.Hour, lease: time.Hour, failed: 3},
		{name: "deleted meanwhile", away: 4 * m, lease: 10 * m, deleted: 3 * m, failed: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(func() Fate { return Fate{Startup: 20 * time.Second} })
			c.Nodes, c.Skew, c.NoHook = 2, test.skew, test.noHook
			b, came, gone := c.Buildkite, 0, 0
			c.Registered = func(*Pod) { came++ }
			c.Exited = func(p *Pod) {
				if p.Agent == "" {
					gone++
				}
			}
			start := b.Now()
			b.RefuseAgents(start, start.Add(test.away))
			c.Run(Job{Name: "j", Agents: 3, NotAfter: start.Add(test.lease), IdleTimeout: 5 * time.Second})
			if test.deleted > 0 {
				b.At(start.Add(test.deleted), func() { c.Delete("j") })
			}
			b.Advance(30 * m)
			if came != test.came || gone != test.failed || c.Connected() != 0 || c.running != 0 || len(c.trying) != 0 {
				t.Errorf("%d registered and %d gave up, want %d and %d; %d connected, %d on nodes, %d trying", came, gone, test.came, test.failed, c.Connected(), c.running, len(c.trying))
			}
		})
	}
}

// TestAgentsAreReused: the agent of a manifest that says an uptime takes jobs until it has
// been idle for long enough, or its uptime is over; another takes one.
func TestAgentsAreReused(t *testing.T) {
	const manifest = `apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  completions: 1
  template:
    metadata:
      annotations:
        muster.dev/not-after: "2100-01-01T00:00:00Z"
        muster.dev/idle-timeout: "60"
        muster.dev/agent-tags: queue=default
%s`
	for uptime, jobs := range map[string]int{"": 1, "1800": 3, "90": 2} {
		if uptime != "" {
			uptime = fmt.Sprintf("        muster.dev/uptime: %q\n", uptime)
		}
		c := newCluster(func() Fate { return Fate{} })
		b := c.Buildkite
		tree := fstest.MapFS{
			"o/dispatches/kustomization.yaml": {Data: []byte("resources: [j.yaml]")},
			"o/dispatches/j.yaml":             {Data: fmt.Appendf(nil, manifest, uptime)},
		}
		if err := c.Sync(tree, "o"); err != nil {
			t.Fatal(err)
		}
		b.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}, Parallelism: 3, Duration: time.Minute}}})
		b.Advance(10 * time.Minute)
		if got := b.Agents(); len(got) != 1 || got[0].Jobs != jobs || c.Connected() != 0 {
			t.Errorf("with %q: %+v, want one agent of %d jobs that has left", uptime, got, jobs)
		}
	}
}

// TestTwins: an index with two pods has two agents, until the Job controller has seen
// both or the index has ended. Then one of them leaves, after its job if it has one, and
// the Job ends with its indexes.
func TestTwins(t *testing.T) {
	const m = time.Minute
	type ends []string
	const idle, worked, stopped, lost = fakebuildkite.EndedIdle + ", 0", fakebuildkite.EndedAfterJob + ", 1", fakebuildkite.EndedStopped + ", 0", fakebuildkite.EndedLost + ", "
	for name, test := range map[string]struct {
		twin, boot time.Duration // of the second pod
		nodes      int
		jobs       []time.Duration
		meanwhile  func(c *Cluster, agents []fakebuildkite.AgentRecord) // after two minutes
		want       ends                                                 // why each left, and after how many jobs; in order of their coming
	}{
		"seen before either is an agent": {twin: time.Second, boot: 30 * time.Second, jobs: []time.Duration{m, m}, want: ends{worked}},
		"the first is no agent yet":      {twin: 15 * time.Second, boot: 10 * time.Second, jobs: []time.Duration{m}, want: ends{worked}},
		"the second waits for a node":    {twin: m, boot: 10 * time.Second, nodes: 1, jobs: []time.Duration{3 * m}, want: ends{worked}},
		"the second is idle":             {twin: m, boot: 30 * time.Second, jobs: []time.Duration{3 * m}, want: ends{worked, stopped}},
		"the second works":               {twin: m, boot: 30 * time.Second, jobs: []time.Duration{3 * m, 9 * m}, want: ends{worked, fakebuildkite.EndedStopped + ", 1"}},
		"not seen when the first ends":   {twin: time.Hour, boot: 30 * time.Second, jobs: []time.Duration{m}, want: ends{worked, stopped}},
		"neither finds a job":            {twin: time.Hour, boot: 30 * time.Second, want: ends{idle, stopped}},
		"the node of the first is drained": {
			twin: time.Hour, boot: 30 * time.Second, jobs: []time.Duration{9 * m}, want: ends{lost + "1", idle},
			meanwhile: func(c *Cluster, agents []fakebuildkite.AgentRecord) { c.Drain(c.Pod(agents[0].ID)) },
		},
		"the Job is deleted": {
			twin: time.Hour, boot: 30 * time.Second, jobs: []time.Duration{9 * m}, want: ends{lost + "1", lost + "0"},
			meanwhile: func(c *Cluster, _ []fakebuildkite.AgentRecord) { c.Delete("j") },
		},
	} {
		fates := []Fate{{Startup: 20 * time.Second, Twin: test.twin, TwinStartup: test.boot}}
		c := newCluster(func() Fate {
			if len(fates) == 0 {
				t.Errorf("%s: a third pod is made", name)
				return Fate{}
			}
			f := fates[0]
			fates = fates[1:]
			return f
		})
		c.Nodes = test.nodes
		b := c.Buildkite
		c.Run(Job{Name: "j", Agents: 1, Tags: []string{"queue=default"}, IdleTimeout: 5 * m, TTL: m})
		for _, length := range test.jobs {
			b.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}, Duration: length}}})
		}
		b.Advance(2 * m)
		if test.meanwhile != nil {
			test.meanwhile(c, b.Agents())
		}
		b.Advance(time.Hour)
		var got ends
		for _, a := range b.Agents() {
			got = append(got, fmt.Sprintf("%s, %d", a.Reason, a.Jobs))
		}
		if !slices.Equal(got, test.want) || c.running != 0 || len(c.waiting) != 0 || c.Has("j") {
			t.Errorf("%s: agents ended %v, want %v; %d on nodes, %d wait, the Job is there: %t", name, got, test.want, c.running, len(c.waiting), c.Has("j"))
		}
	}
}

// TestResizedJob: if a Job is made smaller and larger again, an index has no new pod before its former one
// has finished its job.
func TestResizedJob(t *testing.T) {
	const m = time.Minute
	fates := []Fate{{Startup: 20 * time.Second}, {Startup: 20 * time.Second, Twin: time.Hour, TwinStartup: 30 * time.Second}, {Startup: 20 * time.Second}}
	c := newCluster(func() Fate {
		f := fates[0]
		fates = fates[1:]
		return f
	})
	c.Patches = true
	b := c.Buildkite
	j := Job{Name: "j", Agents: 2, Tags: []string{"queue=default"}, IdleTimeout: 5 * m}
	c.Run(j)
	for range 3 {
		b.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=default"}, Duration: 9 * m}}})
	}
	b.Advance(2 * m)
	j.Agents = 1
	c.patch(j, "smaller")
	j.Agents = 2
	c.patch(j, "larger")
	b.Advance(2 * m)
	if len(fates) != 1 || c.Connected() != 2 {
		t.Fatalf("%d pods are still to be made and %d agents are connected, want 1, and 2 that work", len(fates), c.Connected())
	}
	b.Advance(time.Hour)
	if len(fates) != 0 || c.running != 0 || c.jobs["j"].open != 0 {
		t.Errorf("%d pods are still to be made, %d are on nodes, %d indexes have not ended", len(fates), c.running, c.jobs["j"].open)
	}
}
