package simulation

import (
	"math/rand/v2"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// Scenario is everything around an algorithm but the jobs.
type Scenario struct {
	// Policy is the policy of the fleet, without its overrides. Every algorithm respects its Max, and its agents wait for
	// its IdleTimeout and take one job; only muster uses the other fields.
	Policy plan.Policy
	// Overrides are those that were in force while the jobs of the workload came; see
	// [plan.Override.Since].
	Overrides []plan.Override
	// FirstDay says that no agent of the overlay has registered before the run. With `lease: auto`
	// muster then orders few agents until one has.
	FirstDay bool
	// Interval is the time from tick to tick.
	Interval time.Duration
	// Sync is the time from one poll of the repository by the syncer to the next, and Jitter the
	// maximum that is added to each. Notified, if not zero, is the time from the end of a push until the
	// syncer has applied it because of a notification.
	Sync, Jitter, Notified time.Duration
	// Delivery is the time from an event to muster's receipt of its webhook, and Push that from the beginning of a
	// tick to the end of its push: the next tick begins later. Orders that are Direct take no time.
	Delivery, Push time.Duration
	// Direct says that there is no syncer: what is ordered is made at once, by an
	// algorithm that talks to its cluster itself.
	Direct bool
	// Triggered is the mean time between ticks that webhooks trigger, although a few may be closer;
	// see [plan.Pace]. Zero means that webhooks trigger no ticks.
	Triggered time.Duration
	// Stateless says that the algorithm decides by what it sees alone, so that ticks
	// between which nothing has happened are left out.
	Stateless bool
	// Makers are the controllers that make pods of what is ordered, each from what the one
	// before it made. None is that they are there at once.
	Makers []Maker
	// Startup is the shortest and longest time from a pod's creation to its
	// agent's registration.
	Startup [2]time.Duration
	// Linger is how long agents stay connected after their job.
	Linger Linger
	// Faults is what goes wrong in the cluster.
	Faults Faults
	// BuildkiteFails and PushFails are the shares of ticks that cannot read
	// Buildkite, or cannot push what they decided.
	BuildkiteFails, PushFails float64
	// Client reads Buildkite for muster, as the program does, within Requests a minute; nil reads
	// it in process, without a limit. Other autoscalers use other interfaces.
	Client   func(*fakebuildkite.Server) Client
	Requests int
	// Seed makes all that is left to chance: the same for every algorithm.
	Seed uint64

	// plan, when it is not nil, plans what happens at moments of a run: tests do.
	plan func(*run)
}

// DefaultScenario is a scenario without faults: the policy that muster init writes if builds may not share a pod, a
// tick every 15 seconds and after webhooks, a syncer that muster notifies, Kubernetes' Job controller, and agents that
// are up 25 to 70 seconds after their pod was made.
func DefaultScenario() Scenario {
	w := Scenario{
		Policy: plan.Policy{
			Queue: "default", Max: 100, MaxPerHour: 5000, Lease: 15 * time.Minute, LeaseAuto: true,
			IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour,
		},
		Interval: 15 * time.Second, Delivery: time.Second, Push: time.Second,
		Makers: []Maker{jobController(1)}, Startup: [2]time.Duration{25 * time.Second, 70 * time.Second}, Seed: 1,
	}
	syncer("notified").Use(&w)
	return w
}

// drain is how long the simulation continues, at most, after the last build has arrived, to let the
// rest be served.
const drain = 3 * time.Hour

// Start is when a simulated run begins unless its workload says otherwise: a
// Monday, at midnight.
func Start() time.Time { return time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC) }

// Streams of chance, so that what one thing draws changes nothing for another.
const (
	streamSync = iota + 1
	streamPods
	streamTicks
	streamJobs
	streamLinger
	streamDrawn
)

func (w Scenario) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(w.Seed, stream)) }

// madeFates are those of the pods, in the order in which they are created, with how long it
// takes to make each of what was ordered now.
func (w Scenario) madeFates(now func() time.Time) func() Fate {
	fate, made := w.fates(), making(w.Makers)
	return func() Fate {
		f := fate()
		f.Made = made(now())
		return f
	}
}

// fates are those of the pods, in the order in which they are created.
func (w Scenario) fates() func() Fate {
	fate, linger := w.Faults.Fates(w.Startup, w.random(streamPods)), w.random(streamLinger)
	return func() Fate {
		f := fate()
		f.Linger = w.Linger.Draw(linger)
		return f
	}
}

// maxAt returns the policy's maximum number of agents at a time, with its schedules.
func (w Scenario) maxAt(at time.Time) int {
	p, _ := w.Policy.During(at)
	return p.Max
}
