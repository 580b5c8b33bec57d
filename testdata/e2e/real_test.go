package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/node"
)

// inContainer is what a job looks at: it fails where something is not as the base says.
const inContainer = `[ "$(id -u)" = 1000 ]
if ! grep -Eq '^[^ ]+ / [^ ]+ ro[, ]' /proc/mounts; then echo "the root file system is not read-only"; exit 1; fi
touch /tmp/written "$HOME/written"
[ -z "${BUILDKITE_AGENT_TOKEN:-}" ]
if cat /proc/1/environ | tr '\\0' '\\n' | grep -q TOKEN=bkct; then echo "the token is in the environment of process 1"; exit 1; fi
[ ! -e /var/run/secrets/kubernetes.io ]
sleep 20
`

// onRealNode has an overlay's pods be small, and be on real nodes.
func onRealNode(w *world) string {
	return `
- op: add
  path: /spec/template/spec/nodeSelector/` + strings.ReplaceAll(realNodeLabel, "/", "~1") + `
  value: "yes"
- op: add
  path: /spec/template/spec/tolerations
  value: [{key: ` + node.ReservedTaint + `, operator: Exists}]
- op: replace
  path: /spec/template/spec/containers/0/resources
  value: {requests: {cpu: 50m, memory: 128Mi, ephemeral-storage: 100Mi}, limits: {memory: 512Mi, ephemeral-storage: 1Gi}}
- op: replace
  path: /spec/template/spec/containers/0/readinessProbe/periodSeconds
  value: 2
- op: add
  path: /spec/template/spec/containers/0/env/-
  value: {name: BUILDKITE_AGENT_ENDPOINT, value: "` + w.realBuildkite + `/v3"}`
}

// withNodes starts N real nodes, and keeps pods off further ones until the test
// ends.
func withNodes(t *testing.T, count int) []*realNode {
	t.Helper()
	if err := noContainers(); err != nil {
		t.Skipf("no containers on this machine: %v", err)
	}
	w := shared.world
	nodes := w.realNodes(t, count)
	for i, n := range w.real {
		must(t, n.cordon(w.ctx, i >= count))
	}
	return nodes
}

// TestRealNode: kubelet, containerd and runc run the dispatches as containers. One
// after the other: they share the nodes.
func TestRealNode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"Works", testRealWorks}, {"Secret", testRealSecret}, {"Drained", testRealDrained}, {"Preempted", testRealPreempted}, {"Dies", testRealDies}, {"OtherTime", testRealOtherTime},
	} {
		t.Run(test.name, test.run)
	}
}

func testRealWorks(t *testing.T) {
	withNodes(t, 1)
	both(t, "Real node: base's security context, Secret, probe, no token in process 1's environment; an evicted agent finishes its job", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "real", s, options{patch: onRealNode(w)})
		v.expectKills = func(k node.Killed) bool { return k.Disrupted }
		build := func(jobs int) { v.start(fakebuildkite.Step{Parallelism: jobs, Command: inContainer}) }
		build(2)
		v.runs(2)
		v.until("its pods are ready", func() error {
			if pods := v.events.podsOf(v.name); !slices.ContainsFunc(pods, func(p seenPod) bool { return p.Ready }) {
				return fmt.Errorf("none is: %+v", pods)
			}
			return nil
		})
		v.leavesGit()
		v.nobodyKilled()
		v.passesInContainers(2)
		v.complete()
		build(1)
		v.runs(1)
		for _, p := range v.events.podsOf(v.name) {
			if p.Phase == "Running" {
				v.must(w.cluster.evict(w.ctx, v.namespace, p.Name, nil))
			}
		}
		v.passesInContainers(3)
		v.complete()
		v.leavesGit()
		v.synced()
		v.expire()
		v.account()
		if killed := v.events.killedOf(v.name); len(killed) != 1 {
			t.Errorf("%d pods were ended while they ran, want the one that was evicted", len(killed))
		}
	})
}

// passesInContainers waits until N jobs have passed; of one that fails it prints
// what it said.
func (v *overlay) passesInContainers(jobs int) {
	v.t.Helper()
	v.until(fmt.Sprintf("%d jobs have passed", jobs), func() error {
		for _, j := range v.buildkite.jobsOf(v.name) {
			if j.State == "failed" {
				v.t.Fatalf("a job has failed and said:\n%s", strings.ReplaceAll(v.buildkite.JobLog(j.ID), "\r", ""))
			}
		}
		return v.are(jobs, "passed")
	})
}
