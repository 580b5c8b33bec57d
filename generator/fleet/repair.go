package fleet

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/gitops/branch"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Fault is what is wrong with one of muster's own files, because somebody
// edited it.
type Fault struct {
	// File is the file's name in dispatches/.
	File string
	// Problem says what is wrong, as in "was missing or empty"; it may quote the file.
	Problem string
}

// Faults lists what Repair repairs, by file: empty if nothing is wrong or the overlay is
// suspended.
func (o *Overlay) Faults() []Fault {
	if o.Err() != nil {
		return nil
	}
	var all []Fault
	for _, r := range o.restored {
		all = append(all, Fault{File: r.file, Problem: r.problem})
	}
	if problem := o.listFault(); problem != "" {
		all = append(all, Fault{File: listFile, Problem: problem})
	}
	for _, file := range o.surplus {
		f := Fault{File: path.Base(file), Problem: "stood beside " + listFile + ", and kustomize takes only one of them"}
		if f.File == stateFile && o.invalidState != nil {
			f.Problem = "was not valid (" + strings.TrimPrefix(o.invalidState.Problem, invalidPrefix) + "), so that the circuit breaker counts as closed"
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.File, b.File) })
	return all
}

// Repair returns the changes that restore dispatches/ after somebody edited it:
// a list that is missing, broken or names other files than there are, files
// that keep kustomize from reading it, an invalid state.yaml, and the dispatches
// that [Overlay.Restore] was called for. It returns no changes when nothing is
// wrong, and none when the overlay is suspended; see [Overlay.Faults].
func (o *Overlay) Repair() (Overlay, []branch.Change) {
	if len(o.Faults()) == 0 {
		return *o, nil
	}
	next := *o
	var changes []branch.Change
	for _, file := range next.surplus {
		changes = append(changes, branch.Change{Path: file})
	}
	for _, r := range next.restored {
		changes = append(changes, r.changes...)
	}
	next.surplus, next.invalidState = nil, nil
	next.restored, next.rewritten = nil, next.restored
	changes = next.relist(changes)
	return next, changes
}

// listFault says what is wrong with the list in git, which names exactly the
// dispatches and does nothing else; empty: nothing. Its comments and its layout
// may differ from muster's.
func (o *Overlay) listFault() string {
	if len(o.list) == 0 {
		return "was missing or empty"
	}
	top, wrong := finding.ParseOne(listFile, o.list)
	if wrong != nil {
		return "could not be read (" + wrong.Problem + ")"
	}
	names := finding.Lookup(top, "resources")
	if len(top.Content) != 2*3 || names == nil || names.Kind != yaml.SequenceNode ||
		finding.Scalar(top, "apiVersion") != types.KustomizationVersion || finding.Scalar(top, "kind") != types.KustomizationKind {
		return "was something else than a list of the dispatches"
	}
	var named []string
	for _, n := range names.Content {
		if n.Kind != yaml.ScalarNode {
			return "was something else than a list of the dispatches"
		}
		named = append(named, n.Value)
	}
	return o.namesFault(named)
}

// namesFault says how the names in the list differ from those of the
// dispatches; empty: not at all.
func (o *Overlay) namesFault(named []string) string {
	there := o.inPlace()
	if slices.EqualFunc(named, there, func(name string, d plan.Dispatch) bool { return name == d.ID+manifestType }) {
		return ""
	}
	for _, name := range named {
		if !slices.ContainsFunc(there, func(d plan.Dispatch) bool { return name == d.ID+manifestType }) {
			return fmt.Sprintf("named %s, and there is no such dispatch", finding.Quote(name))
		}
	}
	for _, d := range there {
		if !slices.Contains(named, d.ID+manifestType) {
			return "did not name " + d.ID + manifestType
		}
	}
	return "named the dispatches in another order, or twice"
}
