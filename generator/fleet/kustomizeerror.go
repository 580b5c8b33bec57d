package fleet

import (
	"cmp"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"

	"muster/generator/finding"
	"muster/generator/kustomize"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
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
	f.File, f.Line = v.kustomizationOf(dir)
	if strings.Contains(text, kustomize.TooLarge) {
		f.File, f.Line = v.largest(dir)
	}
	if name := v.fileIn(text); name != "" {
		f.File, f.Line = name, 0
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

func isKustomization(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name))
}

// filesRead lists the files of the tree that kustomize read, sorted.
func (v *view) filesRead() []string {
	var files []string
	for name, note := range v.notes {
		if _, over := v.over[name]; !over && len(note) > len(noteFile) && strings.HasPrefix(note, noteFile) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}

// resources returns the files that the kustomizations list as resources, with their texts, except those
// above maxParsed.
func (v *view) resources() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, file := range v.filesRead() {
			data, _, err := v.read(file)
			var k types.Kustomization
			if err != nil || !isKustomization(file) || k.Unmarshal(data) != nil {
				continue
			}
			k.FixKustomization()
			for _, r := range k.Resources {
				// Of a directory, the kustomization is among those that were read.
				name := path.Join(path.Dir(file), r)
				if v.stat(name) != noteFile {
					continue
				}
				if data, _, err := v.read(name); err == nil && len(data) <= maxParsed && !yield(name, data) {
					return
				}
			}
		}
	}
}

// namesOf returns the names of the objects of a kind among the resources.
func (v *view) namesOf(kind string) []string {
	var names []string
	for _, data := range v.resources() {
		for _, object := range documents(data) {
			if finding.Scalar(object, "kind") == kind {
				names = append(names, finding.Scalar(object, "metadata", "name"))
			}
		}
	}
	return slices.Compact(names)
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

// patchesOfNothing finds patches of a template whose target selects no object: kustomize omits
// them silently.
func patchesOfNothing(tree fs.FS, o *Overlay) []finding.Finding {
	file := path.Join(o.Path, templateDir, listFile)
	data, err := fs.ReadFile(tree, file)
	var k types.Kustomization
	if err != nil || k.Unmarshal(data) != nil {
		return nil
	}
	v := &view{tree: tree, notes: o.loader.used["template "+path.Join(o.Path, templateDir)].notes}
	name := finding.Scalar(o.template.job(), "metadata", "name")
	jobs := append(v.namesOf("Job"), name) // its name before a patch renamed it
	var findings []finding.Finding
	for i, p := range slices.Concat(k.Patches, k.PatchesJson6902) { //nolint:staticcheck // people still write the deprecated one
		if p.Target == nil || selectsJob(p.Target, jobs) {
			continue
		}
		word := cmp.Or(p.Target.Name, p.Target.Kind, p.Target.Group, p.Target.Version)
		f := finding.Finding{File: file, Field: "patches", Problem: fmt.Sprintf("the target %s matches nothing, so that kustomize leaves the patch out", targetText(p.Target)), Remedy: "the Job is named " + name}
		if i >= len(k.Patches) {
			f.Field = "patchesJson6902"
		}
		for n, text := range slices.Collect(strings.Lines(string(data))) {
			if f.Line == 0 && strings.Contains(text, word) && !strings.HasPrefix(strings.TrimSpace(text), "#") {
				f.Line = n + 1
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// selectsJob reports whether a patch's target selects the template's Job, which
// has had these names.
func selectsJob(target *types.Selector, names []string) bool {
	return selects(target.Group, "batch") && selects(target.Version, "v1") && selects(target.Kind, "Job") &&
		slices.ContainsFunc(names, func(n string) bool { return selects(target.Name, n) })
}

// targetText describes a patch's target, as in batch/v1 Job agent.
func targetText(target *types.Selector) string {
	version := strings.Trim(target.Group+"/"+target.Version, "/")
	return strings.Join(slices.DeleteFunc([]string{version, target.Kind, target.Name}, func(s string) bool { return s == "" }), " ")
}

// selects reports whether a field of a patch's target, a regular expression that
// must match the whole, selects a value; an empty one selects all.
func selects(pattern, value string) bool {
	whole, err := regexp.Compile("^(?:" + pattern + ")$")
	return pattern == "" || err == nil && whole.MatchString(value)
}
