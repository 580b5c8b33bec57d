package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/plan"
)

// PlanDocument is what -o json and -o yaml print.
type PlanDocument struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Head       string          `json:"head"`
	Decisions  []planDecision  `json:"decisions"`
	Suspended  []planSuspended `json:"suspended,omitempty"`
	// Unserved are the queues with pending jobs that no overlay serves.
	Unserved []plan.Unserved `json:"unserved,omitempty"`
	// Conditions are those of all overlays, of queues, and of muster itself.
	Conditions []condition.Condition `json:"conditions"`
}

// planDecision is a decision with its arithmetic as explain prints it.
type planDecision struct {
	plan.Decision
	Steps  []plan.Step  `json:"steps"`
	Limits []plan.Limit `json:"limits,omitempty"`
}

type planSuspended struct {
	Overlay string `json:"overlay"`
	plan.Suspension
	Text string `json:"text"`
}

func document(r generator.Result) PlanDocument {
	d := PlanDocument{APIVersion: "muster.dev/v1alpha1", Kind: "Plan", Head: r.Head.Commit, Unserved: r.Unserved, Conditions: r.Conditions(r.Looked.Snapshot.At)}
	for _, x := range r.Decisions {
		d.Decisions = append(d.Decisions, planDecision{x, x.Steps(), x.Limits()})
	}
	for _, s := range r.Suspended {
		d.Suspended = append(d.Suspended, planSuspended{Overlay: s.Overlay, Suspension: s.Why, Text: s.Why.String()})
	}
	return d
}

// PrintJSON prints the result of a tick as a JSON document.
func PrintJSON(out io.Writer, r generator.Result) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(document(r))
}

// PrintYAML prints the result of a tick as a YAML document.
func PrintYAML(out io.Writer, r generator.Result) error {
	raw, err := json.Marshal(document(r))
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(YAMLSafe(raw))
	if err != nil {
		return err
	}
	var document kyaml.Node
	if err := kyaml.Unmarshal(text, &document); err != nil {
		return err
	}
	quoteInvalid(&document)
	return kyaml.NewEncoder(out).Encode(&document)
}

// quoteInvalid puts strings with characters that [Printable] escapes in double quotes, in which
// escapes are valid.
func quoteInvalid(n *kyaml.Node) {
	odd := func(c rune) bool { return c == '@' || !Shown(c) }
	if n.Kind == kyaml.ScalarNode && strings.ContainsFunc(n.Value, odd) {
		n.Style = kyaml.DoubleQuotedStyle
	}
	for _, below := range n.Content {
		quoteInvalid(below)
	}
}

// YAMLSafe escapes in JSON what is valid there and no character of a YAML file
// (YAML 1.2.2, 5.1): DEL, the C1 controls, and U+FFFE and U+FFFF. Job rules may
// have any of them.
func YAMLSafe(raw []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(raw) { // what is not UTF-8 becomes U+FFFD
		if r >= 0x7f && r <= 0x9f || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}
