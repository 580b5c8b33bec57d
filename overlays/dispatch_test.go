package overlays

import (
	"os"
	"strings"
	"testing"
	"time"

	"muster/generator/fleet"
	"muster/generator/plan"
	"muster/gitops/branch"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// What muster writes on a dispatch and what the base's command reads there
// are kept by two packages: every annotation that the pod's variables refer
// to must have been stamped.
func TestDispatchCarriesWhatTheAgentReads(t *testing.T) {
	loaded, err := fleet.NewLoader("overlays").Load(os.DirFS(write(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) != 1 {
		t.Fatalf("the new fleet loads as %d overlays, want 1", len(loaded))
	}
	if loaded[0].Err() != nil {
		t.Fatal(loaded[0].Err())
	}
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	_, changes, err := loaded[0].Add([]plan.Dispatch{{
		ID: "default-7f3k9c2b", Purpose: plan.ForDemand, Agents: 12,
		At: at, NotAfter: at.Add(15 * time.Minute), IdleTimeout: 5 * time.Minute, Uptime: 30 * time.Minute,
	}})
	if err != nil {
		t.Fatal(err)
	}
	job := find(t, changes, "overlays/default/dispatches/default-7f3k9c2b.yaml")
	annotations, err := job.Pipe(yaml.Lookup("spec", "template", "metadata", "annotations"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := job.Pipe(yaml.Lookup("spec", "template", "spec", "containers", "0", "env"))
	if err != nil {
		t.Fatal(err)
	}
	variables, err := env.Elements()
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, v := range variables {
		fieldPath, err := v.Pipe(yaml.Lookup("valueFrom", "fieldRef", "fieldPath"))
		if err != nil {
			t.Fatal(err)
		}
		if fieldPath == nil {
			continue
		}
		read++
		key, _ := strings.CutPrefix(yaml.GetValue(fieldPath), "metadata.annotations['")
		key, _ = strings.CutSuffix(key, "']")
		if annotations.Field(key).IsNilOrEmpty() {
			t.Errorf("the agent reads annotation %s, which the dispatch does not carry", key)
		}
	}
	if read != 5 {
		t.Errorf("the agent reads %d annotations, want 5", read)
	}
}

// find returns the file among the changes, parsed.
func find(t *testing.T, changes []branch.Change, path string) *yaml.RNode {
	t.Helper()
	for _, c := range changes {
		if c.Path == path {
			node, err := yaml.Parse(string(c.Content))
			if err != nil {
				t.Fatal(err)
			}
			return node
		}
	}
	t.Fatalf("%s is not among the changes", path)
	return nil
}
