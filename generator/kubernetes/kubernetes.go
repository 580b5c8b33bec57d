// Package kubernetes reports why a Kubernetes API server would refuse a Job, before the Job is
// sent to one. It embeds the types of batch/v1 of one release, and contains the rules of that
// release's validation that the author of an agent's Job is likely to break. k8s.io/apimachinery, of
// the same release, parses quantities and checks names. The package opens no connection.
//
// The API server of that release refuses what the package refuses. It also refuses what the package
// omits: testdata/apiserver compares the two, and lists these rules in docs/reference/api-server-rules.md.
// Problems that depend on a cluster (admission, quota, a missing Secret) are not found.
package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
)

// Version is the release whose rules these are.
const Version = "1.36"

// Problem is one reason for which the Job is refused.
type Problem struct {
	// Path leads from the Job to the value, or to where it is missing; the
	// element of a list is written as in "[0]".
	Path []string
	// Problem describes the problem, Remedy what to write instead.
	Problem, Remedy string
}

// Validate returns the problems of a Job, in the order of its fields. The node must be a mapping
// without aliases.
func Validate(job *yaml.Node) []Problem {
	c := &checker{types: types}
	top := spot{node: job}
	c.shape(top, "Job")
	c.job(top)
	return c.problems
}

// checker collects problems.
type checker struct {
	types    map[string]map[string]string
	problems []Problem
}

// bad records a problem, unless the value or one of its parents has one already: further
// problems only follow from the first.
func (c *checker) bad(at spot, problem, remedy string) {
	for _, p := range c.problems {
		if len(p.Path) <= len(at.path) && slices.Equal(p.Path, at.path[:len(p.Path)]) {
			return
		}
	}
	c.problems = append(c.problems, Problem{Path: at.path, Problem: problem, Remedy: remedy})
}

func (c *checker) badf(at spot, remedy, format string, args ...any) {
	c.bad(at, fmt.Sprintf(format, args...), remedy)
}

// badValue records a problem of a value, which the problem follows in quotes.
func (c *checker) badValue(at spot, problem, remedy string) {
	c.badf(at, remedy, "%s %s", at.quoted(), problem)
}

// spot is a place in the Job and its node; the node is nil if the place is empty.
type spot struct {
	node *yaml.Node
	path []string
}

// at follows keys down.
func (s spot) at(keys ...string) spot {
	for _, key := range keys {
		s = spot{finding.Lookup(s.node, key), append(slices.Clone(s.path), key)}
	}
	return s
}

// items returns the elements of a list.
func (s spot) items() []spot {
	if s.node == nil || s.node.Kind != yaml.SequenceNode {
		return nil
	}
	all := make([]spot, len(s.node.Content))
	for i, n := range s.node.Content {
		all[i] = spot{n, append(slices.Clone(s.path), fmt.Sprintf("[%d]", i))}
	}
	return all
}

// keys returns the keys of a mapping, in the order of the file.
func (s spot) keys() []string {
	var all []string
	for key := range finding.Pairs(s.node) {
		all = append(all, key.Value)
	}
	return all
}

// set reports whether the place has a value other than null.
func (s spot) set() bool { return s.node != nil && s.node.ShortTag() != "!!null" }

// text returns the string, or the number or boolean as it is written.
func (s spot) text() string {
	if !s.set() || s.node.Kind != yaml.ScalarNode {
		return ""
	}
	return s.node.Value
}

// quoted returns the text in quotes, truncated if it is long.
func (s spot) quoted() string { return finding.Quote(s.text()) }

// empty reports whether Kubernetes treats the value as missing.
func (s spot) empty() bool {
	return !s.set() || s.node.Kind == yaml.ScalarNode && s.node.Value == "" || s.node.Kind == yaml.SequenceNode && len(s.node.Content) == 0
}

func (s spot) number() (n int64, ok bool) {
	if !s.set() || s.node.Kind != yaml.ScalarNode {
		return 0, false
	}
	return wholeNumber(s.node)
}

func (s spot) isTrue() bool { return strings.EqualFold(s.text(), "true") }
