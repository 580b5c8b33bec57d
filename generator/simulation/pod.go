package simulation

import (
	"fmt"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// Trouble is what goes wrong in a cluster. The shares are between 0 and 1.
type Trouble struct {
	// Nodes is how many pods have room at once; zero has room for all. The
	// others wait, first come first served.
	Nodes int
	// SlowNode is the share of pods that a node has to be made for, which takes
	// between NodeTime[0] and NodeTime[1] more.
	SlowNode float64
	NodeTime [2]time.Duration
	// NoShow is the share of pods whose agent never registers.
	NoShow float64
	// Lost is the share of agents that die without a word, at some time of
	// their first LostWithin, if they are still there then.
	Lost       float64
	LostWithin time.Duration
}

// Work is a Job to run: so many agents with these tags, beside which each
// carries its index.
type Work struct {
	Name   string
	Agents int
	Tags   []string
	// NotAfter is the end of the lease: an agent that comes later leaves at
	// once. Zero is no lease.
	NotAfter time.Time
	// IdleTimeout is how long each agent waits for a job.
	IdleTimeout time.Duration
	// Came is called when an agent has registered, Gone when a pod has come to
	// its end, with whether its agent ever had; both are optional.
	Came func()
	Gone func(registered bool)
}

// pod is one agent to be.
type pod struct {
	work    Work
	index   int
	boot    time.Duration
	noShow  bool
	lostIn  time.Duration // from registration; zero never
	agent   string
	removed bool
}

// Run creates the pods of a Job. Each takes the time to boot that the next draw
// says, from the moment it has a node.
func (c *Cluster) Run(w Work) {
	for index := range w.Agents {
		p := &pod{work: w, index: index}
		c.draw(p)
		if n := c.Trouble.Nodes; n > 0 && c.running >= n {
			c.waiting = append(c.waiting, p)
			continue
		}
		c.start(p)
	}
}

// draw settles a pod's fate. How many draws it takes depends on the cluster
// alone, so that the n-th pod of two runs has the same.
func (c *Cluster) draw(p *pod) {
	p.boot = c.between(c.Boot)
	t := c.Trouble
	if t.SlowNode > 0 {
		slow := c.Random.Float64() < t.SlowNode
		if extra := c.between(t.NodeTime); slow {
			p.boot += extra
		}
	}
	if t.NoShow > 0 {
		p.noShow = c.Random.Float64() < t.NoShow
	}
	if t.Lost > 0 {
		lost := c.Random.Float64() < t.Lost
		if in := 1 + c.between([2]time.Duration{0, t.LostWithin}); lost {
			p.lostIn = in
		}
	}
}

func (c *Cluster) between(span [2]time.Duration) time.Duration {
	return span[0] + time.Duration(c.Random.Int64N(int64(span[1]-span[0])+1))
}

func (c *Cluster) start(p *pod) {
	c.running++
	c.Buildkite.At(c.Buildkite.Now().Add(p.boot), func() { c.register(p) })
}

// register does what the base's command does.
func (c *Cluster) register(p *pod) {
	w := p.work
	if p.noShow || !w.NotAfter.IsZero() && c.Buildkite.Now().After(w.NotAfter) {
		c.end(p)
		return
	}
	// An agent that Buildkite refuses exits, as the real one does; the lease
	// takes care of what it was counted for.
	id, err := c.Buildkite.Connect(fakebuildkite.Agent{
		Name: fmt.Sprintf("%s-%d", w.Name, p.index), Cluster: c.BuildkiteCluster,
		Tags:     append(slices.Clone(w.Tags), fmt.Sprintf("index=%d", p.index)),
		AfterJob: true, IdleTimeout: w.IdleTimeout,
	})
	if err != nil {
		c.end(p)
		return
	}
	if c.pods == nil {
		c.pods = map[string]*pod{}
	}
	p.agent = id
	c.pods[id] = p
	if w.Came != nil {
		w.Came()
	}
	if p.lostIn > 0 {
		c.Buildkite.At(c.Buildkite.Now().Add(p.lostIn), func() {
			if !p.removed {
				c.Buildkite.LoseAgent(id)
				c.end(p)
			}
		})
	}
}

// AgentEnded frees the node of an agent that has left; it is meant for
// [fakebuildkite.Options].OnAgentEnd, and needed only where nodes are scarce or
// somebody wants to know.
func (c *Cluster) AgentEnded(a fakebuildkite.AgentRecord) {
	if p := c.pods[a.ID]; p != nil {
		c.end(p)
	}
}

// end frees a pod's node for the next one.
func (c *Cluster) end(p *pod) {
	if p.removed {
		return
	}
	p.removed = true
	delete(c.pods, p.agent)
	c.running--
	if p.work.Gone != nil {
		p.work.Gone(p.agent != "")
	}
	for len(c.waiting) > 0 && (c.Trouble.Nodes == 0 || c.running < c.Trouble.Nodes) {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.start(next)
	}
}
