// Package history reconstructs a fleet's history from its commits alone: a row for each operation
// by muster, with its outcome, and for each edit by people in between. It reads records newest
// first, git's own order, and keeps little: commits newer than a dispatch contain its outcome, so
// the outcome is known when the dispatch is read. [Outcome] documents the observation behind each
// figure.
package history

import (
	"cmp"
	"fmt"
	"strings"
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

// State is the state of a dispatch.
type State string

// The states of a dispatch.
const (
	// InFlight: no commit contains its outcome yet.
	InFlight State = "in flight"
	// Retired: all its agents have registered, or its lease has expired.
	Retired State = "retired"
	// OutcomeUnknown: it was never retired, or so long after its lease that muster did not ask
	// Buildkite.
	OutcomeUnknown State = "unknown"
)

// Outcome is the outcome of one commit's dispatches, by the commits since. Dispatches that were
// ordered together are retired together, so that the trailer Agents, which is their sum, is enough.
type Outcome struct {
	State State `json:"state"`
	// Registered is how many of the agents have registered, by the newest observation that
	// names their dispatches: that of the retirement. It never exceeds the number ordered.
	Registered int `json:"registered"`
	// FirstAfter and AllAfter are the seconds until the first and until all of them
	// were known to have registered, by the firstAt and registeredAt of an observation; nil
	// if no process polled in between, as after a restart: registeredAt is then the time of
	// the order itself.
	FirstAfter *int `json:"firstAfter,omitempty"`
	AllAfter   *int `json:"allAfter,omitempty"`
	// HadJob is the minimum number of them that had a job: a dispatch leaves git when its agents
	// have registered, and others may get a job after that.
	HadJob int `json:"hadJob,omitempty"`
	// Unused is how many had registered and disconnected by the retirement, of dispatches without
	// an agent that is known to have had a job. There may be more: they disconnect later.
	Unused int `json:"unused,omitempty"`
}

// WhoWorked describes how many agents are known to have had a job; empty if none is.
func (o Outcome) WhoWorked() string {
	switch {
	case o.HadJob > 0 && o.HadJob == o.Registered:
		return "all had a job"
	case o.HadJob > 0:
		return fmt.Sprintf("at least %d had a job", o.HadJob)
	}
	return ""
}

// Lost returns how many agents of a retired dispatch did not register.
func (r Row) Lost() int {
	if r.Outcome == nil || r.Outcome.State != Retired {
		return 0
	}
	return r.Agents - r.Outcome.Registered
}

// Change is a changed setting. Before and After are empty if it was, or is, unset.
type Change struct {
	Setting string `json:"setting"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
}

// String returns the change as in "max 10 -> 40".
func (c Change) String() string {
	return c.Setting + " " + cmp.Or(c.Before, "none") + " -> " + cmp.Or(c.After, "none")
}

// sentence returns the changes as one text.
func sentence(changes []Change) string {
	words := make([]string, len(changes))
	for i, c := range changes {
		words[i] = c.String()
	}
	return strings.Join(words, ", ")
}
