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
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// lineFinder finds the line of a source file that a field of the built Job comes from. It searches
// the files that the builds read: the Job itself, patches, and the names, labels and annotations in
// kustomizations.
type lineFinder struct {
	// fallback is the kustomization of the template and its line, for fields without a line.
	fallback     string
	fallbackLine int
	overlay      string
	sources      []source
}

// source is a part of a Job, or a list of JSON patch operations.
type source struct {
	file    string
	above   int // number of lines before the node
	node    *yaml.Node
	patch   bool // it was laid over a Job, and wins over it
	setting []string
}

// newLineFinder reads the files that builds have read; the first notes are those of the template.
func newLineFinder(tree fs.FS, o *Overlay, notes ...map[string]string) *lineFinder {
	f := &lineFinder{overlay: o.Path}
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
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			continue
		}
		f.add(name, data, 0, false)
	}
	return f
}

// add adds the documents of a text that are a Job, or a patch of one.
func (f *lineFinder) add(file string, data []byte, above int, patch bool) {
	for doc, err := range finding.Documents(data) {
		if err != nil || len(doc.Content) != 1 {
			continue
		}
		n := doc.Content[0]
		kind := finding.Scalar(n, "kind")
		switch {
		case !patch && slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(file)):
			f.kustomization(file, n)
		case n.Kind == yaml.SequenceNode, n.Kind == yaml.MappingNode && (kind == "Job" || kind == ""):
			f.sources = append(f.sources, source{file: file, above: above, node: n, patch: patch || finding.Scalar(n, "spec", "completionMode") == ""})
		}
	}
}

// inlineText is a patch inside a kustomization, and the number of lines before it.
type inlineText struct {
	text  string
	above int
}

// inlineTexts returns the patches inside a kustomization.
func inlineTexts(k *yaml.Node) []inlineText {
	var all []inlineText
	inline := func(n *yaml.Node) {
		if n == nil || n.Kind != yaml.ScalarNode {
			return
		}
		above := n.Line - 1
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			above++
		}
		all = append(all, inlineText{n.Value, above})
	}
	for _, field := range []string{"patches", "patchesJson6902", "patchesStrategicMerge"} {
		for _, p := range finding.Items(finding.Lookup(k, field)) {
			inline(p)
			inline(finding.Lookup(p, "patch"))
		}
	}
	return all
}

// kustomization adds the patches inside a kustomization, and its settings.
func (f *lineFinder) kustomization(file string, k *yaml.Node) {
	for _, t := range inlineTexts(k) {
		f.add(file, []byte(t.text), t.above, true)
	}
	setting := func(n *yaml.Node, at ...string) {
		if n != nil {
			f.sources = append(f.sources, source{file: file, node: n, patch: true, setting: at})
		}
	}
	labels := []*yaml.Node{finding.Lookup(k, "commonLabels")}
	for _, item := range finding.Items(finding.Lookup(k, "labels")) {
		labels = append(labels, finding.Lookup(item, "pairs"))
	}
	for _, above := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		for _, n := range labels {
			setting(n, append(slices.Clone(above), "labels")...)
		}
		setting(finding.Lookup(k, "commonAnnotations"), append(slices.Clone(above), "annotations")...)
	}
	setting(finding.Lookup(k, "namespace"), "metadata", "namespace")
	setting(finding.Lookup(k, "namePrefix"), "metadata", "name")
	setting(finding.Lookup(k, "nameSuffix"), "metadata", "name")
}

// place returns the file and line of a field of the built Job, or of its nearest parent if the
// field is in no file; or of the template's kustomization if no parent is found either.
func (f *lineFinder) place(job *yaml.Node, at []string) (file string, line int) {
	best := -1
	for _, s := range f.sources {
		l, depth, same := s.follow(job, at)
		if l == 0 {
			continue
		}
		rank := depth * 8
		if same {
			rank += 4
		}
		if s.patch {
			rank += 2
		}
		if strings.HasPrefix(s.file, f.overlay+"/") {
			rank++
		}
		if rank >= best {
			best, file, line = rank, s.file, s.above+l
		}
	}
	if best < 8 {
		return f.fallback, f.fallbackLine
	}
	return file, line
}

// follow descends from a source to the deepest part of the field's path that it contains. It
// returns the line and depth of that part, and whether its value is that of the built Job.
func (s source) follow(job *yaml.Node, at []string) (line, depth int, same bool) {
	switch {
	case s.setting != nil:
		if len(at) < len(s.setting) || !slices.Equal(at[:len(s.setting)], s.setting) {
			return 0, 0, false
		}
		if s.node.Kind == yaml.ScalarNode {
			return s.node.Line, len(at), true
		}
		line, depth, same = descend(s.node, finding.Lookup(job, s.setting...), at[len(s.setting):])
		if depth == 0 {
			return 0, 0, false
		}
		return line, depth + len(s.setting), same
	case s.node.Kind == yaml.MappingNode:
		return descend(s.node, job, at)
	}
	for _, op := range s.node.Content { // a JSON patch: the last operation wins
		pointer := strings.Split(strings.TrimPrefix(finding.Scalar(op, "path"), "/"), "/")
		value := finding.Lookup(op, "value")
		if value == nil || len(pointer) > len(at) || !points(pointer, at) {
			continue
		}
		l, d, is := descend(value, under(job, at[:len(pointer)]), at[len(pointer):])
		if d == 0 {
			l, is = value.Line, len(pointer) == len(at) && sameScalar(value, under(job, at))
		}
		if d+len(pointer) >= depth {
			line, depth, same = l, d+len(pointer), is
		}
	}
	return line, depth, same
}

// points reports whether a JSON pointer leads along a path.
func points(pointer, at []string) bool {
	for i, p := range pointer {
		p = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
		if index, isIndex := strings.CutPrefix(at[i], "["); isIndex {
			if p != "-" && p+"]" != index {
				return false
			}
		} else if p != at[i] {
			return false
		}
	}
	return true
}

// descend follows a path down a part of a Job and down the built Job in parallel; the built Job
// distinguishes the elements of the part's lists.
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
			return line, i, false
		}
		part = next
	}
	return line, len(at), sameScalar(part, built)
}

// under follows a path down the built Job.
func under(n *yaml.Node, at []string) *yaml.Node {
	for _, key := range at {
		if index, isIndex := strings.CutPrefix(key, "["); isIndex {
			i, _ := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if n == nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
				return nil
			}
			n = n.Content[i]
			continue
		}
		n = finding.Lookup(n, key)
	}
	return n
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

// sameScalar reports whether two scalars have the same value; it does not compare other nodes.
func sameScalar(a, b *yaml.Node) bool {
	return a != nil && b != nil && a.Kind == b.Kind && (a.Kind != yaml.ScalarNode || a.Value == b.Value)
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
// does.
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
