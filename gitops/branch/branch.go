// Package branch has the words that readers and writers of one branch share:
// the commit at its tip, the files that a new commit changes, and the error of
// the writer who was not first. It is the standard library only, so that what
// reads and makes files needs to know no git client.
package branch

import (
	"errors"
	"io/fs"
	"time"
)

// Head is the commit at the head of a branch, and its files.
type Head struct {
	// Commit is the commit's identifier in hexadecimal.
	Commit string
	// Tree is the repository at that commit. It may read lazily, with the
	// context of the call that returned the [Head].
	Tree fs.FS
}

// Identified is an entry of a tree that tells contents apart without reading them, as git
// can. It is optional.
type Identified interface {
	fs.DirEntry
	// Identity is different for every other content of the file or directory.
	Identity() string
}

// ErrUnproven says that a git host may be pushed to, and does not tell without a push
// whether its rules let a commit pass.
var ErrUnproven = errors.New("the git host does not tell")

// ErrMoved is a conflict: the branch was no longer at the given head, and nothing
// was written. The caller reads the new head and retries.
var ErrMoved = errors.New("the branch has moved")

// ErrUnsettled accompanies [ErrMoved] if it is unknown whether the branch contains the
// commits: they may have been written before those of another writer.
var ErrUnsettled = errors.New("whether the commits are in the branch could not be read")

// ErrInvalid says that a draft cannot become a commit: what it changes does not
// fit the files of the repository, as when a file would have to be where a
// directory is. Nothing was sent to the server.
var ErrInvalid = errors.New("the changes do not make a commit")

// Refused says that the server did not accept a push although the branch had
// not moved: a protected branch, a hook, a quota.
type Refused struct {
	// Message is what the server said, in its own words, in one line.
	Message string
}

// Error returns the server's words behind this package's.
func (e *Refused) Error() string { return "the server refused the push: " + e.Message }

// Change is one file written or removed.
type Change struct {
	// Path is slash-separated, from the top of the repository.
	Path string
	// Content is the whole file; nil removes it.
	Content []byte
}

// Draft is one commit to be made. Its parent is the commit before it, so that
// it has no identifier yet.
type Draft struct {
	// Message is the whole commit message.
	Message string
	// At is the author's and the committer's time; it is written in UTC, to
	// the second.
	At time.Time
	// Changes are the files that are written and removed. Files keep their
	// mode; new ones are plain. A directory disappears with its last file.
	Changes []Change
}

// Commit is one commit of the branch's history.
type Commit struct {
	// ID is the commit's identifier, and Parents those of the commits before
	// it, in hexadecimal. The first commit has no parents, a merge several.
	ID      string
	Parents []string
	// Tree is the identifier of its top directory; empty if the commit is malformed.
	Tree string
	// Author and Email are who made the change. Both are anybody's words.
	Author, Email string
	// At is when the commit was made, by its committer's clock.
	At time.Time
	// Message is the whole commit message.
	Message string
}

// Edits are what one commit has changed against its first parent.
type Edits struct {
	// Files are the files that are others than before, by path.
	Files []Edit
	// More says that there are further ones, which were not looked for.
	More bool
	// Unknown says why it is not known what the commit changed, as in a shallow clone
	// that does not have its parent; nil: it is.
	Unknown error
}

// Edit is one file that a commit has changed.
type Edit struct {
	// Path is slash-separated, from the top of the repository.
	Path string
	// Added and Removed say that the file was not there before, or is not any more.
	Added, Removed bool
	// Before and After are its content, if that was requested and can be read.
	Before, After []byte
}

// Selection says which files are looked at where commits are compared.
type Selection struct {
	// Below are the directories whose files are compared.
	Below []string
	// Content reports whether a file's content is wanted; nil: never.
	Content func(path string) bool
}

// Limit says how far back a history is read. The zero value is to its
// beginning.
type Limit struct {
	// Commits is the number of commits; zero for no limit.
	Commits int
	// Since leaves out commits made before it; zero for no limit.
	Since time.Time
	// Known is a commit whose history the caller has read. A reader may leave out that commit
	// and its ancestors if that saves requests; empty means no commit.
	Known string
}
