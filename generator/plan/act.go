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

// ActKind is what a commit does to an overlay.
type ActKind string

// The kinds of act, in the order in which one tick performs them.
const (
	// Repair puts muster's own directory right after it was edited by hand.
	Repair ActKind = "repair"
	// Order adds dispatches.
	Order ActKind = "dispatch"
	// Retire removes dispatches.
	Retire ActKind = "retire"
)

// Act is one commit: one thing done to one overlay.
type Act struct {
	// Kind is what is done.
	Kind ActKind
	// Path is the overlay's directory, from the top of the repository.
	Path string
	// Decision is why.
	Decision Decision
	// Changes are the files written and removed.
	Changes []Change
}
