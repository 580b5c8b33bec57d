package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
)

// budget is a disruption budget of all agents in a namespace.
const budget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: agents, namespace: NAMESPACE}
spec: {minAvailable: 2, selector: {matchLabels: {app.kubernetes.io/name: buildkite-agent}}}
`

func testDisruptionBudget(t *testing.T) {
	both(t, "Disruption budget: evictions are refused, the agents finish their jobs", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "budget", s, options{namespace: "budget-" + s.name()})
		v.must(w.cluster.Apply(w.ctx, strings.ReplaceAll(budget, "NAMESPACE", v.namespace)))
		v.build(2)
		v.runs(2)
		v.budgeted(2)
		for _, p := range v.events.podsOf(v.name) {
			err := w.cluster.evict(w.ctx, v.namespace, p.Name, nil)
			var refusal *kube.Refusal
			if !errors.As(err, &refusal) || refusal.Status != http.StatusTooManyRequests || !strings.Contains(refusal.Message, "violate the pod's disruption budget") {
				t.Errorf("the eviction of %s was answered with %v, want the refusal of the budget", p.Name, err)
			}
		}
		v.isWell()
		v.finish(2)
		v.oneEach(2)
	})
}

// budgeted waits until the budget has counted N pods and allows no eviction.
func (v *overlay) budgeted(pods int) {
	v.t.Helper()
	v.until(fmt.Sprintf("the budget has counted %d pods", pods), func() error {
		var b struct {
			Metadata struct{ Generation int }
			Status   struct{ ObservedGeneration, CurrentHealthy, DisruptionsAllowed int }
		}
		if err := v.cluster.Get(v.ctx, kube.Path("policy/v1", "poddisruptionbudgets", v.namespace, "agents"), &b); err != nil {
			return err
		}
		if b.Status.ObservedGeneration != b.Metadata.Generation || b.Status.CurrentHealthy != pods || b.Status.DisruptionsAllowed != 0 {
			return fmt.Errorf("it is %+v", b)
		}
		return nil
	})
}
