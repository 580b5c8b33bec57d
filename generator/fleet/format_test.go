package fleet

import (
	"bytes"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"
	yamljson "sigs.k8s.io/yaml"
)

// formatters change the text of a manifest and none of its values.
var formatters = map[string]func(t *testing.T, text string) string{
	"JSON": func(t *testing.T, text string) string {
		json, err := yamljson.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return string(json)
	},
	"CRLF":      func(_ *testing.T, text string) string { return strings.ReplaceAll(text, "\n", "\r\n") },
	"document":  func(_ *testing.T, text string) string { return "---\n" + text + "\n\n...\n" },
	"no ending": func(_ *testing.T, text string) string { return strings.TrimSuffix(text, "\n") },
	"indent":    printedAs(4, func(*yaml.Node) {}),
	"quotes": printedAs(2, func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			n.Style = yaml.DoubleQuotedStyle
		}
	}),
	"single quotes": printedAs(2, func(n *yaml.Node) {
		if n.Style == yaml.DoubleQuotedStyle {
			n.Style = yaml.SingleQuotedStyle
		}
	}),
	"flow": printedAs(2, func(n *yaml.Node) { n.Style |= yaml.FlowStyle }),
	"order": printedAs(2, func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode {
			for i, j := 0, len(n.Content)-2; i < j; i, j = i+2, j-2 {
				n.Content[i], n.Content[j] = n.Content[j], n.Content[i]
				n.Content[i+1], n.Content[j+1] = n.Content[j+1], n.Content[i+1]
			}
		}
	}),
}

// printedAs is a formatter that changes nodes and prints them with an indent.
func printedAs(indent int, change func(*yaml.Node)) func(t *testing.T, text string) string {
	return func(t *testing.T, text string) string {
		t.Helper()
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		walk(&doc, nil, func(n *yaml.Node, _ []string) { change(n) })
		var b bytes.Buffer
		e := yaml.NewEncoder(&b)
		e.SetIndent(indent)
		e.DefaultSeqIndent()
		if err := e.Encode(&doc); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
}

// TestFormattersEditNothing: a dispatch, the list and the state in another format are as muster wrote
// them: nothing is repaired, so that a formatter and muster do not rewrite each other's files.
func TestFormattersEditNothing(t *testing.T) {
	const state = "overlays/default/dispatches/state.yaml"
	const script = "command: [agent, \"a\\nb: ${A} # c\\n\", '<<', 'no', \"0x1F\", '', \"tab\\t\", '*', "
	for name, format := range formatters {
		f := sound(t).edit(t, "base/job.yaml", "command: [agent, ", script).edit(t, "base/job.yaml", "ssa: IfNotPresent", "ssa: IfNotPresent\n    kustomize.toolkit.fluxcd.io/substitute: disabled")
		o := only(t, NewLoader("overlays"), f.tree())
		text, err := o.stamp(order("default-7f3k9c2b", 12))
		if err != nil {
			t.Fatal(err)
		}
		list := string(list([]string{"default-7f3k9c2b"}))
		const header, breaker = "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\n", "breaker:\n  failures: 1\n  at: \"2026-11-21T02:15:00Z\"\n"
		f[stampedFile], f["overlays/default/dispatches/kustomization.yaml"], f[state] = format(t, string(text)), format(t, list), format(t, header+breaker)
		if f[stampedFile] == string(text) {
			t.Errorf("%s changes nothing", name)
		}
		o = only(t, NewLoader("overlays"), f.tree())
		if changes := o.Repair(); o.Err() != nil || len(o.Edits()) > 0 || len(changes) > 0 || o.State.Breaker.Failures != 1 {
			t.Errorf("%s: %v, edits %v, repairs %v\n%s", name, o.Err(), o.Edits(), changes, f[stampedFile])
		}
		if found := checkErrors(f.tree()); len(found) > 0 {
			t.Errorf("%s: %s", name, found)
		}
		for _, edit := range [][2]string{{"completions: 12", "completions: 11"}, {"name: TAGS", "name: TAG"}, {"kind: Job", "kind: Job # mine"}} {
			edited := format(t, strings.Replace(string(text), edit[0], edit[1], 1))
			if name == "JSON" && strings.Contains(edit[1], "#") {
				continue // it has no comments
			}
			f[stampedFile] = edited
			if o := only(t, NewLoader("overlays"), f.tree()); len(o.Edits()) != 1 {
				t.Errorf("%s: %s is no edit", name, edit[1])
			}
		}
	}
}
