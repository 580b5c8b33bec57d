// Package history reconstructs a fleet's history from its commits alone: a row for each operation
// by muster, with its outcome, and for each edit by people in between. It reads records newest
// first, git's own order, and keeps little: commits newer than a dispatch contain its outcome, so
// the outcome is known when the dispatch is read. [Outcome] documents the observation behind each
// figure.
package history

import (
	"time"
)

// Operation is the subject of a row.
type Operation string

// The operations: first those of muster, then those of people.
const (
	Dispatch Operation = "dispatch"
	Retire   Operation = "retire"
	Repair   Operation = "repair"
	// Malformed is a commit by muster that can no longer be parsed.
	Malformed Operation = "damaged"

	// Policy is an edit of scaling.yaml; Pause and Resume are those that change
	// spec.paused alone.
	Policy Operation = "policy"
	Pause  Operation = "pause"
	Resume Operation = "resume"
	// Template is an edit of the agents' template.
	Template Operation = "template"
	// Cancel withdraws dispatches, as muster cancel does.
	Cancel Operation = "cancel"
	// CloseBreaker removes the circuit breaker from state.yaml, as muster close-breaker does.
	CloseBreaker Operation = "close-breaker"
	// Edit is an edit of any other file of an overlay, including muster's own.
	Edit Operation = "edit"
	// Create and Delete concern a whole overlay.
	Create Operation = "create"
	Delete Operation = "delete"
	// Revert is a commit by git revert.
	Revert Operation = "revert"
	// Merge brings in edits that were made outside the branch.
	Merge Operation = "merge"
	// Unknown is a commit whose changes cannot be determined.
	Unknown Operation = "unknown"
)

// Operations returns all operations, those of muster first.
func Operations() []Operation {
	return []Operation{Dispatch, Retire, Repair, Malformed, Policy, Pause, Resume, Template, Cancel, CloseBreaker, Edit, Create, Delete, Revert, Merge, Unknown}
}

// Own reports whether muster does this operation, so that the files of its commit need not be read.
func (a Operation) Own() bool { return a == Dispatch || a == Retire || a == Repair || a == Malformed }

// Row is one line of the audit log.
type Row struct {
	// At is the commit time, by the committer's clock.
	At time.Time `json:"at"`
	// Overlay is the overlay's name; empty if the row concerns all overlays, or if it is unknown.
	Overlay   string    `json:"overlay,omitempty"`
	Operation Operation `json:"operation"`
	// Agents is the number of agents ordered or retired.
	Agents int `json:"agents,omitempty"`
	// Why is the reason or the change, in a few words.
	Why string `json:"why"`
	// Reason is the reason that a person gave; empty if none.
	Reason string `json:"reason,omitempty"`
	// Outcome is the outcome of a dispatch; nil for other operations.
	Outcome *Outcome `json:"outcome,omitempty"`
	// Changes are the settings of a policy that were changed.
	Changes []Change `json:"changes,omitempty"`
	// Files are the paths that people changed, each after a sign: + added, - removed, ~ changed.
	Files []string `json:"files,omitempty"`
	// Commit is its identifier. By and Email are its author, as the commit says.
	Commit     string   `json:"commit"`
	By         string   `json:"by"`
	Email      string   `json:"email,omitempty"`
	Queue      string   `json:"queue,omitempty"`
	Dispatches []string `json:"dispatches,omitempty"`
	// Version is the version of the muster that decided.
	Version string `json:"version,omitempty"`
}
