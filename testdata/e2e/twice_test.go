package e2e

import (
	"maps"
	"testing"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// controllerUID is the label that a Job selects its pods by.
const controllerUID = "batch.kubernetes.io/controller-uid"

// testTwice makes by hand what a lost answer of the API server makes: a second pod of an
// index (see [chaos.accountIndexes]). The Job controller is shown it only when its agent
// works, because it ends a pod that is still starting at once.
func testTwice(t *testing.T) {
	both(t, "Two pods for one index: the second is used, the one that Kubernetes ends finishes its job", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "twice", s, options{})
		v.build(2)
		v.runs(2)
		first := v.events.podsOf(v.name)[0]
		uid, name := v.twin(first)
		v.haveCome(3) // the second agent of the index is there
		v.build(1)
		v.runs(3)
		v.expectKills = func(k node.Killed) bool { return k.Pod.Metadata.Name == first.Name || k.Pod.Metadata.Name == name }
		v.must(w.cluster.Merge(w.ctx, kube.Path("v1", "pods", v.namespace, name), map[string]any{"metadata": map[string]any{"labels": map[string]any{controllerUID: uid}}}))
		v.reaches(1, "of the two is ended by the Job controller", func() int { return len(v.events.killedOf(v.name)) })
		v.finish(3)
		v.leavesGit()
		v.isWell()
		orders := v.dispatches()
		if len(orders) != 1 || orders[0].Agents != 2 || orders[0].Outcome == nil || orders[0].Outcome.Registered != 2 {
			t.Errorf("one order of two agents was enough for three jobs, and both registered: the ledger says %+v", orders)
		}
		for _, lives := range v.events.jobsOf(v.name) {
			if len(lives) != 1 || lives[0].Failed || lives[0].Succeeded != 2 || lives[0].FailedPods != 0 {
				t.Errorf("the Job has come to two indexes that succeeded: %+v", lives)
			}
		}
		v.nobodyKilled()
		if n := len(v.events.killedOf(v.name)); n != 1 {
			t.Errorf("%d pods were ended while they ran, want one of the two", n)
		}
		for _, j := range v.buildkite.jobsOf(v.name) {
			if j.Attempt > 0 || j.State != "passed" {
				t.Errorf("job %s is %s in attempt %d", j.ID, j.State, j.Attempt)
			}
		}
	})
}

// twin makes another pod like one, which its Job does not select yet. It returns the
// Job's UID and the new pod's name.
func (v *overlay) twin(of seenPod) (uid, name string) {
	v.t.Helper()
	var pod map[string]any
	v.must(v.cluster.Get(v.ctx, kube.Path("v1", "pods", v.namespace, of.Name), &pod))
	metadata, spec := pod["metadata"].(map[string]any), pod["spec"].(map[string]any)
	labels := maps.Clone(metadata["labels"].(map[string]any))
	uid, _ = labels[controllerUID].(string)
	delete(labels, controllerUID)
	delete(labels, "controller-uid")
	delete(spec, "nodeName")
	name = of.Name + "-twin"
	v.must(v.cluster.Post(v.ctx, kube.Path("v1", "pods", v.namespace, ""), map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": name, "namespace": v.namespace, "labels": labels, "annotations": metadata["annotations"]},
	}))
	return uid, name
}
