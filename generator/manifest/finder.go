package manifest

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// finder finds the line of a person's file that a field of the built Job comes
// from. It looks into the files that the builds read: the Job itself, patches, and
// what a kustomization says of names, labels and annotations.
type finder struct {
	// fallback is the kustomization of the template and its line, to name where no
	// other line is found.
	fallback     string
	fallbackLine int
	overlay      string
	sources      []source
}

// source is a part of a Job, or a list of JSON patch operations.
type source struct {
	file    string
	above   int // lines of the file before the node's first
	node    *yaml.Node
	patch   bool // it was laid over a Job, and wins over it
	setting []string
}

// newFinder reads the files that were looked at in builds, first in the template's.
func newFinder(tree fs.FS, o *Overlay, notes ...map[string]string) *finder {
	f := &finder{overlay: o.Path}
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

// add takes the documents of a text that are of use.
func (f *finder) add(file string, data []byte, above int, patch bool) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if dec.Decode(&doc) != nil {
			return
		}
		if len(doc.Content) != 1 {
			continue
		}
		n := doc.Content[0]
		kind := scalar(n, "kind")
		switch {
		case !patch && slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(file)):
			f.kustomization(file, n)
		case n.Kind == yaml.SequenceNode, n.Kind == yaml.MappingNode && (kind == "Job" || kind == ""):
			f.sources = append(f.sources, source{file: file, above: above, node: n, patch: patch || scalar(n, "spec", "completionMode") == ""})
		}
	}
}

// inlineText is a patch that a kustomization holds itself, and the lines before it.
type inlineText struct {
	text  string
	above int
}

// inlineTexts lists the patches that a kustomization holds itself.
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
		if list := lookup(k, field); list != nil {
			for _, p := range list.Content {
				inline(p)
				inline(lookup(p, "patch"))
			}
		}
	}
	return all
}

// kustomization takes the patches that a kustomization holds, and its settings.
func (f *finder) kustomization(file string, k *yaml.Node) {
	for _, t := range inlineTexts(k) {
		f.add(file, []byte(t.text), t.above, true)
	}
	setting := func(n *yaml.Node, at ...string) {
		if n != nil {
			f.sources = append(f.sources, source{file: file, node: n, patch: true, setting: at})
		}
	}
	labels := []*yaml.Node{lookup(k, "commonLabels")}
	if list := lookup(k, "labels"); list != nil {
		for _, item := range list.Content {
			labels = append(labels, lookup(item, "pairs"))
		}
	}
	for _, above := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		for _, n := range labels {
			setting(n, append(slices.Clone(above), "labels")...)
		}
		setting(lookup(k, "commonAnnotations"), append(slices.Clone(above), "annotations")...)
	}
	setting(lookup(k, "namespace"), "metadata", "namespace")
	setting(lookup(k, "namePrefix"), "metadata", "name")
	setting(lookup(k, "nameSuffix"), "metadata", "name")
}

// place is the file and line of a field of the built Job, or of what is nearest
// above it where the field is nowhere; of the template's kustomization where even that
// is not known.
func (f *finder) place(job *yaml.Node, at []string) (file string, line int) {
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

// follow goes down from a source as far as it has the field: the line it comes to,
// how deep that is, and whether it says there what the built Job says.
func (s source) follow(job *yaml.Node, at []string) (line, depth int, same bool) {
	switch {
	case s.setting != nil:
		if len(at) < len(s.setting) || !slices.Equal(at[:len(s.setting)], s.setting) {
			return 0, 0, false
		}
		if s.node.Kind == yaml.ScalarNode {
			return s.node.Line, len(at), true
		}
		line, depth, same = descend(s.node, lookup(job, s.setting...), at[len(s.setting):])
		if depth == 0 {
			return 0, 0, false
		}
		return line, depth + len(s.setting), same
	case s.node.Kind == yaml.MappingNode:
		return descend(s.node, job, at)
	}
	for _, op := range s.node.Content { // a JSON patch: the last operation wins
		pointer := strings.Split(strings.TrimPrefix(scalar(op, "path"), "/"), "/")
		value := lookup(op, "value")
		if value == nil || len(pointer) > len(at) || !points(pointer, at) {
			continue
		}
		l, d, is := descend(value, under(job, at[:len(pointer)]), at[len(pointer):])
		if d == 0 {
			l, is = value.Line, len(pointer) == len(at) && alike(value, under(job, at))
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

// descend follows a path down a part of a Job, beside the built Job, which tells
// the elements of its lists apart.
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
			next = lookup(part, key)
			built = lookup(built, key)
			for j := 0; part != nil && part.Kind == yaml.MappingNode && j+1 < len(part.Content); j += 2 {
				if part.Content[j].Value == key {
					line = part.Content[j].Line
				}
			}
		}
		if next == nil {
			return line, i, false
		}
		part = next
	}
	return line, len(at), alike(part, built)
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
		n = lookup(n, key)
	}
	return n
}

// counterpart finds in a list the element that became the n-th of the built one:
// the one with its name, or its path, or the n-th.
func counterpart(list, built *yaml.Node, n int) (part, element *yaml.Node) {
	if built == nil || built.Kind != yaml.SequenceNode || n >= len(built.Content) {
		return nil, nil
	}
	element = built.Content[n]
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil, element
	}
	for _, key := range []string{"mountPath", "name", "containerPort", "ip", "topologyKey"} {
		name := scalar(element, key)
		if name == "" {
			continue
		}
		for _, x := range list.Content {
			if scalar(x, key) == name {
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

// alike reports whether two scalars say the same; what is no scalar is not
// compared.
func alike(a, b *yaml.Node) bool {
	return a != nil && b != nil && a.Kind == b.Kind && (a.Kind != yaml.ScalarNode || a.Value == b.Value)
}
