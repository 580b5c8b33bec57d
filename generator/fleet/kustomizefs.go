package fleet

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

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

	// parts are the elements of all paths in kustomizations. writesPaths reports that the output
	// contains paths, and selects that objects are changed by their names or labels.
	parts                map[string]bool
	writesPaths, selects bool
	// changes reports that a kustomization does more than list resources. listed and lists count
	// how often one lists the directory hide, and how often the kustomization in it was read.
	changes       bool
	listed, lists int
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
	if err == nil && isKustomization(name) {
		v.vet(name, data)
	}
	if v.refused != nil {
		return nil, *v.refused
	}
	return data, err
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
