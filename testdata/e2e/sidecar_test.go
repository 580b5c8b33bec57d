package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"muster/testdata/e2e/archive"
	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// beside is the part of a syncer in whose pod muster runs, as it is published.
type beside struct {
	namespace, name, container, kind, resource string
	module, program, file                      string
}

func besideOf(syncer string) beside {
	if syncer == "argocd" {
		return beside{
			namespace: "argocd", name: "argocd-application-controller", container: "argocd-application-controller", kind: "StatefulSet", resource: "statefulsets",
			module: "github.com/argoproj/argo-cd/v3", program: "argocd", file: "manifests/base/application-controller/argocd-application-controller-statefulset.yaml",
		}
	}
	return beside{
		namespace: "flux-system", name: "kustomize-controller", container: "manager", kind: "Deployment", resource: "deployments",
		module: "github.com/fluxcd/kustomize-controller", program: "kustomize-controller", file: "config/manager/deployment.yaml",
	}
}

// syncerImage stands in for the syncer's: it answers the probes of both, and does
// nothing. The syncer itself is a process beside the cluster.
const syncerImage = "e2e.local/syncer:1"

func (n *realNode) addSyncerImage(v *overlay) error {
	busybox, err := os.ReadFile("/bin/busybox")
	return errors.Join(err, n.add(v.ctx, archive.Image{
		Name: syncerImage, User: "65534:65534", Entrypoint: []string{"/bin/busybox", "sh", "/syncer"},
		Files: map[string][]byte{
			"bin/busybox": busybox, "www/healthz": []byte("ok"), "www/readyz": []byte("ok"),
			"syncer": []byte("trap 'exit 0' TERM\n/bin/busybox httpd -h /www -p 9440\n/bin/busybox httpd -h /www -p 8082\nwhile :; do /bin/busybox sleep 1; done\n"),
		},
	}))
}

// manifest is the published one, with what an installation adds: namespace, account and
// image.
func (d *deployment) manifest(v *overlay, b beside) []byte {
	v.t.Helper()
	files := moduleFiles(v.ctx, v.t, b.module, d.suite.programs[b.program].Version, b.file)
	var object map[string]any
	v.must(yaml.Unmarshal(files[0], &object))
	object["metadata"].(map[string]any)["namespace"] = b.namespace
	spec := object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	spec["serviceAccountName"] = b.name
	container := spec["containers"].([]any)[0].(map[string]any)
	container["image"], container["imagePullPolicy"] = syncerImage, "IfNotPresent"
	text, err := yaml.Marshal(object)
	v.must(err)
	return text
}

