package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
)

// testPodQuota: the quota of a namespace refuses some pods of a Job. Room is made by a larger
// quota, and then by an agent that has finished.
func testPodQuota(t *testing.T) {
	both(t, "Pod quota: some pods are created, the others when there is room; nothing is ordered twice", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "pod-quota", s, options{namespace: "pod-quota-" + s.name()})
		v.setPodQuota(1)
		v.build(3)
		v.runs(1)
		v.podsRefused("exceeded quota")
		v.isWell()
		v.setPodQuota(2)
		v.runs(2)
		v.open()
		v.passes(3)
		v.complete()
		v.oneEach(3)
	})
}

// setPodQuota lets the overlay's namespace have N pods that have not ended.
func (v *overlay) setPodQuota(pods int) {
	v.t.Helper()
	want := fmt.Sprint(pods)
	v.must(v.cluster.Apply(v.ctx, "\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: pods, namespace: "+v.namespace+"}\nspec: {hard: {pods: \""+want+"\"}}\n"))
	v.until("the quota is in force", func() error {
		var quota struct {
			Status struct {
				Hard struct {
					Pods string `json:"pods"`
				} `json:"hard"`
			} `json:"status"`
		}
		if err := v.cluster.Get(v.ctx, kube.Path("v1", "resourcequotas", v.namespace, "pods"), &quota); err != nil {
			return err
		}
		if quota.Status.Hard.Pods != want {
			return fmt.Errorf("it is %+v", quota)
		}
		return nil
	})
}

// limitRange sets a limit of processors for containers without one, and the most memory that a
// container may have.
const limitRange = `
apiVersion: v1
kind: LimitRange
metadata: {name: containers, namespace: NAMESPACE}
spec: {limits: [{type: Container, default: {cpu: "4"}, max: {memory: MAX}}]}
`

// testLimitRange: a LimitRange refuses the pods of a Job. After its correction it only changes them.
func testLimitRange(t *testing.T) {
	both(t, "LimitRange: refused pods are created after its correction; its defaults cause no drift", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "limit-range", s, options{namespace: "limit-range-" + s.name()})
		allow := func(memory string) {
			v.must(w.cluster.Apply(w.ctx, strings.NewReplacer("NAMESPACE", v.namespace, "MAX", memory).Replace(limitRange)))
		}
		allow("1Gi")
		v.build(1)
		v.podsRefused("maximum memory usage per Container is 1Gi")
		v.isWell()
		allow("4Gi")
		v.runs(1)
		v.build(1)
		v.runs(2)
		v.isWell()
		if limits := v.processorLimits(); !slices.Equal(limits, []string{"4", "4"}) {
			t.Errorf("the pods' limits of processors are %q, want those of the LimitRange", limits)
		}
		v.finish(2)
		v.oneEach(2)
	})
}

// processorLimits are those of the containers in the overlay's namespace.
func (v *overlay) processorLimits() (limits []string) {
	v.t.Helper()
	var pods struct {
		Items []struct {
			Spec struct {
				Containers []struct {
					Resources struct {
						Limits struct{ CPU string }
					}
				}
			}
		}
	}
	v.must(v.cluster.Get(v.ctx, kube.Path("v1", "pods", v.namespace, ""), &pods))
	for _, p := range pods.Items {
		for _, c := range p.Spec.Containers {
			limits = append(limits, c.Resources.Limits.CPU)
		}
	}
	return limits
}

// podsRefused waits until the cluster has refused a pod in the overlay's namespace, in these words.
func (v *overlay) podsRefused(words string) {
	v.t.Helper()
	v.until("a pod is refused: "+words, func() error {
		var events struct {
			Items []struct{ Reason, Message string }
		}
		if err := v.cluster.Get(v.ctx, kube.Path("v1", "events", v.namespace, ""), &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "FailedCreate" && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("the namespace's events are %+v", events.Items)
	})
}

// oneEach waits until the overlay's dispatches have left git, and fails unless one agent was ordered
// for each job, and each had one pod, which did not fail.
func (v *overlay) oneEach(jobs int) {
	v.t.Helper()
	v.leavesGit()
	v.isWell()
	v.account()
	v.oneForEachJob()
	v.noFailure()
	v.neverLogged("OrdersFailed")
	if pods := v.events.podsOf(v.name); len(pods) != jobs {
		v.t.Errorf("there have been %d pods, want one for each of %d jobs: %+v", len(pods), jobs, pods)
	}
}
