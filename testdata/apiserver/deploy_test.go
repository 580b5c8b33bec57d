package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/testdata/apiserver/admission"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigs "sigs.k8s.io/yaml"
)

// deployments are what there is to build of deploy/, with the number of objects
// of each kind. The sidecar is built into kustomize-controller, the components
// into the overlay for Argo CD.
var deployments = map[string]map[string]int{
	"deploy/base":                        own(nil),
	"deploy/overlays/two-replicas":       own(nil),
	"deploy/overlays/argocd":             own(map[string]int{"Application": 1}),
	"deploy/overlays/flux":               own(map[string]int{"GitRepository": 1, "Kustomization": 1}),
	"deploy/secrets":                     {"Secret": 3},
	"testdata/apiserver/testdata/syncer": {"ConfigMap": 1, "Deployment": 1},
	"testdata/apiserver/testdata/monitored": own(map[string]int{
		"Application": 1, "PodMonitor": 1, "PrometheusRule": 1, "ConfigMap": 2, "Service": 1,
	}),
}

func own(more map[string]int) map[string]int {
	all := map[string]int{"Namespace": 1, "ServiceAccount": 1, "ConfigMap": 1, "Deployment": 1, "PodDisruptionBudget": 1, "NetworkPolicy": 1}
	maps.Copy(all, more)
	return all
}

// documents splits YAML.
func documents(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	var all []map[string]any
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var one map[string]any
		if err := decoder.Decode(&one); err != nil {
			return all // the end; what is cut short has too few objects
		}
		all = append(all, one)
	}
}

// definition is that of a custom resource of Flux or the Prometheus Operator; nil
// where the kind is none.
func definition(t *testing.T, object map[string]any) []byte {
	t.Helper()
	group, _, _ := strings.Cut(object["apiVersion"].(string), "/")
	if !strings.HasSuffix(group, ".fluxcd.io") && group != "monitoring.coreos.com" {
		return nil
	}
	name := group + "_" + map[string]string{
		"GitRepository": "gitrepositories", "Kustomization": "kustomizations", "PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules",
	}[object["kind"].(string)] + ".yaml"
	text, err := os.ReadFile(filepath.Join("testdata", "crd", name))
	must(t, err)
	return text
}

// findings is what the API server has against an object. It knows no Application.
func findings(t *testing.T, object map[string]any) []string {
	t.Helper()
	if object["kind"] == "Application" {
		return nil
	}
	var all []string
	var err error
	if crd := definition(t, object); crd != nil {
		all, err = admission.Custom(crd, object)
	} else {
		all, err = judge(nil, bytes.NewReader(text(t, object)))
	}
	if err != nil {
		t.Error(err)
	}
	return all
}

// TestDeployIsAccepted builds all of deploy/ and holds it against the API server.
func TestDeployIsAccepted(t *testing.T) {
	for dir, want := range deployments {
		kinds := map[string]int{}
		for _, object := range documents(t, build(t, dir)) {
			kinds[object["kind"].(string)]++
			for _, f := range findings(t, object) {
				t.Errorf("%s: %s", dir, f)
			}
		}
		if !maps.Equal(kinds, want) {
			t.Errorf("%s has %v, want %v", dir, kinds, want)
		}
	}
}

// TestAllOfDeployIsChecked: the list contains every kustomization of deploy/, and those that use
// components contain every component.
func TestAllOfDeployIsChecked(t *testing.T) {
	for _, pattern := range []string{"*", "overlays/*"} {
		found, err := filepath.Glob("../../deploy/" + pattern + "/kustomization.yaml")
		if err != nil || len(found) < 2 {
			t.Fatalf("found %q, %v", found, err)
		}
		for _, file := range found {
			dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../")
			if deployments[dir] == nil && dir != "deploy/overlays/sidecar" {
				t.Errorf("%s is not tested", dir)
			}
		}
	}
	monitored, err := os.ReadFile("testdata/monitored/kustomization.yaml")
	found, err2 := filepath.Glob("../../deploy/components/*")
	if err := errors.Join(err, err2); err != nil || len(found) < 3 {
		t.Fatalf("found %q, %v", found, err)
	}
	for _, dir := range found {
		if !strings.Contains(string(monitored), "../../"+filepath.ToSlash(dir)+"\n") {
			t.Errorf("%s is not tested", dir)
		}
	}
}

