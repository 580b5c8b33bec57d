package simulation

import (
	"cmp"
	"math"
	"time"

	"muster/generator/plan"
)

// rival is an algorithm of others. It uses the cluster's API, at its own interval and with its own
// fleet.
type rival struct {
	name, source string
	// interval is from tick to tick.
	interval time.Duration
	// stateless says that it decides by what it sees alone.
	stateless bool
	// makers make its pods.
	makers []Maker
	make   func() Algorithm
	// startup, if not zero, is that of its agents.
	startup [2]time.Duration
}

func (r rival) named() Named {
	return Named{Name: r.name, Source: r.source, Transport: direct, New: r.make, Scenario: func(w *Scenario) {
		w.Direct, w.Stateless, w.Makers, w.Client, w.Triggered = true, r.stateless, r.makers, nil, 0
		w.Interval, w.Startup = cmp.Or(r.interval, w.Interval), cmp.Or(r.startup, w.Startup)
	}}
}

// rivals are other autoscalers, each as it is installed and, below that, with the settings that
// shorten its waits.
func rivals() []rival {
	rule := func(f ruleFunc) func() Algorithm { return func() Algorithm { return f } }
	stay := func(f ruleFunc) func() Algorithm { return func() Algorithm { return staying{f} } }
	stack := func(cooldown, idle time.Duration) func() Algorithm {
		return func() Algorithm { return &elasticStack{cooldown: cooldown, idle: idle} }
	}
	agentStack := func(inFlight int) func() Algorithm {
		return func() Algorithm { return &agentStack{inFlight: inFlight, known: map[string]bool{}} }
	}
	const (
		scaleJobs  = "kedacore/keda 2.20.2 pkg/scaling/executor/scale_jobs.go"
		elastic    = "buildkite/elastic-ci-stack-for-aws 6.71.1 templates/aws-stack.yml, buildkite/buildkite-agent-scaler 1.12.0 scaler"
		controller = "buildkite/agent-stack-k8s 0.47.0 internal/controller"
		listener   = "actions/actions-runner-controller gha-runner-scale-set-0.14.2 cmd/ghalistener/scaler/scaler.go"
	)
	jobForEach := jobController(2)
	keda, runners, stackPods := []Maker{kedaOperator, jobForEach}, []Maker{runnerSetController}, []Maker{agentStackController, jobForEach}
	return []rival{
		{name: "plain-cooldown", source: "sourcegraph/devx-scratch 2022/stateless-agents/log.snb.md", makers: []Maker{jobController(1)}, make: rule(cooledLoop)},
		{name: "keda-default", source: scaleJobs, interval: kedaInterval, makers: keda, make: rule(kedaDefault)},
		{name: "keda-accurate", source: scaleJobs + ", pull request #7417", interval: kedaInterval, makers: keda, make: rule(kedaAccurate)},
		{name: "keda-5s-stay", source: scaleJobs + ", pollingInterval: 5, agents stay for 60 s", interval: 5 * time.Second, makers: keda, make: stay(kedaAccurate)},
		{name: "elastic-ci-stack", source: elastic, interval: stackInterval, make: stack(stackCooldown, stackIdle)},
		{name: "elastic-ci-stack-60s", source: elastic + ", ScaleOutCooldownPeriod: 0, ScaleInIdlePeriod: 60", interval: stackInterval, make: stack(0, reuseIdle)},
		{name: "elastic-ci-stack-60s-ec2", source: elastic + ", the same, EC2 instances", interval: stackInterval, make: stack(0, reuseIdle), startup: ec2Startup},
		{name: "agent-stack-k8s", source: controller, interval: time.Second, stateless: true, makers: stackPods, make: agentStack(25)},
		{name: "agent-stack-k8s-max", source: controller + ", max-in-flight as max", interval: time.Second, stateless: true, makers: stackPods, make: agentStack(math.MaxInt)},
		{name: "arc", source: listener, interval: time.Second, stateless: true, makers: runners, make: rule(runnerController)},
		{name: "arc-stay", source: listener + ", agents stay for 60 s", interval: time.Second, stateless: true, makers: runners, make: stay(runnerController)},
		{name: "arc-min-4", source: listener + ", minRunners: 4", interval: time.Second, stateless: true, makers: runners, make: func() Algorithm { return minimumRunners(4) }},
	}
}

