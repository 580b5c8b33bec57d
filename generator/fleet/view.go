package fleet

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
)

// view presents a git tree to kustomize as a read-only file system with root "/" and some files
// laid over it. It reads files on demand, notes every name that kustomize accesses, and refuses
// access outside of the tree.
type view struct {
	// FileSystem is nil: kustomize never calls the methods that are not
	// defined here, which write, list or search.
	filesys.FileSystem

	// name distinguishes views of the same directory.
	name string
	// tree may be nil: the view then contains only the files laid over it.
	tree fs.FS
	// over are the files laid over the tree, by name. In the directory hide of
	// the tree, only they are seen; an empty hide hides nothing.
	over map[string][]byte
	hide string

	// values are files that kustomize copies into a ConfigMap or a Secret, and parsed those that it
	// parses as YAML; a file may be both.
	values, parsed map[string]bool
	// parts are the elements of all paths in kustomizations. writesPaths reports that the output
	// contains paths, and selects that objects are changed by their names or labels.
	parts                map[string]bool
	writesPaths, selects bool
	// changes reports that a kustomization does more than list resources. listed and lists count
	// how often one lists the directory hide, and how often the kustomization in it was read.
	changes       bool
	listed, lists int
	// anchors caches which contents use anchors; nil: nothing is cached.
	anchors *anchorsOf
	// size is how many bytes were read.
	size int

	// notes describe what was found under each name that was accessed.
	notes map[string]string
	// refused is why the build must not continue; it is valid for the tree until the notes
	// change. failed is why the tree could not be read.
	refused *finding.Finding
	failed  error
}

// begin drops the notes of an earlier build.
func (v *view) begin() {
	v.notes, v.refused = map[string]string{}, nil
	v.values, v.parsed = map[string]bool{}, map[string]bool{}
	v.parts, v.writesPaths, v.selects = map[string]bool{}, false, false
	v.changes, v.listed, v.lists = false, 0, 0
	v.size = 0
}

// maxRead is the maximum number of bytes that one build reads.
const maxRead = 4 << 20

// The possible notes on a name; the note on a file that was read continues with its hash.
const (
	noteMissing = "missing"
	noteDir     = "directory"
	noteFile    = "file"
)

// inTree returns kustomize's absolute path as a name in the tree.
func inTree(p string) string {
	return cmp.Or(strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(p)), "/"), ".")
}

// stat returns the type of a name, without a note.
func (v *view) stat(name string) string {
	if _, ok := v.over[name]; ok {
		return noteFile
	}
	for over := range v.over {
		if strings.HasPrefix(over, name+"/") {
			return noteDir
		}
	}
	if v.tree == nil || v.hide != "" && (name == v.hide || strings.HasPrefix(name, v.hide+"/")) {
		return noteMissing
	}
	info, err := fs.Lstat(v.tree, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noteMissing
	case err != nil:
		v.failed = errors.Join(v.failed, fmt.Errorf("reading %s: %w", name, err))
		return noteMissing
	case info.IsDir():
		return noteDir
	case info.Mode().IsRegular():
		return noteFile
	}
	v.refuse(finding.Finding{File: name, Problem: "is a link, which muster does not follow", Remedy: "put a file in its place"})
	return noteMissing
}

