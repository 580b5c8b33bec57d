package base

import (
	"io/fs"
	"testing"

	"sigs.k8s.io/yaml"
)

// container contains the fields of the agent's container that these tests read.
type container struct {
	Command, Args []string
	LivenessProbe any
	Env           []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef     *struct{ FieldPath string }
			SecretKeyRef *struct{ Name, Key string }
		}
	}
}

func readContainer(t *testing.T) container {
	t.Helper()
	text, err := fs.ReadFile(Files, "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []container }
			}
		}
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	containers := job.Spec.Template.Spec.Containers
	if len(containers) != 1 {
		t.Fatalf("job.yaml has %d containers, want 1", len(containers))
	}
	return containers[0]
}

// TestNoLivenessProbe asserts that no probe ends builds when Buildkite is slow. The other
// fields are asserted by muster's own validation of what init writes.
func TestNoLivenessProbe(t *testing.T) {
	if p := readContainer(t).LivenessProbe; p != nil {
		t.Errorf("livenessProbe is %v", p)
	}
}
