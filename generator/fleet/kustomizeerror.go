package fleet

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"muster/generator/finding"
	"muster/generator/kustomize"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// explain returns the file and, if it is known, the line of the problem for which a directory does not
// build: kustomize's errors contain the path to the file, and seldom the line.
func (v *view) explain(dir string, err error) *finding.Finding {
	text := finding.OneLine(err)
	f := &finding.Finding{Problem: "does not build: " + wayThere.ReplaceAllString(text, ""), Remedy: "fix what kustomize reports; to reproduce it: kustomize build " + dir}
	if problem, stopped := strings.CutSuffix(f.Problem, ": "+kustomize.Smaller); stopped {
		f.Problem, f.Remedy = problem, kustomize.Smaller
	}
	f.File = v.kustomizationOf(dir)
	if strings.Contains(text, kustomize.TooLarge) {
		f.File = v.largest(dir)
	}
	if name := v.fileIn(text); name != "" {
		f.File = name
		if syntax := v.syntax(name); syntax != nil {
			return syntax
		}
	}
	if m := duplicateKey.FindStringSubmatch(text); m != nil {
		if file, line := v.duplicate(m[1]); line > 0 {
			f.File, f.Line = file, line
		}
	}
	for _, r := range named {
		if m := r.FindStringSubmatch(text); m != nil {
			f.File, f.Line = v.mentions(dir, m[1])
		}
	}
	return f
}

var (
	// wayThere matches kustomize's prefixes of an error, one for each directory on the path to it.
	wayThere     = regexp.MustCompile(`accumulation err='accumulating resources from '[^']*': '[^']*' must resolve to a file': |recursed accumulation of path '[^']*': |accumulating resources: `)
	duplicateKey = regexp.MustCompile(`mapping key "([^"]+)" already defined`)
	// named match a path and a patch's missing target in kustomize's errors.
	named = []*regexp.Regexp{
		regexp.MustCompile(`missing path: "?(/\S+?)"?(?::|$)`),
		regexp.MustCompile(`failed to find unique target for patch [A-Za-z]+\.\S*/(\S+)\.[^.\s]+$`),
	}
)

// fileIn returns the file, other than a kustomization, that an error of kustomize names; empty if it
// names none. The error contains the name without the directory, so that fileIn prefers a file whose
// directory the error contains too.
func (v *view) fileIn(text string) (file string) {
	for _, name := range v.filesRead() {
		base := path.Base(name)
		if isKustomization(name) || mentionedIn([]byte(text), base) == 0 && !strings.Contains(text, "/"+base) {
			continue
		}
		if strings.Contains(text, path.Dir(name)) {
			return name
		}
		file = cmp.Or(file, name)
	}
	return file
}

// syntax returns the finding on a file that is invalid YAML: kustomize's errors have the lines of parts
// of files.
func (v *view) syntax(name string) *finding.Finding {
	data, _, err := v.read(name)
	if err != nil || len(data) > maxParsed {
		return nil
	}
	for _, err := range finding.Documents(data) {
		if err != nil {
			return finding.Syntax(name, data, err)
		}
	}
	return nil
}

// duplicate returns the file and the line of a key that a mapping has twice.
func (v *view) duplicate(key string) (file string, line int) {
	for _, name := range v.filesRead() {
		data, _, err := v.read(name)
		if err != nil || len(data) > maxParsed {
			continue
		}
		for _, object := range documents(data) {
			if n := second(object, key); n != nil {
				return name, n.Line
			}
		}
	}
	return "", 0
}

// second returns the second of two equal keys in a mapping at or below n.
func second(n *yaml.Node, key string) *yaml.Node {
	times := 0
	for k := range finding.Pairs(n) {
		if k.Value != key {
			continue
		}
		if times++; times == 2 {
			return k
		}
	}
	for _, c := range n.Content {
		if found := second(c, key); found != nil {
			return found
		}
	}
	return nil
}
