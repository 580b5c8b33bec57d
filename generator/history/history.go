// Package history tells what became of a fleet from its commits alone: a row for
// each act of muster's, with its outcome, and for each edit of people in between. It
// reads records newest first, which is the order in which git has them, and keeps
// little: the outcome of a dispatch stands in commits that are newer than the one
// that ordered it, so it is known by then. docs/design.md, "The audit log", says
// which figure comes from where.
package history

import (
	"fmt"
	"strings"
	"time"
)

// Act is what a row is about.
type Act string

// The acts: first muster's own, then those of people.
const (
	Dispatch Act = "dispatch"
	Retire   Act = "retire"
	Repair   Act = "repair"
	// Damaged is a commit that was muster's and cannot be read any more.
	Damaged Act = "damaged"

	// Policy is an edit of scaling.yaml; Pause and Resume are those that change
	// spec.paused alone.
	Policy Act = "policy"
	Pause  Act = "pause"
	Resume Act = "resume"
	// Template is an edit of what agents are made from.
	Template Act = "template"
	// Edit is one of any other file of an overlay, muster's own among them.
	Edit Act = "edit"
	// Create and Delete are of a whole overlay.
	Create Act = "create"
	Delete Act = "delete"
	// Revert is whatever git revert undid.
	Revert Act = "revert"
	// Merge brings in edits that were made beside the branch.
	Merge Act = "merge"
	// Unknown is a commit of which cannot be said what it changed.
	Unknown Act = "unknown"
)

// Acts lists all acts, muster's first.
func Acts() []Act {
	return []Act{Dispatch, Retire, Repair, Damaged, Policy, Pause, Resume, Template, Edit, Create, Delete, Revert, Merge, Unknown}
}

// Own reports whether an act is muster's, so that the files of its commit need not be
// looked at.
func (a Act) Own() bool { return a == Dispatch || a == Retire || a == Repair || a == Damaged }

// Row is one line of the audit log.
type Row struct {
	// At is when it was committed, by the committer's clock.
	At time.Time `json:"at"`
	// Overlay is the overlay's name; empty for what concerns all of them, or it is
	// not known which.
	Overlay string `json:"overlay,omitempty"`
	Act     Act    `json:"act"`
	// Agents are those that were ordered, or that a retirement is about.
	Agents int `json:"agents,omitempty"`
	// Why is the reason, or what was changed, in a few words.
	Why string `json:"why"`
	// Reason is what a person gives as the reason; empty: nothing.
	Reason string `json:"reason,omitempty"`
	// Outcome is what became of a dispatch; nil for every other act.
	Outcome *Outcome `json:"outcome,omitempty"`
	// Changes are the settings of a policy that were changed.
	Changes []Change `json:"changes,omitempty"`
	// Files are those that people changed, by path, with a sign before each: + added,
	// - removed, ~ changed.
	Files []string `json:"files,omitempty"`
	// Commit is its identifier. By and Email are its author, in their own words.
	Commit     string   `json:"commit"`
	By         string   `json:"by"`
	Email      string   `json:"email,omitempty"`
	Queue      string   `json:"queue,omitempty"`
	Dispatches []string `json:"dispatches,omitempty"`
	// Version is that of the muster which decided.
	Version string `json:"version,omitempty"`
}

// State is how far a dispatch has come.
type State string

// The states of a dispatch.
const (
	// InFlight: no commit says yet that all its agents have registered or are lost.
	InFlight State = "in flight"
	// Retired: all its agents have registered, or its lease is over.
	Retired State = "retired"
	// NotKnown: it was never retired, or when its lease had been over for so long
	// that Buildkite was not asked.
	NotKnown State = "unknown"
)

// Outcome is what became of the agents of one commit's dispatches, as far as the
// commits since tell.
type Outcome struct {
	State State `json:"state"`
	// Registered is how many of the agents have registered.
	Registered int `json:"registered"`
	// FirstAfter and AllAfter are the seconds until the first and until all of them
	// were known to have registered; nil where that is not told.
	FirstAfter *int `json:"firstAfter,omitempty"`
	AllAfter   *int `json:"allAfter,omitempty"`
	// HadJob is how many of them are known to have had a job, at least: a dispatch leaves
	// git when its agents have come, and others work after that.
	HadJob int `json:"hadJob,omitempty"`
	// InVain is how many had come and were gone at the retirement, of dispatches of
	// which no agent is known to have had a job. There may be more: they leave later.
	InVain int `json:"inVain,omitempty"`
}

// WhoWorked says in a few words how many are known to have had a job; empty where nobody
// is.
func (o Outcome) WhoWorked() string {
	switch {
	case o.HadJob > 0 && o.HadJob == o.Registered:
		return "all had a job"
	case o.HadJob > 0:
		return fmt.Sprintf("at least %d had a job", o.HadJob)
	}
	return ""
}

// Lost is how many agents of a dispatch never came.
func (r Row) Lost() int {
	if r.Outcome == nil || r.Outcome.State != Retired {
		return 0
	}
	return r.Agents - r.Outcome.Registered
}

// Change is a setting that was changed. Before and After are empty where there was,
// or is, none.
type Change struct {
	Setting string `json:"setting"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
}

// String is the change in a few words, as in "max 10 -> 40".
func (c Change) String() string {
	text := func(value string) string {
		if value == "" {
			return "none"
		}
		return value
	}
	return c.Setting + " " + text(c.Before) + " -> " + text(c.After)
}

// sentence joins changes.
func sentence(changes []Change) string {
	words := make([]string, len(changes))
	for i, c := range changes {
		words[i] = c.String()
	}
	return strings.Join(words, ", ")
}