func (v *view) read(name string) ([]byte, string, error) {
	data, ok := v.over[name]
	if !ok {
		if found := v.stat(name); found != noteFile {
			return nil, found, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		var err error
		if data, err = fs.ReadFile(v.tree, name); err != nil {
			v.failed = errors.Join(v.failed, fmt.Errorf("reading %s: %w", name, err))
			return nil, noteMissing, err
		}
	}
	sum := sha256.Sum256(data)
	return data, noteFile + string(sum[:]), nil
}

// unchanged reports whether the view still matches the notes.
func (v *view) unchanged(notes map[string]string) bool {
	for name, note := range notes {
		now := ""
		if len(note) > len(noteFile) && strings.HasPrefix(note, noteFile) {
			_, now, _ = v.read(name)
		} else {
			now = v.stat(name)
		}
		if now != note {
			return false
		}
	}
	return true
}

// statWithNote is stat with a note.
func (v *view) statWithNote(p string) (name, found string) {
	name = inTree(p)
	found = v.stat(name)
	if _, ok := v.notes[name]; !ok {
		v.notes[name] = found
	}
	return name, found
}

func (v *view) refuse(f finding.Finding) {
	if v.refused == nil {
		v.refused = &f
	}
}

// IsDir implements filesys.FileSystem.
func (v *view) IsDir(p string) bool {
	_, found := v.statWithNote(p)
	return found == noteDir
}

// Exists implements filesys.FileSystem.
func (v *view) Exists(p string) bool {
	_, found := v.statWithNote(p)
	return found != noteMissing
}

// CleanedAbs implements filesys.FileSystem.
func (v *view) CleanedAbs(p string) (filesys.ConfirmedDir, string, error) {
	name, found := v.statWithNote(p)
	abs := path.Join("/", name)
	switch found {
	case noteDir:
		return filesys.ConfirmedDir(abs), "", nil
	case noteFile:
		return filesys.ConfirmedDir(path.Dir(abs)), path.Base(abs), nil
	}
	return "", "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadFile implements filesys.FileSystem. A kustomization file is vetted before
// kustomize sees it.
func (v *view) ReadFile(p string) ([]byte, error) {
	name := inTree(p)
	data, note, err := v.read(name)
	v.notes[name] = note
	if v.size += len(data); v.size > maxRead {
		v.refuse(finding.Finding{File: name, Line: 1, Problem: fmt.Sprintf("exceeds the build's limit of %d MiB", maxRead>>20), Remedy: "keep large files in the image, or in an overlay or application of their own"})
	}
	if v.refused == nil && err == nil && v.mayBeParsed(name) && v.anchors.in(data, note) {
		v.refuse(noAnchors(name, "", data))
	}
	if err == nil && slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name)) {
		v.vet(name, data)
	}
	if v.refused != nil {
		return nil, *v.refused
	}
	return data, err
}

// mayBeParsed reports whether kustomize may read a file as YAML, whatever its name.
func (v *view) mayBeParsed(name string) bool {
	return v.parsed[name] || !v.values[name] || slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// use notes the use of a file that a kustomization references.
func (v *view) use(name, field string) {
	if field == "configMapGenerator" || field == "secretGenerator" {
		v.values[name] = true
	} else {
		v.parsed[name] = true
	}
}

// vet refuses a kustomization that would fetch or run something, and reports missing files more
// clearly than kustomize. It uses kustomize's own parser, so that both read the same.
func (v *view) vet(name string, data []byte) {
	if len(data) > maxParsed {
		v.refuse(finding.Finding{File: name, Line: 1, Problem: fmt.Sprintf("has %d bytes, and a kustomization has at most %d", len(data), maxParsed), Remedy: "move patches to files of their own, or list directories"})
		return
	}
	var k types.Kustomization
	if err := k.Unmarshal(data); err != nil {
		f := finding.Finding{File: name, Line: 1, Problem: "is not a kustomization: " + finding.OneLine(err), Remedy: "correct or remove the unknown part"}
		if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
			f.Line = max(1, finding.LineAmong(data, m[1]))
		}
		var any yaml.Node
		if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&any); err != nil && !errors.Is(err, io.EOF) {
			f = *finding.Syntax(name, err)
		}
		v.refuse(f)
		return
	}
	for _, patch := range inlinePatches(k) {
		if anchored([]byte(patch)) {
			v.refuse(noAnchors(name, "patches", data))
			return
		}
	}
	plain := types.Kustomization{TypeMeta: k.TypeMeta, MetaData: k.MetaData, Resources: k.Resources}
	v.changes = v.changes || !reflect.DeepEqual(k, plain)
	if v.hide != "" && name == path.Join(v.hide, listFile) {
		v.lists++
	}
	k.FixKustomization()
	for _, f := range []struct {
		name string
		used bool
	}{
		{"helmCharts", len(k.HelmCharts) > 0}, {"helmGlobals", k.HelmGlobals != nil},
		{"generators", len(k.Generators) > 0}, {"transformers", len(k.Transformers) > 0}, {"validators", len(k.Validators) > 0},
	} {
		if f.used {
			v.refuseIn(data, "", finding.Finding{File: name, Field: f.name, Problem: "would run a program", Remedy: "muster and the syncer build plain kustomizations only: use resources, components and patches"})
		}
	}
	v.writesPaths = v.writesPaths || len(k.BuildMetadata) > 0
	v.selects = v.selects || len(k.Patches)+len(k.PatchesJson6902)+len(k.PatchesStrategicMerge)+len(k.Replacements)+len(k.Vars)+len(k.Replicas)+len(k.Configurations) > 0
	for _, r := range references(k) {
		v.vetReference(name, data, r)
	}
}

