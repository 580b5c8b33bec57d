package finding

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Items returns the elements of a list; none if n is nil.
func Items(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	return n.Content
}

// Pairs returns the keys of a mapping with their values; none if n is nil or no mapping.
func Pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// Lookup follows keys down from a mapping; nil if one is missing.
func Lookup(n *yaml.Node, keys ...string) *yaml.Node {
	for _, name := range keys {
		_, n = Entry(n, name)
	}
	return n
}

// Entry returns a key of a mapping and its value; nil when it is missing.
func Entry(n *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range Pairs(n) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// Scalar returns the text of the value at keys; empty if it is missing or not a scalar.
func Scalar(n *yaml.Node, keys ...string) string {
	if v := Lookup(n, keys...); v != nil && v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
		return v.Value
	}
	return ""
}

// Integer returns the number at keys; false if it is missing or not a whole number.
func Integer(n *yaml.Node, keys ...string) (int, bool) {
	v := Lookup(n, keys...)
	if v == nil || v.Kind != yaml.ScalarNode || v.Tag != "!!int" {
		return 0, false
	}
	i, err := strconv.Atoi(v.Value)
	return i, err == nil
}

// Set sets a scalar in a mapping. It inserts a new key in alphabetical order, as kustomize prints.
func Set(m *yaml.Node, key, tag, value string) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
	if tag == "!!str" && FormerBoolean(value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	put(m, key, n)
}

// FormerBoolean reports whether a plain word is a boolean in YAML 1.1, which Kubernetes reads, and a
// string in YAML 1.2.
func FormerBoolean(word string) bool {
	return slices.Contains([]string{"yes", "no", "y", "n", "on", "off"}, strings.ToLower(word))
}

// Mapping returns the mapping at key, and creates it if key is missing.
func Mapping(m *yaml.Node, key string) *yaml.Node {
	if v := Lookup(m, key); v != nil && v.Kind == yaml.MappingNode {
		v.Style = 0 // an empty one is printed as {} otherwise
		return v
	}
	v := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	put(m, key, v)
	return v
}

func put(m *yaml.Node, key string, value *yaml.Node) {
	at := len(m.Content)
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content[i+1] = value
			return
		}
		if m.Content[i].Value > key {
			at = i
			break
		}
	}
	m.Content = slices.Insert(m.Content, at, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}
