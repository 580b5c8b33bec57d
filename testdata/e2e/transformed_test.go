package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
)

// transform lets the syncer change what it applies of the overlay: names, namespace, image,
// labels and annotations, and with Flux the values of variables. Argo CD receives one part in the
// Application, and the others in the files that it reads beside the kustomization
// (argo-cd.readthedocs.io/en/stable/user-guide/parameters/#store-overrides-in-git).
func (v *overlay) transform(namespace string) error {
	team := map[string]string{"team": "ci"}
	if v.syncer.name() == "flux" {
		return v.cluster.Merge(v.ctx, v.syncer.object(v.name), map[string]any{"spec": map[string]any{
			"namePrefix": "east-", "targetNamespace": namespace,
			"commonMetadata": map[string]any{"labels": team, "annotations": team},
			"images":         []map[string]string{{"name": "docker.io/buildkite/agent", "newName": mirror + "agent"}},
			"postBuild":      map[string]any{"substitute": map[string]string{"MUSTER_NOT_AFTER": "never", "JOB_COMPLETION_INDEX": "7"}},
		}})
	}
	err := v.git.edit("let Argo CD change "+v.name, func(dir string) error {
		for name, text := range map[string]string{
			".argocd-source.yaml":                       "kustomize: {commonAnnotations: {team: ci}}\n",
			".argocd-source-agents-" + v.name + ".yaml": "kustomize: {images: ['docker.io/buildkite/agent=" + mirror + "agent']}\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, "overlays", v.name, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return v.cluster.Merge(v.ctx, v.syncer.object(v.name), map[string]any{"spec": map[string]any{"source": map[string]any{
		"kustomize": map[string]any{"namePrefix": "east-", "namespace": namespace, "commonLabels": team},
	}}})
}

// transformed is as much of a Job as transform changes.
type transformed struct {
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Spec struct {
		Template struct {
			Spec struct{ Containers []struct{ Image string } }
		}
	}
}

func testTransformed(t *testing.T) {
	both(t, "Syncer sets names, namespace, image, labels and variables: agents start, running ones stay", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "transformed", s, options{})
		v.build(1)
		v.runs(1)
		// A Job of another name would start the agents of a dispatch again.
		v.leavesGit()
		v.synced()
		namespace := "transformed-" + s.name()
		v.must(w.cluster.addNamespace(w.ctx, namespace))
		v.must(w.allow(w.ctx, s, namespace))
		v.must(v.transform(namespace))
		v.until("it is applied there", func() error {
			return v.cluster.Get(v.ctx, kube.Path("v1", "configmaps", namespace, "east-muster-"+v.name), nil)
		})
		v.build(1)
		v.runs(2)
		v.leavesGit()
		v.isWell()
		v.nobodyKilled()
		var all struct{ Items []json.RawMessage }
		v.must(v.cluster.Get(v.ctx, kube.Path("batch/v1", "jobs", namespace, ""), &all))
		if len(all.Items) != 1 {
			t.Fatalf("%d Jobs are in %s, want 1", len(all.Items), namespace)
		}
		var job transformed
		v.must(json.Unmarshal(all.Items[0], &job))
		containers := job.Spec.Template.Spec.Containers
		if !strings.HasPrefix(job.Metadata.Name, "east-") || job.Metadata.Labels["team"] != "ci" || job.Metadata.Annotations["team"] != "ci" ||
			len(containers) != 1 || !strings.HasPrefix(containers[0].Image, mirror) {
			t.Errorf("the Job is %s", all.Items[0])
		}
		v.finish(2)
		v.isWell()
		v.nobodyKilled()
		v.onceEachJob()
		for name, lives := range v.events.jobsOf(v.name) {
			if len(lives) != 1 {
				t.Errorf("the Job %s was made %d times", name, len(lives))
			}
		}
	})
}
