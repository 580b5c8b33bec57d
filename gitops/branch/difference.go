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

// Edits are the differences between a commit and its first parent.
type Edits struct {
	// Files are the changed files, sorted by path.
	Files []Edit
	// More reports whether Files is incomplete.
	More bool
	// Unknown is the reason why the commit could not be compared, such as a shallow clone
	// without its parent; nil if it was compared.
	Unknown error
}

// Edit is a file that a commit changed.
type Edit struct {
	// Path is slash-separated, from the top of the repository.
	Path string
	// Added and Removed report whether only the commit, or only its parent, has the file.
	Added, Removed bool
	// Before and After are the contents, if requested and readable.
	Before, After []byte
}

// Selection selects the files to compare.
type Selection struct {
	// Below are the directories whose files are compared.
	Below []string
	// Content reports whether to return a file's content; nil means never.
	Content func(path string) bool
}
