package generator

import (
	"context"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Repository is the fleet repository.
type Repository interface {
	// Head returns the branch's head and its tree.
	Head(ctx context.Context) (branch.Head, error)
	// Commit writes one commit per operation on top of the head, all of them or none, and
	// returns the last one as the new head. Its errors are those of [branch.Writer].
	Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error)
	// Limits returns what a single operation should not exceed; a repair may.
	Limits() branch.Limits
	// HasBranch reports whether the repository has a branch of that name.
	HasBranch(ctx context.Context, name string) (bool, error)
	branch.History
}

// Fleet is the [Repository] of a [branch.Writer], with one commit per operation.
type Fleet struct {
	branch.Writer
	// Version is muster's own, for the trailers.
	Version string
	// Style is the style of the messages; the zero value is the default.
	Style ledger.Style
}

// Commit writes the operations onto the head in one push.
func (f Fleet) Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	commits := make([]branch.Draft, len(ops))
	for i, a := range ops {
		commits[i] = branch.Draft{Message: f.Style.Message(a, f.Version), At: a.Decision.At(), Changes: a.Changes}
	}
	return f.Push(ctx, head, commits)
}
