package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/plan"
	"muster/gitops/canarytest"
)

// TestPlanYAMLRoundTrip asserts that plan's YAML contains the rules of any job unchanged.
func TestPlanYAMLRoundTrip(t *testing.T) {
	var rules []string
	for r := rune(0); r < 0x2100; r++ {
		rules = append(rules, "a="+string(r)+"b")
	}
	rules = append(rules, "a=\ufffd", "a=\ufffe", "a=\uffff", "a=\ufeff", "a=\u2028", "a=😀", `a=\u007f`, "a=\U0010ffff", "a=\U0001fffe", "a=\U000e0041", "@canary", canarytest.Words())
	d := plan.Decision{Observation: plan.Observation{Unmatched: []plan.Unmatched{{Rules: rules, Missing: rules}}}}
	var out bytes.Buffer
	if err := output.PrintYAML(&output.Printable{To: &out}, generator.Result{Decisions: []plan.Decision{d}}); err != nil {
		t.Fatal(err)
	}
	if found := canarytest.Printed(out.String()); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	raw, err := yaml.YAMLToJSON(out.Bytes())
	if err != nil {
		t.Fatalf("what was printed is no YAML: %v", err)
	}
	var got output.PlanDocument
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for i, rule := range got.Decisions[0].Observation.Unmatched[0].Rules {
		if rule != rules[i] {
			t.Errorf("%q was printed as %q", rules[i], rule)
		}
	}
}
