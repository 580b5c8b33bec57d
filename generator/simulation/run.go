package simulation

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/buildkite/steptime"
	"muster/generator/plan"
)

// run is one algorithm in one world with one workload.
type run struct {
	scenario  Scenario
	start     time.Time
	algorithm Algorithm
	buildkite *fakebuildkite.Server
	cluster   Cluster
	overlay   plan.Overlay
	head      []plan.Dispatch // that have been pushed
	sync      *rand.Rand
	ticks     *rand.Rand

	alive           int           // pods that were created and have not ended
	starting        int           // of them, those that have not registered
	last            plan.Dispatch // the last that was synced
	lastUp          int           // its pods that have registered or ended
	commits         int
	neverRegistered int
	podTime         time.Duration   // of all pods that have ended, from when they had a node
	lives           map[string]Life // of the agents of orders that the cluster has not made
	// looked are the times of ticks that went through, and synced those of the
	// syncer's looks.
	looked, synced []time.Time
	observe        func(Operation)

	client    Client
	times     *steptime.Times // what muster has learned of steps; nil: it does not look ahead
	events    []string        // of the webhook
	missing   bool            // limits withhold agents: events of agents trigger too
	triggered time.Time       // time of the first trigger since the last tick; zero: no trigger
	lastCall  time.Time       // time of the last trigger; zero: no trigger
	pause     time.Duration   // to the next tick, unless it is woken
	pace      plan.Pace       // of ticks that webhooks begin
	failed    bool            // the last tick, which nobody shortens the wait after
	down      bool            // the syncer: it applies nothing
}

// Play runs an algorithm through a workload. Observe, when it is not nil, is
// given every act that is pushed, as it is pushed.
func Play(w Scenario, workload Workload, algorithm Algorithm, observe func(Operation)) Measures {
	start := cmp.Or(workload.Start, Start())
	r := newRun(w, algorithm, start)
	r.observe = observe
	r.arrive(workload)
	end := start.Add(workload.Length)
	if !w.Direct {
		r.nextSync()
	}
	for at := start; ; at = r.next(at) {
		quiet := w.Stateless && r.quiet(at)
		r.buildkite.AdvanceTo(at)
		if !at.Before(end) && (!at.Before(end.Add(drain)) || r.done()) {
			break
		}
		if !quiet {
			r.tick(at)
		}
	}
	unserved := r.unserved()
	r.buildkite.Advance(max(w.Policy.DemandIdleTimeout(), w.Policy.IdleTimeout, w.Policy.WarmIdleTimeout, stackIdle) + w.Linger[1] + w.Faults.NodeTime[1] + w.Startup[1] + time.Minute)
	return r.measures(unserved)
}

// arrive lets the builds of a workload come.
func (r *run) arrive(workload Workload) {
	start := r.start
	for _, a := range workload.Arrivals {
		r.buildkite.At(start.Add(a.At), func() {
			b := a.Build
			b.Cluster = r.cluster.BuildkiteCluster
			id := r.buildkite.CreateBuild(b)
			if a.Cancel > 0 {
				r.buildkite.At(start.Add(a.At+a.Cancel), func() { r.buildkite.CancelBuild(id) })
			}
		})
	}
}

func newRun(w Scenario, algorithm Algorithm, start time.Time) *run {
	w.Policy.Cluster = "" // whatever it is called, this is the one
	// Those of the policy begin with a commit, and none is made in simulated time.
	w.Policy.Overrides = w.Overrides
	r := &run{
		scenario: w, start: start, algorithm: algorithm,
		overlay: plan.Overlay{Name: "default", Policy: w.Policy},
		events:  Events(),
		pace:    plan.Pace{Every: w.Triggered}, sync: w.random(streamSync), ticks: w.random(streamTicks), lives: map[string]Life{},
	}
	if w.Policy.LeaseAuto && !w.FirstDay {
		r.overlay.State.ServedAt = start.Add(-time.Hour)
	}
	r.buildkite = fakebuildkite.New(fakebuildkite.Options{
		Now: start, OnAgentEnd: func(a fakebuildkite.AgentRecord) { r.cluster.AgentEnded(a) }, OnEvent: r.receiveEvent, UserLimit: w.Requests,
	})
	home := r.buildkite.AddCluster("ci")
	r.buildkite.AddAgentToken(home, AgentToken)
	r.buildkite.AddQueue(home, w.Policy.Queue)
	r.buildkite.SetDefaultQueue(home, w.Policy.Queue)
	r.cluster = Cluster{Buildkite: r.buildkite, BuildkiteCluster: home, Fate: w.madeFates(r.buildkite.Now), Nodes: w.Faults.Nodes, Registered: r.podRegistered, Exited: r.podExited}
	if w.Policy.Lookahead > 0 {
		r.times = &steptime.Times{}
	}
	if w.Client != nil {
		r.client = w.Client(r.buildkite)
	}
	if w.plan != nil {
		w.plan(r)
	}
	return r
}

// create runs a Job. All agents have the same priority, regardless of who ordered them and why:
// those of base/job.yaml are specific to muster, and the rules it is compared with have none.
func (r *run) create(d plan.Dispatch) {
	r.last, r.lastUp = d, 0
	r.alive += d.Agents
	r.starting += d.Agents
	r.cluster.Run(Job{
		Name: d.ID, Agents: d.Agents, NotAfter: d.NotAfter, IdleTimeout: d.IdleTimeout, Uptime: d.Uptime,
		Tags: append(append(r.overlay.AgentTags(), plan.TagDispatch+"="+d.ID), d.StayTags()...), Life: r.lives[d.ID],
	})
	delete(r.lives, d.ID)
}

// podRegistered and podExited keep count of what the cluster knows.
func (r *run) podRegistered(p *Pod) {
	r.starting--
	r.up(p)
}

func (r *run) podExited(p *Pod) {
	r.alive--
	if !p.since.IsZero() {
		r.podTime += r.buildkite.Now().Sub(p.since)
	}
	if p.Agent == "" {
		r.starting--
		r.neverRegistered++
		r.up(p)
	}
}

func (r *run) up(p *Pod) {
	if p.Job.Name == r.last.ID {
		r.lastUp++
	}
}

// done reports whether every job that an agent could take has finished.
func (r *run) done() bool {
	s := r.buildkite.Snapshot(time.Time{})
	mine := r.overlay.AgentTags()
	return !slices.ContainsFunc(s.Jobs, func(j plan.Job) bool { return plan.Satisfies(mine, j.Rules) }) &&
		!slices.ContainsFunc(s.Agents, func(a plan.Agent) bool { return a.State == plan.AgentBusy })
}
