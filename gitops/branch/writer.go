package branch

import "context"

// Writer is a branch that commits can be put on. One that also has a method Singly() bool,
// which returns true, pays for each commit and not for each push. One that has a method
// Largest() (files, bytes int) says what one commit may change.
type Writer interface {
	// Tip returns the branch's head and its tree.
	Tip(ctx context.Context) (Tip, error)
	// Push puts a chain of commits on the tip, all or none, and returns the
	// new tip. The error is [ErrMoved] when the branch is no longer at tip, and a
	// [Refused] when the server does not accept the commits.
	Push(ctx context.Context, tip Tip, commits []Draft) (Tip, error)
}
