package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// WriteJSON prints a document as JSON.
func WriteJSON(out io.Writer, document any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// WriteYAML prints a document as YAML with the fields of its JSON. It quotes strings that
// contain escaped characters.
func WriteYAML(out io.Writer, document any) error {
	raw, err := json.Marshal(document)
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(yamlSafe(raw))
	if err != nil {
		return err
	}
	var node kyaml.Node
	if err := kyaml.Unmarshal(text, &node); err != nil {
		return err
	}
	quoteInvalid(&node)
	return kyaml.NewEncoder(out).Encode(&node)
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

// yamlSafe escapes in JSON what is valid there and no character of a YAML file
// (YAML 1.2.2, 5.1): DEL, the C1 controls, and U+FFFE and U+FFFF. Job rules may
// have any of them.
func yamlSafe(raw []byte) []byte {
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

// JSONList prints a document with a list, entry by entry.
type JSONList struct {
	Out io.Writer
	// Kind is the kind of the document, and List the name of the list.
	Kind, List string
	entries    int
}

// Add prints an entry.
func (l *JSONList) Add(entry any) error {
	text, err := json.MarshalIndent(entry, "    ", "  ")
	if err != nil {
		return err
	}
	before := ",\n    "
	if l.entries++; l.entries == 1 {
		before = l.head() + "\n    "
	}
	_, err = l.Out.Write([]byte(before + string(text)))
	return err
}

// End prints the fields of an object after the list, and ends the document.
func (l *JSONList) End(object any) error {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	before := "\n  ],"
	if l.entries == 0 {
		before = l.head() + "],"
	}
	_, err = l.Out.Write([]byte(before + string(text[len("{"):]) + "\n"))
	return err
}

func (l *JSONList) head() string {
	return "{\n  \"apiVersion\": \"muster.dev/v1alpha1\",\n  \"kind\": \"" + l.Kind + "\",\n  \"" + l.List + "\": ["
}
