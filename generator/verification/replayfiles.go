package verification

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// files are those of some overlays, and all outside the directory of overlays: what is
// not needed is not read.
type files struct {
	tree fs.FS
	// top is the directory of overlays, and dirs are those of the overlays.
	top  string
	dirs []string
	// instead are the files of directories that come from another commit.
	instead map[string]fs.FS
}

// of is the tree that a name is read from.
func (f files) of(name string) (fs.FS, error) {
	if !f.seen(name) {
		return nil, fs.ErrNotExist
	}
	for dir, tree := range f.instead {
		if below(name, dir) {
			return tree, nil
		}
	}
	return f.tree, nil
}

// seen reports whether a name is one of the files.
func (f files) seen(name string) bool {
	return !below(name, f.top) || slices.ContainsFunc(f.dirs, func(dir string) bool { return below(name, dir) || below(dir, name) })
}

// below reports whether a name is a directory's, or lies in it.
func below(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

// read reads a name with a function of [io/fs], from the tree that has it.
func read[T any](f files, op, name string, read func(fs.FS, string) (T, error)) (T, error) {
	tree, err := f.of(name)
	if err != nil {
		var none T
		return none, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return read(tree, name)
}

// Open implements [fs.FS].
func (f files) Open(name string) (fs.File, error) { return read(f, "open", name, fs.FS.Open) }

// ReadFile implements [fs.ReadFileFS].
func (f files) ReadFile(name string) ([]byte, error) { return read(f, "read", name, fs.ReadFile) }

// ReadDir implements [fs.ReadDirFS].
func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := read(f, "readdir", name, fs.ReadDir)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return !f.seen(path.Join(name, e.Name())) }), err
}

// Stat implements [fs.StatFS].
func (f files) Stat(name string) (fs.FileInfo, error) { return read(f, "stat", name, fs.Stat) }
