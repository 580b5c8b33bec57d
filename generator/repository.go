package generator

import (
	"context"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Fleet is the fleet repository as a tick sees it: a [Repository] of a [branch.Writer],
// with one commit per act.
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
