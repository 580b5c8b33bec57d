package simulation

import (
	"time"

	"muster/generator/plan"
)

// rival is an algorithm of others. It uses the cluster's API, at its own interval and with its own
// fleet.
type rival struct {
	name, source string
	// interval is from tick to tick; zero is that of the scenario.
	interval time.Duration
	// stateless says that it decides by what it sees alone.
	stateless bool
	// makers make its pods.
	makers []Maker
	make   func() Algorithm
}

func (r rival) named() Named {
	return Named{Name: r.name, Source: r.source, Transport: direct, New: r.make, Scenario: func(w *Scenario) {
		w.Direct, w.Stateless, w.Makers, w.Client = true, r.stateless, r.makers, nil
		if r.interval > 0 {
			w.Interval = r.interval
		}
	}}
}

// kedaInterval is the pollingInterval of a ScaledJob (keda.sh/docs/latest/reference/scaledjob-spec).
// Its cooldownPeriod is a ScaledObject's: a ScaledJob has none, its Jobs end by themselves.
const kedaInterval = 30 * time.Second

func rivals() []rival {
	rule := func(f ruleFunc) func() Algorithm { return func() Algorithm { return f } }
	const scaleJobs = "kedacore/keda pkg/scaling/executor/scale_jobs.go"
	oneJob, jobForEach := []Maker{jobController(1)}, jobController(2)
	keda := []Maker{kedaOperator, jobForEach}
	return []rival{
		{"plain-cooldown", "sourcegraph/devx-scratch 2022/stateless-agents/log.snb.md", 0, false, oneJob, rule(cooledLoop)},
		{"keda-default", scaleJobs, kedaInterval, false, keda, rule(kedaDefault)},
		{"keda-accurate", scaleJobs + ", pull request #7417", kedaInterval, false, keda, rule(kedaAccurate)},
		{"elastic-ci-stack", "buildkite/elastic-ci-stack-for-aws templates/aws-stack.yml, buildkite/buildkite-agent-scaler scaler", stackInterval, false, nil, func() Algorithm { return &elasticStack{} }},
		{"agent-stack-k8s", "buildkite/agent-stack-k8s internal/controller", time.Second, true, []Maker{agentStackController, jobForEach}, func() Algorithm { return agentStack{} }},
		{"arc", "actions/actions-runner-controller cmd/ghalistener/scaler/scaler.go", time.Second, true, []Maker{runnerSetController}, rule(runnerController)},
	}
}

// What the template of Buildkite's Elastic CI Stack for AWS sets: buildkite/elastic-ci-stack-for-aws
// templates/aws-stack.yml, ScalerMinPollInterval, ScaleOutCooldownPeriod and ScaleInIdlePeriod.
const (
	stackInterval = 10 * time.Second
	stackCooldown = 300 * time.Second
	stackIdle     = 600 * time.Second
)

// elasticStack is buildkite-agent-scaler with its own fleet: it sets the desired size of an Auto
// Scaling group to scheduled plus running jobs (scaler/scaling_calculator.go), no sooner than a
// cooldown after the previous change (scaler/scaler.go, scaleOut). An instance has one agent, which
// takes job after job. After being idle for long enough, the agent ends its instance and reduces
// the group's size (packer/linux/stack/conf/buildkite-agent/scripts/terminate-instance). The scaler
// does not scale in otherwise (DisableScaleIn). An instance starts as fast as a pod here; real ones
// take minutes.
type elasticStack struct{ last time.Time }

// Tick implements [Algorithm].
func (e *elasticStack) Tick(v View) Operation {
	m := v.Metrics()
	op := v.order(m.Scheduled + m.Running - v.Pods.Alive)
	if op.Commits == 0 || !e.last.IsZero() && v.At.Sub(e.last) < stackCooldown {
		return Operation{}
	}
	e.last = v.At
	op.Life = Life{Stay: stackIdle}
	return op
}

// reservation is how long agent-stack-k8s reserves a job: internal/controller/config/config.go,
// ReservationExpirySeconds.
const reservation = 900 * time.Second

// agentStack makes a Kubernetes Job for each runnable job whose rules its tags match, as the
// monitor finds them once a second (internal/controller/monitor/monitor.go;
// cmd/controller/flags.go, PollInterval): it reserves the job, and the pod acquires that job and no
// other (internal/controller/scheduler/scheduler.go, BUILDKITE_AGENT_ACQUIRE_JOB), so that no job
// overtakes it. Its own MaxInFlight is 25 by default: here it is the policy's max.
type agentStack struct{}

// Tick implements [Algorithm].
func (agentStack) Tick(v View) Operation {
	s := v.Snapshot(time.Time{})
	tags := v.Overlay.AgentTags()
	room := v.max() - v.Pods.Alive
	var jobs []string
	for i := range s.Jobs {
		if j := &s.Jobs[i]; len(jobs) < room && j.State == plan.JobPending && plan.Satisfies(tags, j.Rules) && v.Reserve(j.ID, reservation) {
			jobs = append(jobs, j.ID)
		}
	}
	op := v.order(len(jobs))
	op.Life = Life{Acquire: jobs}
	return op
}

// runnerController is GitHub's Actions Runner Controller. It keeps one ephemeral runner, for one
// job, for each job assigned to its scale set, between its minimum (zero here) and its maximum
// (setDesiredWorkerState: min(MinRunners + TotalAssignedJobs, MaxRunners)). GitHub assigns the jobs
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

// cooledLoop starts one agent per scheduled job, when 75 % of the pods of the last order are up or
// have ended. Source: sourcegraph/devx-scratch, 2022/stateless-agents/log.snb.md ("rollout").
func cooledLoop(v View) int {
	if v.Pods.LastUp < 0.75 {
		return 0
	}
	return v.Metrics().Scheduled
}

// Two strategies of KEDA's ScaledJob, from kedacore/keda
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
