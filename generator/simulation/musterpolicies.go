package simulation

import (
	"time"

	"muster/generator/plan"
)

// policies are muster with the policies that are compared, each a line; the first is the
// default. A policy is a change of the world's, and so are the syncer and the webhooks.
func policies() []Named {
	policy := func(name, about, transport string, change func(*Scenario)) Named {
		return Named{name, "generator/plan, " + about, transport, func() Algorithm { return &Muster{} }, change, true}
	}
	return []Named{
		policy("muster", "the default policy", ThroughGit, nil),
		policy("muster-buffer", "buffer: 4", ThroughGit, func(w *Scenario) { w.Policy.Buffer = 4 }),
		policy("muster-argocd", "Argo CD as it is installed", ThroughGit, func(w *Scenario) { syncer("argocd").Use(w) }),
		policy("muster-auto", "lease: auto", ThroughGit, func(w *Scenario) { w.Policy.LeaseAuto = true }),
		policy("muster-flux", "Flux with an interval of a minute", ThroughGit, func(w *Scenario) { syncer("flux").Use(w) }),
		policy("muster-told", "webhooks, and a notified syncer", notifiedByGit, withWebhooks),
		policy("muster-told-ahead", "the same, lookahead: 1", notifiedByGit, func(w *Scenario) { withWebhooks(w); w.Policy.Lookahead = 1 }),
		policy("muster-told-buffer-1", "the same, buffer: 1", notifiedByGit, func(w *Scenario) { withWebhooks(w); w.Policy.Buffer = 1 }),
		policy("muster-told-buffer-4", "the same, buffer: 4", notifiedByGit, func(w *Scenario) { withWebhooks(w); w.Policy.Buffer = 4 }),
		policy("muster-told-reuse-5s", "the same, reuse: {idle: 5s, uptime: 30m}", notifiedByGit, func(w *Scenario) { withWebhooks(w); stay(5*time.Second, 30*time.Minute)(w) }),
		policy("muster-told-reuse-auto", "the same, reuse: {idle: auto, uptime: 30m}", notifiedByGit, func(w *Scenario) {
			withWebhooks(w)
			w.Policy.Lookahead = 1 // its default then
			w.Policy.Reuse = plan.Reuse{Idle: plan.FirstIdle, Uptime: 30 * time.Minute, Auto: true}
		}),
		policy("muster-reuse", "reuse: {idle: 1m, uptime: 30m}", ThroughGit, stay(time.Minute, 30*time.Minute)),
		policy("muster-told-reuse", "the same, webhooks, and a notified syncer", notifiedByGit, func(w *Scenario) { withWebhooks(w); stay(time.Minute, 30*time.Minute)(w) }),
		policy("muster-told-reuse-5m", "the same, reuse: {idle: 5m, uptime: 2h}", notifiedByGit, func(w *Scenario) { withWebhooks(w); stay(5*time.Minute, 2*time.Hour)(w) }),
		policy("muster-told-reuse-10m", "the same, reuse: {idle: 10m, uptime: 4h}", notifiedByGit, func(w *Scenario) { withWebhooks(w); stay(10*time.Minute, 4*time.Hour)(w) }),
	}
}

// withWebhooks gives muster webhooks, and a syncer that gets notifications of pushes.
func withWebhooks(w *Scenario) { syncer("told").Use(w); w.Triggered = WebhookInterval }

// stay lets agents take jobs until none came for idle, and for uptime at most.
func stay(idle, uptime time.Duration) func(*Scenario) {
	return func(w *Scenario) { w.Policy.Reuse = plan.Reuse{Idle: idle, Uptime: uptime} }
}
