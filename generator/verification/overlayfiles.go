package verification

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/gitops/branch"
)

// files is a file system of some overlays and of everything outside the directory of overlays, so
// that nothing else is read.
type files struct {
	tree fs.FS
	// top is the directory of overlays, and dirs are those of the overlays.
	top  string
	dirs []string
	// failed is the first error that does not concern the content of files: the repository lacks
	// them, or cannot be read. Code that reads an overlay attributes every error to the overlay.
	failed *error
}

// contains reports whether a path is in the file system.
func (f files) contains(name string) bool {
	return !below(name, f.top) || slices.ContainsFunc(f.dirs, func(dir string) bool { return below(name, dir) || below(dir, name) })
}

// below reports whether a path is a directory or in it.
func below(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

// read calls a function of [io/fs] with the tree, if it contains the file.
func read[T any](f files, op, name string, read func(fs.FS, string) (T, error)) (T, error) {
	if !f.contains(name) {
		var none T
		return none, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	content, err := read(f.tree, name)
	if *f.failed == nil && (unread(err) || errors.Is(err, branch.ErrUnread)) {
		*f.failed = err
	}
	return content, err
}

// Open implements [fs.FS].
func (f files) Open(name string) (fs.File, error) { return read(f, "open", name, fs.FS.Open) }

// ReadFile implements [fs.ReadFileFS].
func (f files) ReadFile(name string) ([]byte, error) { return read(f, "read", name, fs.ReadFile) }

// ReadDir implements [fs.ReadDirFS].
func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := read(f, "readdir", name, fs.ReadDir)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return !f.contains(path.Join(name, e.Name())) }), err
}

// Stat implements [fs.StatFS].
func (f files) Stat(name string) (fs.FileInfo, error) { return read(f, "stat", name, fs.Stat) }
