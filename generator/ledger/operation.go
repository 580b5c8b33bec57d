// Package ledger defines the commits of muster: the operation of a commit, the message with its
// trailers, and the parsers of a message and of a log.
//
//	Operation ──Message──▶ commit message ──Parse──▶ Entry
//	log of a branch ──Read──▶ Records: an Entry for each commit by muster
//
// The stored observation has a version; see docs/reference/commits.md. Commits of every released
// version can be read.
package ledger

import (
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Kind is the kind of operation on an overlay.
type Kind string

// The kinds of operations, in the order in which one tick performs them.
const (
	// Repair restores muster's own directory after it was edited by hand.
	Repair Kind = "repair"
	// Dispatch adds dispatches.
	Dispatch Kind = "dispatch"
	// Retire removes dispatches.
	Retire Kind = "retire"
)

// Operation is one commit: one change of one overlay.
type Operation struct {
	// Kind is the kind of the operation.
	Kind Kind
	// Path is the overlay's directory in the repository. It ends in the decision's Overlay.
	Path string
	// Decision is the decision that it carries out.
	Decision plan.Decision
	// Changes are the files written and removed.
	Changes []branch.Change
	// Faults are the problems in muster's files that a repair corrects.
	Faults []Fault
	// Suspects are the commits by others, newest first, since muster's last commit to the overlay:
	// one of them probably caused a repair. SuspectsUnknown reports that the log could not be read.
	Suspects        []Suspect
	SuspectsUnknown bool
}

// Dispatches returns the IDs of the dispatches that the operation writes or removes, and the sum of
// their agents. A repair has none.
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
	// Problem describes it, as in "was missing or empty". It may quote the file.
	Problem string
}

// Suspect is a commit that somebody else made.
type Suspect struct {
	// Commit is its identifier in hexadecimal.
	Commit string
	// Author is its author's name, and Subject the first line of its message. Both are untrusted
	// text.
	Author, Subject string
}
