package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/leaktest"
	"muster/gitops/unraced"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
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

// TestPlanOfMisspelledQueue asserts that plan with the name of an overlay prints the jobs of a queue whose
// name is almost that of its policy, and no others.
func TestPlanOfMisspelledQueue(t *testing.T) {
	w, p, stdout, stderr := fleetProgram(t)
	for _, key := range []string{"linux", "windows"} {
		w.buildkite.AddQueue(w.cluster.BuildkiteCluster, key)
		w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster.BuildkiteCluster, Steps: []fakebuildkite.Step{{Agents: []string{"queue=" + key}, Parallelism: 8, Duration: time.Hour}}})
	}
	policy := strings.Replace(readText(t, "overlays/default/scaling.yaml"), "queue: default", "queue: linx", 1)
	_, err := w.repo.Commit("Misspell the queue", start, branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte(policy)})
	check(t, err)
	for _, args := range []string{"plan", "plan default"} {
		p.Args = strings.Fields(args)
		stdout.Reset()
		code := p.run(t.Context())
		out := stdout.String()
		if code != invocation.ExitOK || !strings.Contains(out, "8 jobs") || !strings.Contains(out, `the overlay default has the queue "linx": is one of them misspelled?`) || strings.Contains(out, "windows") != (args == "plan") {
			t.Errorf("%s: exit code %d, printed\n%s%s", args, code, out, stderr)
		}
	}
}
