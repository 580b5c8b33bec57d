package manifest

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// refuseIn is refuse, at the line of a kustomization that says a word, or else that of the
// finding's field.
func (v *view) refuseIn(kustomization []byte, word string, f Finding) {
	if v.refused == nil {
		f.Line = cmp.Or(mentionedIn(kustomization, word), lineAmong(kustomization, f.Field), 1)
		v.refuse(f)
	}
}

// mentionedIn is the first line of a text that says a word, comments aside; 0: none does.
func mentionedIn(text []byte, word string) int {
	if word == "" {
		return 0
	}
	whole := regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(word) + `($|[^\w./-])`)
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; !strings.HasPrefix(strings.TrimSpace(line), "#") && whole.MatchString(line) {
			return n
		}
	}
	return 0
}

// kustomizationOf is the kustomization of a directory, and the line of its resources or
// of its first field: the place to name where no other line is known, as of an object
// that a generator makes of literals or that a patch has renamed beyond knowing. Without
// a kustomization it is the directory, which has no lines.
func (v *view) kustomizationOf(dir string) (file string, line int) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file = path.Join(dir, name)
		if _, looked := v.notes[file]; !looked || v.stat(file) != noteFile {
			continue
		}
		if data, _, err := v.read(file); err == nil {
			return file, max(1, lineAmong(data, "resources", "")) // 1: it is empty, or no YAML
		}
	}
	return dir, 0
}

// largest is the first line of the largest file that the build of a directory read.
func (v *view) largest(dir string) (file string, line int) {
	most := -1
	for _, name := range v.filesRead() {
		if data, _, err := v.read(name); err == nil && len(data) > most {
			file, line, most = name, 1, len(data)
		}
	}
	if most < 0 {
		return v.kustomizationOf(dir)
	}
	return file, line
}

// beginning is the file and the line where a built object begins: in a resource, or
// else at the generator that makes it. Where it is in neither, as one whose name a
// kustomization changes beyond knowing, it is the kustomization of the directory.
func (v *view) beginning(dir string, x object) (file string, line int) {
	if file, doc := v.document(x); doc != nil {
		return file, doc.Line
	}
	for _, file := range v.filesRead() {
		if !isKustomization(file) {
			continue
		}
		if line := v.generatorOf(file, x); line > 0 {
			return file, line
		}
	}
	return v.kustomizationOf(dir)
}

// generatorOf is the line of the generator in a kustomization that makes an object; 0:
// none does. A generated name ends in a hash.
func (v *view) generatorOf(file string, x object) int {
	field := map[string]string{"ConfigMap": "configMapGenerator", "Secret": "secretGenerator"}[x.Kind]
	data, _, err := v.read(file)
	var doc yaml.Node
	if err != nil || yaml.Unmarshal(data, &doc) != nil || len(doc.Content) != 1 {
		return 0
	}
	list := lookup(doc.Content[0], field)
	if list == nil {
		return 0
	}
	for _, g := range list.Content {
		if name := scalar(g, "name"); name != "" && strings.Contains(x.Name, name) {
			return g.Line
		}
	}
	return 0
}

// lineIn is the file and line of a field of a built object, or of what is nearest above
// it where the resource does not have it. A patch that takes the field away is not
// looked for.
func (v *view) lineIn(dir string, x object, at ...string) (file string, line int) {
	file, doc := v.document(x)
	if doc == nil {
		return v.beginning(dir, x)
	}
	if line, _, _ = descend(doc, nil, at); line == 0 {
		line = doc.Line
	}
	return file, line
}

// document is the object among the resources that a built object comes from, and its
// file: the one with its kind and name, or else the one whose name is part of it, as
// below a namePrefix. It is nil where there is none, as of a generated object.
func (v *view) document(x object) (file string, doc *yaml.Node) {
	for _, name := range v.resources() {
		if v.stat(name) != noteFile {
			continue // a directory, whose own files are among them
		}
		data, _, err := v.read(name)
		if err != nil {
			continue
		}
		for _, n := range documents(data) {
			called := scalar(n, "metadata", "name")
			switch {
			case scalar(n, "kind") != x.Kind || called == "":
			case called == x.Name:
				return name, n
			case doc == nil && strings.Contains(x.Name, called):
				file, doc = name, n
			}
		}
	}
	return file, doc
}

// documents are the objects of a file, as far as it is YAML, those in a List too.
func documents(data []byte) []*yaml.Node {
	var all []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if dec.Decode(&doc) != nil {
			return all
		}
		if len(doc.Content) != 1 {
			continue
		}
		if items := lookup(doc.Content[0], "items"); items != nil {
			all = append(all, items.Content...)
			continue
		}
		all = append(all, doc.Content[0])
	}
}
