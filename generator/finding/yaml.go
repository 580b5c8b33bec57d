package finding

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// LineOf returns the line of the first of the fields that a kustomization has; 0 if it has none of
// them. A field matches by prefix, so that older spellings such as patchesJson6902 match too.
func LineOf(tree fs.FS, file string, fields ...string) int {
	data, err := fs.ReadFile(tree, file)
	if err != nil {
		return 0
	}
	return LineAmong(data, fields...)
}

// LineAmong is [LineOf] for a kustomization's text.
func LineAmong(kustomization []byte, fields ...string) int {
	var doc yaml.Node
	if yaml.Unmarshal(kustomization, &doc) != nil || len(doc.Content) != 1 {
		return 0
	}
	for _, name := range fields {
		for key := range Pairs(doc.Content[0]) {
			if strings.HasPrefix(key.Value, name) {
				return key.Line
			}
		}
	}
	return 0
}

// Field joins keys to a field's path, those with dots or slashes in brackets.
func Field(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		switch {
		case strings.ContainsAny(k, "./"):
			b.WriteString("[" + k + "]")
		case b.Len() == 0:
			b.WriteString(k)
		default:
			b.WriteString("." + k)
		}
	}
	return b.String()
}

// ParseOne reads a file that must be exactly one YAML document, a mapping
// that says every key once and uses no aliases: what is read is what a person
// sees. It returns the mapping, or what is wrong.
func ParseOne(file string, data []byte) (*yaml.Node, *Finding) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, &Finding{File: file, Problem: "is empty"}
	}
	if err != nil {
		return nil, Syntax(file, err)
	}
	var second yaml.Node
	err = dec.Decode(&second)
	if err == nil {
		return nil, &Finding{File: file, Line: second.Line, Problem: "has a second YAML document", Remedy: "keep one, without the line ---"}
	}
	if !errors.Is(err, io.EOF) {
		return nil, Syntax(file, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, &Finding{File: file, Line: doc.Line, Problem: "is not a YAML mapping", Remedy: "write fields as key: value"}
	}
	top := doc.Content[0]
	if f := plainly(file, top, 0); f != nil {
		return nil, f
	}
	return top, nil
}

// yamlLine finds the line in an error of the YAML library, which has no type.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// Syntax is the finding that a file cannot be parsed as YAML.
func Syntax(file string, err error) *Finding {
	f := &Finding{File: file}
	text := OneLine(err)
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		text = strings.TrimPrefix(text, m[0])
		if strings.HasPrefix(text, "did not find expected") {
			f.Line++ // the library's parser counts from 0, its scanner from 1
		}
	}
	f.Problem = "is not valid YAML: " + strings.TrimPrefix(text, "yaml: ")
	return f
}

// plainly reports duplicate keys, keys that are not plain words, aliases and merges anywhere below
// n.
func plainly(file string, n *yaml.Node, depth int) *Finding {
	if depth > 100 {
		return &Finding{File: file, Line: n.Line, Problem: "is nested too deeply"}
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return &Finding{File: file, Line: n.Line, Problem: "uses a YAML anchor or alias", Remedy: "write the value out"}
	}
	seen := map[string]bool{}
	for key := range Pairs(n) {
		if key.Kind != yaml.ScalarNode || key.Tag == yaml.MergeTag {
			return &Finding{File: file, Line: key.Line, Problem: "has a key that is no plain word"}
		}
		if seen[key.Value] {
			return &Finding{File: file, Line: key.Line, Problem: fmt.Sprintf("says %s twice", Quote(key.Value)), Remedy: "keep one"}
		}
		seen[key.Value] = true
	}
	for _, c := range n.Content {
		if f := plainly(file, c, depth+1); f != nil {
			return f
		}
	}
	return nil
}

// Documents returns the documents of a YAML text. A document that cannot be parsed ends them with
// its error.
func Documents(text []byte) iter.Seq2[*yaml.Node, error] {
	return func(yield func(*yaml.Node, error) bool) {
		for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var doc yaml.Node
			err := dec.Decode(&doc)
			if errors.Is(err, io.EOF) || !yield(&doc, err) || err != nil {
				return
			}
		}
	}
}

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

// Lookup follows keys down from a mapping; nil when one is missing.
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

// Scalar is the text of the value at keys; empty when it is missing or is not
// a scalar.
func Scalar(n *yaml.Node, keys ...string) string {
	if v := Lookup(n, keys...); v != nil && v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
		return v.Value
	}
	return ""
}

// Integer is the number at keys; false when it is missing or no whole number.
func Integer(n *yaml.Node, keys ...string) (int, bool) {
	v := Lookup(n, keys...)
	if v == nil || v.Kind != yaml.ScalarNode || v.Tag != "!!int" {
		return 0, false
	}
	i, err := strconv.Atoi(v.Value)
	return i, err == nil
}

// Set puts a scalar into a mapping: in the place of the old one, or where the
// alphabet wants a new one, which is how kustomize prints.
func Set(m *yaml.Node, key, tag, value string) {
	put(m, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value})
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

// Copy is a deep copy of a tree without aliases.
func Copy(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = Copy(child)
	}
	return &c
}
