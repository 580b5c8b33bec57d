package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// reuseName is the field of spec that is set as "idle:1m,uptime:30m", or "none".
const reuseName = "reuse"

// noReuse is the value that removes it.
const noReuse = "none"

var (
	reuseValue = regexp.MustCompile(`^(?:idle:([A-Za-z0-9.]+),uptime:([A-Za-z0-9.]+)|uptime:([A-Za-z0-9.]+),idle:([A-Za-z0-9.]+))$`)
	flowText   = regexp.MustCompile(`^\{[^{}#]*\}`)
)

// reuseText is a value of reuse as a policy writes it on one line.
func reuseText(file, value string) (string, error) {
	if value == noReuse {
		return "{}", nil
	}
	m := reuseValue.FindStringSubmatch(value)
	if m == nil {
		return "", Finding{File: file, Field: "spec." + reuseName, Problem: quote(value) + " is not a value of it: write idle:1m,uptime:30m, or " + noReuse}
	}
	return fmt.Sprintf("{idle: %s, uptime: %s}", m[1]+m[4], m[2]+m[3]), nil
}

// setReuse gives reuse another value, on one line. Where agents are to take one job and
// the policy says nothing of reuse, it goes on saying nothing.
func setReuse(file string, lines []string, value string) ([]string, error) {
	text, err := reuseText(file, value)
	if err != nil {
		return nil, err
	}
	spec, indent, err := block(file, lines)
	if err != nil {
		return nil, err
	}
	at := -1
	for i := 0; i+1 < len(spec.Content); i += 2 {
		if spec.Content[i].Value == reuseName {
			at = i
		}
	}
	switch {
	case at >= 0:
		return replaceReuse(file, lines, spec.Content[at], spec.Content[at+1], text)
	case value == noReuse:
		return lines, nil
	}
	return insertField(lines, spec, indent, reuseName, text), nil
}

// replaceReuse writes the text in the place of a value: one on the line of its key, or a
// block of lines, with which its comments go.
func replaceReuse(file string, lines []string, key, old *yaml.Node, text string) ([]string, error) {
	line := lines[key.Line-1]
	if old.Kind == yaml.MappingNode && old.Line > key.Line && old.Style&yaml.FlowStyle == 0 && old.Anchor == "" {
		after := line[key.Column-1+len(reuseName):] // a colon, and perhaps a comment
		lines[key.Line-1] = line[:key.Column-1] + reuseName + ": " + text + strings.TrimPrefix(after, ":")
		return slices.Delete(lines, key.Line, lastLine(old)), nil
	}
	was := flowText.FindString(line[old.Column-1:])
	if old.Kind != yaml.MappingNode || old.Line != key.Line || was == "" || old.Anchor != "" {
		return nil, Finding{File: file, Line: key.Line, Field: "spec." + reuseName, Problem: byHand}
	}
	rest := line[old.Column-1+len(was):]
	lines[key.Line-1] = line[:old.Column-1] + text + aligned(rest, len(was)-len(text))
	return lines, nil
}
