package simulation

import (
	"cmp"
	"fmt"
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
	triggered time.Time       // time of the first trigger since the last tick; zero: no trigger
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
	r := &run{
		scenario: w, start: start, algorithm: algorithm,
		overlay: plan.Overlay{Name: "default", Policy: w.Policy},
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

// apply creates the Jobs of manifests that are new to the cluster.
func (r *run) apply() { r.applyUpTo(r.overlay.Dispatches) }

// applyUpTo does so with what was in git at an earlier moment, since when nothing can have
// left that was not applied. A manifest without a lease belongs to an algorithm that keeps
// none: it is done with.
func (r *run) applyUpTo(then []plan.Dispatch) {
	if r.down {
		return
	}
	for _, d := range then {
		if !r.cluster.Created(d.ID) {
			r.create(d)
		}
	}
	r.overlay.Dispatches = slices.DeleteFunc(slices.Clone(r.overlay.Dispatches), func(d plan.Dispatch) bool {
		return d.NotAfter.IsZero() && r.cluster.Created(d.ID)
	})
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

// tick lets the algorithm look and act, unless something fails.
func (r *run) tick(at time.Time) {
	r.triggered, r.pause, r.failed = time.Time{}, r.scenario.Interval, true
	blind := r.ticks.Float64() < r.scenario.BuildkiteFails
	pushFails := r.ticks.Float64() < r.scenario.PushFails && !r.scenario.Direct
	if blind {
		return
	}
	op := r.algorithm.Tick(r.view(at))
	if op.Err != nil {
		r.wait(op.Err)
		return
	}
	if pushFails {
		return
	}
	r.failed = false
	r.looked = append(r.looked, at)
	if op.Commits == 0 {
		return
	}
	r.commits += op.Commits
	r.overlay.Dispatches = slices.DeleteFunc(slices.Concat(r.overlay.Dispatches, op.Order), func(d plan.Dispatch) bool {
		return slices.Contains(op.Retire, d.ID)
	})
	slices.SortFunc(r.overlay.Dispatches, func(a, b plan.Dispatch) int { return cmp.Compare(a.ID, b.ID) })
	r.overlay.State = op.State
	for _, d := range op.Order {
		r.lives[d.ID] = op.Life
	}
	r.pushed()
	if r.observe != nil {
		r.observe(op)
	}
}

func (r *run) view(at time.Time) View {
	v := View{
		At: at, Head: fmt.Sprintf("%08x", len(r.looked)), Overlay: r.overlay, Snapshot: r.buildkite.Snapshot,
		Poll: func(since time.Time) (plan.Snapshot, error) { return r.poll(at, since) }, Reserve: r.buildkite.Reserve,
	}
	v.Pods.Alive, v.Pods.Starting = r.pods()
	v.Pods.LastUp = 1
	if r.last.Agents > 0 {
		v.Pods.LastUp = float64(r.lastUp) / float64(r.last.Agents)
	}
	if v.Pods.Alive > r.alive {
		v.Pods.LastUp = 0 // an order is not even synced
	}
	return v
}

// pods counts what was ordered, the unsynced included.
func (r *run) pods() (alive, starting int) {
	alive, starting = r.alive, r.starting
	for _, d := range r.overlay.Dispatches {
		if !r.cluster.Created(d.ID) {
			alive += d.Agents
			starting += d.Agents
		}
	}
	return alive, starting
}

// done reports whether every job that an agent could take has finished.
func (r *run) done() bool {
	s := r.buildkite.Snapshot(time.Time{})
	mine := r.overlay.AgentTags()
	return !slices.ContainsFunc(s.Jobs, func(j plan.Job) bool { return plan.Satisfies(mine, j.Rules) }) &&
		!slices.ContainsFunc(s.Agents, func(a plan.Agent) bool { return a.State == plan.AgentBusy })
}
