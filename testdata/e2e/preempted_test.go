package e2e

import (
	"fmt"
	"strings"
	"testing"

	"muster/testdata/e2e/node"
)

// mostOf is six tenths of a node's processors, which no two pods can have, in the unit
// that resources have.
func (n *realNode) mostOf(v *overlay) string {
	v.t.Helper()
	var object struct {
		Status struct {
			Allocatable struct {
				CPU string `json:"cpu"`
			} `json:"allocatable"`
		} `json:"status"`
	}
	v.must(v.cluster.Get(v.ctx, "/api/v1/nodes/"+n.name, &object))
	cpu, unit := object.Status.Allocatable.CPU, 1000
	if thousandths, ok := strings.CutSuffix(cpu, "m"); ok {
		cpu, unit = thousandths, 1
	}
	var amount int
	if _, err := fmt.Sscan(cpu, &amount); err != nil {
		v.t.Fatalf("the node has processors %q: %v", object.Status.Allocatable.CPU, err)
	}
	return fmt.Sprintf("%dm", amount*unit*6/10)
}

// testRealPreempted: the scheduler takes the place of an agent that works, in a
// container of a real kubelet, which gives it the hour that the base says.
func testRealPreempted(t *testing.T) {
	real := withNodes(t, 1)[0]
	must(t, shared.world.cluster.Apply(shared.world.ctx, priorities))
	for _, name := range syncers() { // one after the other: one of them fills the node
		t.Run(name, func(t *testing.T) {
			w := shared.world
			defer func() { results.note(t, "Real node, preemption: the agent finishes its job", name) }()
			v := &overlay{world: w, t: t}
			cpu := real.mostOf(v)
			v = w.addOverlay(t, "preempted", w.syncers[name], options{patch: onRealNode(w) + `
- op: replace
  path: /spec/template/spec/containers/0/resources/requests/cpu
  value: ` + cpu + `
- op: add
  path: /spec/template/spec/priorityClassName
  value: e2e-agents
`})
			v.expectKills = func(k node.Killed) bool { return k.Disrupted }
			v.hold(1)
			v.runs(1)
			other := v.addOtherOf(real.name, map[string]any{
				"image": pauseImage, "imagePullPolicy": "IfNotPresent", "command": []string{"/bin/busybox", "sleep", "86400"},
				"resources": map[string]any{"requests": map[string]string{"cpu": cpu}},
			})
			v.preemptedWithGrace()
			v.runs(1)
			v.opened()
			v.passesInContainers(1)
			v.complete()
			v.until("the other pod has its place", func() error { return v.otherRuns(other) })
			v.must(v.cluster.Delete(v.ctx, other, nil))
			v.noFailure()
			v.leavesGit()
			v.isWell()
			v.account()
		})
	}
}
