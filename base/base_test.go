package base

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// job is as much of batch/v1 Job as these tests look at.
type job struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		CompletionMode        string `json:"completionMode"`
		Completions           int    `json:"completions"`
		Parallelism           int    `json:"parallelism"`
		BackoffLimitPerIndex  *int   `json:"backoffLimitPerIndex"`
		PodReplacementPolicy  string `json:"podReplacementPolicy"`
		ActiveDeadlineSeconds int    `json:"activeDeadlineSeconds"`
		TTL                   int    `json:"ttlSecondsAfterFinished"`
		Template              struct {
			Metadata metadata `json:"metadata"`
			Spec     struct {
				RestartPolicy string      `json:"restartPolicy"`
				Containers    []container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type metadata struct {
	Name         string            `json:"name"`
	GenerateName string            `json:"generateName"`
	Namespace    string            `json:"namespace"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
}

type container struct {
	Image         string   `json:"image"`
	Command       []string `json:"command"`
	Args          []string `json:"args"`
	LivenessProbe any      `json:"livenessProbe"`
	Env           []struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		ValueFrom struct {
			FieldRef *struct {
				FieldPath string `json:"fieldPath"`
			} `json:"fieldRef"`
			SecretKeyRef *struct {
				Name string `json:"name"`
				Key  string `json:"key"`
			} `json:"secretKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
}

func readJob(t *testing.T) job {
	t.Helper()
	text, err := fs.ReadFile(Files, "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var j job
	if err := yaml.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	if n := len(j.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("job.yaml has %d containers, want 1", n)
	}
	return j
}

func TestSyncersLeaveTheJobAlone(t *testing.T) {
	j := readJob(t)
	want := map[string]string{
		"argocd.argoproj.io/sync-options":       "Prune=false,Delete=false",
		"argocd.argoproj.io/compare-options":    "IgnoreExtraneous",
		"argocd.argoproj.io/ignore-healthcheck": "true",
		"kustomize.toolkit.fluxcd.io/prune":     "disabled",
		"kustomize.toolkit.fluxcd.io/ssa":       "IfNotPresent",
	}
	if diff := cmp.Diff(want, j.Metadata.Annotations); diff != "" {
		t.Errorf("annotations of the Job (-want +got):\n%s", diff)
	}
	want = map[string]string{
		"argocd.argoproj.io/ignore-resource-updates":     "true",
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		"karpenter.sh/do-not-disrupt":                    "true",
	}
	if diff := cmp.Diff(want, j.Spec.Template.Metadata.Annotations); diff != "" {
		t.Errorf("annotations of the pods (-want +got):\n%s", diff)
	}
	for _, m := range []metadata{j.Metadata, j.Spec.Template.Metadata} {
		if m.GenerateName != "" {
			t.Errorf("generateName is %q: kustomize refuses it", m.GenerateName)
		}
		if v, ok := m.Labels["app.kubernetes.io/instance"]; ok {
			t.Errorf("label app.kubernetes.io/instance is %q: it belongs to Argo CD", v)
		}
	}
	if j.Metadata.Namespace == "" {
		t.Error("no namespace")
	}
}

func TestOneAgentNeverEndsAnother(t *testing.T) {
	j := readJob(t)
	if j.Spec.CompletionMode != "Indexed" {
		t.Errorf("completionMode is %q", j.Spec.CompletionMode)
	}
	if b := j.Spec.BackoffLimitPerIndex; b == nil || *b != 0 {
		t.Errorf("backoffLimitPerIndex is %v, want 0", b)
	}
	if j.Spec.PodReplacementPolicy != "Failed" {
		t.Errorf("podReplacementPolicy is %q", j.Spec.PodReplacementPolicy)
	}
	if j.Spec.Template.Spec.RestartPolicy != "Never" {
		t.Errorf("restartPolicy is %q", j.Spec.Template.Spec.RestartPolicy)
	}
	if j.Spec.TTL < 3600 {
		t.Errorf("ttlSecondsAfterFinished is %d, want an hour at least", j.Spec.TTL)
	}
	if j.Spec.ActiveDeadlineSeconds < 12*3600 {
		t.Errorf("activeDeadlineSeconds is %d: it would end long builds", j.Spec.ActiveDeadlineSeconds)
	}
	if p := j.Spec.Template.Spec.Containers[0].LivenessProbe; p != nil {
		t.Errorf("livenessProbe is %v: it would end builds when Buildkite is slow", p)
	}
}

func TestImageIsOneVersion(t *testing.T) {
	image := readJob(t).Spec.Template.Spec.Containers[0].Image
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/"):], ":")
	version, _, _ := strings.Cut(tag, "-")
	if strings.Count(version, ".") != 2 {
		t.Errorf("image %s is not pinned to a version of three numbers", image)
	}
}

func TestFilesAreComplete(t *testing.T) {
	names, err := fs.Glob(Files, "*")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"job.yaml", "kustomization.yaml"}, names); diff != "" {
		t.Errorf("embedded files (-want +got):\n%s", diff)
	}
}
