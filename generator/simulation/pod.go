package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// Fate is what will become of a pod, settled when it is created.
type Fate struct {
	// Made is the time from the Job's creation to the pod's.
	Made time.Duration
	// Startup is the time from having a node to the first attempt to register.
	Startup time.Duration
	// NoShow says that the agent never registers.
	NoShow bool
	// Lost is how long after registering the agent dies without a word, if it
	// is still there then; zero is never.
	Lost time.Duration
	// Linger is how long the agent stays connected after its job; see [Linger].
	Linger time.Duration
	// Twin is how long the index has two pods: from their making to when the Job
	// controller has seen both. Zero: it has one. See [Cluster.double].
	Twin time.Duration
	// TwinStartup is [Fate.Startup] of the second pod.
	TwinStartup time.Duration
}

// Linger is the shortest and the longest time for which agents of one kind stay
// connected, without a job, after their one: docs/explanation/agent-job.md, "How an agent
// ends", measured with 3.138.2 and read in buildkite/agent pull request 3994.
type Linger [2]time.Duration

// The kinds of agents.
var (
	// Streaming is an agent that streams with 3.128 or later, as the base's.
	Streaming = Linger{}
	// Polling is one that polls: it leaves at its next ping.
	Polling = Linger{2100 * time.Millisecond, 8900 * time.Millisecond}
	// OldStreaming is an agent that streams with 3.122 to 3.127: it exits when its stream is
	// renewed.
	OldStreaming = Linger{57 * time.Second, time.Minute}
)

// Draw draws how long one agent lingers. It draws once, whatever the kind.
func (l Linger) Draw(random *rand.Rand) time.Duration {
	return l[0] + time.Duration(random.Int64N(int64(l[1]-l[0])+1))
}

// Pod is one attempt at one index of a Job.
type Pod struct {
	Job   *Job
	Index int
	// Agent is Buildkite's identifier of the agent; empty until it registers.
	Agent string
	// Again says that the index had registered before.
	Again bool
	// Double says that its index had another pod when this one was made, or got one.
	Double bool

	fate    Fate
	twin    *Pod      // the other one of its index, while there are two
	spare   bool      // the other one is its index's: how it ends says nothing of the index
	since   time.Time // when it had a node; zero: it has none
	stop    func()    // while the agent tries to register or to connect
	ended   bool
	drained bool
}

// Connected counts the pods whose agents are connected.
func (c *Cluster) Connected() int { return len(c.pods) }

// Pod returns the pod of a connected agent, or nil.
func (c *Cluster) Pod(agent string) *Pod { return c.pods[agent] }

// create makes a pod for an index, or two: its fate says which.
func (c *Cluster) create(j *Job, index int) {
	p := &Pod{Job: j, Index: index, fate: c.Fate()}
	j.pods[index] = p
	c.make(p)
	if j.Life.Watched > 0 {
		c.watch(p)
	}
	if p.fate.Twin > 0 {
		c.double(p)
	}
}

// watch ends a pod whose job is cancelled before its agent has registered.
func (c *Cluster) watch(p *Pod) {
	every := p.Job.Life.Watched
	c.Buildkite.At(c.Buildkite.Now().Truncate(every).Add(every), func() {
		switch {
		case p.ended || p.Agent != "":
		case c.Buildkite.Canceled(p.Job.Life.Acquire[p.Index]):
			c.drop(p)
		default:
			c.watch(p)
		}
	})
}

// make places a pod once the controllers that create pods have processed it.
func (c *Cluster) make(p *Pod) {
	if p.fate.Made > 0 {
		c.Buildkite.At(c.Buildkite.Now().Add(p.fate.Made), func() { c.place(p) })
		return
	}
	c.place(p)
}

