package kubernetes

import (
	"os"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func parse(t testing.TB, text []byte) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

// TestBase: the base that muster init writes is valid.
func TestBase(t *testing.T) {
	text, err := os.ReadFile("../../base/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Validate(parse(t, text)) {
		t.Errorf("%q: %s; %s", p.Path, p.Problem, p.Remedy)
	}
}
