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

// Fault is a problem of one of muster's own files, caused by an edit.
type Fault struct {
	// File is the file's name in dispatches/.
	File string
	// Problem describes the fault, as in "was missing or empty"; it may quote the file.
	Problem string
	// Withdrawn reports that the file is the manifest of an order that is withdrawn now.
	Withdrawn bool
}

// Faults lists what Repair repairs, by file: empty if nothing is wrong, or if changes of the overlay cannot be
// committed. If dispatches/ contains what muster cannot explain, it is at most the lines of the orders. An
// invalid policy or template does not matter: a syncer applies the list nevertheless.
func (o *Overlay) Faults() []Fault {
	if o.held || !committable(o.Path) {
		return nil
	}
	if o.unclear() {
		return o.linesFault()
	}
	all := o.orderFaults()
	if problem := o.listFault(); problem != "" {
		all = append(all, Fault{File: listFile, Problem: problem})
	}
	for _, file := range o.surplus {
		all = append(all, Fault{File: path.Base(file), Problem: "was next to " + listFile + "; kustomize reads only one of them"})
	}
	if problem := o.stateFault(); problem != "" {
		all = append(all, Fault{File: stateFile, Problem: problem})
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return strings.Compare(a.File, b.File) })
	return all
}

// linesFault is the fault of an overlay with manifests that no order explains: orders that state.yaml lacks, or
// has with other values. They count for the queue, and all decisions are made on what is in git.
func (o *Overlay) linesFault() []Fault {
	if !o.loaded || o.stateFault() != "" || len(o.others) > 0 || o.filesUnread() {
		return nil
	}
	var ids []string
	for _, d := range o.Dispatches {
		if at, found := o.recordedAt(d.ID); !found || !SameOrder(o.recorded[at], d) || d.PutBack && !o.recorded[at].PutBack {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return []Fault{{File: stateFile, Problem: "did not contain " + someIDs(ids)}}
}

// stateFault returns the fault of the first document of state.yaml, or of the second one as a whole.
func (o *Overlay) stateFault() string {
	switch {
	case o.invalidState != nil && o.State.Equal(plan.State{}):
		return "was not valid (" + strings.TrimPrefix(o.invalidState.Problem, invalidPrefix) + "), so that the circuit breaker counts as closed"
	case o.invalidState != nil:
		return "was not valid (" + strings.TrimPrefix(o.invalidState.Problem, invalidPrefix) + ")"
	case o.ordersProblem != "":
		return "had orders that could not be read (" + o.ordersProblem + ")"
	case !o.stateRead && !o.State.Equal(plan.State{}):
		return "was missing"
	}
	return ""
}

// orderFaults returns the faults of the orders and their manifests.
func (o *Overlay) orderFaults() (all []Fault) {
	var lines, missing []string
	for _, d := range o.Dispatches {
		at, found := o.recordedAt(d.ID)
		_, there := o.manifests[d.ID]
		withdrawn := found && o.recorded[at].Withdrawn
		switch {
		case there && !o.listed(d) && withdrawn:
			all = append(all, Fault{d.ID + manifestType, "was put back, though its order is withdrawn", true})
		case there && !o.listed(d):
			all = append(all, Fault{d.ID + manifestType, "was put back or could not be read, and its agents may still come", true})
		case o.lost[d.ID]:
			all = append(all, Fault{d.ID + manifestType, "was deleted, and its agents may still come", true})
		case !found && o.stateFault() == "":
			missing = append(missing, d.ID)
		}
		if found && (!SameOrder(o.recorded[at], d) || d.Withdrawn && !withdrawn && !there && !o.lost[d.ID] || d.PutBack && !o.recorded[at].PutBack && withdrawn && !there) {
			lines = append(lines, d.ID)
		}
	}
	for _, id := range o.over {
		all = append(all, Fault{File: id + manifestType, Problem: "was put back, though its order is retired"})
	}
	if len(missing) > 0 {
		all = append(all, Fault{File: stateFile, Problem: "did not contain " + someIDs(missing)})
	}
	if len(lines) > 0 {
		all = append(all, Fault{File: stateFile, Problem: "had other values of " + someIDs(lines)})
	}
	return all
}

// someIDs returns the first few IDs of a list.
func someIDs(ids []string) string {
	const shown = 20
	if more := len(ids) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:shown], ", "), more)
	}
	return strings.Join(ids, ", ")
}

// recordedAt returns the place of an order in state.yaml.
func (o *Overlay) recordedAt(id string) (at int, found bool) {
	return slices.BinarySearchFunc(o.recorded, id, func(d plan.Dispatch, id string) int { return strings.Compare(d.ID, id) })
}

// Repair returns the changes that restore dispatches/ after an edit: the list, state.yaml, and manifests
// that syncers must not apply. It returns no changes if there are no [Overlay.Faults].
func (o *Overlay) Repair() []branch.Change {
	if len(o.Faults()) == 0 {
		return nil
	}
	next := *o
	if next.LostState() && next.State.Identity.ID == "" && len(next.Dispatches) > 0 {
		next.State.Identity = next.Identity // a state without one would be that of a new overlay
	}
	if o.unclear() {
		return []branch.Change{{Path: o.file(stateFile), Content: printState(next.State, next.Dispatches)}}
	}
	var changes []branch.Change
	for _, file := range next.surplus {
		changes = append(changes, branch.Change{Path: file})
	}
	for _, id := range next.over {
		changes = append(changes, branch.Change{Path: next.file(id + manifestType)})
	}
	for _, d := range next.Dispatches {
		if _, there := next.manifests[d.ID]; there && !next.listed(d) {
			changes = append(changes, branch.Change{Path: next.FileOf(d)})
		}
	}
	changes = next.finish(changes)
	same := func(c branch.Change) bool {
		return c.Path == next.file(stateFile) && (o.sameState() || c.Content == nil && !o.stateThere)
	}
	return slices.DeleteFunc(changes, same)
}

// sameState reports whether state.yaml contains the overlay's state and orders.
func (o *Overlay) sameState() bool {
	return o.stateFault() == "" && slices.EqualFunc(o.recorded, o.Dispatches, func(a, b plan.Dispatch) bool { return sameOrder(a, b) })
}

// listFault returns the fault of the list in git, which must contain exactly the dispatches;
// empty if it is valid. Its comments and its layout may differ from muster's.
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
		return "was not a list of the dispatches"
	}
	var named []string
	for _, n := range names.Content {
		if n.Kind != yaml.ScalarNode {
			return "was not a list of the dispatches"
		}
		named = append(named, n.Value)
	}
	return o.namesFault(named)
}

// namesFault describes how the names in the list differ from those of the manifests; empty if they are
// equal.
func (o *Overlay) namesFault(named []string) string {
	ids := o.ids()
	is := func(name, id string) bool { return name == id+manifestType }
	if slices.EqualFunc(named, ids, is) {
		return ""
	}
	for _, name := range named {
		if !slices.ContainsFunc(ids, func(id string) bool { return is(name, id) }) {
			return fmt.Sprintf("listed %s, which is not a dispatch", finding.Quote(name))
		}
	}
	for _, id := range ids {
		if !slices.Contains(named, id+manifestType) {
			return "did not list " + id + manifestType
		}
	}
	return "listed dispatches in another order, or twice"
}
