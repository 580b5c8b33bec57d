package e2e

import (
	"fmt"
	"os"
	"testing"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// priorities are the classes of agents and of others, whose pods come first.
const priorities = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-agents}
value: 100
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-others}
value: 1000
`

func testPreemption(t *testing.T) {
	both(t, "Preemption: an agent finishes its job in its grace period, or is replaced", func(t *testing.T, w *world, s syncer) {
		must(t, w.cluster.Apply(w.ctx, priorities))
		// A node of their own, which two pods fill.
		full := "full-" + s.name()
		w.reservedNode(t, full, 2)
		patch := onNodeAlone(full) + "- op: add\n  path: /spec/template/spec/priorityClassName\n  value: e2e-agents\n"
		// Buildkite takes up to four minutes to notice a lost agent; the replacement waits that long for its job.
		v := w.addOverlay(t, "priority", s, options{patch: patch, policy: map[string]string{"idleTimeout": "5m"}})
		v.expectKills = func(k node.Killed) bool { return k.Disrupted }
		v.finishesInItsGrace(full)
		v.must(w.git.edit("shorten the grace of "+v.name, func(dir string) error {
			return v.setTemplate(dir, options{patch: patch + "- op: replace\n  path: /spec/template/spec/terminationGracePeriodSeconds\n  value: 2\n"})
		}))
		v.must(os.Remove(v.gate))
		v.isReplaced(full)
		v.ordersNothingTwice()
		v.noFailure()
		v.leavesGit()
		v.isWell()
		v.nobodyKilled()
	})
}

// finishesInItsGrace: two agents fill the node, and one of them is preempted. It has
// the hour that the base says, and ends when its job does.
func (v *overlay) finishesInItsGrace(full string) {
	v.t.Helper()
	v.build(2)
	v.runs(2)
	other := v.addOther(full)
	v.preemptedWithGrace()
	v.runs(2)
	v.finish(2)
	v.until("the other pod has its place", func() error { return v.otherRuns(other) })
	if pods := v.events.podsOf(v.name); len(pods) != 2 {
		v.t.Errorf("there have been %d pods, want none more than the two that finished their jobs", len(pods))
	}
	v.must(v.cluster.Delete(v.ctx, other, nil))
}

// isReplaced: the preempted agent has no time to finish. Its job is lost to Buildkite
// and tried again, as the step asks for; the pod that replaces it is an agent once it
// has room.
func (v *overlay) isReplaced(full string) {
	v.t.Helper()
	v.start(fakebuildkite.Step{Parallelism: 2, Retries: 1, Command: waits(v.gate)})
	v.runs(2)
	other := v.addOther(full)
	v.preempted(2)
	v.until("the other pod has its place, and a pod waits for room", func() error {
		if pods := v.events.podsOf(v.name); len(pods) != 5 {
			return fmt.Errorf("there have been %d pods", len(pods))
		}
		return v.otherRuns(other)
	})
	v.must(v.cluster.Delete(v.ctx, other, nil))
	v.until("the job is tried again", func() error {
		for _, j := range v.buildkite.jobsOf(v.name) {
			if j.Attempt == 1 && j.State == "running" {
				return nil
			}
		}
		return fmt.Errorf("jobs are %v", v.counts())
	})
	v.finish(4)
	if c := v.counts(); c["failed"] != 1 || len(v.buildkite.jobsOf(v.name)) != 5 {
		v.t.Errorf("jobs are %v, want four passed and the lost attempt", c)
	}
	if pods := v.events.podsOf(v.name); len(pods) != 5 {
		v.t.Errorf("there have been %d pods, want one for each job and the replacement", len(pods))
	}
}

// ordersNothingTwice: an agent was ordered for each job, and none for the next attempt of
// one, unless that waited before the replacement was an agent.
func (v *overlay) ordersNothingTwice() {
	v.t.Helper()
	var retried fakebuildkite.JobRecord
	for _, j := range v.buildkite.jobsOf(v.name) {
		if j.Attempt == 1 {
			retried = j
		}
	}
	ordered, most := 0, 4
	for _, r := range v.dispatches() {
		ordered += r.Agents
		// Two pods, and the replacement of one.
		if agents := v.buildkite.agentsOf(r.Dispatches[0]); len(agents) > r.Agents && agents[r.Agents].Connected.After(retried.Scheduled) {
			most = 5
		}
	}
	if ordered < 4 || ordered > most {
		v.t.Errorf("%d agents were ordered for four jobs, of which one was tried again, want 4, and %d at most", ordered, most)
	}
}

// addOther makes a pod that comes before agents, on a node, and returns its path.
func (v *overlay) addOther(on string) string {
	v.t.Helper()
	return v.addOtherOf(on, map[string]any{"image": "other", "command": []string{"sleep", "86400"}})
}

// addOtherOf makes it with a container.
func (v *overlay) addOtherOf(on string, container map[string]any) string {
	v.t.Helper()
	name := fmt.Sprintf("other-%s-%d", v.name, len(v.events.killedOf(v.name)))
	container["name"] = "other"
	v.until("the pod is taken", func() error {
		return v.cluster.Post(v.ctx, kube.Path("v1", "pods", "default", ""), map[string]any{
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"priorityClassName": "e2e-others", "nodeSelector": map[string]string{"kubernetes.io/hostname": on},
				"tolerations":                   []map[string]any{{"key": node.ReservedTaint, "operator": "Exists"}},
				"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false, "restartPolicy": "Never",
				"containers": []map[string]any{container},
			},
		})
	})
	return kube.Path("v1", "pods", "default", name)
}

// otherRuns is an error until the pod at a path runs.
func (v *overlay) otherRuns(path string) error {
	var pod node.Pod
	if err := v.cluster.Get(v.ctx, path, &pod); err != nil {
		return err
	}
	if pod.Status.Phase != "Running" {
		return fmt.Errorf("it is %s", pod.Status.Phase)
	}
	return nil
}

// preempted waits until N pods of the overlay were preempted, and returns them.
func (v *overlay) preempted(want int) []node.Killed {
	v.t.Helper()
	v.reaches(want, "pods were preempted", func() int { return len(v.events.killedOf(v.name)) })
	killed := v.events.killedOf(v.name)
	for _, k := range killed {
		if reason := k.Pod.Status.Reason("DisruptionTarget"); reason != "PreemptionByScheduler" {
			v.t.Errorf("%s was ended for %q, want preemption", k.Pod.Metadata.Name, reason)
		}
	}
	return killed
}

// preemptedWithGrace waits until the first pod was preempted, which has the hour that the base says.
func (v *overlay) preemptedWithGrace() {
	v.t.Helper()
	killed := v.preempted(1)
	if grace := killed[0].Pod.Metadata.DeletionGracePeriodSeconds; grace == nil {
		v.t.Errorf("the preempted agent has no grace period, want that of the base")
	} else if *grace != 3600 {
		v.t.Errorf("the preempted agent has a grace period of %d s, want that of the base", *grace)
	}
}
