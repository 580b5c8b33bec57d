package simulation

import (
	"time"

	"muster/generator/plan"
)

// policies are muster with the policies that are compared, each a line. The first is the policy of the scenario, by
// default what muster init writes. A policy is a change of the scenario, and so is a syncer without notifications.
func policies() []Named {
	policy := func(name, about string, change func(*Scenario)) Named {
		return Named{name, "generator/plan, " + about, ThroughGit, func() Algorithm { return &Muster{} }, change, true}
	}
	return []Named{
		policy("muster", "what muster init writes", nil),
		policy("muster-argocd", "without notifications: Argo CD as it is installed", func(w *Scenario) { syncer("argocd").Use(w) }),
		policy("muster-flux", "without notifications: Flux with an interval of a minute", func(w *Scenario) { syncer("flux").Use(w) }),
		policy("muster-ahead", "lookahead: 1", func(w *Scenario) { w.Policy.Lookahead = 1 }),
		policy("muster-buffer-1", "buffer: 1", func(w *Scenario) { w.Policy.Buffer = 1 }),
		policy("muster-buffer-4", "buffer: 4", func(w *Scenario) { w.Policy.Buffer = 4 }),
		policy("muster-reuse-auto", "what muster init writes if builds may share a pod, reuse: {idle: auto, uptime: 30m}", func(w *Scenario) {
			w.Policy.Reuse = plan.Reuse{Idle: plan.FirstIdle, Uptime: 30 * time.Minute, Auto: true}
		}),
		policy("muster-reuse-5s", "reuse: {idle: 5s, uptime: 30m}", stay(5*time.Second, 30*time.Minute)),
		policy("muster-reuse-1m", "reuse: {idle: 1m, uptime: 30m}", stay(time.Minute, 30*time.Minute)),
		policy("muster-reuse-5m", "reuse: {idle: 5m, uptime: 2h}", stay(5*time.Minute, 2*time.Hour)),
		policy("muster-reuse-10m", "reuse: {idle: 10m, uptime: 4h}", stay(10*time.Minute, 4*time.Hour)),
	}
}

// stay lets agents take jobs until none came for idle, and for uptime at most.
func stay(idle, uptime time.Duration) func(*Scenario) {
	return func(w *Scenario) { w.Policy.Reuse = plan.Reuse{Idle: idle, Uptime: uptime} }
}
