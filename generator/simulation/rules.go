package simulation

// plainLoop starts one agent per scheduled job at every tick, as the original proposal does:
// sourcegraph/sourcegraph-public-snapshot issue #32843, "a new Job per tick with completions =
// parallelism = queued jobs". It does not subtract agents that were started a moment ago.
func plainLoop(v View) int { return v.Metrics().Scheduled }

// cooledLoop is the plain loop as it went into production: the next order waits
// until 75 % of the last one's pods are up or have ended. Source:
// sourcegraph/devx-scratch, 2022/stateless-agents/log.snb.md ("rollout").
func cooledLoop(v View) int {
	if v.Pods.LastUp < 0.75 {
		return 0
	}
	return plainLoop(v)
}

// The three strategies of KEDA's ScaledJob, from kedacore/keda
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
	return min(length, min(length, v.Overlay.Policy.Max)-v.Pods.Alive)
}

// kedaAccurate is for queues that stop counting what is being worked on: the
// length given is scheduled jobs. This is the rule since pull request #7417,
// which corrected it near the maximum.
func kedaAccurate(v View) int {
	length, most := v.Metrics().Scheduled, v.Overlay.Policy.Max
	scale := min(length, most)
	if scale+v.Pods.Alive-v.Pods.Starting > most {
		return min(length, most-v.Pods.Alive)
	}
	return min(length, scale-v.Pods.Starting)
}

// kedaEager fills every slot there is while anything is queued: the length is
// scheduled jobs, and what is starting is taken off the room, not off the
// length.
func kedaEager(v View) int {
	length, most := v.Metrics().Scheduled, v.Overlay.Policy.Max
	return min(most-v.Pods.Alive-v.Pods.Starting, min(length, most))
}
