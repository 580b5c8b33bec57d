package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/plan"
	"muster/gitops/leaktest"
	"muster/gitops/unraced"
)

// TestPlanRoundTrip asserts that plan's JSON and YAML contain the rules of any job and findings
// unchanged, and no control characters.
func TestPlanRoundTrip(t *testing.T) {
	unraced.Only(t)
	var rules []string
	for r := rune(0); r < 0x2100; r++ {
		rules = append(rules, "a="+string(r)+"b")
	}
	rules = append(rules, "a=\ufffd", "a=\ufffe", "a=\uffff", "a=\ufeff", "a=\u2028", "a=😀", `a=\u007f`, "a=\U0010ffff", "a=\U0001fffe", "a=\U000e0041", "@canary", leaktest.Words())
	r := generator.Result{
		Decisions: []plan.Decision{
			{Observation: plan.Observation{Unmatched: []plan.Unmatched{{Rules: rules, Missing: rules}}}},
		},
		Suspended: []generator.Suspended{
			{Overlay: "a", Why: plan.Suspension{Code: plan.Invalid, Finding: leaktest.Words() + "\U000e0041"}},
		},
	}
	for _, format := range []struct {
		name  string
		write func(io.Writer, any) error
		parse func([]byte, any) error
	}{
		{"JSON", output.WriteJSON, json.Unmarshal},
		{"YAML", output.WriteYAML, func(text []byte, to any) error { return yaml.Unmarshal(text, to) }},
	} {
		var out bytes.Buffer
		check(t, format.write(&output.Printable{To: &out}, output.NewPlanDocument(r)))
		if found := leaktest.Printed(out.String()); len(found) > 0 {
			t.Errorf("%s: found %q", format.name, found)
		}
		var got output.PlanDocument
		check(t, format.parse(out.Bytes(), &got))
		if diff := cmp.Diff(rules, got.Decisions[0].Observation.Unmatched[0].Rules); diff != "" {
			t.Errorf("%s (-rules +printed):\n%s", format.name, diff)
		}
		if text := got.Suspended[0].Finding; text != r.Suspended[0].Why.Finding {
			t.Errorf("%s: the finding is printed as %q", format.name, text)
		}
	}
}
