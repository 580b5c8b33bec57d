package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// evict asks for the eviction of a pod; options are how it is to be deleted, nil: as it
// says itself.
func (c *cluster) evict(ctx context.Context, namespace, pod string, options map[string]any) error {
	body := map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": pod, "namespace": namespace}}
	if options != nil {
		body["deleteOptions"] = options
	}
	return c.Post(ctx, kube.Path("v1", "pods", namespace, pod)+"/eviction", body)
}

// podsOn are the pods of a node.
func (c *cluster) podsOn(ctx context.Context, name string) ([]node.Pod, error) {
	var pods struct {
		Items []node.Pod `json:"items"`
	}
	err := c.Get(ctx, "/api/v1/pods?fieldSelector=spec.nodeName="+name, &pods)
	return pods.Items, err
}

// drain does what kubectl drain does: no new pods, and each that has not ended is
// evicted.
func (n *realNode) drain(ctx context.Context, options map[string]any) error {
	pods, err := n.cluster.podsOn(ctx, n.name)
	if err := errors.Join(err, n.cordon(ctx, true)); err != nil {
		return err
	}
	for _, p := range pods {
		if p.Status.Phase == "Running" || p.Status.Phase == "Pending" {
			if err := n.cluster.evict(ctx, p.Metadata.Namespace, p.Metadata.Name, options); err != nil {
				return err
			}
		}
	}
	return nil
}

// everyOverlay makes the overlay of a scenario for each syncer, of which the nodes are
// shared: each step is done with all of them.
func everyOverlay(t *testing.T, scenario, patch string) []*overlay {
	t.Helper()
	var all []*overlay
	for _, name := range syncers() {
		v := shared.world.addOverlay(t, scenario, shared.world.syncers[name], options{patch: patch})
		v.expectKills = func(k node.Killed) bool { return k.Disrupted }
		all = append(all, v)
	}
	return all
}

// hold is a job that waits for opened, in a container of the real node.
func (v *overlay) hold(jobs int) {
	v.start(fakebuildkite.Step{Parallelism: jobs, Command: waits("/tmp/open")})
}

// opened lets the jobs end that wait in pods of the overlay: the machine of a node can
// write into their volumes.
func (v *overlay) opened() {
	v.t.Helper()
	for _, n := range v.real {
		for _, p := range v.events.podsOf(v.name) {
			tmp := filepath.Join(n.dir, "kubelet", "pods", p.UID, "volumes", "kubernetes.io~empty-dir", "tmp")
			if _, err := os.Stat(tmp); err == nil {
				v.must(os.WriteFile(filepath.Join(tmp, "open"), nil, 0o644))
			}
		}
	}
}

// onNode waits until N pods of the overlay that have not ended are on a node.
func (v *overlay) onNode(n *realNode, want int) {
	v.t.Helper()
	v.until(fmt.Sprintf("%d of its pods are on %s", want, n.name), func() error {
		pods, err := v.cluster.podsOn(v.ctx, n.name)
		found := 0
		for _, p := range pods {
			if p.Metadata.Labels["muster.dev/overlay"] == v.name && (p.Status.Phase == "Running" || p.Status.Phase == "Pending") {
				found++
			}
		}
		if err != nil || found != want {
			return errors.Join(fmt.Errorf("%d are", found), err)
		}
		return nil
	})
}

// noFailure fails where a Job has counted a failure, or has lived more than once.
func (v *overlay) noFailure() {
	v.t.Helper()
	for name, lives := range v.events.jobsOf(v.name) {
		if len(lives) != 1 || lives[0].FailedPods > 0 || lives[0].Failed {
			v.t.Errorf("%s: %+v", name, lives)
		}
	}
}

// haveCome waits until N agents of an overlay's newest dispatch have registered.
func (v *overlay) haveCome(want int) {
	v.t.Helper()
	orders := v.dispatches()
	newest := orders[len(orders)-1].Dispatches[0]
	v.reaches(want, "agents of "+newest+" have come", func() int { return len(v.buildkite.agentsOf(newest)) })
}

