package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// pods are those of a namespace that muster runs in.
func (d *deployment) pods(v *overlay, namespace string) []node.Pod {
	v.t.Helper()
	var all struct {
		Items []node.Pod `json:"items"`
	}
	v.must(v.cluster.Get(v.ctx, kube.Path("v1", "pods", namespace, ""), &all))
	return all.Items
}

func isReady(p node.Pod) bool {
	return p.Metadata.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c node.Condition) bool { return c.Type == "Ready" && c.Status == "True" })
}

// pod waits until one pod of muster's is there and ready, which is not the one that was
// there before, and returns its name.
func (d *deployment) pod(v *overlay, before string) string {
	v.t.Helper()
	return d.ready(v, 1, before)[0].Metadata.Name
}

// ready waits until N pods of muster's are there, all ready, and none of those
// that were there before.
func (d *deployment) ready(v *overlay, want int, before ...string) []node.Pod {
	v.t.Helper()
	var pods []node.Pod
	v.until(fmt.Sprintf("%d pods of muster are ready, and %v have gone", want, before), func() error {
		pods = d.pods(v, "muster")
		for _, p := range pods {
			if !isReady(p) || slices.Contains(before, p.Metadata.Name) {
				return fmt.Errorf("%s is %s, %+v", p.Metadata.Name, p.Status.Phase, p.Status.Conditions)
			}
		}
		if len(pods) != want {
			return fmt.Errorf("%d are there", len(pods))
		}
		return nil
	})
	return pods
}

// metrics are what a pod of muster's says of itself.
func (d *deployment) metrics(v *overlay, p node.Pod) string {
	v.t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + p.Status.PodIP + ":8080/metrics")
	v.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	v.must(err)
	return string(text)
}

// twoReplicas lists overlays/two-replicas instead of the base, and takes away one of
// the two pods, and then the other.
func (d *deployment) twoReplicas(v *overlay) {
	one := d.pod(v, "")
	d.edit(v, "deploy/overlays/"+v.syncer.name()+"/kustomization.yaml", "../../base", "../two-replicas")
	d.ready(v, 2, one)
	d.another(v)
	// Of that directory alone.
	old := d.ready(v, 2)
	d.edit(v, "deploy/overlays/two-replicas/kustomization.yaml", "value: 30s", "value: 3s")
	pods := d.ready(v, 2, old[0].Metadata.Name, old[1].Metadata.Name)
	if pods[0].Spec.NodeName == pods[1].Spec.NodeName {
		v.t.Errorf("both are on the node %s", pods[0].Spec.NodeName)
	}
	for range 3 {
		d.another(v)
	}
	for _, n := range d.nodes {
		d.alone(v, n)
	}
	d.nothingUndone(v)
	v.oneForEachJob()
}

// alone takes the pod of a node away, and its place too: the other one works alone.
func (d *deployment) alone(v *overlay, n *realNode) {
	v.t.Helper()
	v.must(n.cordon(v.ctx, true))
	for _, p := range d.pods(v, "muster") {
		if p.Spec.NodeName == n.name {
			v.must(v.cluster.Delete(v.ctx, kube.Path("v1", "pods", "muster", p.Metadata.Name), nil))
		}
	}
	v.until("the other pod is alone", func() error {
		ready := 0
		for _, p := range d.pods(v, "muster") {
			if p.Spec.NodeName == n.name {
				return fmt.Errorf("%s is on %s", p.Metadata.Name, n.name)
			}
			if isReady(p) {
				ready++
			}
		}
		if ready != 1 {
			return fmt.Errorf("%d are ready", ready)
		}
		return nil
	})
	d.another(v)
	v.must(n.cordon(v.ctx, false))
	d.ready(v, 2)
}

// nothingUndone fails where a commit that was once the head of main is not in it.
func (d *deployment) nothingUndone(v *overlay) {
	v.t.Helper()
	heads := d.world.git.allHeads()
	if len(heads) < 10 {
		v.t.Errorf("only %d pushes were seen", len(heads))
	}
	for _, head := range heads {
		if _, err := d.world.git.Git("merge-base", "--is-ancestor", head, "main"); err != nil {
			v.t.Errorf("the push of %s was undone", head)
		}
	}
}
