package laboratory

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops"
)

// simulatedFleet is a simulated Buildkite, and a cluster whose syncer applies a repository.
type simulatedFleet struct {
	Buildkite *fakebuildkite.Server
	cluster   *simulation.Cluster
	queues    string // the identifier of the queues' cluster in Buildkite
	syncer    *gitops.Repository
}

// begin makes Buildkite, with the queues of the demo, and the cluster.
func (f *simulatedFleet) begin(now time.Time, random *rand.Rand) {
	f.Buildkite = fakebuildkite.New(fakebuildkite.Options{
		Now: now, Scopes: fakebuildkite.WriteScopes, OnAgentEnd: func(a fakebuildkite.AgentRecord) { f.cluster.AgentEnded(a) },
	})
	f.queues = f.Buildkite.AddCluster("ci")
	for _, key := range demoQueues {
		f.Buildkite.AddQueue(f.queues, key)
	}
	f.Buildkite.SetDefaultQueue(f.queues, demoQueues[0])
	f.cluster = &simulation.Cluster{
		Buildkite: f.Buildkite, BuildkiteCluster: f.queues,
		Fate: simulation.Faults{}.Fates([2]time.Duration{25 * time.Second, 70 * time.Second}, random),
	}
}

// apply applies the head of the repository to the cluster, each overlay also if another one fails.
func (f *simulatedFleet) apply(ctx context.Context) error {
	head, err := f.syncer.Head(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range demoQueues {
		failed = append(failed, f.cluster.Sync(head.Tree, path.Join("overlays", name)))
	}
	return errors.Join(failed...)
}
