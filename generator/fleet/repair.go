package fleet

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"
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
		f := Fault{File: path.Base(file), Problem: "was next to " + listFile + "; kustomize reads only one of them"}
		if f.File == stateFile && o.invalidState != nil {
			f.Problem = "was not valid (" + strings.TrimPrefix(o.invalidState.Problem, invalidPrefix) + "), so that the circuit breaker counts as closed"
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.File, b.File) })
	return all
}

// Repair returns the changes that restore dispatches/ after an edit: a missing, invalid or wrong
// list, files that keep kustomize from reading it, an invalid state.yaml, and the dispatches that
// [Overlay.Restore] was called for. It returns no changes if there are no [Overlay.Faults].
func (o *Overlay) Repair() []branch.Change {
	if len(o.Faults()) == 0 {
		return nil
	}
	next := *o
	var changes []branch.Change
	for _, file := range next.surplus {
		changes = append(changes, branch.Change{Path: file})
	}
	for _, r := range next.restored {
		changes = append(changes, r.changes...)
	}
	return next.relist(changes)
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

// namesFault describes how the names in the list differ from those of the dispatches; empty if
// they are equal.
func (o *Overlay) namesFault(named []string) string {
	there := o.inPlace()
	if slices.EqualFunc(named, there, func(name string, d plan.Dispatch) bool { return name == d.ID+manifestType }) {
		return ""
	}
	for _, name := range named {
		if !slices.ContainsFunc(there, func(d plan.Dispatch) bool { return name == d.ID+manifestType }) {
			return fmt.Sprintf("listed %s, which is not a dispatch", finding.Quote(name))
		}
	}
	for _, d := range there {
		if !slices.Contains(named, d.ID+manifestType) {
			return "did not list " + d.ID + manifestType
		}
	}
	return "listed dispatches in another order, or twice"
}

// Edit is a dispatch in git that is not as muster wrote it.
type Edit struct {
	// File is its path in the repository.
	File string
	// Dispatch is its current content. If the file cannot be read, Dispatch contains the ID, and
	// Agents and NotAfter if they can be recognized.
	plan.Dispatch
	// Readable reports whether it can be read; if not, the overlay is suspended.
	Readable bool
}

// Edits returns the edited dispatches. Readable ones are among Dispatches with their current
// content.
func (o *Overlay) Edits() []Edit { return o.edits }

// restored is what a repair does about one dispatch.
type restored struct {
	id, file, problem string // file in dispatches/
	changes           []branch.Change
	// moved: it leaves the syncer's list.
	moved bool
}

func idOf(file string) string { return strings.TrimSuffix(path.Base(file), manifestType) }

// Larger returns the upper bound of two versions of a dispatch that were in git. The cluster
// may have run either: a Job is made from whatever version the syncer saw first, and the number
// of agents of one that runs can be changed
// (kubernetes.io/docs/concepts/workloads/controllers/job "Elastic Indexed Jobs"), though
// nothing else that matters here. Larger limits the lease to the longest that a policy can set.
func Larger(d, other plan.Dispatch) plan.Dispatch {
	d.Agents = max(d.Agents, other.Agents)
	if end := d.At.Add(policy.LongestLease); other.NotAfter.After(end) {
		other.NotAfter = end
	}
	if other.NotAfter.After(d.NotAfter) {
		d.NotAfter = other.NotAfter
	}
	return d
}

// Carries reports whether a dispatch was ordered under the overlay's identifier, or by its name if the
// dispatch has none.
func (o *Overlay) Carries(d plan.Dispatch) bool {
	if id := orderedBy(d); id != "" {
		return id == o.Identity.ID
	}
	return orderedAs(d) == o.Slug()
}

// Original reads a dispatch as it was committed; file is its path. The error is a
// [finding.Finding], also where it was edited already.
func Original(file string, data []byte) (plan.Dispatch, error) {
	d, wrong := parseDispatch(file, data)
	if wrong != nil {
		return plan.Dispatch{}, *wrong
	}
	if d.edited {
		return plan.Dispatch{}, finding.Finding{File: file, Problem: "was edited before it was committed"}
	}
	return d.Dispatch, nil
}

// Count counts a dispatch that the overlay's files lack, or contain with smaller numbers: its agents
// may still register.
func (o *Overlay) Count(d plan.Dispatch) {
	o.Dispatches = slices.Clone(o.Dispatches)
	at, there := slices.BinarySearchFunc(o.Dispatches, d.ID, func(x plan.Dispatch, id string) int { return strings.Compare(x.ID, id) })
	if there {
		o.Dispatches[at] = d
	} else {
		o.Dispatches = slices.Insert(o.Dispatches, at, d)
	}
	if o.Policy.Queue == "" {
		o.Policy = policyOf(d)
	}
}

// Restore makes the next Repair restore a dispatch that was edited or, if edit is nil, deleted.
// original is its file as it was committed, and counted what may come of it; see [Larger]. A
// withdrawn dispatch stays withdrawn. An edited one is rewritten as it was ordered, unless the edit
// raised its numbers. Then, and if it was deleted, it is withdrawn: it counts, and no syncer applies
// it. (Writing the smaller number again could end agents that work.)
// It then records how many agents were ordered and, if an edited one was in place until now, now; zero
// means that this is unknown.
func (o *Overlay) Restore(original []byte, counted plan.Dispatch, edit *Edit, now time.Time) error {
	before, err := Original(o.file(counted.ID+manifestType), original)
	if err != nil {
		return err
	}
	more := counted.Agents != before.Agents || !counted.NotAfter.Equal(before.NotAfter)
	if more {
		counted.Ordered, counted.WithdrawnAt = cmp.Or(before.Ordered, before.Agents), before.WithdrawnAt
		if edit != nil && !edit.Withdrawn && !counted.Withdrawn && textKeepsJob(edit.File, original) && o.KeepsJob(edit.Dispatch) {
			counted.WithdrawnAt = now
		}
		if original, err = raised(original, counted); err != nil {
			return fmt.Errorf("restoring %s: %w", counted.ID, err)
		}
	}
	r := restored{id: counted.ID, file: counted.ID + manifestType, problem: "was deleted, and its agents may still come"}
	withdrawn := edit == nil || counted.Withdrawn || more
	if edit != nil {
		r.problem = "was edited (" + difference(before, edit.Dispatch) + ")"
		if r.moved = withdrawn && !edit.Withdrawn; r.moved {
			r.changes = append(r.changes, branch.Change{Path: edit.File})
		}
	}
	counted.Withdrawn = withdrawn
	r.changes = append(r.changes, branch.Change{Path: o.FileOf(counted), Content: original})
	all := slices.Clone(o.restored)
	for i, x := range all { // it may have lain in both places
		all[i].changes = slices.DeleteFunc(slices.Clone(x.changes), func(c branch.Change) bool { return c.Path == o.FileOf(counted) })
	}
	o.restored = append(all, r)
	o.Count(counted)
	return nil
}

// difference describes how the numbers and tags of an edited dispatch differ from its order.
func difference(before, after plan.Dispatch) string {
	var parts []string
	if before.Agents != after.Agents {
		parts = append(parts, fmt.Sprintf("agents %d → %d", before.Agents, after.Agents))
	}
	if !before.NotAfter.Equal(after.NotAfter) {
		parts = append(parts, fmt.Sprintf("lease %s → %s", before.NotAfter.Format(time.RFC3339), after.NotAfter.Format(time.RFC3339)))
	}
	if !slices.Equal(before.Tags, after.Tags) {
		parts = append(parts, "other tags")
	}
	if len(parts) == 0 {
		return "it was not as muster wrote it"
	}
	return strings.Join(parts, ", ")
}

// covers reports whether d has at least the agents and the lease of the other dispatch.
func covers(d, other plan.Dispatch) bool {
	return d.Agents >= other.Agents && !other.NotAfter.After(d.NotAfter)
}

// inPlace returns the dispatches that the list should contain before a repair.
func (o *Overlay) inPlace() []plan.Dispatch {
	return slices.DeleteFunc(slices.Clone(o.Dispatches), func(d plan.Dispatch) bool {
		return d.Withdrawn && !slices.ContainsFunc(o.restored, func(r restored) bool { return r.id == d.ID && r.moved })
	})
}

// raised is a dispatch as muster wrote it, with more agents and a later end of its
// lease: what may come of it at most. It contains the number of agents that were ordered, and when the
// dispatch was withdrawn, unless d lacks them. It is not for a syncer.
func raised(original []byte, d plan.Dispatch) ([]byte, error) {
	job, wrong := finding.ParseOne("", original)
	if wrong != nil {
		return nil, *wrong
	}
	spec := finding.Mapping(job, "spec")
	n := strconv.Itoa(d.Agents)
	finding.Set(spec, "completions", "!!int", n)
	finding.Set(spec, "parallelism", "!!int", n)
	for _, meta := range []*yaml.Node{finding.Mapping(job, "metadata"), finding.Mapping(finding.Mapping(spec, "template"), "metadata")} {
		finding.Set(finding.Mapping(meta, "annotations"), AnnotationNotAfter, "!!str", d.NotAfter.UTC().Format(time.RFC3339))
	}
	annotations := finding.Mapping(finding.Mapping(job, "metadata"), "annotations")
	if d.Ordered > 0 {
		finding.Set(annotations, AnnotationOrderedAgents, "!!str", strconv.Itoa(d.Ordered))
	}
	if !d.WithdrawnAt.IsZero() {
		finding.Set(annotations, AnnotationWithdrawnAt, "!!str", d.WithdrawnAt.UTC().Format(time.RFC3339))
	}
	finding.Set(annotations, AnnotationDigest, "!!str", noDigest)
	text, err := encode(job)
	if err != nil {
		return nil, err
	}
	return seal(text), nil
}

// Raised reports whether a text is an order as muster wrote it, with as many agents and
// as late an end of its lease, or more of either: see [Overlay.Restore]. The file is the
// order's path, and at the latest time at which it can have been withdrawn. Earlier versions did not write
// how many agents were ordered.
func Raised(file string, text, order []byte, at time.Time) bool {
	d, err := ParseDispatch(file, text)
	if err != nil {
		return false
	}
	before, err := Original(file, order)
	if err != nil || d.Agents < before.Agents || d.NotAfter.Before(before.NotAfter) {
		return false
	}
	more := d.Agents > before.Agents || d.NotAfter.After(before.NotAfter)
	if d.Ordered != 0 && (!more || d.Ordered != before.Agents) || !d.WithdrawnAt.IsZero() && (d.Ordered == 0 || d.WithdrawnAt.After(at)) {
		return false
	}
	want, err := raised(order, d)
	return err == nil && bytes.Equal(text, want)
}
