package verification

import (
	"errors"
	"io/fs"

	"muster/gitops/branch"
)

// watched are files of which the first error is kept that is not about the files: the
// repository does not have them, or cannot be read. Whoever reads an overlay takes every
// error for one of the overlay's.
type watched struct {
	fs.FS
	gone *error
}

func (w watched) note(err error) error {
	if *w.gone == nil && (unread(err) || errors.Is(err, branch.ErrUnread)) {
		*w.gone = err
	}
	return err
}

// Open implements [fs.FS].
func (w watched) Open(name string) (fs.File, error) {
	f, err := w.FS.Open(name)
	return f, w.note(err)
}

// ReadFile implements [fs.ReadFileFS].
func (w watched) ReadFile(name string) ([]byte, error) {
	text, err := fs.ReadFile(w.FS, name)
	return text, w.note(err)
}

// ReadDir implements [fs.ReadDirFS].
func (w watched) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(w.FS, name)
	return all, w.note(err)
}

// Stat implements [fs.StatFS].
func (w watched) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(w.FS, name)
	return info, w.note(err)
}
