package kubernetes

import (
	_ "embed"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
)

// schema is the output of `go -C testdata/apiserver run ./schema`: the types of a Job in the
// OpenAPI document of the release. The types of k8s.io/api would add 4.3 MB to the program, and
// strict decoding into them reports only the first value of a wrong type.
//
//go:embed job.json
var schema []byte

// types are the fields of each type, with the type of each field.
var types = readSchema()

func readSchema() map[string]map[string]string {
	var document struct{ Types map[string]map[string]string }
	if err := json.Unmarshal(schema, &document); err != nil {
		panic(err) // the embedded file is invalid
	}
	return document.Types
}

// shape checks that a value and everything below it have the types of the schema.
func (c *checker) shape(s spot, typ string) {
	if !s.set() {
		return
	}
	if item, ok := strings.CutPrefix(typ, "[]"); ok {
		if s.node.Kind != yaml.SequenceNode {
			c.badf(s, "write each element on a line of its own, as in - ...", "is %s, not a list", kindOf(s.node))
		}
		for _, x := range s.items() {
			if _, isObject := c.types[item]; isObject && !x.set() {
				x.node = &yaml.Node{Kind: yaml.MappingNode} // as Kubernetes reads it
			}
			c.shape(x, item)
		}
		return
	}
	if value, ok := strings.CutPrefix(typ, "map:"); ok {
		if c.mapping(s) {
			for _, key := range s.keys() {
				c.shape(s.at(key), value)
			}
		}
		return
	}
	if fields, ok := c.types[typ]; ok {
		if c.mapping(s) {
			c.fields(s, typ, fields)
		}
		return
	}
	c.scalar(s, typ)
}

func (c *checker) mapping(s spot) bool {
	if s.node.Kind != yaml.MappingNode {
		c.badf(s, "write fields as key: value", "is %s, not a mapping", kindOf(s.node))
		return false
	}
	return true
}

func (c *checker) fields(s spot, typ string, fields map[string]string) {
	for _, key := range s.keys() {
		if _, known := fields[key]; !known {
			c.badf(s.at(key), nearest(key, slices.Sorted(maps.Keys(fields))), "is not a field that Kubernetes %s has here", Version)
			continue
		}
		c.shape(s.at(key), fields[key])
	}
	c.rules(s, typ)
}

// scalar checks a value that is neither a list nor a mapping of fields.
func (c *checker) scalar(s spot, typ string) {
	is := func(ok bool, want, remedy string) {
		if !ok {
			c.badf(s, remedy, "is %s, not %s", kindOf(s.node), want)
		}
	}
	tag := tagOf(s.node)
	isNumber := tag == "!!int" || tag == "!!float"
	switch typ {
	case "string":
		is(tag == "!!str", "a string", "put it in quotes")
	case "boolean":
		is(tag == "!!bool", "true or false", "write true or false, without quotes")
	case "int32", "int64":
		n, whole := wholeNumber(s.node)
		is(whole, "a whole number", "write a whole number, without quotes or unit")
		if whole && typ == "int32" && (n > math.MaxInt32 || n < math.MinInt32) {
			c.badf(s, "write a smaller one", "is larger than Kubernetes takes here")
		}
	case "int-or-string":
		_, whole := wholeNumber(s.node)
		is(whole || tag == "!!str", "a number or a name", "write a number or a name")
	case "time":
		_, err := time.Parse(time.RFC3339, s.node.Value)
		is(s.node.Kind == yaml.ScalarNode && err == nil, "a time", "write one as in 2026-11-21T02:15:00Z, or remove it")
	case "quantity":
		if tag != "!!str" && !isNumber {
			is(false, "a quantity", quantityRemedy)
		} else if _, ok := parseQuantity(s.node.Value); !ok {
			c.badf(s, quantityRemedy, "%s is not a quantity", finding.Quote(s.node.Value))
		}
	}
}

// tagOf returns the type of a scalar in Kubernetes: YAML 1.1, where yes and no, y and n, on and off
// are booleans, and a date and << are strings.
func tagOf(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	tag := n.ShortTag()
	plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch {
	case tag == "!!timestamp" || tag == yaml.MergeTag:
		return "!!str"
	case tag == "!!str" && plain && finding.FormerBoolean(n.Value):
		return "!!bool"
	}
	return tag
}

// kindOf describes a value of the wrong type.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch tagOf(n) {
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the boolean " + n.Value
	}
	return "the string " + finding.Quote(n.Value)
}

// wholeNumber reads a number as Kubernetes does: 3.0 and 1e3 are whole too.
func wholeNumber(n *yaml.Node) (int64, bool) {
	switch tagOf(n) {
	case "!!int":
		i, err := strconv.ParseInt(n.Value, 0, 64)
		return i, err == nil
	case "!!float":
		f, err := strconv.ParseFloat(n.Value, 64)
		return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
	}
	return 0, false
}

// nearest returns the remedy for a key that is not among the known ones.
func nearest(key string, known []string) string {
	if best := finding.Nearest(key, known); best != "" {
		return "nearest: " + best
	}
	if len(known) <= 8 {
		return "the fields here are " + strings.Join(known, ", ")
	}
	return "remove it, or move it to where it belongs"
}