// reuseIdle is the idle time of reusable agents: that of muster-reuse-1m, for comparison.
const reuseIdle = 60 * time.Second

// staying is a rule whose agents take job after job: buildkite-agent without --disconnect-after-job,
// and with --disconnect-after-idle-timeout 60 (buildkite/agent 3.138.2 clicommand/agent_start.go).
type staying struct{ rule ruleFunc }

// Tick implements [Algorithm].
func (s staying) Tick(v View) Operation {
	op := s.rule.Tick(v)
	op.Life = Life{Stay: reuseIdle}
	return op
}

// kedaInterval is the default pollingInterval of a ScaledJob (kedacore/keda 2.20.2
// apis/keda/v1alpha1/withtriggers_types.go, defaultPollingInterval). Its cooldownPeriod is a
// ScaledObject's: a ScaledJob has none, its Jobs end by themselves.
const kedaInterval = 30 * time.Second

// What the template of Buildkite's Elastic CI Stack for AWS sets: buildkite/elastic-ci-stack-for-aws
// 6.71.1 templates/aws-stack.yml, ScalerMinPollInterval, ScaleOutCooldownPeriod and
// ScaleInIdlePeriod.
const (
	stackInterval = 10 * time.Second
	stackCooldown = 300 * time.Second
	stackIdle     = 600 * time.Second
)

// ec2Startup is how long an EC2 instance of the stack takes until its agent registers. It is assumed.
// The template waits up to five minutes for Linux (buildkite/elastic-ci-stack-for-aws 6.71.1
// templates/aws-stack.yml, InstanceCreationTimeout).
var ec2Startup = [2]time.Duration{2 * time.Minute, 4 * time.Minute}

// elasticStack is buildkite-agent-scaler 1.12.0 with its own fleet: it sets the desired size of an
// Auto Scaling group to scheduled plus running jobs (scaler/scaling_calculator.go), no sooner than a
// cooldown after the previous change (scaler/scaler.go, scaleOut). An instance has one agent, which
// takes job after job. After being idle for long enough, the agent ends its instance and reduces
// the group's size (packer/linux/stack/conf/buildkite-agent/scripts/terminate-instance). The scaler
// does not scale in otherwise (DisableScaleIn). Unless ec2Startup is set, an instance starts as fast
// as a pod.
type elasticStack struct {
	cooldown, idle time.Duration
	last           time.Time
}

// Tick implements [Algorithm].
func (e *elasticStack) Tick(v View) Operation {
	m := v.Metrics()
	op := v.order(m.Scheduled + m.Running - v.Pods.Alive)
	if op.Commits == 0 || !e.last.IsZero() && v.At.Sub(e.last) < e.cooldown {
		return Operation{}
	}
	e.last = v.At
	op.Life = Life{Stay: e.idle}
	return op
}

const (
	// reservation is how long agent-stack-k8s reserves a job, the server's default:
	// buildkite/agent-stack-k8s 0.47.0 internal/controller/reserver/reserver.go,
	// reservationExpirySeconds.
	reservation = 900 * time.Second
	// cancelCheck is how often it looks for cancelled jobs of pods that are starting:
	// internal/controller/config/config.go, DefaultJobCancelCheckerPollInterval.
	cancelCheck = 5 * time.Second
)

// agentStack makes a Kubernetes Job for each runnable job whose rules its tags match
// (buildkite/agent-stack-k8s 0.47.0). Once a second it reserves all of them
// (internal/controller/monitor/monitor.go, reserver/reserver.go; cmd/controller/flags.go,
// PollInterval) and queues them for at most MaxInFlight pods at once, 25 by default
// (limiter/limiter.go; cmd/controller/flags.go). The pod acquires that job and no other
// (scheduler/scheduler.go, BUILDKITE_AGENT_ACQUIRE_JOB), so that no job overtakes it. It deletes a pod
// that is starting if its job is cancelled (scheduler/batch_buildkite_job_checker.go), and fails the
// reserved job of a pod that ended without an agent (scheduler/job_watcher.go,
// failBeforeAgentAcquire): see [Life].Watched. Its init containers cost no time here.
type agentStack struct {
	inFlight int
	known    map[string]bool // jobs that were reserved
	queue    []string        // of them, those without a pod
}

