package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
)

// allow extends the rights in syncer/ to a further namespace, as a person with templates
// for several namespaces does.
func (w *world) allow(ctx context.Context, s syncer, namespace string) error {
	if s.name() == "argocd" {
		return w.addToProject(ctx, "/spec/destinations/-", map[string]string{"server": "https://kubernetes.default.svc", "namespace": namespace})
	}
	text, err := os.ReadFile(filepath.Join(w.git.clone, "syncer", "fleet.yaml"))
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if !strings.Contains(document, "\nkind: Role") {
			continue
		}
		if err := w.cluster.Apply(ctx, strings.Replace(document, "namespace: buildkite", "namespace: "+namespace, 1)); err != nil {
			return err
		}
	}
	return nil
}

// addToProject adds a value to a list of Argo CD's project.
func (w *world) addToProject(ctx context.Context, list string, value any) error {
	path := kube.Path("argoproj.io/v1alpha1", "appprojects", "argocd", "agents")
	patch := []map[string]any{{"op": "add", "path": list, "value": value}}
	return w.cluster.Do(ctx, http.MethodPatch, path, "application/json-patch+json", patch, nil)
}

// intruder contains the objects that a malicious writer of an overlay adds to it: some in
// muster's namespace, and one without a namespace.
var intruder = map[string]string{
	kube.Path("v1", "pods", "muster", "intruder"): `
apiVersion: v1
kind: Pod
metadata: {name: intruder, namespace: muster}
spec:
  containers: [{name: a, image: a, command: [sleep, "60"], volumeMounts: [{name: s, mountPath: /s}]}]
  volumes: [{name: s, secret: {secretName: muster-git}}]
`,
	kube.Path("batch/v1", "jobs", "muster", "intruder"): `
apiVersion: batch/v1
kind: Job
metadata: {name: intruder, namespace: muster}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a, command: [sleep, "60"]}]}}}
`,
	kube.Path("rbac.authorization.k8s.io/v1", "clusterrolebindings", "", "intruder"): `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: intruder}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: buildkite}]
`,
}

func testRights(t *testing.T) {
	both(t, "Objects for muster's namespace or the cluster in an overlay: not created", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "rights", s, options{})
		v.must(w.cluster.addPlainNamespace(w.ctx, "muster"))
		w.onPush(t, func() { _ = s.refresh(w.ctx, v.name) })
		v.build(1)
		v.runs(1)
		list := filepath.Join("overlays", v.name, "kustomization.yaml")
		for path, text := range intruder {
			v.must(w.git.edit("add an object to "+v.name, func(dir string) error {
				return errors.Join(
					os.WriteFile(filepath.Join(dir, "overlays", v.name, "intruder.yaml"), []byte(text), 0o644),
					replaceIn(filepath.Join(dir, list), "resources:\n", "resources:\n  - intruder.yaml\n"))
			}))
			v.isRefused(0, "forbidden", "not permitted")
			if err := w.cluster.Get(w.ctx, path, nil); !kube.Missing(err) {
				t.Errorf("%s is there: %v", path, err)
			}
			v.must(w.git.edit("remove the object from "+v.name, func(dir string) error {
				return errors.Join(
					os.Remove(filepath.Join(dir, "overlays", v.name, "intruder.yaml")),
					replaceIn(filepath.Join(dir, list), "  - intruder.yaml\n", ""))
			}))
			v.isWell()
		}
		v.build(1)
		v.runs(2)
		v.finish(2)
		v.account()
	})
}
