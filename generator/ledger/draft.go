package ledger

import (
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Draft is an operation that is to be pushed: one commit, which changes one overlay.
type Draft struct {
	// Kind is the kind of the operation.
	Kind Kind
	// Path is the overlay's directory in the repository. It ends in the decision's Overlay.
	Path string
	// Base is the commit that the decision was made on.
	Base string
	// Decision is the decision that it carries out.
	Decision plan.Decision
	// Changes are the files written and removed.
	Changes []branch.Change
	// Added are the dispatches of an order as state.yaml contains them.
	Added []plan.Dispatch
	// Faults are the problems in muster's files that a repair corrects.
	Faults []Fault
	// Suspects are the commits by others, newest first, since muster's last commit to the overlay:
	// one of them probably caused a repair. SuspectsUnknown reports that the log could not be read.
	Suspects        []Suspect
	SuspectsUnknown bool
}

// Operation returns what the commit of the operation says, as [Parse] reads it. version is the version of
// muster.
func (a Draft) Operation(version string) Operation {
	d := a.Decision
	o := Operation{
		Path: a.Path, Overlay: d.Overlay, Kind: a.Kind, Identity: d.State.Identity.ID, Base: a.Base,
		Observation: d.Observation, Queue: d.Observation.Queue, Decided: d.Observation.At,
		Version: version, Text: Text(a), Orders: a.orders(),
	}
	for _, f := range a.Faults {
		o.Repaired = append(o.Repaired, safe(f.File))
	}
	switch {
	case a.Kind == Retire:
		o.Failures = d.State.Breaker.Failures
	case a.Kind == Dispatch && !d.Trial:
		o.Limit = d.Figures.Binding()
	}
	return o
}

// orders returns what the operation states about each dispatch; nil for a repair.
func (a Draft) orders() []Order {
	var all []Order
	if a.Kind == Dispatch {
		for _, d := range a.Decision.Dispatch {
			all = append(all, Order{ID: d.ID, Agents: d.Agents, Purpose: d.Purpose, NotAfter: d.NotAfter.UTC(), Trial: a.Decision.Trial})
		}
	}
	for _, r := range a.Retirements() {
		all = append(all, Order{
			ID: r.ID, Agents: r.Agents, Reason: r.Reason, Registered: r.Registered, Failure: r.Failure, WrongTags: r.Failure != "" && r.WrongTags > 0,
			Stale: stale(r), Copied: r.Copied, Withdrawn: r.Withdrawn,
		})
	}
	return all
}

// Retirements returns those retirements of the decision that the operation carries out.
func (a Draft) Retirements() []plan.Retirement {
	var all []plan.Retirement
	for _, r := range a.Decision.Retire {
		if a.Kind == Withdraw && r.Reason == plan.Withdrawn || a.Kind == Retire && r.Reason != plan.Withdrawn {
			all = append(all, r)
		}
	}
	return all
}

// Fault describes what was wrong with a file written by muster.
type Fault struct {
	// File is the file's name in the overlay's directory dispatches.
	File string
	// Problem describes it, as in "was missing or empty". It may quote the file.
	Problem string
	// Withdrawn reports that the file is the manifest of an order that is withdrawn now.
	Withdrawn bool
}

// Suspect is a commit that somebody else made.
type Suspect struct {
	// Commit is its identifier in hexadecimal.
	Commit string
	// Author is its author's name, and Subject the first line of its message. Both are untrusted
	// text.
	Author, Subject string
}