// testRealDrained: a node with agents that work is drained, with their own grace and
// with none.
func testRealDrained(t *testing.T) {
	const promise = "Real node drained: agents finish; without grace they are replaced"
	nodes := withNodes(t, 2)
	w := shared.world
	first, second := nodes[0], nodes[1]
	all := everyOverlay(t, "drain", onRealNode(w))
	must := all[0].must
	must(second.cordon(w.ctx, true))
	for _, v := range all {
		v.hold(1)
	}
	for _, v := range all {
		v.runs(1)
		v.onNode(first, 1)
	}
	must(second.cordon(w.ctx, false))
	must(first.drain(w.ctx, nil))
	for _, v := range all {
		v.hold(1)
	}
	for _, v := range all {
		v.runs(2)
		v.onNode(first, 1)
		v.onNode(second, 1)
		v.opened()
		v.passesInContainers(2)
		v.complete()
		v.onNode(first, 0)
	}
	for _, v := range all {
		v.leavesGit()
		v.account()
		v.hold(1)
	}
	for _, v := range all {
		v.runs(1)
		v.onNode(second, 1)
	}
	must(second.drain(w.ctx, map[string]any{"gracePeriodSeconds": 1}))
	for _, v := range all {
		v.onNode(second, 0)
	}
	must(first.cordon(w.ctx, false))
	for i, name := range syncers() {
		t.Run(name, func(t *testing.T) {
			defer func() { results.note(t, promise, name) }()
			v := all[i]
			v.t = t
			v.onNode(first, 1)
			v.haveCome(2)
			v.noFailure()
			v.isWell()
			if killed := v.events.killedOf(v.name); len(killed) != 2 {
				t.Errorf("%d pods were evicted while they ran, want 2", len(killed))
			}
			v.nobodyKilled()
		})
	}
}

// testRealDies: the machine of a node dies with agents that work, and is started
// again.
func testRealDies(t *testing.T) {
	const promise = "Real node dies and restarts: its pods are replaced, nothing is ordered"
	lost := withNodes(t, 1)[0]
	w := shared.world
	all := everyOverlay(t, "crash", onRealNode(w))
	must := all[0].must
	for _, v := range all {
		v.hold(2)
	}
	for _, v := range all {
		v.runs(2)
	}
	lost.lose()
	all[0].until("the node is not ready", func() error {
		if status, err := w.cluster.readiness(w.ctx, lost.name); err != nil || status == "True" {
			return errors.Join(errors.New("it is"), err)
		}
		return nil
	})
	all[0].until("its pods are to be deleted", func() error { return w.cluster.allDeleted(w.ctx, lost.name) })
	must(lost.comeBack(w.ctx))
	for i, name := range syncers() {
		t.Run(name, func(t *testing.T) {
			defer func() { results.note(t, promise, name) }()
			v := all[i]
			v.t = t
			v.haveCome(4)
			v.noFailure()
			orders := len(v.dispatches())
			v.hold(2)
			v.runs(2)
			if now := len(v.dispatches()); now != orders || orders != 1 {
				t.Errorf("%d orders before, %d with the next jobs, want one", orders, now)
			}
			v.opened()
			v.complete()
			v.isWell()
			v.noFailure()
			v.nobodyKilled()
		})
	}
}

// inOtherTime is a job that fails where the clock of the programs of its container or process is not SECONDS ahead of
// this machine's, which is read before and after it.
const inOtherTime = `before=$(LD_PRELOAD= /bin/date +%s); other=$(date +%s); after=$(LD_PRELOAD= /bin/date +%s)
[ "$((other - after))" -le "$((SECONDS + 1))" ] && [ "$((other - before))" -ge "$((SECONDS - 1))" ] || {
	echo "the clock is between $((other - after)) and $((other - before)) seconds ahead"
	exit 1
}
`

// testRealOtherTime: programs of the containers are told another time.
func testRealOtherTime(t *testing.T) {
	withNodes(t, 1)
	for name, seconds := range map[string]string{"fast": "120", "slow": "-120"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ahead := map[string]string{"fast": "+120", "slow": "-120"}[name]
			both(t, "Real node, container clock two minutes "+name+": no agent is ordered twice", func(t *testing.T, w *world, s syncer) {
				v := w.addOverlay(t, "date-"+name, s, options{patch: onRealNode(w) + `
- op: add
  path: /spec/template/spec/containers/0/env/-
  value: {name: LD_PRELOAD, value: ` + fakeTime + `}
- op: add
  path: /spec/template/spec/containers/0/env/-
  value: {name: FAKETIME, value: "` + ahead + `"}`})
				v.start(fakebuildkite.Step{Parallelism: 2, Command: strings.ReplaceAll(inOtherTime, "SECONDS", seconds)})
				v.passesInContainers(2)
				v.complete()
				v.leavesGit()
				v.account()
				v.oneForEachJob()
			})
		})
	}
}
