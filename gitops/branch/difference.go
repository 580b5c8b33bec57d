package branch

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
