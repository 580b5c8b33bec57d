package gitops

import (
	"context"

	"muster/gitops/branch"
)

// Writer is a branch that commits can be put on. A [Repository] is one, and so
// is a [muster/gitops/github.Writer]. One that also has a method Singly() bool, which
// returns true, pays for each commit and not for each push: see [Fleet.Singly]. One that
// has a method Largest() (files, bytes int) says what one commit may change: see
// [Fleet.Largest].
type Writer interface {
	// Tip returns the branch's head and its tree.
	Tip(ctx context.Context) (branch.Tip, error)
	// Push puts a chain of commits on the tip, all or none, and returns the
	// new tip. The error is [branch.ErrMoved] when the branch is no longer at
	// tip, and a [branch.Refused] when the server does not accept the
	// commits.
	Push(ctx context.Context, tip branch.Tip, commits []branch.Draft) (branch.Tip, error)
}
