package generator

import (
	"context"
	"errors"
	"iter"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Fleet is the fleet repository as a tick sees it: acts go in, commits come
// out, one for each.
type Fleet struct {
	branch.Writer
	// Version is muster's own, for the trailers.
	Version string
	// Style is how the messages are written; the zero value is muster's own.
	Style ledger.Style
}

// Commit writes the acts onto the tip in one push.
func (f Fleet) Commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	commits := make([]branch.Draft, len(acts))
	for i, a := range acts {
		commits[i] = branch.Draft{Message: f.Style.Message(a, f.Version), At: a.Decision.At(), Changes: a.Changes}
	}
	return f.Push(ctx, tip, commits)
}

// Singly reports whether the acts of a tick are committed one by one, because the writer
// pays less for that.
func (f Fleet) Singly() bool {
	w, ok := f.Writer.(interface{ Singly() bool })
	return ok && w.Singly()
}

// Largest is how many files and bytes one act may change at most, because the writer pays
// more for a larger one; zero: any number.
func (f Fleet) Largest() (files, bytes int) {
	if w, ok := f.Writer.(interface{ Largest() (files, bytes int) }); ok {
		return w.Largest()
	}
	return 0, 0
}

// Commits yields the commit from and those before it, the newest first, where
// the writer can read them; see [Repository.Commits].
func (f Fleet) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	reader, ok := f.Writer.(interface {
		Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error]
	})
	if !ok {
		return func(yield func(branch.Commit, error) bool) { yield(branch.Commit{}, errUnreadable) }
	}
	return reader.Commits(ctx, from, limit)
}

// File returns a file as it was at a past commit, where the writer can read it; see
// [Repository.File].
func (f Fleet) File(ctx context.Context, commit, name string) ([]byte, error) {
	reader, ok := f.Writer.(interface {
		File(ctx context.Context, commit, name string) ([]byte, error)
	})
	if !ok {
		return nil, errUnreadable
	}
	return reader.File(ctx, commit, name)
}

// Edits says what commits have changed against their parents, where the writer can read
// it; see [Repository.Edits].
func (f Fleet) Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Look) ([]branch.Edits, error) {
	reader, ok := f.Writer.(interface {
		Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Look) ([]branch.Edits, error)
	})
	if !ok {
		return nil, errUnreadable
	}
	return reader.Edits(ctx, commits, trees, look)
}

var errUnreadable = errors.New("the history of the branch cannot be read through this writer")
