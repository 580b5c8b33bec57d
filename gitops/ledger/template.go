package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// Template is how a fleet wants the words of muster's commits: the language of Go's
// text/template, as far as words need it: {{.Field}}, {{if}}, {{else}}, {{range
// .Dispatches}}{{.}}{{end}}, and {{join .Dispatches ", "}}. (The whole of text/template
// calls methods by name, which keeps every method of every library in the program.)
type Template struct{ root *parse.ListNode }

// value is what a field of a template is.
type value struct {
	text  string
	list  []string
	isSet bool
}

// templateFields are the fields of a template, by name.
func templateFields(act Act, version string) map[string]value {
	d := act.Decision
	_, prose, _ := strings.Cut(Text(act), "\n\n")
	what := summary(act)
	ids, agents := act.Dispatches()
	if act.Kind == Dispatch {
		agents = d.Sum.Dispatch
	}
	text := func(s string) value { return value{text: safe(s), isSet: s != ""} }
	number := func(n int) value { return value{text: strconv.Itoa(n), isSet: n != 0} }
	return map[string]value{
		"Overlay": text(d.Overlay), "Path": text(act.Path), "Act": text(string(act.Kind)), "Queue": text(d.Queue), "Schedule": text(d.Schedule),
		"Version": text(version), "Time": text(d.At().UTC().Format("2006-01-02T15:04:05Z")),
		"What": {text: what, isSet: true}, "Reasons": {text: prose, isSet: prose != ""},
		"Dispatches": {list: ids, text: strings.Join(ids, " "), isSet: len(ids) > 0},
		"Agents":     number(agents), "Pending": number(d.Sum.Pending), "Idle": number(d.Sum.Idle), "InFlight": number(d.Sum.InFlight),
		"Busy": number(d.Sum.Busy), "Missing": number(d.Sum.Missing), "Desired": number(d.Sum.Desired), "Min": number(d.Sum.Min), "Max": number(d.Sum.Max),
		"Probe": {text: strconv.FormatBool(d.Probe), isSet: d.Probe},
	}
}

