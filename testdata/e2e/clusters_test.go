package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/node"
)

// TestClusters: one queue, an overlay for each of two clusters, and one muster that can
// reach neither. Work goes to the preferred one, spills over where that is full or away,
// and comes back. The first cluster has the syncer that is tried, and the preferred one,
// which goes away, a Flux of its own.
func TestClusters(t *testing.T) {
	if !slices.Contains(syncers(), "flux") {
		t.Skip("the second cluster has Flux, which was not chosen")
	}
	both(t, "Two clusters: jobs move by priority, away from a lost cluster (with Flux) and back", twoClusters)
}

func twoClusters(t *testing.T, w *world, s syncer) {
	near := w.addOverlay(t, "two", s, options{policy: map[string]string{"lease": "1m"}})
	far := w.addSecond(t, near)
	run := func(jobs int) { near.start(fakebuildkite.Step{Parallelism: jobs, Command: waits(near.gate)}) }
	// The preferred one takes two, and the rest spills over.
	run(3)
	near.runs(3)
	if n, f := agentsOrdered(near), agentsOrdered(far); n != 1 || f != 2 {
		t.Errorf("of 3 agents %d are on the cluster that is preferred and takes 2, and %d on the other", f, n)
	}
	near.open()
	near.passes(3)
	// It is away: what is ordered of it does not come, and the other one takes over.
	api := far.cluster.processes["kube-apiserver"]
	api.Kill()
	away := time.Now()
	run(1)
	near.passes(4) // its overlay backs off, and the other one takes over
	results.measured("cluster lost, lease 1m: until its job passed on the other", s.name(), fmt.Sprintf("%.0f s", time.Since(away).Seconds()))
	must(t, api.Start())
	// It is back: once its overlay's breaker lets it, it is preferred again.
	ordered := agentsOrdered(far)
	jobs := 4
	near.until("the preferred cluster is used again", func() error {
		near.passes(jobs)
		run(1)
		jobs++
		near.passes(jobs)
		for _, a := range w.buildkite.Agents() {
			if slices.Contains(a.Tags, "overlay="+far.name) && a.Connected.After(away) {
				return nil
			}
		}
		time.Sleep(5 * time.Second)
		return fmt.Errorf("%d agents were ordered of it before, %d now", ordered, agentsOrdered(far))
	})
	onceEach(t, near, far)
}

// onceEach: every Job of the two overlays of a queue has lived once, every job has run
// once, and nobody was killed.
func onceEach(t *testing.T, overlays ...*overlay) {
	t.Helper()
	for _, v := range overlays {
		v.nobodyKilled()
		for name, lives := range v.events.jobsOf(v.name) {
			if len(lives) != 1 {
				t.Errorf("the Job %s has lived %d times", name, len(lives))
			}
		}
	}
	overlays[0].onceEachJob()
}

func agentsOrdered(v *overlay) int {
	v.t.Helper()
	agents := 0
	for _, r := range v.dispatches() {
		agents += r.Agents
	}
	return agents
}

// addSecond starts a second cluster with a Flux of its own, and an overlay for it of the
// same queue, which is preferred and takes two agents.
func (w *world) addSecond(t *testing.T, beside *overlay) *overlay {
	t.Helper()
	second := *w
	name := "second-" + beside.syncer.name()
	second.cluster = startCluster(w.ctx, t, w.suite, name)
	t.Cleanup(second.cluster.close)
	v := &overlay{world: &second, t: t, name: "two-far-" + beside.syncer.name(), namespace: "buildkite", gate: beside.gate}
	t.Cleanup(v.logs)
	v.must(second.cluster.addNamespace(w.ctx, "buildkite"))
	second.events = watchEvents(w.ctx, second.cluster)
	second.node = second.cluster.addNode(t, &second, node.Config{Name: "far"})
	t.Cleanup(second.node.Stop)
	f := startFlux(w.ctx, t, w.suite, second.cluster, name+"-")
	t.Cleanup(func() {
		for _, p := range f.processes {
			p.Kill()
		}
	})
	v.syncer = f
	v.must(w.git.edit("an overlay for the second cluster", func(dir string) error {
		if err := w.init(dir, beside.name, "flux", "--overlay", v.name); err != nil {
			return err
		}
		return v.setPolicy(dir, map[string]string{"lease": "1m", "max": "2", "priority": "10"})
	}))
	f.introduce(w.ctx, t, w.git.clone)
	v.must(f.has(w))
	w.onPush(t, func() { _ = f.refresh(w.ctx, "") })
	v.must(second.cluster.applyFiles(w.ctx, filepath.Join(w.git.clone, "syncer", "agents-"+v.name+".yaml")))
	v.applied()
	return v
}
