package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// treeFS is the tree of one commit as a file system. It implements
// [fs.ReadFileFS], [fs.ReadDirFS] and [fs.StatFS]; times are zero. What is
// not here is fetched when it is read, in batches, with the context of the
// Tip it belongs to. Symbolic links and submodules are not followed: listings
// leave them out, and reading one is an error that says what it is.
type treeFS struct {
	r    *Branch
	ctx  context.Context
	root plumbing.Hash
}

const (
	// mostAhead is how many files are fetched together.
	mostAhead = 1000
	// largeDir is the number of entries above which a directory's files are
	// read ahead only by somebody who reads one of them, and below ReadAhead
	// not kept.
	largeDir = 1000
	// fewKept is how many files of a large directory are kept nevertheless, to
	// make deltas on.
	fewKept = 8
)

// Open opens a file or a directory.
func (f *treeFS) Open(name string) (fs.File, error) {
	e, err := f.entry("open", name)
	if err != nil {
		return nil, err
	}
	if e.mode == filemode.Dir {
		list, err := f.ReadDir(name)
		return &openDir{info: e, list: list}, err
	}
	content, err := f.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &openFile{info: info{entry: e.entry, size: int64(len(content))}, Reader: bytes.NewReader(content)}, nil
}

// ReadFile returns a file's content, which must not be changed.
func (f *treeFS) ReadFile(name string) ([]byte, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	e, err := f.find("read", name)
	if err != nil {
		return nil, err
	}
	if e.mode == filemode.Dir {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	content, err := f.content(name, e.hash)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: f.r.fail("reading", err)}
	}
	return slices.Clone(content), nil
}

