// Package branch has the types that readers and writers of a branch share: its head, the files
// that a commit changes, and the errors of a push. It also has what the clients of all hosts share: the
// parser of addresses, the filter of messages, and the reader of Retry-After. It imports only the
// standard library, so that packages that read and make files do not depend on a git client.
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

// Identified is an entry of a tree that identifies its content without reading it. It is optional.
type Identified interface {
	fs.DirEntry
	// Identity returns a different text for each content of the file or directory.
	Identity() string
}

// ErrUnproven is returned if the credentials may push to a git host, but only a push shows
// whether its rules accept a commit.
var ErrUnproven = errors.New("the git host does not report it")

// ErrMoved is a conflict: the branch was no longer at the given head, and nothing
// was written. The caller reads the new head and retries.
var ErrMoved = errors.New("the branch has moved")

// ErrInvalid is returned if a draft cannot become a commit, as when it writes a file where the
// repository has a directory. Nothing was sent to the server.
var ErrInvalid = errors.New("the changes do not make a commit")

// ErrMissing is returned if the repository lacks an object of its past, like a shallow or partial
// clone.
var ErrMissing = errors.New("this repository does not have it")

// ErrUnread is returned if an object of the past cannot be read now: the server is unreachable.
var ErrUnread = errors.New("it cannot be read now")

// ErrMalformed is returned if a tree of the repository is not in git's format.
var ErrMalformed = errors.New("the repository is damaged")

// Refused is the error of a push that the server rejected although the branch had not moved: a
// protected branch, a hook, a quota.
type Refused struct {
	// Message is the server's message in one line.
	Message string
}

// Error returns the server's message after a prefix.
func (e *Refused) Error() string { return "the server refused the push: " + e.Message }

// Change is one file written or removed.
type Change struct {
	// Path is slash-separated and relative to the top of the repository.
	Path string
	// Content is the whole file; nil removes it.
	Content []byte
}

// Draft is a commit to be made. It has no identifier yet, since its parent is the commit before it.
type Draft struct {
	// Message is the whole commit message.
	Message string
	// At is the time of author and committer; it is written in UTC with seconds.
	At time.Time
	// Changes are the files to write and remove. Files keep their mode; new ones are plain. A
	// directory is removed with its last file.
	Changes []Change
}

// Commit is one commit of the branch's history.
type Commit struct {
	// ID and Parents are identifiers in hexadecimal. The first commit has no parents, a merge
	// several.
	ID      string
	Parents []string
	// Tree is the identifier of its top directory; empty if the commit is malformed.
	Tree string
	// Author and Email identify the author. Anybody may write anything there.
	Author, Email string
	// At is the time of the commit by its committer's clock.
	At time.Time
	// Message is the whole commit message.
	Message string
}

// Limit limits how far back a history is read. The zero value is no limit.
type Limit struct {
	// Commits is the number of commits; zero for no limit.
	Commits int
	// Known is a commit whose history the caller has read. A reader may leave out that commit
	// and its ancestors if that saves requests; empty means no commit.
	Known string
}