// TemplateFields lists the fields that a template has, sorted.
func TemplateFields() []string {
	var names []string
	for name := range templateFields(Act{}, "") {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// joinFunction is the one function of a template.
const joinFunction = "join"

// longestTemplate is the size in bytes above which a template is not read, and
// longestText that above which what it makes is not taken.
const longestTemplate, longestText = 16 << 10, 64 << 10

// ParseTemplate reads a template. The error says what is wrong, with the line, or what
// a template may not have.
func ParseTemplate(text string) (*Template, error) {
	if len(text) > longestTemplate {
		return nil, fmt.Errorf("the template has %d bytes, at most %d are read", len(text), longestTemplate)
	}
	trees, err := parse.Parse("template", text, "", "", map[string]any{joinFunction: true})
	if err != nil {
		return nil, err
	}
	if len(trees) != 1 {
		return nil, errors.New("the template defines others, which muster does not read")
	}
	t := &Template{root: trees["template"].Root}
	for _, kind := range []Kind{Repair, Dispatch, Retire} { // each has to make a message
		example := Act{Kind: kind, Path: "overlays/example"}
		example.Decision.Overlay = "example"
		if _, err := t.render(example, "v0"); err != nil {
			return nil, fmt.Errorf("of a %s: %w", kind, err)
		}
	}
	return t, nil
}

// render makes the text of an act: a subject, and what is behind it. The subject must
// have "OVERLAY: ACT " in it, by which readers know the commit.
func (t *Template) render(act Act, version string) (string, error) {
	e := evaluation{fields: templateFields(act, version)}
	if err := e.list(t.root, value{}); err != nil {
		return "", err
	}
	subject, body, _ := strings.Cut(strings.TrimSpace(e.out.String()), "\n")
	subject = strings.TrimSpace(subject)
	own := func(verb string) bool { return verb == string(act.Kind) }
	if quoting.MatchString(subject) || strings.HasPrefix(subject, comment) || !says(subject, act.Decision.Overlay, own) {
		return "", fmt.Errorf("the first line is %q: it needs \"{{.Overlay}}: {{.What}}\" in it, or \"{{.Overlay}}: {{.Act}} \" and more, by which muster knows its own commits", subject)
	}
	if body = strings.Trim(body, "\n"); body == "" {
		return subject, nil
	}
	return subject + "\n\n" + body, nil
}

// evaluation goes through a template.
type evaluation struct {
	fields map[string]value
	out    strings.Builder
	steps  int
}

// mostSteps bounds what one template does.
const mostSteps = 100_000

func (e *evaluation) list(l *parse.ListNode, dot value) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := e.node(n, dot); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluation) node(n parse.Node, dot value) error {
	if e.steps++; e.steps > mostSteps || e.out.Len() > longestText {
		return errors.New("the template makes too much text")
	}
	switch n := n.(type) {
	case *parse.TextNode:
		e.out.Write(n.Text)
		return nil
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		v, err := e.pipe(n.Pipe, dot)
		e.out.WriteString(v.text)
		return err
	case *parse.IfNode:
		v, err := e.pipe(n.Pipe, dot)
		if err != nil {
			return err
		}
		// Both are looked at, so that a mistake shows whatever is set.
		if err := e.unwritten(map[bool]*parse.ListNode{true: n.ElseList, false: n.List}[v.isSet], dot); err != nil {
			return err
		}
		return e.list(map[bool]*parse.ListNode{true: n.List, false: n.ElseList}[v.isSet], dot)
	case *parse.RangeNode:
		v, err := e.pipe(n.Pipe, dot)
		if err != nil {
			return err
		}
		if err := e.unwritten(n.List, value{text: "x", isSet: true}); err != nil {
			return err
		}
		for _, item := range v.list {
			if err := e.list(n.List, value{text: item, isSet: true}); err != nil {
				return err
			}
		}
		if len(v.list) == 0 {
			return e.list(n.ElseList, dot)
		}
		return nil
	}
	return fmt.Errorf("%s is more than muster reads of a template: there are {{.Field}}, {{if}}, {{else}}, {{range .Dispatches}} and {{join .Dispatches \", \"}}", n)
}

// unwritten goes through what is not written.
func (e *evaluation) unwritten(l *parse.ListNode, dot value) error {
	other := evaluation{fields: e.fields, steps: e.steps}
	err := other.list(l, dot)
	e.steps = other.steps
	return err
}

// pipe is the value of what stands between braces.
func (e *evaluation) pipe(p *parse.PipeNode, dot value) (value, error) {
	if len(p.Cmds) != 1 || len(p.Decl) > 0 {
		return value{}, fmt.Errorf("{{%s}}: there are no pipelines and no variables", p)
	}
	args := p.Cmds[0].Args
	if name, ok := args[0].(*parse.IdentifierNode); ok && name.Ident == joinFunction {
		if len(args) != 3 {
			return value{}, fmt.Errorf("{{%s}}: write {{join .Dispatches \", \"}}", p)
		}
		v, err := e.argument(args[1], dot)
		if err != nil {
			return value{}, err
		}
		by, ok := args[2].(*parse.StringNode)
		if !ok {
			return value{}, fmt.Errorf("{{%s}}: what joins is a text between quotes", p)
		}
		v.text = strings.Join(v.list, by.Text)
		return v, nil
	}
	if len(args) != 1 {
		return value{}, fmt.Errorf("{{%s}}: there are no functions but join", p)
	}
	return e.argument(args[0], dot)
}

func (e *evaluation) argument(n parse.Node, dot value) (value, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.StringNode:
		return value{text: n.Text, isSet: n.Text != ""}, nil
	case *parse.FieldNode:
		if v, ok := e.fields[n.Ident[0]]; ok && len(n.Ident) == 1 {
			return v, nil
		}
		return value{}, fmt.Errorf("%s is no field: there are %s", n, strings.Join(TemplateFields(), ", "))
	}
	return value{}, fmt.Errorf("%s is no field", n)
}
