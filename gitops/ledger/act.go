// Package ledger is what muster's commits say: the act that a commit does, the
// message and the trailers that it is written down in, and the reader that
// gets them back from a log.
package ledger

import (
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Kind is what an act does to an overlay.
type Kind string

// The kinds of act, in the order in which one tick performs them.
const (
	// Repair restores muster's own directory after it was edited by hand.
	Repair Kind = "repair"
	// Dispatch adds dispatches.
	Dispatch Kind = "dispatch"
	// Retire removes dispatches.
	Retire Kind = "retire"
)

// Act is one commit: one thing done to one overlay.
type Act struct {
	// Kind is what is done.
	Kind Kind
	// Path is the overlay's directory, from the top of the repository.
	Path string
	// Decision is why.
	Decision plan.Decision
	// Changes are the files written and removed.
	Changes []branch.Change
}