// install commits the syncer's manifest with the component, as the component's first
// lines say, and tells the syncer of it. It returns the path of what the syncer was told.
func (d *deployment) install(v *overlay, b beside) string {
	v.t.Helper()
	dir := "clusters/" + b.namespace + "/" + b.namespace
	manifest := d.manifest(v, b)
	v.must(d.world.git.edit("muster beside "+v.syncer.name(), func(top string) error {
		sidecar := filepath.Join(top, "deploy", "overlays", "sidecar")
		err := os.WriteFile(filepath.Join(sidecar, "muster.env"), []byte(d.settings()), 0o644)
		if v.syncer.name() == "argocd" {
			err = errors.Join(err,
				replaceIn(filepath.Join(sidecar, "kustomization.yaml"), "kind: Deployment", "kind: "+b.kind),
				replaceIn(filepath.Join(sidecar, "kustomization.yaml"), "name: kustomize-controller", "name: "+b.name),
				replaceIn(filepath.Join(sidecar, "kustomization.yaml"), "namespace: flux-system", "namespace: "+b.namespace),
				replaceIn(filepath.Join(sidecar, "sidecar.yaml"), "default-container: manager", "default-container: "+b.container),
			)
		}
		own := filepath.Join(top, filepath.FromSlash(dir))
		list := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [syncer.yaml]\ncomponents: [../../../deploy/overlays/sidecar]\n" + onRealNodes
		return errors.Join(err, os.MkdirAll(own, 0o755), os.WriteFile(filepath.Join(own, "syncer.yaml"), manifest, 0o644), os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(list), 0o644))
	}))
	if v.syncer.name() == "argocd" {
		v.must(v.cluster.Apply(v.ctx, `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: argocd, namespace: argocd}
spec:
  project: default
  source: {repoURL: "`+d.world.git.url+`", targetRevision: main, path: `+dir+`}
  destination: {server: "https://kubernetes.default.svc", namespace: argocd}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`))
		return kube.Path("argoproj.io/v1alpha1", "applications", "argocd", "argocd")
	}
	v.must(v.syncer.(*flux).has(d.world))
	v.must(v.cluster.Apply(v.ctx, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 10m, path: ./`+dir+`, prune: true, sourceRef: {kind: GitRepository, name: fleet}}
`))
	return kube.Path("kustomize.toolkit.fluxcd.io/v1", "kustomizations", "flux-system", "flux-system")
}

// sidecar runs muster in the pod of the syncer, where only the syncer may ask the API
// server.
func (d *deployment) sidecar(v *overlay) {
	b := besideOf(v.syncer.name())
	for _, n := range d.nodes {
		v.must(n.addSyncerImage(v))
	}
	d.prepare(v, b.namespace)
	// What an installation has beside the manifest, and what the cluster's own publisher
	// of certificates, which does not run, puts into each namespace.
	v.must(v.cluster.Apply(v.ctx, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: `+b.name+`, namespace: `+b.namespace+`}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-root-ca.crt, namespace: `+b.namespace+`}
data: {ca.crt: none}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-tls-certs-cm, namespace: `+b.namespace+`}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-redis, namespace: `+b.namespace+`}
stringData: {auth: unused}
`))
	object := d.install(v, b)
	var pod node.Pod
	v.until("the syncer's pod is ready", func() error {
		pods := d.pods(v, b.namespace)
		if len(pods) != 1 || len(pods[0].Spec.Containers) != 2 || !isReady(pods[0]) {
			return fmt.Errorf("%d are there: %+v", len(pods), pods)
		}
		pod = pods[0]
		return nil
	})
	passed := v.counts()["passed"]
	v.build(2)
	v.passes(passed + 2)
	if token := d.mounted(v, pod, b.container); !slices.Contains(token, "token") {
		v.t.Errorf("the syncer's container has no token: %v", token)
	}
	if token := d.mounted(v, pod, "muster"); len(token) > 0 {
		v.t.Errorf("muster has the token of the syncer's account: %v", token)
	}
	v.complete()
	v.account()
	v.must(v.cluster.Delete(v.ctx, object, nil))
	v.must(v.cluster.Delete(v.ctx, kube.Path("apps/v1", b.resource, b.namespace, b.name), nil))
	v.until("its pods have gone", func() error {
		if pods := d.pods(v, b.namespace); len(pods) > 0 {
			return fmt.Errorf("%d are there", len(pods))
		}
		return nil
	})
}

// mounted are the files of the service account that a container of a pod has.
func (d *deployment) mounted(v *overlay, p node.Pod, container string) []string {
	v.t.Helper()
	entries, err := os.ReadDir("/proc/" + d.processOf(v, p, container) + "/root/var/run/secrets/kubernetes.io/serviceaccount")
	v.must(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// processOf is the number, on this machine, of the first process of a container that runs.
func (d *deployment) processOf(v *overlay, p node.Pod, container string) string {
	v.t.Helper()
	for _, n := range d.nodes {
		if n.name != p.Spec.NodeName {
			continue
		}
		ctr := func(args ...string) []string {
			out, err := exec.CommandContext(v.ctx, "ctr", append([]string{"--address", n.socket, "--namespace", "k8s.io"}, args...)...).Output()
			v.must(err)
			return strings.Split(string(out), "\n")
		}
		ids := ctr("containers", "list", "--quiet", `labels."io.kubernetes.pod.uid"==`+p.Metadata.UID+`,labels."io.kubernetes.container.name"==`+container)
		for _, line := range ctr("tasks", "list") {
			fields := strings.Fields(line)
			if len(fields) >= 3 && fields[2] == "RUNNING" && slices.Contains(ids, fields[0]) {
				return fields[1]
			}
		}
	}
	v.t.Fatalf("no container %s of %s runs", container, p.Metadata.Name)
	return ""
}