// deployed returns the one object of a kind in a directory.
func deployed(t *testing.T, dir, kind string) map[string]any {
	t.Helper()
	for _, object := range documents(t, build(t, dir)) {
		if object["kind"] == kind {
			return object
		}
	}
	t.Fatalf("%s has no %s", dir, kind)
	return nil
}

// TestDeployFindings: the rules bite on what deploy/ has.
func TestDeployFindings(t *testing.T) {
	pod := func(d map[string]any) map[string]any { return at(d, "spec", "template", "spec") }
	for _, test := range []struct {
		kind, want string
		change     func(object map[string]any)
	}{
		{"Deployment", "pod security restricted: runAsUser=0", func(d map[string]any) { at(pod(d), "securityContext")["runAsUser"] = 0 }},
		{"Deployment", "spec.template.spec.containers[0].volumeMounts[0].name", func(d map[string]any) { pod(d)["volumes"] = []any{} }},
		{"PodDisruptionBudget", "spec: Invalid value", func(d map[string]any) { at(d, "spec")["minAvailable"] = 1 }},
		{"NetworkPolicy", "spec.policyTypes", func(d map[string]any) { at(d, "spec")["policyTypes"] = []any{"In"} }},
		{"ServiceAccount", "unknown field", func(d map[string]any) { d["automount"] = false }},
		{"Namespace", "metadata.name", func(d map[string]any) { at(d, "metadata")["name"] = "a b" }},
		{"ConfigMap", "data[a b]", func(d map[string]any) { at(d, "data")["a b"] = "" }},
		{"GitRepository", `unknown field "spec.ignored"`, func(d map[string]any) { at(d, "spec")["ignored"] = "" }},
		{"PodMonitor", "spec.podMetricsEndpoints[0].interval", func(d map[string]any) {
			at(d, "spec")["podMetricsEndpoints"].([]any)[0].(map[string]any)["interval"] = "soon"
		}},
		{"PrometheusRule", "spec.groups[0].rules[0].for", func(d map[string]any) {
			at(d, "spec")["groups"].([]any)[0].(map[string]any)["rules"].([]any)[0].(map[string]any)["for"] = "long"
		}},
		{"Kustomization", "spec.interval", func(d map[string]any) { at(d, "spec")["interval"] = "soon" }},
	} {
		dir := "deploy/overlays/flux"
		if strings.HasPrefix(test.kind, "P") && test.kind != "PodDisruptionBudget" {
			dir = "testdata/apiserver/testdata/monitored"
		}
		object := deployed(t, dir, test.kind)
		test.change(object)
		if got := strings.Join(findings(t, object), "\n"); !strings.Contains(got, test.want) {
			t.Errorf("%s: findings %q, want %q", test.kind, got, test.want)
		}
	}
}

// emptyDirs returns where muster's container mounts a volume that is empty at first, by paths.
func emptyDirs(t *testing.T, dir string) map[string]corev1.VolumeMount {
	t.Helper()
	var d appsv1.Deployment
	must(t, sigs.Unmarshal(text(t, deployed(t, dir, "Deployment")), &d))
	empty, mounts := map[string]bool{}, map[string]corev1.VolumeMount{}
	for _, v := range d.Spec.Template.Spec.Volumes {
		empty[v.Name] = v.EmptyDir != nil
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if c.Name == "muster" && empty[m.Name] {
				mounts[m.MountPath] = m
			}
		}
	}
	return mounts
}

// TestNoTokenOfTheCluster: neither muster alone nor the sidecar is given the
// token of the pod's account. The API server mounts it in containers that have
// nothing at that path (plugin/pkg/admission/serviceaccount/admission.go,
// mountServiceAccountToken).
func TestNoTokenOfTheCluster(t *testing.T) {
	if spec := at(deployed(t, "deploy/base", "Deployment"), "spec", "template", "spec"); spec["automountServiceAccountToken"] != false {
		t.Error("the pod has a token")
	}
	if !emptyDirs(t, "testdata/apiserver/testdata/syncer")["/var/run/secrets/kubernetes.io/serviceaccount"].ReadOnly {
		t.Error("the sidecar is given the syncer's token")
	}
}

// TestReadOnlyRoot asserts that muster, alone and as the sidecar, and agents cannot write to their
// image, which Pod Security allows.
func TestReadOnlyRoot(t *testing.T) {
	for dir, name := range map[string]string{"deploy/base": "muster", "testdata/apiserver/testdata/syncer": "muster", "base": "agent"} {
		kind := map[string]string{"muster": "Deployment", "agent": "Job"}[name]
		containers := at(deployed(t, dir, kind), "spec", "template", "spec")["containers"].([]any)
		if !slices.ContainsFunc(containers, func(c any) bool {
			container := c.(map[string]any)
			return container["name"] == name && at(container, "securityContext")["readOnlyRootFilesystem"] == true
		}) {
			t.Errorf("%s: the root file system of the container %s is not read-only", dir, name)
		}
	}
}

