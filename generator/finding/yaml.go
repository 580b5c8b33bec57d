package finding

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"regexp"
	"sort"
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

// Field joins keys to a field's path. Keys with dots or slashes are in brackets, as are the
// elements of lists, such as "[0]".
func Field(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		switch {
		case strings.HasPrefix(k, "["):
			b.WriteString(k)
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

// ParseOne reads a file that must be exactly one YAML document, a mapping without repeated keys and
// aliases. It returns the mapping, or a finding.
func ParseOne(file string, data []byte) (*yaml.Node, *Finding) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, &Finding{File: file, Problem: "is empty"}
	}
	if err != nil {
		return nil, Syntax(file, data, err)
	}
	var second yaml.Node
	err = dec.Decode(&second)
	if err == nil {
		return nil, &Finding{File: file, Line: second.Line, Problem: "has a second YAML document", Remedy: "keep one, without the line ---"}
	}
	if !errors.Is(err, io.EOF) {
		return nil, Syntax(file, data, err)
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

// yamlLine finds the line in an error of the YAML library, which has no type.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// Syntax is the finding that a text of a file cannot be parsed as YAML.
func Syntax(file string, data []byte, err error) *Finding {
	f := &Finding{File: file, Remedy: "correct the YAML there"}
	text := OneLine(err)
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		text = strings.TrimPrefix(text, m[0])
	}
	text = strings.TrimPrefix(text, "yaml: ")
	if line := faultyLine(data); line > f.Line || !strings.HasPrefix(text, "found ") || strings.Contains(text, "end of stream") {
		f.Line = line
	}
	f.Problem = "is not valid YAML: " + text
	lines := bytes.Split(data, []byte("\n"))
	f.Line = min(f.Line, len(lines))
	if indent := bytes.TrimLeft(lines[f.Line-1], " "); bytes.HasPrefix(indent, []byte("\t")) {
		text = "tab"
	}
	if conflictMarker.Match(data) {
		text = "conflict"
	}
	for _, known := range syntaxErrors {
		if strings.Contains(text, known.error) {
			f.Problem, f.Remedy = "is not valid YAML: "+known.cause, known.remedy
			break
		}
	}
	return f
}

// conflictMarker matches the beginning of what git leaves of a conflict.
var conflictMarker = regexp.MustCompile(`(?m)^<<<<<<< `)

// syntaxErrors are the causes and remedies by a part of the library's error.
var syntaxErrors = []struct{ error, cause, remedy string }{
	{"conflict", "a conflict of git is not resolved", "resolve it, and remove its markers"},
	{"tab", "a tab indents the line", "indent with spaces"},
	{"cannot start any token", "a value begins with @, % or `", "put the value in quotes"},
	{"unknown anchor", "a value begins with *", "put the value in quotes"},
	{"alphabetic or numeric", "a value begins with & or *", "put the value in quotes"},
	{"mapping values are not allowed", "a colon is where no key can be", "indent the line like its neighbours, or put a value that contains a colon and a space in quotes"},
	{"',' or ']'", "a list is not closed", "close it with ]"},
	{"',' or '}'", "a mapping is not closed", "close it with }, or put a value that contains a colon in quotes"},
	{"unexpected end of stream", "a text in quotes has no end", "close the quotes"},
	{"expected ':'", "a key has no colon", "write the line as key: value"},
	{"expected key", "a key belongs here", "indent the line like its neighbours, and put a value that contains quotes in other quotes"},
	{"escape", "a backslash in double quotes escapes nothing", "write \\\\ for a backslash, or use single quotes"},
	{"control characters", "it has a control character", "remove the character"},
	{"UTF-8", "its encoding is not UTF-8", "save the file as UTF-8"},
}

// faultyLine returns the first line of a text with which it is invalid YAML, whatever follows, such as the
// line that opens a list which is not closed. The library reports for some errors the line at which a
// mapping begins, for others one too few, and for others none.
func faultyLine(data []byte) int {
	const most = 200  // texts that are tried
	const within = 30 // lines of a list or a text in quotes
	ends := []int{0}  // of the lines
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	if last := ends[len(ends)-1]; last < len(data) {
		ends = append(ends, len(data))
	}
	total, tried := len(ends)-1, 0
	invalid := func(lines int) bool {
		tried++
		for _, err := range Documents(data[:ends[lines]]) {
			if err != nil {
				return true
			}
		}
		return false
	}
	for valid := 0; ; {
		line := valid + 1 + sort.Search(total-valid-1, func(n int) bool { return invalid(valid + 1 + n) })
		next := line + 1 // the text may be valid with more lines: those of one list
		for next < min(line+within, total) && tried < most && invalid(next) {
			next++
		}
		if next >= min(line+within, total) || tried >= most {
			return max(1, line)
		}
		valid = next
	}
}

// Plain reports duplicate keys, keys that are not plain words, aliases and merges anywhere in a document.
func Plain(file string, top *yaml.Node) *Finding { return plainly(file, top, 0) }

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
			return &Finding{File: file, Line: key.Line, Problem: "has a key that is not a plain word"}
		}
		if seen[key.Value] {
			return &Finding{File: file, Line: key.Line, Problem: fmt.Sprintf("has %s twice", Quote(key.Value)), Remedy: "keep one"}
		}
		seen[key.Value] = true
	}
	for _, c := range n.Content {
		if c.Tag == yaml.MergeTag { // the parser's tag of a plain <<, which merges only as a key
			c.Tag, c.Style = "!!str", yaml.DoubleQuotedStyle
		}
		if f := plainly(file, c, depth+1); f != nil {
			return f
		}
	}
	return nil
}
