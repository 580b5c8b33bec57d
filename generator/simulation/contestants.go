package simulation

import (
	"time"

	"muster/generator/plan"
)

// Named is an algorithm in its transport, with its name and where its rule was published.
type Named struct {
	Name   string
	Source string
	// Transport says in a word or two how its orders become pods.
	Transport string
	New       func() Algorithm
	// World, when it is not nil, makes of a world the one that the algorithm has around
	// it: its transport, and with a policy of muster's that policy.
	World func(*World)
	// Policy says that it is muster with one of its policies.
	Policy bool
}

// In returns the world that the algorithm has around it.
func (n Named) In(w World) World {
	if n.World != nil {
		n.World(&w)
	}
	return w
}

// Algorithms are all that can be compared, muster's first.
func Algorithms() []Named {
	all := policies()
	for _, r := range rivals() {
		all = append(all, r.own(), r.throughGit())
	}
	return all
}

// DefaultAlgorithms returns the names of the algorithms that are compared by default:
// muster's most different policies, and the other autoscalers in their own transport.
func DefaultAlgorithms() []string {
	return []string{
		"muster", "muster-buffer", "muster-argocd", "muster-flux", "muster-told", "muster-told-buffer-4", "muster-told-reuse",
		"plain", "keda-accurate", "elastic-ci-stack", "agent-stack-k8s", "arc",
	}
}

// DefaultLoad is the name of the default workload.
const DefaultLoad = "time-zones"

// The transports.
const (
	// ThroughGit is by commits that a syncer finds when it looks.
	ThroughGit = "git"
	// toldOfGit is by commits of which the syncer is told, after webhooks.
	toldOfGit = "git, told"
	// direct is by the cluster's own API.
	direct = "direct"
)

// WebhookInterval is the mean time between ticks that webhooks begin: muster run --webhook-interval.
const WebhookInterval = 3 * time.Second

// policies are muster with the policies that are compared, each a line; the first is the
// default. A policy is a change of the world's, and so are the syncer and the webhooks.
func policies() []Named {
	policy := func(name, about, transport string, change func(*World)) Named {
		return Named{name, "generator/plan, " + about, transport, func() Algorithm { return &Muster{} }, change, true}
	}
	return []Named{
		policy("muster", "the default policy", ThroughGit, nil),
		policy("muster-buffer", "buffer: 4", ThroughGit, func(w *World) { w.Policy.Buffer = 4 }),
		policy("muster-argocd", "Argo CD as it is installed", ThroughGit, func(w *World) { syncer("argocd").Use(w) }),
		policy("muster-auto", "lease: auto", ThroughGit, func(w *World) { w.Policy.LeaseAuto = true }),
		policy("muster-flux", "Flux with an interval of a minute", ThroughGit, func(w *World) { syncer("flux").Use(w) }),
		policy("muster-told", "webhooks, and a syncer that is told", toldOfGit, tell),
		policy("muster-told-ahead", "the same, lookahead: 1", toldOfGit, func(w *World) { tell(w); w.Policy.Lookahead = 1 }),
		policy("muster-told-buffer-1", "the same, buffer: 1", toldOfGit, func(w *World) { tell(w); w.Policy.Buffer = 1 }),
		policy("muster-told-buffer-4", "the same, buffer: 4", toldOfGit, func(w *World) { tell(w); w.Policy.Buffer = 4 }),
		policy(Advised, "what muster advise --reuse --more 0.05 proposes, from another day's commits", toldOfGit, advised),
		policy("muster-told-reuse-5s", "the same, reuse: {idle: 5s, uptime: 30m}", toldOfGit, func(w *World) { tell(w); stay(5*time.Second, 30*time.Minute)(w) }),
		policy("muster-reuse", "reuse: {idle: 1m, uptime: 30m}", ThroughGit, stay(time.Minute, 30*time.Minute)),
		policy("muster-told-reuse", "the same, webhooks, and a syncer that is told", toldOfGit, func(w *World) { tell(w); stay(time.Minute, 30*time.Minute)(w) }),
		policy("muster-told-reuse-5m", "the same, reuse: {idle: 5m, uptime: 2h}", toldOfGit, func(w *World) { tell(w); stay(5*time.Minute, 2*time.Hour)(w) }),
		policy("muster-told-reuse-10m", "the same, reuse: {idle: 10m, uptime: 4h}", toldOfGit, func(w *World) { tell(w); stay(10*time.Minute, 4*time.Hour)(w) }),
	}
}

// Advised is the name of the policy that muster advise proposes.
const Advised = "muster-advised"

// advised gives muster what is proposed for it, where something is.
func advised(w *World) {
	tell(w)
	if w.Advised != nil {
		w.Policy = *w.Advised
	}
}

// tell gives muster webhooks, and a syncer that is told of pushes.
func tell(w *World) { syncer("told").Use(w); w.Woken = WebhookInterval }

// stay lets agents take jobs until none came for idle, and for uptime at most.
func stay(idle, uptime time.Duration) func(*World) {
	return func(w *World) { w.Policy.Reuse = plan.Reuse{Idle: idle, Uptime: uptime} }
}

// syncer returns one of [Syncers].
func syncer(name string) Syncer {
	for _, s := range Syncers() {
		if s.Name == name {
			return s
		}
	}
	panic("simulation: no syncer " + name)
}
