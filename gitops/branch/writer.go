package branch

import (
	"context"
	"iter"
)

// Writer reads a branch and its history, and pushes commits.
type Writer interface {
	// Head returns the branch's head and its tree.
	Head(ctx context.Context) (Head, error)
	// Push pushes a chain of commits on top of head, all or none, and returns the last one as the
	// new head, also if others have pushed on top of it. The error is [ErrMoved] if the branch is
	// no longer at head, and a [Refused] if the server rejects the commits. It is an [Unsettled]
	// if the result is unknown although Push has tried to read the branch; after any other error
	// the branch does not contain the commits.
	Push(ctx context.Context, head Head, commits []Draft) (Head, error)
	// Writable returns an error if the credentials may not push to the branch. It is
	// [ErrUnproven] if only a push would show that.
	Writable(ctx context.Context) error
	// HasBranch reports whether the repository has a branch of that name.
	HasBranch(ctx context.Context, name string) (bool, error)
	// Limits returns the limits of a commit.
	Limits() Limits
	History
}

// Limits are the limits of a commit through a [Writer]. The zero value is no limit.
type Limits struct {
	// OneByOne reports whether each commit costs a request of its own, so that commits are
	// pushed separately.
	OneByOne bool
	// Files and Bytes are what one request can change. A larger commit takes several requests.
	// Zero Files is no limit.
	Files, Bytes int
}

// History reads the past of a branch.
type History interface {
	// Commits yields the commit from and its ancestors, the newest first, up to the limit. An
	// error is the last element.
	Commits(ctx context.Context, from string, limit Limit) iter.Seq2[Commit, error]
	// File returns a file of a past commit. The error is [io/fs.ErrNotExist] if the commit has no
	// such file.
	File(ctx context.Context, commit, name string) ([]byte, error)
	// Edits returns the differences between commits and their first parents, in the order of the
	// commits. trees maps the identifiers of known commits to those of their trees.
	Edits(ctx context.Context, commits []Commit, trees map[string]string, look Selection) ([]Edits, error)
}
