// Package ledger is what muster's commits say: the act that a commit does, the
// message and the trailers that it is written down in, and the readers that
// get them back from a message and from a log.
//
//	Act ──Message──▶ commit message ──Parse──▶ Entry
//	log of a branch ──Read──▶ Records: an Entry for each commit by muster
//
// What is stored has a version; see
// docs/reference/commits.md. Commits of every released version can be read.
package ledger

import (
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Kind is the kind of operation on an overlay.
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

// Operation is one commit: one thing done to one overlay.
type Operation struct {
	// Kind is what is done.
	Kind Kind
	// Path is the overlay's directory, from the top of the repository. Its
	// last part, or its last parts, are the decision's Overlay.
	Path string
	// Decision is why.
	Decision plan.Decision
	// Changes are the files written and removed.
	Changes []branch.Change
	// Faults are what was wrong with muster's files; of a repair only.
	Faults []Fault
	// Suspects are the commits of others, newest first, that came after muster's
	// last commit to the overlay: one of them is likely to have made a repair
	// necessary. SuspectsUnknown says that the log could not be read.
	Suspects        []Suspect
	SuspectsUnknown bool
}

// Dispatches returns the IDs of the dispatches that the act writes or removes, and
// how many agents they order together. A repair has none.
func (a Operation) Dispatches() (ids []string, agents int) {
	switch a.Kind {
	case Dispatch:
		for _, d := range a.Decision.Dispatch {
			ids = append(ids, d.ID)
			agents += d.Agents
		}
	case Retire:
		for _, r := range a.Decision.Retire {
			ids = append(ids, r.ID)
			agents += r.Agents
		}
	}
	return ids, agents
}

// Fault describes what was wrong with a file written by muster.
type Fault struct {
	// File is the file's name in the overlay's directory dispatches.
	File string
	// Problem is what was wrong, as in "was missing or empty". It may quote the file.
	Problem string
}

// Suspect is a commit that somebody else made.
type Suspect struct {
	// Commit is its identifier in hexadecimal.
	Commit string
	// Author is its author's name, and Subject the first line of its message.
	// Both are anybody's words.
	Author, Subject string
}