// TestPlaceForTemporaryFiles: muster alone and the sidecar can write to /tmp, without
// which what a git server without partial clone sends would be in memory.
func TestPlaceForTemporaryFiles(t *testing.T) {
	for _, dir := range []string{"deploy/base", "testdata/apiserver/testdata/syncer"} {
		if tmp, ok := emptyDirs(t, dir)["/tmp"]; !ok || tmp.ReadOnly {
			t.Errorf("%s: muster has no emptyDir at /tmp", dir)
		}
	}
}

// TestSyncsItself: what Argo CD and Flux are told to sync is the directory that
// tells them.
func TestSyncsItself(t *testing.T) {
	application := deployed(t, "deploy/overlays/argocd", "Application")
	if got := at(application, "spec", "source")["path"]; got != "deploy/overlays/argocd" {
		t.Errorf("the Application is of %s", got)
	}
	// Argo CD looks at no other directories for what is new.
	looked := strings.Split(at(application, "metadata", "annotations")["argocd.argoproj.io/manifest-generate-paths"].(string), ";")
	for _, dir := range []string{".", "../../base", "../../components", "../two-replicas"} {
		if !slices.Contains(looked, dir) {
			t.Errorf("an edit of %s is not rolled out: %q", dir, looked)
		}
	}
	source, kustomization := deployed(t, "deploy/overlays/flux", "GitRepository"), deployed(t, "deploy/overlays/flux", "Kustomization")
	if got := at(kustomization, "spec")["path"]; got != "./deploy/overlays/flux" {
		t.Errorf("the Kustomization is of %s", got)
	}
	if got := at(kustomization, "spec", "sourceRef")["name"]; got != at(source, "metadata")["name"] {
		t.Errorf("the Kustomization's source is %s", got)
	}
}

// TestNamespaceIsKept: a syncer that is told no more of muster takes it away, but not
// the namespace, with which the Secrets would go that people have made.
func TestNamespaceIsKept(t *testing.T) {
	for _, dir := range []string{"deploy/base", "deploy/overlays/argocd", "deploy/overlays/flux", "deploy/overlays/two-replicas"} {
		annotations, _ := at(deployed(t, dir, "Namespace"), "metadata")["annotations"].(map[string]any)
		if annotations["kustomize.toolkit.fluxcd.io/prune"] != "disabled" || annotations["argocd.argoproj.io/sync-options"] != "Prune=false,Delete=false" {
			t.Errorf("%s: the namespace's annotations are %v", dir, annotations)
		}
	}
}

// TestMusterIsFound: the PodMonitor and the Service select the pods of the Deployment,
// by a port that they have, in their own namespace.
func TestMusterIsFound(t *testing.T) {
	const dir = "testdata/apiserver/testdata/monitored"
	monitor, service, deployment := deployed(t, dir, "PodMonitor"), deployed(t, dir, "Service"), deployed(t, dir, "Deployment")
	labels := at(deployment, "spec", "template", "metadata", "labels")
	container := at(deployment, "spec", "template", "spec")["containers"].([]any)[0].(map[string]any)
	for _, by := range []struct {
		object, selector map[string]any
		port             any
	}{
		{monitor, at(monitor, "spec", "selector", "matchLabels"), at(monitor, "spec")["podMetricsEndpoints"].([]any)[0].(map[string]any)["port"]},
		{service, at(service, "spec", "selector"), at(service, "spec")["ports"].([]any)[0].(map[string]any)["targetPort"]},
	} {
		for key, value := range by.selector {
			if labels[key] != value {
				t.Errorf("%s: pods have %s=%v, not %v", by.object["kind"], key, labels[key], value)
			}
		}
		if of, pods := at(by.object, "metadata")["namespace"], at(deployment, "metadata")["namespace"]; of != pods {
			t.Errorf("the %s is in the namespace %v, and the pods are in %v", by.object["kind"], of, pods)
		}
		if !slices.ContainsFunc(container["ports"].([]any), func(p any) bool { return p.(map[string]any)["name"] == by.port }) {
			t.Errorf("%s: no container has a port %v", by.object["kind"], by.port)
		}
	}
}
