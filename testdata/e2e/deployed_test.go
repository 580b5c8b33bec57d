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
// writes, on real nodes, applied by the same syncer from the same repository.
func TestDeployed(t *testing.T) {
	nodes := withNodes(t, 2)
	w := shared.world
	w.muster.Stop(10 * time.Second)
	defer func() { must(t, w.muster.Start()) }()
	d := newDeployment(t, w, nodes)
	for _, name := range syncers() {
		t.Run(name, func(t *testing.T) { d.all(t, w.syncers[name]) })
	}
}

// deployment is muster in the cluster.
type deployment struct {
	*world
	nodes   []*realNode
	git     string
	secrets map[string]map[string]string
}

func newDeployment(t *testing.T, w *world, nodes []*realNode) *deployment {
	t.Helper()
	d := &deployment{world: w, nodes: nodes}
	must(t, d.makeImage())
	var err error
	d.git, err = w.git.listen(bridgeAddress)
	must(t, err)
	certificate, err := os.ReadFile(w.buildkite.certificate)
	must(t, err)
	d.secrets = map[string]map[string]string{
		"muster-buildkite": {"token": "test-token", "authorities": string(certificate)}, "muster-git": {"password": "unused"},
	}
	return d
}

// makeImage makes muster's image as make image does, and gives it to the nodes. The
// arguments are of the command, as in -version.
func (d *deployment) makeImage(more ...string) error {
	archive := filepath.Join(d.suite.dir, "muster-image.tar")
	args := append([]string{"run", ".", "-source", "../..", "-name", "registry.example.com/muster", "-platforms", "linux/amd64"}, more...)
	if _, err := goRun(d.ctx, filepath.Join(d.suite.root, "deploy", "release"), append(args, "image", archive)...); err != nil {
		return err
	}
	for _, n := range d.nodes {
		if err := n.load(d.ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// all are the promises with a syncer, one after the other, of one overlay.
func (d *deployment) all(t *testing.T, s syncer) {
	v := d.addOverlay(t, "deployed", s, options{policy: map[string]string{"max": "30"}})
	d.onPush(t, func() { _ = s.refresh(d.ctx, v.name) })
	for _, phase := range []struct {
		name, promise string
		try           func(v *overlay)
	}{
		{"Works", "`deploy/` applied by the syncer: muster restarts after an edit, and after its pod's loss", d.works},
		{"Unchanged", "Commits of muster: the Deployment in `deploy/` and its pod do not change", d.unchanged},
		{"Memory", "muster in `deploy/` needs less memory than its limit", d.memory},
		{"Upgraded", "Image tag edited: the new muster continues the history", d.upgraded},
		{"TwoReplicas", "Two replicas on two nodes: either works alone, no job gets two agents", d.twoReplicas},
		{"Removed", "`deploy/` removed: namespace and Secrets stay, agents continue", d.removed},
		{"Sidecar", "Sidecar in the syncer's manifest: muster works without the service account's token", d.sidecar},
	} {
		ok := t.Run(phase.name, func(t *testing.T) {
			defer func() { results.note(t, phase.promise, s.name()) }()
			here := *v
			here.t = t
			t.Cleanup(here.logs)
			phase.try(&here)
		})
		if !ok {
			return
		}
	}
}

// another adds a job and waits until it runs, beside those that ran before.
func (d *deployment) another(v *overlay) {
	v.t.Helper()
	running := v.counts()["running"]
	v.build(1)
	v.runs(running + 1)
	v.nobodyKilled()
}

// works deploys muster, and lets it work.
func (d *deployment) works(v *overlay) {
	d.prepare(v, "muster")
	d.begin(v)
	d.introduce(v)
	d.another(v)
	first := d.pod(v, "")
	d.edit(v, "deploy/base/muster.env", "MUSTER_INTERVAL=2s", "MUSTER_INTERVAL=3s")
	second := d.pod(v, first)
	d.another(v)
	v.must(v.cluster.Delete(v.ctx, kube.Path("v1", "pods", "muster", second), nil))
	d.pod(v, second)
	d.another(v)
}

// upgraded gives it an image of another version.
func (d *deployment) upgraded(v *overlay) {
	const version = "v0.999.0-e2e"
	v.must(d.makeImage("-version", version))
	before := v.ledger()
	old := d.pod(v, "")
	path := filepath.Join(d.world.git.clone, "deploy", "base", "kustomization.yaml")
	text, err := os.ReadFile(path)
	v.must(err)
	_, tag, _ := bytes.Cut(text, []byte("newTag: "))
	tag, _, _ = bytes.Cut(tag, []byte("\n"))
	d.edit(v, "deploy/base/kustomization.yaml", "newTag: "+string(tag), "newTag: "+version)
	d.pod(v, old)
	pods := d.pods(v, "muster")
	if image := pods[0].Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+version) {
		v.t.Errorf("the pod's image is %s", image)
	}
	if metrics := d.metrics(v, pods[0]); !strings.Contains(metrics, `version="`+version+`"`) {
		v.t.Errorf("it does not call itself %s:\n%s", version, metrics)
	}
	d.another(v)
	after := v.ledger()
	for i, r := range before {
		if i >= len(after) || after[i].At != r.At || after[i].Act != r.Act {
			v.t.Fatalf("row %d of the history was %+v, and the history is now %+v", i, r, after)
		}
	}
	if len(after) == len(before) {
		v.t.Error("the new muster has ordered nothing")
	}
}

// removed deletes what the syncer was told of deploy/.
func (d *deployment) removed(v *overlay) {
	if v.syncer.name() == "argocd" {
		finalizer := map[string]any{"metadata": map[string]any{"finalizers": []string{"resources-finalizer.argocd.argoproj.io"}}}
		v.must(v.cluster.Merge(v.ctx, d.object(v), finalizer))
	}
	v.must(v.cluster.Delete(v.ctx, d.object(v), nil))
	gone := func() error {
		if err := v.cluster.Get(v.ctx, kube.Path("apps/v1", "deployments", "muster", "muster"), nil); !kube.Missing(err) {
			return fmt.Errorf("its Deployment is there: %w", err)
		}
		if pods := d.pods(v, "muster"); len(pods) > 0 {
			return fmt.Errorf("%d pods are there", len(pods))
		}
		return nil
	}
	if v.syncer.name() == "argocd" {
		// Argo CD first waits for what is being deleted, and the Application, which is among
		// its own resources, is, as soon as Argo CD has seen that: muster has mostly gone
		// then. docs/how-to/deploy.md says to end the waiting by hand.
		if err := eventually(v.ctx, time.Minute, "Argo CD has taken muster away", gone); err != nil {
			v.t.Log(err)
		}
		v.must(v.cluster.Merge(v.ctx, d.object(v), map[string]any{"metadata": map[string]any{"finalizers": nil}}))
		v.must(v.cluster.Delete(v.ctx, kube.Path("apps/v1", "deployments", "muster", "muster"), nil))
	}
	v.until("muster has gone", gone)
	v.gone(d.object(v))
	var namespace struct {
		Status struct{ Phase string } `json:"status"`
	}
	if err := v.cluster.Get(v.ctx, "/api/v1/namespaces/muster", &namespace); err != nil || namespace.Status.Phase != "Active" {
		v.t.Errorf("the namespace is %q, %v", namespace.Status.Phase, err)
	}
	for name := range d.secrets {
		if err := v.cluster.Get(v.ctx, kube.Path("v1", "secrets", "muster", name), nil); err != nil {
			v.t.Errorf("the Secret %s: %v", name, err)
		}
	}
	running := v.counts()["running"]
	v.nobodyKilled()
	v.finish(running)
	v.account()
}

// prepare makes a namespace and the Secrets, by hand as docs/how-to/deploy.md says.
func (d *deployment) prepare(v *overlay, namespace string) {
	v.t.Helper()
	v.must(v.cluster.addPlainNamespace(v.ctx, namespace))
	for name, content := range d.secrets {
		secret := map[string]any{"metadata": map[string]any{"name": name}, "stringData": content}
		v.must(v.cluster.ensure(v.ctx, kube.Path("v1", "secrets", namespace, ""), secret))
	}
}

// settings is muster.env.
func (d *deployment) settings() string {
	return strings.Join([]string{
		"MUSTER_REPO=" + d.git, "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_TOKEN_FILE=/secrets/buildkite/token",
		"MUSTER_BUILDKITE_URL=" + d.realBuildkite + "/", "SSL_CERT_FILE=/secrets/buildkite/authorities", "MUSTER_INTERVAL=2s", "",
	}, "\n")
}

// onRealNodes are lines of a kustomization: pods are on real nodes.
const onRealNodes = `
patches:
  - target: {kind: Deployment|StatefulSet}
    patch: |-
      - op: add
        path: /spec/template/spec/tolerations
        value: [{key: ` + node.ReservedTaint + `, operator: Exists}]
      - op: add
        path: /spec/template/spec/nodeSelector
        value: {` + realNodeLabel + `: "yes"}
`

// begin writes deploy/ as init does, and edits what its words say has to be.
func (d *deployment) begin(v *overlay) {
	v.t.Helper()
	v.must(d.world.git.edit("deploy muster by "+v.syncer.name(), func(dir string) error {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "deploy")), d.init(dir, v.name, v.syncer.name(), "--with-deploy")); err != nil {
			return err
		}
		overlay := filepath.Join(dir, "deploy", "overlays", v.syncer.name())
		path := filepath.Join(overlay, "kustomization.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(
			os.WriteFile(path, append(text, onRealNodes...), 0o644),
			os.WriteFile(filepath.Join(dir, "deploy", "base", "muster.env"), []byte(d.settings()), 0o644),
			replaceIn(filepath.Join(overlay, d.syncFile(v)), "https://git.example.com/ci/fleet.git", d.world.git.url),
		)
	}))
}

