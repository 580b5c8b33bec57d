package fleet

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"muster/generator/finding"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// lineFinder finds the file and line that a field of a built Job comes from: a Job or a strategic merge
// patch in a file of its own. If a kustomization changed the field, lineFinder searches it for the field's name.
type lineFinder struct {
	// fallback is the kustomization of the template and its line, for fields without a line.
	fallback       string
	fallbackLine   int
	sources        []source
	kustomizations []string
	tree           fs.FS
}

// source is a Job, or a strategic merge patch of one.
type source struct {
	file string
	node *yaml.Node
}

// newLineFinder reads the files that builds have read; the first notes are those of the template. It skips
// files above maxParsed, which only the process of the build parses.
func newLineFinder(tree fs.FS, o *Overlay, notes ...map[string]string) *lineFinder {
	f := &lineFinder{tree: tree}
	f.fallback, f.fallbackLine = (&view{tree: tree, notes: notes[0]}).kustomizationOf(path.Join(o.Path, templateDir))
	read := map[string]bool{}
	for _, n := range notes {
		for name, note := range n {
			read[name] = read[name] || len(note) > len(noteFile) && strings.HasPrefix(note, noteFile)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if !read[name] || path.Dir(name) == path.Join(o.Path, dispatchDir) {
			continue
		}
		if isKustomization(name) {
			f.kustomizations = append(f.kustomizations, name)
			continue
		}
		if data, err := fs.ReadFile(tree, name); err == nil && len(data) <= maxParsed {
			f.add(name, data)
		}
	}
	return f
}

// add adds the documents of a file that are a Job, or a patch of one.
func (f *lineFinder) add(file string, data []byte) {
	for doc, err := range finding.Documents(data) {
		if err != nil || len(doc.Content) != 1 {
			continue
		}
		n := doc.Content[0]
		kind := finding.Scalar(n, "kind")
		if n.Kind == yaml.MappingNode && (kind == "Job" || kind == "") {
			f.sources = append(f.sources, source{file, n})
		}
	}
}

// place returns the file and line of a field of the built Job, or of its nearest parent if the Job
// lacks the field. If no file has the Job's value, place returns the first line of a kustomization that
// contains the field's name, or the template's kustomization.
func (f *lineFinder) place(job *yaml.Node, at []string) (file string, line int) {
	deepest, isSame := 0, false
	for _, s := range f.sources {
		l, depth, same := descend(s.node, job, at)
		if depth > deepest || depth == deepest && (same || !isSame) {
			deepest, isSame, file, line = depth, same, s.file, l
		}
	}
	if isSame && deepest > 0 {
		return file, line
	}
	var words []string // to search for
	for _, key := range at {
		if !strings.HasPrefix(key, "[") {
			words = []string{key}
		}
	}
	if slices.Equal(words, []string{"name"}) {
		words = []string{"namePrefix", "nameSuffix"}
	}
	for _, name := range slices.Backward(f.kustomizations) { // the template's before the base's
		data, err := fs.ReadFile(f.tree, name)
		for _, word := range words {
			if n := mentionedIn(data, word); err == nil && n > 0 {
				return name, n
			}
		}
	}
	return f.fallback, f.fallbackLine
}

// descend follows a path down a part of a Job and down the built Job in parallel; the built Job
// distinguishes the elements of the part's lists. It returns the line and depth of the deepest value
// that the part contains, and whether the built Job has the same value, or also lacks what is below.
func descend(part, built *yaml.Node, at []string) (line, depth int, same bool) {
	for i, key := range at {
		var next *yaml.Node
		if index, isIndex := strings.CutPrefix(key, "["); isIndex {
			n, _ := strconv.Atoi(strings.TrimSuffix(index, "]"))
			next, built = counterpart(part, built, n)
			if next != nil {
				line = next.Line
			}
		} else {
			next = finding.Lookup(part, key)
			built = finding.Lookup(built, key)
			if name, _ := finding.Entry(part, key); name != nil {
				line = name.Line
			}
		}
		if next == nil {
			return line, i, built == nil
		}
		part = next
	}
	same = built != nil && part.Kind == built.Kind && finding.Scalar(part) == finding.Scalar(built)
	return line, len(at), same
}

// counterpart returns the element of a list that became the n-th element of the built list: the one
// with the same name or path, or otherwise the n-th.
func counterpart(list, built *yaml.Node, n int) (part, element *yaml.Node) {
	if built == nil || built.Kind != yaml.SequenceNode || n >= len(built.Content) {
		return nil, nil
	}
	element = built.Content[n]
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil, element
	}
	for _, key := range []string{"mountPath", "name", "containerPort", "ip", "topologyKey"} {
		name := finding.Scalar(element, key)
		if name == "" {
			continue
		}
		for _, x := range list.Content {
			if finding.Scalar(x, key) == name {
				return x, element
			}
		}
		return nil, element
	}
	if n < len(list.Content) {
		return list.Content[n], element
	}
	return nil, element
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

// kustomizationOf returns the kustomization of a directory and the line of its resources, or of its
// first field. It is the place for findings without another line, such as those on generated
// objects. It returns the directory itself if it has no kustomization.
func (v *view) kustomizationOf(dir string) (file string, line int) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file = path.Join(dir, name)
		if _, looked := v.notes[file]; !looked || v.stat(file) != noteFile {
			continue
		}
		if data, _, err := v.read(file); err == nil {
			return file, max(1, finding.LineAmong(data, "resources", "")) // 1: it is empty, or no YAML
		}
	}
	return dir, 0
}

