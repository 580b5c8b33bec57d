package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Edit is a change of a policy. The zero value changes nothing.
type Edit struct {
	// Set are the values of fields of spec, as YAML writes them, by their names.
	Set map[string]string
	// Overrides replace those of the policy if Override is true; an empty list removes the field.
	Override  bool
	Overrides []plan.Override
}

// Apply returns the text of a policy after an edit. Every line that the edit does not concern is
// unchanged, comments included: people review the diff. A field that the policy shows behind # is
// set in that place. Apply returns an error for a field that cannot be set this way, for an
// invalid value (a [finding.Finding]), and for a text that must be edited by hand.
func Apply(file string, text []byte, edit Edit) ([]byte, error) {
	if _, err := Parse(file, text); err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(text), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	for _, name := range slices.Sorted(maps.Keys(edit.Set)) {
		var err error
		if lines, err = setField(file, lines, name, edit.Set[name]); err != nil {
			return nil, err
		}
	}
	if edit.Override {
		var err error
		if lines, err = setOverrides(file, lines, edit.Overrides); err != nil {
			return nil, err
		}
	}
	after := []byte(strings.Join(lines, ""))
	if _, err := Parse(file, after); err != nil {
		return nil, err
	}
	return after, nil
}

// Settable are the fields of spec that [Apply] sets.
func Settable() []string { return Names(only(func(f Field) bool { return f.Settable })) }

// byHand is the problem of a policy whose text only people can edit.
const byHand = "is not written as a block, a field a line: edit it by hand"

// block finds the spec of a policy in its lines, which must be written as a block.
func block(file string, lines []string) (spec *yaml.Node, indent string, err error) {
	top, wrong := finding.ParseOne(file, []byte(strings.Join(lines, "")))
	if wrong != nil {
		return nil, "", *wrong
	}
	spec = finding.Lookup(top, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode || spec.Style&yaml.FlowStyle != 0 || len(spec.Content) == 0 {
		return nil, "", finding.Finding{File: file, Field: "spec", Problem: byHand}
	}
	return spec, strings.Repeat(" ", spec.Content[0].Column-1), nil
}

// setField gives one field another value. If agents are to take one job and the policy does not set
// reuse, the policy does not change.
func setField(file string, lines []string, name, value string) ([]string, error) {
	if !slices.Contains(Settable(), name) {
		return nil, fmt.Errorf("%s: cannot be set this way; %s", name, finding.DidYouMean(name, Settable(), "the settings are "+strings.Join(Settable(), ", ")))
	}
	text, err := valueText(file, name, value)
	if err != nil {
		return nil, err
	}
	spec, indent, err := block(file, lines)
	if err != nil {
		return nil, err
	}
	key, old := finding.Entry(spec, name)
	switch {
	case key != nil:
		return replaceField(file, lines, key, old, text)
	case name == reuseName && value == noReuse:
		return lines, nil
	}
	return insertField(lines, spec, indent, name, text), nil
}

// reuseName is the field of spec that is set as "idle:1m,uptime:30m", or "none".
const reuseName = "reuse"

// noReuse is the value that removes it.
const noReuse = "none"

var (
	// scalarValue matches the values of the other fields: they need no quotes.
	scalarValue = regexp.MustCompile(`^[A-Za-z0-9.+-]+$`)
	reuseValue  = regexp.MustCompile(`^(?:idle:([A-Za-z0-9.]+),uptime:([A-Za-z0-9.]+)|uptime:([A-Za-z0-9.]+),idle:([A-Za-z0-9.]+))$`)
)

// valueText returns a value as a policy writes it on one line.
func valueText(file, name, value string) (string, error) {
	invalid := finding.Finding{File: file, Field: "spec." + name, Problem: finding.Quote(value) + " is not a valid value"}
	if name != reuseName {
		if !scalarValue.MatchString(value) {
			return "", invalid
		}
		return value, nil
	}
	if value == noReuse {
		return "{}", nil
	}
	m := reuseValue.FindStringSubmatch(value)
	if m == nil {
		invalid.Problem += ": write idle:1m,uptime:30m, or " + noReuse
		return "", invalid
	}
	return fmt.Sprintf("{idle: %s, uptime: %s}", m[1]+m[4], m[2]+m[3]), nil
}

// oldValue matches the text of a value on the line of its key.
var oldValue = regexp.MustCompile(`^("[^"]*"|'[^']*'|\{[^{}#]*\}|[^\s#{!]+)`)

// replaceField replaces a value by the text: a value on the line of its key, or a block of lines, whose
// comments are removed too.
func replaceField(file string, lines []string, key, old *yaml.Node, text string) ([]string, error) {
	line := lines[key.Line-1]
	if old.Kind == yaml.MappingNode && old.Line > key.Line && old.Style&yaml.FlowStyle == 0 {
		after := line[key.Column-1+len(key.Value):] // a colon, and perhaps a comment
		lines[key.Line-1] = line[:key.Column-1] + key.Value + ": " + text + strings.TrimPrefix(after, ":")
		return slices.Delete(lines, key.Line, lastLine(old)), nil
	}
	was := ""
	if old.Line == key.Line {
		was = oldValue.FindString(line[old.Column-1:])
	}
	if was == "" {
		return nil, finding.Finding{File: file, Line: key.Line, Field: "spec." + key.Value, Problem: byHand}
	}
	written, rest := line[:old.Column-1], line[old.Column-1+len(was):]
	lines[key.Line-1] = written + text + aligned(rest, len(was)-len(text))
	return lines, nil
}

// aligned keeps a comment in its column if there is room.
func aligned(rest string, more int) string {
	comment := strings.TrimLeft(rest, " ")
	if !strings.HasPrefix(comment, "#") {
		return rest
	}
	return strings.Repeat(" ", max(1, len(rest)-len(comment)+more)) + comment
}

// insertField adds a field that the policy does not set: in the place where the policy shows it
// behind #, or at the end.
func insertField(lines []string, spec *yaml.Node, indent, name, value string) []string {
	comment := regexp.MustCompile(`^` + indent + `# ` + regexp.QuoteMeta(name) + `: *(\S+)( .*)?$`)
	first := spec.Content[0].Line - 1
	for i := first; i < len(lines); i++ {
		m := comment.FindStringSubmatch(strings.TrimRight(lines[i], "\r\n"))
		if m == nil {
			continue
		}
		said := indent + name + ": " + value
		if comment := strings.TrimLeft(m[2], " "); strings.HasPrefix(comment, "#") {
			column := len(strings.TrimRight(lines[i], "\r\n")) - len(comment)
			said += strings.Repeat(" ", max(1, column-len(said))) + comment
		}
		lines[i] = said + "\n"
		return lines
	}
	return slices.Insert(lines, lastLine(spec), indent+name+": "+value+"\n")
}

// lastLine returns the last line of a node. Policies have no multi-line scalars.
func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, x := range n.Content {
		last = max(last, lastLine(x))
	}
	return last
}

