package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// TestDeployed: muster itself runs as deploy/ says, from the image that make image
// writes, on the real node, applied by the same syncer from the same repository.
func TestDeployed(t *testing.T) {
	if err := noContainers(); err != nil {
		t.Skipf("no containers on this machine: %v", err)
	}
	w := shared.world
	w.startPulse(t)
	w.muster.Stop(10 * time.Second)
	defer func() {
		if err := w.muster.Start(); err != nil {
			t.Fatal(err)
		}
	}()
	d := newDeployment(t, w)
	for _, name := range syncers() {
		t.Run(name, func(t *testing.T) {
			const promise = "muster in a pod of `deploy/`, applied by the same syncer: it serves, is restarted by an edit of `muster.env`, and by the loss of its pod"
			defer func() { results.note(t, promise, name) }()
			d.serves(t, w.syncers[name])
		})
	}
}

// deployment is muster in the cluster.
type deployment struct {
	*world
	git, api string
	secrets  map[string]map[string]string
}

func newDeployment(t *testing.T, w *world) *deployment {
	t.Helper()
	d := &deployment{world: w}
	real := withNodes(t, 1)[0]
	archive := filepath.Join(w.suite.dir, "muster-image.tar")
	_, err := goRun(w.ctx, filepath.Join(w.suite.root, "deploy", "release"), "run", ".", "-source", "../..", "-name", "registry.example.com/muster", "-platforms", "linux/amd64", "image", archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := real.load(w.ctx, archive); err != nil {
		t.Fatal(err)
	}
	d.api = w.realBuildkite
	var noGit error
	d.git, noGit = w.git.listen(bridgeAddress)
	certificate, unread := os.ReadFile(w.buildkite.certificate)
	if err := errors.Join(noGit, unread); err != nil {
		t.Fatal(err)
	}
	d.secrets = map[string]map[string]string{
		"muster-buildkite": {"token": "test-token", "authorities": string(certificate)}, "muster-git": {"password": "unused"},
	}
	return d
}

// prepare makes the namespace and the Secrets, by hand as docs/deploy.md says. A
// Kustomization that was deleted has taken both with it.
func (d *deployment) prepare(v *overlay) {
	v.t.Helper()
	v.until("its namespace is there", func() error {
		var namespace struct {
			Status struct{ Phase string } `json:"status"`
		}
		err := v.cluster.Get(v.ctx, "/api/v1/namespaces/muster", &namespace)
		if kube.Missing(err) {
			return v.cluster.addPlainNamespace(v.ctx, "muster")
		}
		if err != nil || namespace.Status.Phase != "Active" {
			return fmt.Errorf("it is %q: %w", namespace.Status.Phase, err)
		}
		return nil
	})
	for name, content := range d.secrets {
		secret := map[string]any{"metadata": map[string]any{"name": name}, "stringData": content}
		if err := v.cluster.Post(v.ctx, kube.Path("v1", "secrets", "muster", ""), secret); err != nil && !kube.Exists(err) {
			v.t.Fatal(err)
		}
	}
}

// serves deploys it with a syncer, and lets it work.
func (d *deployment) serves(t *testing.T, s syncer) {
	v := d.addOverlay(t, "deployed", s, options{})
	d.onPush(t, func() { _ = s.refresh(d.ctx, v.name) })
	d.prepare(v)
	d.configure(v, "2s")
	object := d.introduce(v)
	v.build(1)
	v.runs(1)
	first := d.pod(v, "")
	d.configure(v, "3s")
	d.refresh(v)
	second := d.pod(v, first)
	v.build(1)
	v.runs(2)
	v.must(v.cluster.Delete(v.ctx, kube.Path("v1", "pods", "muster", second), nil))
	d.pod(v, second)
	v.build(1)
	v.runs(3)
	v.nobodyKilled()
	v.open()
	v.passes(3)
	v.complete()
	v.account()
	v.must(v.cluster.Delete(v.ctx, object, nil))
	v.must(v.cluster.Delete(v.ctx, kube.Path("apps/v1", "deployments", "muster", "muster"), nil))
	v.until("its pods have gone", func() error {
		if pods := d.pods(v); len(pods) > 0 {
			return fmt.Errorf("%v are there", pods)
		}
		return nil
	})
}

// configure writes deploy/ as init does, and edits what its words say has to be.
func (d *deployment) configure(v *overlay, interval string) {
	v.t.Helper()
	v.must(d.world.git.edit("deploy muster by "+v.syncer.name(), func(dir string) error {
		if err := d.init(dir, v.name, v.syncer.name(), "--with-deploy"); err != nil {
			return err
		}
		env := strings.Join([]string{
			"MUSTER_REPO=" + d.git, "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_TOKEN_FILE=/secrets/buildkite/token",
			"MUSTER_BUILDKITE_URL=" + d.api + "/", "SSL_CERT_FILE=/secrets/buildkite/authorities", "MUSTER_INTERVAL=" + interval, "",
		}, "\n")
		overlay := filepath.Join(dir, "deploy", "overlays", v.syncer.name())
		patch := "\npatches:\n  - target: {kind: Deployment}\n    patch: |-\n      - op: add\n        path: /spec/template/spec/tolerations\n        value: [{key: " +
			node.ReservedTaint + ", operator: Exists}]\n      - op: add\n        path: /spec/template/spec/nodeSelector\n        value: {kubernetes.io/hostname: " + realNodeName + "}\n"
		path := filepath.Join(overlay, "kustomization.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte("patches:")) {
			text = append(text, patch...)
		}
		for _, name := range []string{"sync.yaml", "application.yaml"} {
			file := filepath.Join(overlay, name)
			if content, err := os.ReadFile(file); err == nil {
				content = bytes.ReplaceAll(content, []byte("https://git.example.com/ci/fleet.git"), []byte(d.world.git.url))
				if err := os.WriteFile(file, content, 0o644); err != nil {
					return err
				}
			}
		}
		return errors.Join(os.WriteFile(path, text, 0o644), os.WriteFile(filepath.Join(dir, "deploy", "base", "muster.env"), []byte(env), 0o644))
	}))
}

// introduce tells the syncer of deploy/, and returns the path of what it was told.
func (d *deployment) introduce(v *overlay) string {
	v.t.Helper()
	file, object := "sync.yaml", kube.Path("kustomize.toolkit.fluxcd.io/v1", "kustomizations", "flux-system", "muster")
	if v.syncer.name() == "argocd" {
		file, object = "application.yaml", kube.Path("argoproj.io/v1alpha1", "applications", "argocd", "muster")
	}
	text, err := os.ReadFile(filepath.Join(d.world.git.clone, "deploy", "overlays", v.syncer.name(), file))
	v.must(err)
	v.must(v.cluster.Apply(v.ctx, string(text)))
	return object
}

// refresh has the syncer look at deploy/, as the git host's own webhook does.
func (d *deployment) refresh(v *overlay) {
	v.t.Helper()
	path, name := kube.Path("source.toolkit.fluxcd.io/v1", "gitrepositories", "flux-system", "muster"), "reconcile.fluxcd.io/requestedAt"
	if v.syncer.name() == "argocd" {
		path, name = kube.Path("argoproj.io/v1alpha1", "applications", "argocd", "muster"), "argocd.argoproj.io/refresh"
	}
	v.must(v.cluster.Merge(v.ctx, path, annotated(name, "normal")))
}

// pods are muster's.
func (d *deployment) pods(v *overlay) []string {
	var all struct {
		Items []node.Pod `json:"items"`
	}
	v.must(v.cluster.Get(v.ctx, kube.Path("v1", "pods", "muster", ""), &all))
	var names []string
	for _, p := range all.Items {
		names = append(names, p.Metadata.Name)
	}
	return names
}

// pod waits until one pod of muster's runs and is ready, which is not the one that was
// there before, and returns its name.
func (d *deployment) pod(v *overlay, before string) string {
	v.t.Helper()
	name := ""
	v.until("muster's pod is ready", func() error {
		var all struct {
			Items []node.Pod `json:"items"`
		}
		if err := v.cluster.Get(v.ctx, kube.Path("v1", "pods", "muster", ""), &all); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Metadata.Name == before || all.Items[0].Metadata.DeletionTimestamp != nil {
			return fmt.Errorf("%d pods are there", len(all.Items))
		}
		for _, c := range all.Items[0].Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				name = all.Items[0].Metadata.Name
				return nil
			}
		}
		return fmt.Errorf("%s is not ready: %+v", all.Items[0].Metadata.Name, all.Items[0].Status.Conditions)
	})
	return name
}