// largest returns the first line of the largest file that the build of a directory read.
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

// beginning returns the file and line where a built object begins: in a resource, at the generator
// that makes it, or otherwise the kustomization of the directory.
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

// generatorOf returns the line of the generator in a kustomization that makes an object; 0 if none
// does. A generated name ends in a hash.
func (v *view) generatorOf(file string, x object) int {
	field := map[string]string{"ConfigMap": "configMapGenerator", "Secret": "secretGenerator"}[x.Kind]
	data, _, err := v.read(file)
	var doc yaml.Node
	if err != nil || yaml.Unmarshal(data, &doc) != nil || len(doc.Content) != 1 {
		return 0
	}
	for _, g := range finding.Items(finding.Lookup(doc.Content[0], field)) {
		if name := finding.Scalar(g, "name"); name != "" && strings.Contains(x.Name, name) {
			return g.Line
		}
	}
	return 0
}

// lineIn returns the file and line of a field of a built object, or of its nearest parent if the
// resource lacks the field. It does not search for patches that remove the field.
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

// document returns the object among the resources that a built object comes from, and its file:
// the object with the same kind and name, or else the one whose name is part of the built name,
// for example below a namePrefix. It returns nil if no object matches, for example for a
// generated object.
func (v *view) document(x object) (file string, doc *yaml.Node) {
	for name, data := range v.resources() {
		for _, n := range documents(data) {
			called := finding.Scalar(n, "metadata", "name")
			switch {
			case finding.Scalar(n, "kind") != x.Kind || called == "":
			case called == x.Name:
				return name, n
			case doc == nil && strings.Contains(x.Name, called):
				file, doc = name, n
			}
		}
	}
	return file, doc
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

// definedIn returns the resource file that defines an object, and the line of its name; empty if
// unknown, for example for a generated object.
func (v *view) definedIn(x object) (file string, line int) {
	file, doc := v.document(x)
	if doc == nil || finding.Scalar(doc, "metadata", "name") != x.Name {
		return "", 0
	}
	return file, finding.Lookup(doc, "metadata", "name").Line
}

// generatedIn returns the kustomization that generates an object, and the line of its generators; those of
// the overlay in dir if the object has another name there.
func (v *view) generatedIn(dir string, x object) (file string, line int) {
	file = path.Join(dir, listFile)
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
			file = name
			break
		}
	}
	return file, finding.LineOf(v.tree, file, strings.ToLower(x.Kind[:1])+x.Kind[1:]+"Generator")
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