// setOverrides replaces the list of overrides. Overrides that stay keep their lines and comments.
func setOverrides(file string, lines []string, all []plan.Override) ([]string, error) {
	spec, indent, err := block(file, lines)
	if err != nil {
		return nil, err
	}
	key, old := finding.Entry(spec, "overrides")
	var text []string
	if len(all) > 0 {
		text = append(text, indent+"overrides:\n")
	}
	if key == nil {
		for _, o := range all {
			text = append(text, indent+"  - "+overrideText(o)+"\n")
		}
		at := lastLine(spec)
		for i := spec.Content[0].Line - 1; i < len(lines); i++ {
			if strings.HasPrefix(lines[i], indent+"# overrides: ") {
				at = i + 1
			}
		}
		return slices.Insert(lines, at, text...), nil
	}
	from, to := key.Line-1, lastLine(old)
	flow := old.Style&yaml.FlowStyle != 0
	if flow && from+1 != to {
		return nil, finding.Finding{File: file, Line: from + 1, Field: "spec.overrides", Problem: byHand}
	}
	_, comment, commented := strings.Cut(lines[from], " #")
	switch {
	case len(all) > 0 && !flow:
		text[0] = lines[from]
	case len(all) > 0 && commented:
		text[0] = indent + "overrides: #" + comment
	case commented:
		text = append(text, indent+"#"+comment)
	}
	before, err := Parse(file, []byte(strings.Join(lines, "")))
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		i := slices.IndexFunc(before.Overrides, func(b plan.Override) bool { return overrideText(b) == overrideText(o) })
		if flow || i < 0 {
			text = append(text, indent+"  - "+overrideText(o)+"\n")
			continue
		}
		first, last := old.Content[i].Line-1, to
		if i > 0 {
			first = afterComments(lines, lastLine(old.Content[i-1]), first)
		} else {
			first = from + 1
		}
		if i+1 < len(old.Content) {
			last = lastLine(old.Content[i])
		}
		text = append(text, lines[first:last]...)
	}
	return slices.Replace(lines, from, to, text...), nil
}

// afterComments returns the first of the lines before an item at that are comments, not before the line least.
func afterComments(lines []string, least, at int) int {
	for at > least && strings.HasPrefix(strings.TrimSpace(lines[at-1]), "#") {
		at--
	}
	return at
}

// overrideText is one override on one line.
func overrideText(o plan.Override) string {
	words := []string{"until: " + strconv.Quote(o.Until.UTC().Format(time.RFC3339))}
	for _, f := range Overridable() {
		if n := *f.Override(&o); n != nil {
			words = append(words, f.Name+": "+strconv.Itoa(*n))
		}
	}
	if o.Paused {
		words = append(words, "paused: true")
	}
	return "{" + strings.Join(words, ", ") + "}"
}
