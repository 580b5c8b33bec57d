package e2e

import (
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
)

// testRealSecret: the Secret with the agent token is created after the order.
func testRealSecret(t *testing.T) {
	withNodes(t, 1)
	both(t, "Real node, missing Secret: a condition names the checks; agents start when the Secret exists", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "secret", s, options{namespace: "secret-" + s.name(), patch: onRealNode(w)})
		v.must(w.cluster.Delete(w.ctx, kube.Path("v1", "secrets", v.namespace, "buildkite-agent"), nil))
		v.hold(2)
		v.reaches(2, "pods wait with CreateContainerConfigError", func() int { return v.waitingFor("CreateContainerConfigError") })
		const text = "agents that were ordered have not registered"
		overdue := v.hasLogged("Overdue", text)
		for _, words := range []string{"muster.dev/overlay=" + v.name, "Secret"} {
			if !strings.Contains(overdue.Remedy, words) {
				t.Errorf("the remedy has no %q: %s", words, overdue.Remedy)
			}
		}
		v.isWell()
		v.must(w.cluster.addNamespace(w.ctx, v.namespace)) // with its Secret
		v.runs(2)
		v.hasLogged("Overdue", "resolved: "+text)
		v.opened()
		v.passesInContainers(2)
		v.complete()
		v.oneEach(2)
	})
}

// waitingFor counts the overlay's containers that wait for the Secret, with a reason of the kubelet.
func (v *overlay) waitingFor(reason string) (containers int) {
	v.t.Helper()
	var pods struct {
		Items []struct {
			Status struct {
				ContainerStatuses []struct {
					State struct {
						Waiting struct{ Reason, Message string }
					}
				}
			}
		}
	}
	v.must(v.cluster.Get(v.ctx, kube.Path("v1", "pods", v.namespace, "")+"?labelSelector=muster.dev/overlay%3D"+v.name, &pods))
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w.Reason == reason && strings.Contains(w.Message, `secret "buildkite-agent" not found`) {
				containers++
			}
		}
	}
	return containers
}