// double makes a second pod of an index. The Job controller does this if the response to the
// creation of the first pod is lost with the API server: it assumes that the creation failed. When
// it has seen both pods, it ends one: that which has not registered an agent, or registered later
// (pkg/controller/job of Kubernetes 1.37, manageJob and activePodsForRemoval; seen by TestChaos of
// testdata/e2e, TestAll/Twice there; kubernetes.io/docs/concepts/workloads/controllers/job
// "Completion mode").
func (c *Cluster) double(p *Pod) {
	second := &Pod{Job: p.Job, Index: p.Index, Double: true, fate: Fate{Made: p.fate.Made, Startup: p.fate.TwinStartup, Linger: p.fate.Linger}}
	p.Double, p.twin, second.twin = true, second, p
	c.make(second)
	c.Buildkite.At(c.Buildkite.Now().Add(p.fate.Made+p.fate.Twin), func() {
		switch {
		case p.twin == nil: // one of them has ended
		case second.Agent != "" && (p.Agent == "" || second.since.Add(second.fate.Startup).Before(p.since.Add(p.fate.Startup))):
			c.endSpare(p)
		default:
			c.endSpare(second)
		}
	})
}

// endSpare ends one of the two pods of an index, which is the other one's from then on.
// Its agent finishes its job (base/job.yaml, terminationGracePeriodSeconds).
func (c *Cluster) endSpare(p *Pod) {
	p.Job.pods[p.Index] = p.twin
	p.twin.twin, p.twin, p.spare = nil, nil, true
	if p.Agent != "" {
		c.Buildkite.StopAgent(p.Agent) // comes back through AgentEnded
		return
	}
	c.drop(p)
}

// place assigns a pod to a node. The pod waits while no node has room.
func (c *Cluster) place(p *Pod) {
	if p.ended {
		return
	}
	if c.Nodes > 0 && c.running >= c.Nodes {
		c.waiting = append(c.waiting, p)
		return
	}
	c.schedule(p)
}

func (c *Cluster) schedule(p *Pod) {
	c.running++
	p.since = c.Buildkite.Now()
	c.Buildkite.At(c.Buildkite.Now().Add(p.fate.Startup), func() { c.register(p) })
}

// SetNodes changes how many pods have room at once; zero has room for all. Pods
// that have a node keep it.
func (c *Cluster) SetNodes(n int) {
	c.Nodes = n
	c.fill()
}

// fill gives free nodes to the pods that wait for one.
func (c *Cluster) fill() {
	for len(c.waiting) > 0 && (c.Nodes == 0 || c.running < c.Nodes) {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.schedule(next)
	}
}

// register does what the command of base/job.yaml does: past the lease, to the
// second, it leaves; otherwise it starts an agent for one job, or for the jobs of an
// uptime, whose hook looks at the lease again before it connects. An agent tries again
// while Buildkite is away, and exits where it is refused for good; see
// [fakebuildkite.Server.Start].
func (c *Cluster) register(p *Pod) {
	if p.ended {
		return
	}
	now, j := c.Buildkite.Now(), p.Job
	late := !j.NotAfter.IsZero() && now.Add(c.Skew).Truncate(time.Second).After(j.NotAfter)
	if p.fate.NoShow || c.jobs[j.Name] != j || late {
		c.end(p, true)
		return
	}
	tags := append(slices.DeleteFunc(slices.Clone(j.Tags), func(t string) bool { return t == c.Untagged }), fmt.Sprintf("index=%d", p.Index))
	if c.Untagged == "*" {
		tags = nil
	}
	start := fakebuildkite.Start{
		Agent: fakebuildkite.Agent{
			Name: fmt.Sprintf("%s-%d", j.Name, p.Index), Cluster: c.BuildkiteCluster, Tags: tags,
			Priority: j.Priority, AfterJob: j.Uptime == 0, Uptime: j.Uptime, IdleTimeout: j.IdleTimeout, Linger: p.fate.Linger,
		},
		NotAfter: j.NotAfter, Skew: c.Skew,
	}
	j.Life.shape(&start.Agent, p.Index)
	if c.NoHook {
		start.NotAfter = time.Time{}
	}
	start.Done = func(id string, err error) {
		if err != nil {
			c.giveUp(p)
			return
		}
		c.connected(p, id)
	}
	c.trying = append(c.trying, p)
	p.stop = c.Buildkite.Start(start)
}

