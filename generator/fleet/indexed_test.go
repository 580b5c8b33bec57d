package fleet

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// index is a tree of files whose directories are found without looking at every
// file, as fstest.MapFS does.
type index struct {
	files files
	dirs  map[string][]fs.DirEntry
}

func indexed(f files) *index {
	x := &index{files: f, dirs: map[string][]fs.DirEntry{".": nil}}
	seen := map[string]bool{}
	for name, content := range f {
		x.enter(seen, name, node{name: path.Base(name), size: len(content)})
	}
	for _, list := range x.dirs {
		slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return x
}

func (x *index) enter(seen map[string]bool, name string, n node) {
	if seen[name] || name == "." {
		return
	}
	seen[name] = true
	dir := path.Dir(name)
	x.dirs[dir] = append(x.dirs[dir], fs.FileInfoToDirEntry(n))
	x.enter(seen, dir, node{name: path.Base(dir), dir: true})
}

func (x *index) Open(name string) (fs.File, error) {
	info, err := x.Stat(name)
	if err != nil {
		return nil, err
	}
	return open{bytes.NewReader([]byte(x.files[name])), info}, nil
}

type open struct {
	*bytes.Reader
	info fs.FileInfo
}

func (o open) Stat() (fs.FileInfo, error) { return o.info, nil }
func (open) Close() error                 { return nil }

func (x *index) ReadFile(name string) ([]byte, error) {
	content, ok := x.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func (x *index) ReadDir(name string) ([]fs.DirEntry, error) {
	list, ok := x.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return list, nil
}

func (x *index) Stat(name string) (fs.FileInfo, error) {
	if content, ok := x.files[name]; ok {
		return node{name: path.Base(name), size: len(content)}, nil
	}
	if _, ok := x.dirs[name]; ok {
		return node{name: path.Base(name), dir: true}, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (x *index) Lstat(name string) (fs.FileInfo, error) { return x.Stat(name) }
func (x *index) ReadLink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
}

type node struct {
	name string
	size int
	dir  bool
}

func (n node) Name() string       { return n.name }
func (n node) Size() int64        { return int64(n.size) }
func (n node) ModTime() time.Time { return time.Time{} }
func (n node) IsDir() bool        { return n.dir }
func (n node) Sys() any           { return nil }
func (n node) Mode() fs.FileMode {
	if n.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
