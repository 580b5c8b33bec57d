package e2e

import (
	"encoding/json"
	"fmt"

	"muster/testdata/e2e/kube"
)

// rollout is the state that an edit of the Deployment or a sync by Argo CD changes.
type rollout struct {
	generation int
	applied    string // who applied the Deployment, and when
	syncs      int    // of Argo CD
}

// unchanged compares the Deployment before and after the syncer has read commits of muster.
func (d *deployment) unchanged(v *overlay) {
	d.hasSeen(v)
	pod := d.pod(v, "")
	before := d.rollout(v)
	for range 3 {
		d.another(v)
	}
	d.hasSeen(v)
	if after := d.rollout(v); after != before {
		v.t.Errorf("the Deployment was %+v, and after muster's commits it is %+v", before, after)
	}
	if pods := d.pods(v, "muster"); len(pods) != 1 || pods[0].Metadata.Name != pod {
		v.t.Errorf("the pod was %s, and after muster's commits there are %+v", pod, pods)
	}
}

func (d *deployment) rollout(v *overlay) rollout {
	v.t.Helper()
	var object struct {
		Metadata struct {
			Generation    int
			ManagedFields []struct{ Manager, Operation, Time, Subresource string }
		}
	}
	v.must(v.cluster.Get(v.ctx, kube.Path("apps/v1", "deployments", "muster", "muster"), &object))
	r := rollout{generation: object.Metadata.Generation}
	for _, f := range object.Metadata.ManagedFields {
		// The Deployment controller sets an annotation.
		if f.Subresource == "" && f.Manager != "kube-controller-manager" {
			r.applied += fmt.Sprintf("%+v", f)
		}
	}
	if r.applied == "" {
		v.t.Errorf("nobody has applied the Deployment: %+v", object)
	}
	if v.syncer.name() == "argocd" {
		var application struct {
			Status struct{ History []json.RawMessage }
		}
		v.must(v.cluster.Get(v.ctx, d.object(v), &application))
		r.syncs = len(application.Status.History)
	}
	return r
}

// hasSeen waits until the syncer has compared deploy/ of the newest commit with the cluster.
func (d *deployment) hasSeen(v *overlay) {
	v.t.Helper()
	head, err := d.world.git.Head()
	v.must(err)
	d.refresh(v)
	v.until("the syncer has compared "+head, func() error {
		if v.syncer.name() == "argocd" {
			// It removes the annotation after the comparison.
			var application struct {
				Metadata struct{ Annotations map[string]string }
			}
			if err := v.cluster.Get(v.ctx, d.object(v), &application); err != nil {
				return err
			}
			if at := application.Metadata.Annotations["argocd.argoproj.io/refresh"]; at != "" {
				return fmt.Errorf("the Application is to be refreshed: %q", at)
			}
			return nil
		}
		var object fluxObject
		if err := v.cluster.Get(v.ctx, d.object(v), &object); err != nil {
			return err
		}
		return d.world.git.has(object.Status.LastAppliedRevision, head)
	})
}
