package output

import (
	"bytes"
	"encoding/json"
	"io"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// WriteJSON prints a document as JSON.
func WriteJSON(out io.Writer, document any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// writeYAML prints a document as YAML with the fields of its JSON. It quotes strings that
// contain escaped characters.
func writeYAML(out io.Writer, document any) error {
	raw, err := json.Marshal(document)
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(YAMLSafe(raw))
	if err != nil {
		return err
	}
	var node kyaml.Node
	if err := kyaml.Unmarshal(text, &node); err != nil {
		return err
	}
	quoteInvalid(&node)
	var b bytes.Buffer
	if err := kyaml.NewEncoder(&b).Encode(&node); err != nil {
		return err
	}
	_, err = out.Write(b.Bytes())
	return err
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
