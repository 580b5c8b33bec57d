package verification

import (
	"errors"
	"io/fs"

	"muster/gitops/branch"
)

// watched is a file system that records the first error that does not concern the content of
// files: the repository lacks them, or cannot be read. Code that reads an overlay attributes
// every error to the overlay.
type watched struct {
	fs.FS
	ended *error
}

func (w watched) note(err error) error {
	if *w.ended == nil && (unread(err) || errors.Is(err, branch.ErrUnread)) {
		*w.ended = err
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
