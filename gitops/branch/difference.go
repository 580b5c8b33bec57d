package branch

import "errors"

// ErrMissing is returned if the repository lacks an object of its past, like a shallow or partial
// clone.
var ErrMissing = errors.New("this repository does not have it")

// ErrUnread is returned if an object of the past cannot be read now: the server is unreachable.
var ErrUnread = errors.New("it cannot be read now")

// ErrMalformed is returned if a tree of the repository is not in git's format.
var ErrMalformed = errors.New("the repository is damaged")

// Difference is a file that differs between two commits.
type Difference struct {
	// Path is slash-separated and relative to the top of the repository.
	Path string
	// Before and After are the file in each commit; the zero value if the commit lacks it.
	Before, After Blob
}

// Blob is the entry of a file in the tree of a commit.
type Blob struct {
	// ID is the identifier of the content in hexadecimal.
	ID string
	// Mode is git's mode, such as 0o100644 for a plain file.
	Mode uint32
}

// PlainFile is the mode of a file that is not executable.
const PlainFile = 0o100644
