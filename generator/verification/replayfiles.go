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

// Open implements [fs.FS].
func (f files) Open(name string) (fs.File, error) {
	tree, err := f.of(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return tree.Open(name)
}

// ReadFile implements [fs.ReadFileFS].
func (f files) ReadFile(name string) ([]byte, error) {
	tree, err := f.of(name)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return fs.ReadFile(tree, name)
}

// ReadDir implements [fs.ReadDirFS].
func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	tree, err := f.of(name)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	all, err := fs.ReadDir(tree, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return !f.seen(path.Join(name, e.Name())) }), err
}

// Stat implements [fs.StatFS].
func (f files) Stat(name string) (fs.FileInfo, error) {
	tree, err := f.of(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return fs.Stat(tree, name)
}
