package e2e

import (
	"context"
	"fmt"
	"testing"

	"muster/testdata/e2e/node"
)

func testNodeLost(t *testing.T) {
	both(t, "Node lost: its pods are replaced within the lease", func(t *testing.T, w *world, s syncer) {
		name := "lost-" + s.name()
		lost, err := w.cluster.addNode(w.ctx, name, true, w.agents, w.events.kill)
		if err != nil {
			t.Fatal(err)
		}
		v := w.addOverlay(t, "node", s, options{patch: `
- op: add
  path: /spec/template/spec/nodeSelector/kubernetes.io~1hostname
  value: ` + name + `
- op: add
  path: /spec/template/spec/tolerations
  value: [{key: ` + node.ReservedTaint + `, operator: Exists}]
`})
		v.build(2)
		v.runs(2)
		lost.Lose()
		v.until("its pods are to be deleted", func() error { return w.cluster.allDeleted(w.ctx, name) })
		// As the cloud does once the machine has gone, and a new one comes.
		v.must(w.cluster.Delete(w.ctx, "/api/v1/nodes/"+name, nil))
		v.until("other pods take their place", func() error {
			if pods := v.events.podsOf(v.name); len(pods) != 4 {
				return fmt.Errorf("there have been %d pods", len(pods))
			}
			return nil
		})
		again, err := w.cluster.addNode(w.ctx, name, true, w.agents, w.events.kill)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := again.Remove(w.ctx); err != nil {
				t.Error(err)
			}
		})
		orders := v.dispatches()
		v.until("they are agents", func() error {
			if agents := v.buildkite.agentsOf(orders[0].Dispatches[0]); len(agents) != 4 {
				return fmt.Errorf("%d agents have come", len(agents))
			}
			return nil
		})
		for name, lives := range v.events.jobsOf(v.name) {
			if len(lives) != 1 || lives[0].FailedPods > 0 || lives[0].Failed {
				t.Errorf("%s: %+v", name, lives)
			}
		}
		v.isWell()
		v.nobodyKilled()
	})
}

// allDeleted is an error while pods of a node are not to be deleted.
func (c *cluster) allDeleted(ctx context.Context, name string) error {
	var pods struct {
		Items []node.Pod `json:"items"`
	}
	if err := c.Get(ctx, "/api/v1/pods?fieldSelector=spec.nodeName="+name, &pods); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.Metadata.DeletionTimestamp == nil {
			return fmt.Errorf("%s is not", p.Metadata.Name)
		}
	}
	return nil
}

func testReuse(t *testing.T) {
	both(t, "Reusable agent takes several jobs, exits after its uptime", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "reuse", s, options{policy: map[string]string{"reuse": "{idle: 2m59s, uptime: 3m}"}})
		v.open()
		for jobs := range 3 {
			v.build(1)
			v.passes(jobs + 1)
		}
		v.complete()
		orders := v.dispatches()
		if len(orders) != 1 {
			t.Errorf("%d orders, want one agent for three jobs: %+v", len(orders), orders)
		}
		for _, a := range v.buildkite.agentsOf(orders[0].Dispatches[0]) {
			if a.Jobs != 3 {
				t.Errorf("the agent had %d jobs, want 3", a.Jobs)
			}
		}
		v.leavesGit()
		v.account()
	})
}

func testClock(t *testing.T) {
	for name, seconds := range map[string]string{"fast": "120", "slow": "-120"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, "Node clock two minutes "+name+": no agent is ordered twice", func(t *testing.T, w *world, s syncer) {
				v := w.addOverlay(t, "clock-"+name, s, options{patch: "- op: add\n  path: /spec/template/metadata/annotations/" + clockAnnotation + "\n  value: \"" + seconds + "\"\n"})
				v.build(2)
				v.runs(2)
				v.leavesGit()
				v.open()
				v.passes(2)
				v.complete()
				v.account()
			})
		})
	}
}
