package manifest

import (
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// fieldGroup is a field of spec that has fields of its own and is set with all of them, as
// "idle:1m,uptime:30m", or with "none".
type fieldGroup struct {
	name    string
	fields  []string // in the order in which a policy has them
	example string
}

// fieldGroups are all that can be set.
func fieldGroups() []fieldGroup {
	return []fieldGroup{
		{"reuse", reuseFields, "idle:1m,uptime:30m"},
		{"warm", warmFields, "wait:10s,share:0.95,idleHours:40"},
	}
}

// noGroup is the value that removes one.
const noGroup = "none"

var (
	fieldValue = regexp.MustCompile(`^[A-Za-z0-9.]+$`)
	flowText   = regexp.MustCompile(`^\{[^{}#]*\}`)
)

// text is a value of the group as a policy writes it on one line.
func (g fieldGroup) text(file, value string) (string, error) {
	if value == noGroup {
		return "{}", nil
	}
	said := map[string]string{}
	parts := strings.Split(value, ",")
	for _, part := range parts {
		name, v, ok := strings.Cut(part, ":")
		if ok && slices.Contains(g.fields, name) && fieldValue.MatchString(v) {
			said[name] = v
		}
	}
	if len(parts) != len(g.fields) || len(said) != len(g.fields) {
		return "", Finding{File: file, Field: "spec." + g.name, Problem: quote(value) + " is not a value of it: write " + g.example + ", or " + noGroup}
	}
	for i, name := range g.fields {
		parts[i] = name + ": " + said[name]
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// set gives the group another value, on one line. Where there is to be none and the policy
// says nothing of it, it goes on saying nothing.
func (g fieldGroup) set(file string, lines []string, value string) ([]string, error) {
	text, err := g.text(file, value)
	if err != nil {
		return nil, err
	}
	spec, indent, err := block(file, lines)
	if err != nil {
		return nil, err
	}
	at := -1
	for i := 0; i+1 < len(spec.Content); i += 2 {
		if spec.Content[i].Value == g.name {
			at = i
		}
	}
	switch {
	case at >= 0:
		return g.replace(file, lines, spec.Content[at], spec.Content[at+1], text)
	case value == noGroup:
		return lines, nil
	}
	return insertField(lines, spec, indent, g.name, text), nil
}

// replace writes the text in the place of a value: one on the line of its key, or a
// block of lines, with which its comments go.
func (g fieldGroup) replace(file string, lines []string, key, old *yaml.Node, text string) ([]string, error) {
	line := lines[key.Line-1]
	if old.Kind == yaml.MappingNode && old.Line > key.Line && old.Style&yaml.FlowStyle == 0 && old.Anchor == "" {
		after := line[key.Column-1+len(g.name):] // a colon, and perhaps a comment
		lines[key.Line-1] = line[:key.Column-1] + g.name + ": " + text + strings.TrimPrefix(after, ":")
		return slices.Delete(lines, key.Line, lastLine(old)), nil
	}
	was := flowText.FindString(line[old.Column-1:])
	if old.Kind != yaml.MappingNode || old.Line != key.Line || was == "" || old.Anchor != "" {
		return nil, Finding{File: file, Line: key.Line, Field: "spec." + g.name, Problem: byHand}
	}
	rest := line[old.Column-1+len(was):]
	lines[key.Line-1] = line[:old.Column-1] + text + aligned(rest, len(was)-len(text))
	return lines, nil
}
