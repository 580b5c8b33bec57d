package branch

import (
	"context"
	"iter"
)

// Writer is a branch that commits can be put on, and that can be read back in time.
type Writer interface {
	// Head returns the branch's head and its tree.
	Head(ctx context.Context) (Head, error)
	// Push pushes a chain of commits on top of tip, all or none, and returns the
	// new head. The error is [ErrMoved] if the branch is no longer at tip, and a
	// [Refused] if the server does not accept the commits.
	Push(ctx context.Context, head Head, commits []Draft) (Head, error)
	// Writable asks whether the credentials may push to the branch, without a push. The
	// error is [ErrUnproven] where only a push would show it.
	Writable(ctx context.Context) error
	// Limits returns what one commit should not exceed.
	Limits() Limits
	History
}

// Limits is what a commit through a [Writer] should not exceed. The zero value is no limit.
type Limits struct {
	// OneByOne is set where a chain costs one request per commit, and not one in all:
	// commits are then pushed separately.
	OneByOne bool
	// Files and Bytes are how much one request can change. A larger commit is written by
	// several. Zero Files is no limit.
	Files, Bytes int
}

// History reads the past of a branch.
type History interface {
	// Commits yields the commit from, and those before it, the newest first, up to
	// the limit. It yields an error as the last element.
	Commits(ctx context.Context, from string, limit Limit) iter.Seq2[Commit, error]
	// File returns a file as it was at a past commit. The error is [io/fs.ErrNotExist]
	// where that commit has no such file.
	File(ctx context.Context, commit, name string) ([]byte, error)
	// Edits returns what commits have changed against their first parents, in the order of
	// the commits. trees has the tree of each commit that is known, by identifier.
	Edits(ctx context.Context, commits []Commit, trees map[string]string, look Selection) ([]Edits, error)
}