// ReadDir lists a directory's files and directories in the order of their
// names.
func (f *treeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	e, err := f.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if e.mode != filemode.Dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	t, err := f.dir(name, e.hash)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	list := make([]fs.DirEntry, 0, t.len())
	for i := range t.len() {
		child := t.at(i)
		list = append(list, dirEntry{info{entry: child}, f, path.Join(name, child.name)})
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Stat describes a file or directory. A file's size is that of its content,
// which is read to know it.
func (f *treeFS) Stat(name string) (fs.FileInfo, error) {
	e, err := f.entry("stat", name)
	if err != nil || e.mode == filemode.Dir {
		return e, err
	}
	content, err := f.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return info{entry: e.entry, size: int64(len(content))}, nil
}

func (f *treeFS) entry(op, name string) (info, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	e, err := f.find(op, name)
	return info{entry: e}, err
}

// find walks down to a name.
func (f *treeFS) find(op, name string) (entry, error) {
	if !fs.ValidPath(name) {
		return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	at := entry{name: ".", mode: filemode.Dir, hash: f.root}
	if name == "." {
		return at, nil
	}
	dir := ""
	for part := range strings.SplitSeq(name, "/") {
		if at.mode != filemode.Dir {
			return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		t, err := f.dir(dir, at.hash)
		if err != nil {
			return entry{}, &fs.PathError{Op: op, Path: name, Err: err}
		}
		next, ok := t.lookup(part)
		if !ok {
			return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		if err := readable(next.mode); err != nil {
			return entry{}, &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("%s %w", join(dir, part), err)}
		}
		at, dir = next, join(dir, part)
	}
	return at, nil
}

// readable says why an entry is not shown.
func readable(mode filemode.FileMode) error {
	switch mode {
	case filemode.Dir, filemode.Regular, filemode.Executable, filemode.Deprecated:
		return nil
	case filemode.Symlink:
		return errors.New("is a symbolic link, which is not followed: put the file itself there")
	case filemode.Submodule:
		return errors.New("is a submodule, which is not read: put the files themselves there")
	}
	return errors.New("is neither a file nor a directory")
}

// dir returns the tree of a directory.
func (f *treeFS) dir(name string, h plumbing.Hash) (*tree, error) {
	if name == "." {
		name = ""
	}
	if name != "" && !below(name, f.r.config.ReadAhead) && !below(f.r.config.ReadAhead, name) {
		f.r.visit(name)
	}
	t, err := f.r.tree(f.ctx, h)
	if err != nil {
		return nil, f.r.fail("reading", err)
	}
	return t, nil
}

// content returns a file, and fetches with it what is likely to be read next.
func (f *treeFS) content(name string, h plumbing.Hash) ([]byte, error) {
	if raw, ok := f.r.held(h); ok {
		return raw.data, nil
	}
	wants := []plumbing.Hash{h}
	if f.r.mode == partial {
		wants = f.ahead(name, wants)
	}
	if err := f.r.fetchMissing(f.ctx, wants); err != nil {
		return nil, err
	}
	raw, ok := f.r.held(h)
	if !ok {
		return nil, fmt.Errorf("the server did not send file %s", name)
	}
	return raw.data, nil
}

// ahead adds to wants the files of the same directory and, below ReadAhead,
// of all of them, without those of directories too large to read for nothing.
func (f *treeFS) ahead(name string, wants []plumbing.Hash) []plumbing.Hash {
	seen := map[plumbing.Hash]bool{wants[0]: true}
	own := path.Dir(name)
	add := func(t *tree, from int) {
		for i := from; i < t.len() && len(wants) < mostAhead; i++ {
			h := t.hash(i)
			if t.isDir(i) || seen[h] || readable(t.at(i).mode) != nil {
				continue
			}
			if _, here := f.r.held(h); here {
				continue
			}
			seen[h] = true
			wants = append(wants, h)
		}
	}
	if e, err := f.find("read", own); err == nil {
		if t, ok := f.r.trees[e.hash]; ok {
			from := 0
			if t.len() > largeDir {
				from, _ = t.find(path.Base(name), false)
				for i := fewKept; i < from && below(name, f.r.config.ReadAhead); i++ {
					delete(f.r.blobs, t.hash(i)) // read, and not needed again
				}
			}
			add(t, from)
		}
	}
	if !below(name, f.r.config.ReadAhead) {
		return wants
	}
	var walk func(h plumbing.Hash)
	walk = func(h plumbing.Hash) {
		t, ok := f.r.trees[h]
		if !ok || len(wants) >= mostAhead {
			return
		}
		if t.len() <= largeDir {
			add(t, 0)
		}
		for i := range t.len() {
			if t.isDir(i) {
				walk(t.hash(i))
			}
		}
	}
	if e, err := f.find("read", f.r.config.ReadAhead); err == nil {
		walk(e.hash)
	}
	return wants
}

// info describes an entry as the file system's callers want it.
type info struct {
	entry
	size int64
}

// Name is the last part of the path.
func (i info) Name() string { return i.name }

// Size is the number of bytes of a file.
func (i info) Size() int64 { return i.size }

// Mode is the type, and the permissions that git knows of.
func (i info) Mode() fs.FileMode {
	switch i.mode {
	case filemode.Dir:
		return fs.ModeDir | 0o755
	case filemode.Executable:
		return 0o755
	case filemode.Symlink:
		return fs.ModeSymlink | 0o777
	case filemode.Submodule:
		return fs.ModeIrregular
	}
	return 0o644
}

// ModTime is zero: git keeps no times of files.
func (i info) ModTime() time.Time { return time.Time{} }

// IsDir reports whether the entry is a directory.
func (i info) IsDir() bool { return i.mode == filemode.Dir }

// Sys is nil.
func (i info) Sys() any { return nil }

// dirEntry is an entry of a listing; its size is found out when it is asked for.
type dirEntry struct {
	info
	f    *treeFS
	path string
}

// Type is the entry's type.
func (d dirEntry) Type() fs.FileMode { return d.Mode().Type() }

// Identity tells a file's content from every other without reading it.
func (d dirEntry) Identity() string { return d.hash.String() }

// Info describes the entry.
func (d dirEntry) Info() (fs.FileInfo, error) { return d.f.Stat(d.path) }

type openFile struct {
	info
	*bytes.Reader
}

// Size settles between the two that are embedded.
func (f *openFile) Size() int64 { return f.info.size }

// Stat describes the file.
func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close does nothing.
func (f *openFile) Close() error { return nil }

type openDir struct {
	info
	list []fs.DirEntry
}

// Stat describes the directory.
func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }

// Read refuses: a directory has no content.
func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

// Close does nothing.
func (d *openDir) Close() error { return nil }

// ReadDir returns the next n entries, or all that are left.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(d.list) {
		if n > 0 && len(d.list) == 0 {
			return nil, io.EOF
		}
		n = len(d.list)
	}
	next := d.list[:n:n]
	d.list = d.list[n:]
	return next, nil
}
