package fleet

import (
	"bytes"
	"strings"
	"testing"

	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
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

// formattedState changes the layout of both documents of state.yaml.
func formattedState(t *testing.T, format func(*testing.T, string) string, text string) string {
	t.Helper()
	head, orders, found := strings.Cut(text, "\n"+documentEnd)
	if !found {
		t.Fatalf("no second document in\n%s", text)
	}
	head, orders = format(t, head+"\n"), format(t, orders)
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	if strings.HasPrefix(orders, documentEnd) {
		return head + orders
	}
	return head + documentEnd + orders
}

// TestFormattersEditNothing: a manifest, the list and state.yaml in another format are as muster wrote
// them: nothing is repaired, so that a formatter and muster do not rewrite each other's files.
func TestFormattersEditNothing(t *testing.T) {
	const script = "command: [agent, \"a\\nb: ${A} # c\\n\", '<<', 'no', \"0x1F\", '', \"tab\\t\", '*', "
	f := sound(t).edit(t, "base/job.yaml", "command: [agent, ", script).edit(t, "base/job.yaml", "ssa: IfNotPresent", "ssa: IfNotPresent\n    kustomize.toolkit.fluxcd.io/substitute: disabled")
	o := only(t, NewLoader("overlays"), f.tree())
	o.State.Breaker = plan.Breaker{Failures: 1, At: order("", 1).At}
	o, changes, err := o.Add([]plan.Dispatch{order("default-7f3k9c2b", 12), order("default-warm-7f3k9c2b", 1)})
	if err != nil {
		t.Fatal(err)
	}
	f.apply(changes)
	o, changes, err = o.Withdraw([]string{"default-warm-7f3k9c2b"})
	if err != nil {
		t.Fatal(err)
	}
	f.apply(changes)
	list, state, text := f["overlays/default/dispatches/kustomization.yaml"], f[stateOf], f[stampedFile]
	for name, format := range formatters {
		f[stampedFile], f["overlays/default/dispatches/kustomization.yaml"], f[stateOf] = format(t, text), format(t, list), formattedState(t, format, state)
		if f[stampedFile] == text || f[stateOf] == state {
			t.Errorf("%s changes nothing", name)
		}
		again := only(t, NewLoader("overlays"), f.tree())
		if changes := again.Repair(); again.Err() != nil || len(changes) > 0 || !again.State.Equal(o.State) || !cmp.Equal(o.Dispatches, again.Dispatches) {
			t.Errorf("%s: %v, repairs %v\n%s\n%s\n%s", name, again.Err(), changes, cmp.Diff(o.Dispatches, again.Dispatches), f[stampedFile], f[stateOf])
		}
		if found := checkErrors(f.tree()); len(found) > 0 {
			t.Errorf("%s: %s", name, found)
		}
		for edit, is := range map[[2]string]bool{{"completions: 12", "completions: 11"}: true, {"name: TAGS", "name: TAG"}: true, {"kind: Job", "kind: Job # mine"}: false} {
			f[stampedFile] = format(t, strings.Replace(text, edit[0], edit[1], 1))
			if again := only(t, NewLoader("overlays"), f.tree()); again.Dispatches[0].Edited != is {
				t.Errorf("%s: %s: edited %t", name, edit[1], !is)
			}
		}
	}
}
