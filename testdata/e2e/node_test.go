package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/node"
)

func testNodeLost(t *testing.T) {
	both(t, "Node lost: its pods are replaced within the lease", func(t *testing.T, w *world, s syncer) {
		name := "lost-" + s.name()
		lost := w.cluster.addNode(t, w, node.Config{Name: name, Reserved: true})
		v := w.addOverlay(t, "node", s, options{patch: onNodeAlone(name)})
		v.build(2)
		v.runs(2)
		lost.Lose()
		v.until("its pods are to be deleted", func() error { return w.cluster.allDeleted(w.ctx, name) })
		// As the cloud does once the machine has gone, and a new one comes.
		v.must(w.cluster.Delete(w.ctx, "/api/v1/nodes/"+name, nil))
		v.reaches(4, "pods have been there", func() int { return len(v.events.podsOf(v.name)) })
		w.reservedNode(t, name, 0)
		first := v.dispatches()[0].Dispatches[0]
		v.reaches(4, "agents of "+first+" have come", func() int { return len(v.buildkite.agentsOf(first)) })
		v.noFailure()
		v.isWell()
		v.nobodyKilled()
	})
}

// reservedNode starts a node for few pods, which is removed when the test ends; zero: for any number.
func (w *world) reservedNode(t *testing.T, name string, pods int) {
	t.Helper()
	n := w.cluster.addNode(t, w, node.Config{Name: name, Reserved: true, Pods: pods})
	t.Cleanup(func() { must(t, n.Remove(w.ctx)) })
}

// onNodeAlone is a patch that has an overlay's pods be on one reserved node.
func onNodeAlone(name string) string {
	return `
- op: add
  path: /spec/template/spec/nodeSelector/kubernetes.io~1hostname
  value: ` + name + `
- op: add
  path: /spec/template/spec/tolerations
  value: [{key: ` + node.ReservedTaint + `, operator: Exists}]
`
}

// allDeleted is an error while pods of a node are not to be deleted.
func (c *cluster) allDeleted(ctx context.Context, name string) error {
	pods, err := c.podsOn(ctx, name)
	for _, p := range pods {
		if p.Metadata.DeletionTimestamp == nil {
			return fmt.Errorf("%s is not", p.Metadata.Name)
		}
	}
	return err
}

func testReuse(t *testing.T) {
	both(t, "Reusable agent takes several jobs, exits after its uptime", func(t *testing.T, w *world, s syncer) {
		const idle = 179 * time.Second
		v := w.addOverlay(t, "reuse", s, options{policy: map[string]string{"reuse": "{idle: 2m59s, uptime: 3m}"}})
		v.open()
		for jobs := range 2 {
			v.build(1)
			v.passes(jobs + 1)
		}
		// The uptime ends half a minute before the idle time.
		v.start(fakebuildkite.Step{Command: "sleep 30"})
		v.passes(3)
		v.complete()
		orders := v.dispatches()
		if len(orders) != 1 {
			t.Errorf("%d orders, want one agent for three jobs: %+v", len(orders), orders)
		}
		var last time.Time
		for _, j := range v.buildkite.jobsOf(v.name) {
			last = j.Finished
		}
		for _, a := range v.buildkite.agentsOf(orders[0].Dispatches[0]) {
			if a.Jobs != 3 || a.Ended.Sub(last) >= idle {
				t.Errorf("the agent had %d jobs, want 3, and ended %s after the last, want less than the idle time", a.Jobs, a.Ended.Sub(last))
			}
		}
		v.leavesGit()
		v.account()
	})
}

func testClock(t *testing.T) {
	for name, seconds := range map[string]int{"fast": 120, "slow": -120} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, "Node clock two minutes "+name+": no agent is ordered twice", func(t *testing.T, w *world, s syncer) {
				v := w.addOverlay(t, "clock-"+name, s, options{patch: "- op: add\n  path: /spec/template/metadata/annotations/" + clockAnnotation + fmt.Sprintf("\n  value: \"%d\"\n", seconds)})
				v.start(fakebuildkite.Step{Parallelism: 2, Command: strings.ReplaceAll(inOtherTime, "SECONDS", fmt.Sprint(seconds)) + waits(v.gate)})
				v.runs(2)
				v.leavesGit()
				v.finish(2)
				v.account()
				v.oneForEachJob()
			})
		})
	}
}
