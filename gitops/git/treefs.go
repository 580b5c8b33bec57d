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

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// treeFS is the tree of one commit as a file system. It implements
// [fs.ReadFileFS], [fs.ReadDirFS] and [fs.StatFS]; times are zero. What is
// not here is fetched when it is read, in batches, with the context of the
// Tip it belongs to. Symbolic links and submodules are not followed: they are
// listed, and reading one is an error that says what it is.
type treeFS struct {
	branch *Branch
	store  *store // the branch's own, or that of an earlier commit
	ctx    context.Context
	root   plumbing.Hash
}

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
		return nil, &fs.PathError{Op: "read", Path: name, Err: f.branch.fail("reading", err)}
	}
	return slices.Clone(content), nil
}

// ReadDir lists a directory's files and directories in the order of their
// names, each once. An entry whose name is none, which git's own tools do not
// write, is left out: a directory called . would hold itself.
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
	f.store.visit(name)
	t, err := f.store.tree(f.ctx, h)
	if err != nil {
		return nil, f.branch.fail("reading", err)
	}
	return t, nil
}