// replaceIn replaces a text in a file, which has to be there.
func replaceIn(path, before, after string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(before)) {
		return fmt.Errorf("%s has no %q", path, before)
	}
	return os.WriteFile(path, bytes.ReplaceAll(text, []byte(before), []byte(after)), 0o644)
}

// edit commits a change of a file, and has the syncer look.
func (d *deployment) edit(v *overlay, path, before, after string) {
	v.t.Helper()
	v.must(d.world.git.edit("edit "+path, func(dir string) error { return replaceIn(filepath.Join(dir, path), before, after) }))
	d.refresh(v)
}

// refresh has the syncer look at deploy/, as the git host's own webhook does.
func (d *deployment) refresh(v *overlay) {
	v.t.Helper()
	object := kube.Path("source.toolkit.fluxcd.io/v1", "gitrepositories", "flux-system", "muster")
	request := annotated("reconcile.fluxcd.io/requestedAt", time.Now().Format(time.RFC3339Nano))
	if v.syncer.name() == "argocd" {
		object, request = d.object(v), annotated("argocd.argoproj.io/refresh", "normal")
	}
	v.must(v.cluster.Merge(v.ctx, object, request))
}

func (d *deployment) syncFile(v *overlay) string {
	return map[string]string{"flux": "sync.yaml", "argocd": "application.yaml"}[v.syncer.name()]
}

// object is the path of what the syncer is told of deploy/.
func (d *deployment) object(v *overlay) string {
	if v.syncer.name() == "argocd" {
		return kube.Path("argoproj.io/v1alpha1", "applications", "argocd", "muster")
	}
	return kube.Path("kustomize.toolkit.fluxcd.io/v1", "kustomizations", "flux-system", "muster")
}

// introduce tells the syncer of deploy/.
func (d *deployment) introduce(v *overlay) {
	v.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.world.git.clone, "deploy", "overlays", v.syncer.name(), d.syncFile(v)))
	v.must(err)
	v.must(v.cluster.Apply(v.ctx, string(text)))
}