// unknownField matches kustomize's error for an unknown field.
var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// vetReference notes a path that the kustomization with a name references, and refuses one that
// cannot be read.
func (v *view) vetReference(name string, data []byte, r reference) {
	dir := path.Dir(name)
	at := path.Join(dir, r.path)
	if v.hide != "" && at == v.hide {
		v.listed++
	}
	for part := range strings.SplitSeq(r.path, "/") {
		v.parts[part] = true
	}
	v.use(at, r.field)
	switch {
	case remote(r.path):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: finding.Quote(r.path) + " is not in the repository", Remedy: "copy it there: muster fetches nothing"})
	case !r.must || path.IsAbs(r.path):
	case at == ".." || strings.HasPrefix(at, "../"):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: finding.Quote(r.path) + " is above the top of the repository", Remedy: "copy it into the repository: muster and the syncer read nothing else"})
	case !v.Exists(at):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: fmt.Sprintf("%s does not exist: there is no %s in the repository", finding.Quote(r.path), at), Remedy: "correct the path, or add what it names"})
	case dir != "." && !strings.HasPrefix(at, dir+"/") && !v.IsDir(at):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: finding.Quote(r.path) + " is a file of another directory, which kustomize does not read", Remedy: "list that directory, with a kustomization.yaml in it"})
	}
}

// reference is a path that a kustomization names.
type reference struct {
	field, path string
	// must reports that it can only be the name of a file or directory.
	must bool
}

// references returns every string of a kustomization that kustomize would load.
func references(k types.Kustomization) []reference {
	var refs []reference
	add := func(field string, must bool, paths ...string) {
		for _, p := range paths {
			if p != "" {
				refs = append(refs, reference{field, p, must})
			}
		}
	}
	add("resources", true, k.Resources...)
	add("components", true, k.Components...)
	add("crds", true, k.Crds...)
	add("configurations", true, k.Configurations...)
	add("openapi", true, k.OpenAPI["path"])
	for _, p := range slices.Concat(k.Patches, k.PatchesJson6902) {
		add("patches", true, p.Path)
	}
	for _, p := range k.PatchesStrategicMerge { // a path, or the patch itself
		add("patchesStrategicMerge", false, string(p))
	}
	for _, r := range k.Replacements {
		add("replacements", true, r.Path)
	}
	sources := func(field string, s types.KvPairSources) {
		add(field, true, s.EnvSources...)
		for _, f := range s.FileSources {
			_, file, named := strings.Cut(f, "=")
			if !named {
				file = f
			}
			add(field, true, file)
		}
	}
	for _, g := range k.ConfigMapGenerator {
		sources("configMapGenerator", g.KvPairSources)
	}
	for _, g := range k.SecretGenerator {
		sources("secretGenerator", g.KvPairSources)
	}
	return refs
}

// fetched matches strings that kustomize treats as a URL or a git repository (its internal/git
// and internal/loader), by their prefix, ignoring case.
var fetched = regexp.MustCompile(`(?i)^(git::|https?:|ssh://|file://|github\.com[/:]|[a-z][a-z0-9-]*@)`)

func remote(p string) bool { return fetched.MatchString(p) }
