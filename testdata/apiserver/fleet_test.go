package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"muster/testdata/apiserver/admission"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// build is what a syncer makes of a directory of the new fleet repository.
func build(t *testing.T, dir string) []byte {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), "../../"+dir)
	must(t, err)
	text, err := resources.AsYaml()
	must(t, err)
	return text
}

// dispatch is the template as muster completes it: its name and numbers, and
// muster's labels and annotations on the Job and its pods.
func dispatch(t *testing.T, name string, agents int) map[string]any {
	t.Helper()
	var job map[string]any
	must(t, yaml.Unmarshal(build(t, "overlays/default/template"), &job))
	at(job, "metadata")["name"] = name
	at(job, "spec")["completions"] = agents
	at(job, "spec")["parallelism"] = agents
	for _, metadata := range []map[string]any{at(job, "metadata"), at(job, "spec", "template", "metadata")} {
		maps.Copy(at(metadata, "labels"), map[string]any{
			"muster.dev/dispatch": name,
			"muster.dev/overlay":  "default",
		})
		maps.Copy(at(metadata, "annotations"), map[string]any{
			"muster.dev/not-after":    "2026-11-21T02:30:00Z",
			"muster.dev/idle-timeout": "300",
			"muster.dev/purpose":      "demand",
			"muster.dev/ordered-at":   "2026-11-21T02:15:00Z",
			"muster.dev/agent-tags":   "queue=default,os=linux,overlay=default,dispatch=" + name,
		})
	}
	return job
}

// at returns the mapping below the keys.
func at(m map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		m = m[key].(map[string]any)
	}
	return m
}

func text(t *testing.T, object map[string]any) []byte {
	t.Helper()
	text, err := yaml.Marshal(object)
	must(t, err)
	return text
}

func decode(t *testing.T, text []byte) runtime.Object {
	t.Helper()
	objects, err := admission.Objects(bytes.NewReader(text))
	must(t, err)
	if len(objects) != 1 {
		t.Fatalf("%d objects, want 1", len(objects))
	}
	return objects[0]
}

func TestNewFleetIsAccepted(t *testing.T) {
	manifests := map[string][]byte{
		"template":        build(t, "overlays/default/template"),
		"overlay":         build(t, "overlays/default"),
		"one agent":       text(t, dispatch(t, "default-7f3k9c2b", 1)),
		"hundred agents":  text(t, dispatch(t, "default-7f3k9c2b", 100)),
		"longest name":    text(t, dispatch(t, strings.Repeat("a", 61), 10)),
		"several objects": append(append(build(t, "overlays/default"), "---\n"...), build(t, "overlays/default/template")...),
	}
	for name, manifest := range manifests {
		findings, err := judge(nil, bytes.NewReader(manifest))
		if err != nil || len(findings) > 0 {
			t.Errorf("%s: findings %q, error %v", name, findings, err)
		}
	}
}

func TestFindings(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(job map[string]any)
	}{
		{"no namespace", "metadata.namespace: Required value",
			func(j map[string]any) { delete(at(j, "metadata"), "namespace") }},
		{"index makes the pod's name too long", "will not able to create pod with invalid DNS label",
			func(j map[string]any) { at(j, "metadata")["name"] = strings.Repeat("a", 62) }},
		{"root", "pod security restricted: runAsUser=0",
			func(j map[string]any) { at(j, "spec", "template", "spec", "securityContext")["runAsUser"] = 0 }},
		{"deprecated seccomp", "pod security restricted: seccompProfile",
			func(j map[string]any) {
				delete(at(j, "spec", "template", "spec", "securityContext"), "seccompProfile")
			}},
	}
	for _, test := range tests {
		job := dispatch(t, "default-7f3k9c2b", 12)
		test.change(job)
		findings, err := judge(nil, bytes.NewReader(text(t, job)))
		if err != nil || !strings.Contains(strings.Join(findings, "\n"), test.want) {
			t.Errorf("%s: findings %q, error %v, want %q", test.name, findings, err, test.want)
		}
	}
}

func TestDuplicateFieldIsAFinding(t *testing.T) {
	manifest := append([]byte("kind: Job\n"), text(t, dispatch(t, "default-7f3k9c2b", 12))...)
	findings, err := judge(nil, bytes.NewReader(manifest))
	if err != nil || len(findings) != 1 || !strings.Contains(findings[0], `key "kind" already set`) {
		t.Errorf("findings %q, error %v", findings, err)
	}
}

// Why a dispatch is written once and never edited.
func TestEditingADispatch(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(job map[string]any)
	}{
		{"nothing", "", func(map[string]any) {}},
		{"labels of the Job alone", "", func(j map[string]any) { at(j, "metadata", "labels")["team"] = "build" }},
		{"more completions", "spec.completions: Invalid value", func(j map[string]any) { at(j, "spec")["completions"] = 13 }},
		{"a pod annotation", "spec.template: Invalid value",
			func(j map[string]any) {
				at(j, "spec", "template", "metadata", "annotations")["muster.dev/not-after"] = "2026-11-21T03:30:00Z"
			}},
		{"backoffLimitPerIndex", "spec.backoffLimitPerIndex: Invalid value",
			func(j map[string]any) { at(j, "spec")["backoffLimitPerIndex"] = 1 }},
	}
	for _, test := range tests {
		old := decode(t, text(t, dispatch(t, "default-7f3k9c2b", 12)))
		if findings, err := admission.Create(old); err != nil || len(findings) > 0 {
			t.Fatalf("findings %q, error %v", findings, err)
		}
		job := dispatch(t, "default-7f3k9c2b", 12)
		test.change(job)
		findings, err := admission.Update(decode(t, text(t, job)), old)
		all := strings.Join(findings, "\n")
		if err != nil || (test.want == "") != (all == "") || !strings.Contains(all, test.want) {
			t.Errorf("%s: findings %q, error %v, want %q", test.name, findings, err, test.want)
		}
	}
}
