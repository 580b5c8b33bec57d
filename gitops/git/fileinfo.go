package git

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

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

// Size is that of the file: both embedded types have one.
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
