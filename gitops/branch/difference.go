package branch

import "errors"

// ErrMissing says that the repository does not have something of its past, as a shallow
// or a partial clone does not.
var ErrMissing = errors.New("this repository does not have it")

// ErrUnread says that something of the past could not be read now: the server is away.
var ErrUnread = errors.New("it cannot be read now")

// ErrMalformed says that a tree of the repository is not as git writes it.
var ErrMalformed = errors.New("the repository is damaged")

// Difference is one file that is another in one commit than in another one.
type Difference struct {
	// Path is slash-separated, from the top of the repository.
	Path string
	// Before and After are the file in either commit; the zero value: it is not there.
	Before, After Blob
}

// Blob is a file as the tree of a commit has it.
type Blob struct {
	// ID identifies the content, byte for byte, in hexadecimal.
	ID string
	// Mode is git's, as in 0o100644 for a plain file.
	Mode uint32
}

// PlainFile is the mode of a file that is nothing special.
const PlainFile = 0o100644
