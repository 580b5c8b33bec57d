package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"muster/gitops/git/remote"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// info is an [fs.FileInfo] of an entry.
type info struct {
	entry
	size int64
}

// Name is the last part of the path.
func (i info) Name() string { return i.name }

// Size is the number of bytes of a file.
func (i info) Size() int64 { return i.size }

// Mode returns the type and the permissions that git records.
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

// dirEntry is an entry of a listing. Its size is computed on demand.
type dirEntry struct {
	info
	f    *treeFS
	path string
}

// Type is the entry's type.
func (d dirEntry) Type() fs.FileMode { return d.Mode().Type() }

// Identity implements [branch.Identified].
func (d dirEntry) Identity() string { return d.hash.String() }

// Info describes the entry.
func (d dirEntry) Info() (fs.FileInfo, error) { return d.f.Stat(d.path) }

type openFile struct {
	info
	*bytes.Reader
}

// Size returns the size of the file: both embedded types have one.
func (f *openFile) Size() int64 { return f.info.size }

// Stat describes the file.
func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close does nothing.
func (f *openFile) Close() error { return nil }

// treeFS is the tree of one commit as a file system. It implements
// [fs.ReadFileFS], [fs.ReadDirFS] and [fs.StatFS]; times are zero. Missing
// objects are fetched when they are read, in batches, with the context of the
// [branch.Head] it belongs to. Symbolic links and submodules are not followed: they are
// listed, and reading one is an error that names the type.
type treeFS struct {
	branch *Branch
	store  *store // the branch's own, or that of an earlier commit
	ctx    context.Context
	root   plumbing.Hash
}

// Open opens a file. The error for a directory is that of reading it: use [fs.ReadDir] and [fs.Stat].
func (f *treeFS) Open(name string) (fs.File, error) {
	e, err := f.entry("open", name)
	if err != nil {
		return nil, err
	}
	content, err := f.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &openFile{info: info{entry: e.entry, size: int64(len(content))}, Reader: bytes.NewReader(content)}, nil
}

// ReadFile returns a copy of a file's content.
func (f *treeFS) ReadFile(name string) ([]byte, error) {
	f.branch.mu.Lock()
	defer f.branch.mu.Unlock()
	e, err := f.find("read", name)
	if err != nil {
		return nil, err
	}
	if e.mode == filemode.Dir {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	content, err := f.content(name, e.hash)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: f.branch.describe("reading", err)}
	}
	return slices.Clone(content), nil
}

// ReadDir lists a directory in the order of names, each once. It leaves out invalid names, which git's
// own tools do not write: a directory called . would contain itself.
func (f *treeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.branch.mu.Lock()
	defer f.branch.mu.Unlock()
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
		if !isName(child.name) {
			continue
		}
		list = append(list, dirEntry{info{entry: child}, f, path.Join(name, child.name)})
	}
	slices.SortStableFunc(list, func(a, b fs.DirEntry) int { // as lookup has it: directories first
		return cmp.Or(strings.Compare(a.Name(), b.Name()), cmp.Compare(b.Type()&fs.ModeDir, a.Type()&fs.ModeDir))
	})
	return slices.CompactFunc(list, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() }), nil
}

// isName reports whether an entry of a tree can be reached by its name.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}

// Stat describes a file or directory. It reads a file to determine its size.
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
	f.branch.mu.Lock()
	defer f.branch.mu.Unlock()
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

// readable returns an error if entries of this mode are not read.
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
	f.store.visit(name)
	t, err := f.store.tree(f.ctx, h)
	if err != nil {
		return nil, f.branch.describe("reading", err)
	}
	return t, nil
}

// content returns a file, and fetches files with it that are likely to be read next.
func (f *treeFS) content(name string, h plumbing.Hash) ([]byte, error) {
	store := f.store
	if raw, ok := store.get(h); ok {
		store.heapLimit.add(len(raw.data))
		return raw.data, nil
	}
	wants := []plumbing.Hash{h}
	if err := store.readable(h); err != nil {
		return nil, err
	}
	if store.mode == partial {
		wants = f.batch(name, h).wants
	}
	err := store.fetchMissing(f.ctx, wants)
	if err == nil && !store.hasAll(wants) {
		store.adapt(len(wants), remote.ErrTooMany) // they exceed what is kept
	} else {
		store.adapt(len(wants), err)
	}
	if _, here := store.get(h); len(wants) > 1 && (errors.Is(err, remote.ErrTooMany) || err == nil && !here) {
		// Together they are too large.
		err = store.fetchMissing(f.ctx, []plumbing.Hash{h})
	}
	if errors.Is(err, remote.ErrTooMany) {
		store.large[h] = -1
	}
	if large := store.readable(h); large != nil {
		return nil, large
	}
	if err != nil {
		return nil, err
	}
	raw, ok := store.get(h)
	if !ok {
		return nil, fmt.Errorf("the server did not send file %s", name)
	}
	store.heapLimit.add(len(raw.data))
	return raw.data, nil
}
