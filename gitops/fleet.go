package gitops

import (
	"context"

	"muster/gitops/branch"
	"muster/gitops/ledger"
)

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