// giveUp ends a pod whose agent has not connected. Its index has failed.
func (c *Cluster) giveUp(p *Pod) {
	c.trying = slices.DeleteFunc(c.trying, func(x *Pod) bool { return x == p })
	c.end(p, true)
}

// connected notes that the agent of a pod has connected.
func (c *Cluster) connected(p *Pod, id string) {
	j := p.Job
	c.trying = slices.DeleteFunc(c.trying, func(x *Pod) bool { return x == p })
	p.Agent, p.Again = id, j.registered[p.Index]
	c.pods[id] = p
	j.registered[p.Index] = true
	if c.Registered != nil {
		c.Registered(p)
	}
	if p.fate.Lost > 0 {
		c.Buildkite.At(c.Buildkite.Now().Add(p.fate.Lost), func() { c.Kill(p) })
	}
}

// Kill ends an agent without a word: its index has failed, and is not tried
// again (backoffLimitPerIndex 0;
// kubernetes.io/docs/concepts/workloads/controllers/job "Backoff limit per
// index").
func (c *Cluster) Kill(p *Pod) {
	if !p.ended {
		c.Buildkite.LoseAgent(p.Agent)
		c.end(p, true)
	}
}

// Drain empties the node of a connected agent, and reports whether the agent had
// a job. An idle agent leaves; one that works is killed when its time is up. The
// index is run again: the Job ignores failures by DisruptionTarget
// (kubernetes.io/docs/concepts/workloads/controllers/job "Pod failure policy").
func (c *Cluster) Drain(p *Pod) (busy bool) {
	p.drained = true
	busy = slices.ContainsFunc(c.Buildkite.Agents(), func(a fakebuildkite.AgentRecord) bool { return a.ID == p.Agent && a.Job != "" })
	if busy {
		c.Buildkite.LoseAgent(p.Agent)
		c.end(p, false)
	} else {
		c.Buildkite.StopAgent(p.Agent) // comes back through AgentEnded
	}
	return busy
}

// AgentEnded ends the pod of an agent that has left; it is meant for
// [fakebuildkite.Options].OnAgentEnd.
func (c *Cluster) AgentEnded(a fakebuildkite.AgentRecord) {
	if p := c.pods[a.ID]; p != nil {
		c.end(p, !p.drained)
	}
}

// end frees a pod's node for the next one; done says that its index has ended
// with it, and is not to be run again. Of an index with two pods the other one is ended
// with it, or is its pod from then on.
func (c *Cluster) end(p *Pod, done bool) {
	if p.ended {
		return
	}
	p.ended = true
	delete(c.pods, p.Agent)
	if !p.since.IsZero() {
		c.running--
	}
	if c.Exited != nil {
		c.Exited(p)
	}
	if p.Job.Life.Watched > 0 && p.Agent == "" {
		c.Buildkite.FailReserved(p.Job.Life.Acquire[p.Index])
	}
	other := p.twin
	switch {
	case p.spare:
	case done:
		c.finish(p.Job)
		if other != nil {
			c.endSpare(other)
		}
	case other != nil:
		p.Job.pods[p.Index], other.twin, p.twin = other, nil, nil
	case c.jobs[p.Job.Name] == p.Job && p.Index < p.Job.Agents:
		c.create(p.Job, p.Index)
	}
	c.fill()
}

// Life is how the agents of an order live that is not muster's. The zero value is an
// agent of base/job.yaml: it takes one job, and leaves when none comes.
type Life struct {
	// Stay, when it is not zero, lets an agent take job after job, and leave when it has
	// been idle for so long.
	Stay time.Duration
	// Acquire, when it is not empty, is the job that each index is started for, and takes
	// alone.
	Acquire []string
	// Watched, when it is not zero, is how often pods that have not registered are compared with
	// their jobs: they end with a cancelled job, and their reserved job fails with them.
	Watched time.Duration
}

// shape makes an agent of that life.
func (l Life) shape(a *fakebuildkite.Agent, index int) {
	if l.Stay > 0 {
		a.AfterJob, a.IdleTimeout = false, l.Stay
	}
	if len(l.Acquire) > 0 {
		a.Acquire = l.Acquire[index]
	}
}
