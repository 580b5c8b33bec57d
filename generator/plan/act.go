package plan

import (
	"errors"
	"io/fs"
)

// Tip is the commit that a decision is made on, and what it holds.
type Tip struct {
	// Commit is the commit's identifier in hexadecimal.
	Commit string
	// Tree is the fleet repository at that commit. It may read lazily; it is
	// good for the tick that asked for it.
	Tree fs.FS
}

// ErrMoved says that the branch's tip was no longer the one decided on:
// another writer was first, nothing was written, look again and decide again.
var ErrMoved = errors.New("the branch has moved")

// Change is one file written or removed.
type Change struct {
	// Path is slash-separated, from the top of the repository.
	Path string
	// Content is the whole file; nil removes it.
	Content []byte
}
