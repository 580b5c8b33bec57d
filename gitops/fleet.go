package gitops

import (
	"context"

	"muster/gitops/branch"
	"muster/gitops/ledger"
)

// Writer is a branch that commits can be put on. A [Repository] is one.
type Writer interface {
	// Tip returns the branch's head and its tree.
	Tip(ctx context.Context) (branch.Tip, error)
	// Push puts a chain of commits on the tip, all or none, and returns the
	// new tip; [branch.ErrMoved] when the branch is no longer at tip.
	Push(ctx context.Context, tip branch.Tip, commits []branch.Draft) (branch.Tip, error)
}

// Fleet is the fleet repository as a tick sees it: acts go in, commits come
// out, one for each.
type Fleet struct {
	Writer
	// Version is muster's own, for the trailers.
	Version string
}

// Commit writes the acts onto the tip in one push.
func (f Fleet) Commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	commits := make([]branch.Draft, len(acts))
	for i, a := range acts {
		commits[i] = branch.Draft{Message: ledger.Message(a, f.Version), At: a.Decision.At(), Changes: a.Changes}
	}
	return f.Push(ctx, tip, commits)
}