// Tick implements [Algorithm].
func (a *agentStack) Tick(v View) Operation {
	s := v.Snapshot(time.Time{})
	tags := v.Overlay.AgentTags()
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == plan.JobPending && plan.Satisfies(tags, j.Rules) && v.Reserve(j.ID, reservation) && !a.known[j.ID] {
			a.known[j.ID] = true
			a.queue = append(a.queue, j.ID)
		}
	}
	n := max(0, min(len(a.queue), min(a.inFlight, v.max())-v.Pods.Alive))
	op := v.order(n)
	op.Life = Life{Acquire: a.queue[:n], Watched: cancelCheck}
	a.queue = a.queue[n:]
	return op
}

// runnerController is GitHub's Actions Runner Controller. It keeps one ephemeral runner, for one
// job, for each job assigned to its scale set, in addition to its minimum (zero here), up to its
// maximum (actions/actions-runner-controller gha-runner-scale-set-0.14.2
// cmd/ghalistener/scaler/scaler.go, setDesiredWorkerState). GitHub assigns the jobs
// that can run and name the scale set, and returns them by long polling: here it polls each second.
// It cannot serve Buildkite; its rule is here because it is the most used of its kind.
func runnerController(v View) int {
	s := v.Snapshot(time.Time{})
	tags := v.Overlay.AgentTags()
	assigned := 0
	for i := range s.Jobs {
		if s.Jobs[i].State == plan.JobPending && plan.Satisfies(tags, s.Jobs[i].Rules) {
			assigned++
		}
	}
	for _, a := range s.Agents {
		if a.State == plan.AgentBusy {
			assigned++
		}
	}
	return assigned - v.Pods.Alive
}

// minimumRunners is runnerController with minRunners, which stay until a job comes
// (charts/gha-runner-scale-set/values.yaml): here, as those of muster's buffer, for WarmIdleTimeout.
type minimumRunners int

// Tick implements [Algorithm].
func (m minimumRunners) Tick(v View) Operation {
	op := v.order(runnerController(v) + int(m))
	for i := range op.Order {
		op.Order[i].IdleTimeout = v.Overlay.Policy.WarmIdleTimeout
	}
	return op
}

// cooledLoop starts one agent per scheduled job, when 75 % of the pods of the last order are up or
// have ended. Source: sourcegraph/devx-scratch, 2022/stateless-agents/log.snb.md ("rollout").
func cooledLoop(v View) int {
	if v.Pods.LastUp < 0.75 {
		return 0
	}
	return v.Metrics().Scheduled
}

// Two strategies of KEDA's ScaledJob, from kedacore/keda 2.20.2
// pkg/scaling/executor/scale_jobs.go and the page "Scaling Jobs" of its
// documentation, with minReplicaCount 0, and a target of one job to an agent.
// Running are the Kubernetes Jobs that have not finished, pending those of
// them without a running pod; a pod counts as running here once its agent has
// registered. KEDA has no scaler for Buildkite; the queue's length is what its
// metrics-api scaler would read.

// kedaDefault is for queues that continue to count messages in progress, by its documentation: so
// the length is the number of scheduled and running jobs.
func kedaDefault(v View) int {
	m := v.Metrics()
	length := m.Scheduled + m.Running
	return min(length, min(length, v.max())-v.Pods.Alive)
}

// kedaAccurate is for queues that stop counting what is being worked on: the
// length given is scheduled jobs. This is the rule since pull request #7417,
// which corrected it near the maximum.
func kedaAccurate(v View) int {
	length, most := v.Metrics().Scheduled, v.max()
	scale := min(length, most)
	if scale+v.Pods.Alive-v.Pods.Starting > most {
		return min(length, most-v.Pods.Alive)
	}
	return min(length, scale-v.Pods.Starting)
}
