package fleet

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"muster/generator/finding"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Findings on files that muster parses have a line. Findings on what kustomize built have the field's path and
// the file that defines the object: a patch or transformer in another file may have set the field.

// templateFile returns the file for findings on the overlay's built Job.
func (o *Overlay) templateFile() string {
	dir := path.Join(o.Path, templateDir)
	built := o.loader.used["template "+dir]
	if built.file == "" {
		built.file = (&view{tree: o.tree, notes: built.notes}).fileOf(dir, "Job")
	}
	return built.file
}

// fileOf returns the resource file that has an object of the kind, or else the kustomization of the
// directory, which builds to that object alone.
func (v *view) fileOf(dir, kind string) string {
	return cmp.Or(v.definedIn(kind, ""), v.kustomizationOf(dir))
}

// kustomizationOf returns the kustomization of a directory that was built; the directory itself if it has
// none.
func (v *view) kustomizationOf(dir string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(dir, name)
		if _, looked := v.notes[file]; looked && v.stat(file) == noteFile {
			return file
		}
	}
	return dir
}

// refuseIn is refuse, at the line of a kustomization that contains a word, or otherwise at that of
// the finding's field.
func (v *view) refuseIn(kustomization []byte, word string, f finding.Finding) {
	if v.refused == nil {
		f.Line = cmp.Or(mentionedIn(kustomization, word), finding.LineAmong(kustomization, f.Field), 1)
		v.refuse(f)
	}
}

// mentionedIn returns the first line of a text, except comments, that contains a word; 0 if none
// does, or if the word is too long to compile into an expression.
func mentionedIn(text []byte, word string) int {
	const longest = 1000
	if word == "" || len(word) > longest {
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

// largest returns the largest file that the build of a directory read.
func (v *view) largest(dir string) (file string) {
	most := -1
	for _, name := range v.filesRead() {
		if data, _, err := v.read(name); err == nil && len(data) > most {
			file, most = name, len(data)
		}
	}
	return cmp.Or(file, dir)
}

// documents returns the objects of a file up to the first YAML error, including those in a
// List.
func documents(data []byte) []*yaml.Node {
	var all []*yaml.Node
	for doc, err := range finding.Documents(data) {
		if err != nil || len(doc.Content) != 1 {
			continue
		}
		if items := finding.Lookup(doc.Content[0], "items"); items != nil {
			all = append(all, items.Content...)
			continue
		}
		all = append(all, doc.Content[0])
	}
	return all
}

// definedIn returns the resource file that defines an object of a kind with a name, which may be empty for
// any; it returns an empty string for example for a generated or renamed object.
func (v *view) definedIn(kind, name string) string {
	for file, data := range v.resources() {
		for _, n := range documents(data) {
			if finding.Scalar(n, "kind") == kind && (name == "" || finding.Scalar(n, "metadata", "name") == name) {
				return file
			}
		}
	}
	return ""
}

// generatedIn returns the kustomization that generates an object; that of the overlay in dir if the object
// has another name there.
func (v *view) generatedIn(dir string, x object) string {
	for _, name := range v.filesRead() {
		data, _, err := v.read(name)
		var k types.Kustomization
		if err != nil || !isKustomization(name) || k.Unmarshal(data) != nil {
			continue
		}
		generates := func(g types.GeneratorArgs) bool {
			hash, hashed := strings.CutPrefix(x.Name, g.Name+"-")
			return x.Name == g.Name || hashed && hashSuffix.MatchString(hash)
		}
		if x.Kind == "ConfigMap" && slices.ContainsFunc(k.ConfigMapGenerator, func(g types.ConfigMapArgs) bool { return generates(g.GeneratorArgs) }) ||
			x.Kind == "Secret" && slices.ContainsFunc(k.SecretGenerator, func(g types.SecretArgs) bool { return generates(g.GeneratorArgs) }) {
			return name
		}
	}
	return path.Join(dir, listFile)
}

// mentions returns the line that contains a word: in the kustomization of the directory, or else
// in another file that was read. It returns the directory if no file contains the word.
func (v *view) mentions(dir, word string) (file string, line int) {
	files := v.filesRead()
	slices.SortStableFunc(files, func(a, b string) int { return inside(b, dir) - inside(a, dir) })
	for _, name := range files {
		data, _, err := v.read(name)
		if err != nil {
			continue
		}
		if n := mentionedIn(data, word); n > 0 {
			return name, n
		}
	}
	return dir, 0
}

// inside returns 1 for a file of the directory, and 0 for others.
func inside(file, dir string) int {
	if strings.HasPrefix(file, dir+"/") {
		return 1
	}
	return 0
}
