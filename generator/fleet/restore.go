package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

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

// Edits are the dispatches that are not as muster wrote them. Those that can be
// read are among Dispatches with what they say now.
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

// Carries reports whether a dispatch was ordered under the overlay's name, or one
// that it had before.
func (o *Overlay) Carries(d plan.Dispatch) bool {
	of := orderedAs(d)
	return of == o.Slug() || slices.Contains(o.Former, of)
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

// Count lets a dispatch count although the overlay's files do not show it, or show
// less of it: its agents may come.
func (o *Overlay) Count(d plan.Dispatch) {
	o.Dispatches = slices.Clone(o.Dispatches)
	at, there := slices.BinarySearchFunc(o.Dispatches, d.ID, func(x plan.Dispatch, id string) int { return strings.Compare(x.ID, id) })
	if there {
		o.Dispatches[at] = d
	} else {
		o.Dispatches = slices.Insert(o.Dispatches, at, d)
	}
	if o.Policy.Queue == "" {
		o.Policy = standIn(d)
	}
}

// Restore lets the next Repair put a dispatch back that was edited or, with nil,
// deleted. It is given as it was committed, and what may come of it: see [Larger].
// One that counts as withdrawn stays so.
// An edited one is written again as it was, unless more may come of the edit. That
// one, and one that was deleted, is withdrawn: it counts, and no syncer applies it.
// (To write the smaller number again could end agents that work.)
func (o *Overlay) Restore(original []byte, counted plan.Dispatch, edit *Edit) error {
	before, err := Original(o.file(counted.ID+manifestType), original)
	if err != nil {
		return err
	}
	more := counted.Agents != before.Agents || !counted.NotAfter.Equal(before.NotAfter)
	if more {
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

// difference says how an edited dispatch differs from what was ordered.
func difference(before, after plan.Dispatch) string {
	if parts := changes(before, after); len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	return "it was not as muster wrote it"
}

// changes are those of the numbers and tags of a dispatch.
func changes(before, after plan.Dispatch) []string {
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
	return parts
}

// covers reports whether no more may come of the other dispatch than of d.
func covers(d, other plan.Dispatch) bool {
	return d.Agents >= other.Agents && !other.NotAfter.After(d.NotAfter)
}

// inPlace are the dispatches that the list should name before a repair.
func (o *Overlay) inPlace() []plan.Dispatch {
	return slices.DeleteFunc(slices.Clone(o.Dispatches), func(d plan.Dispatch) bool {
		return d.Withdrawn && !slices.ContainsFunc(o.restored, func(r restored) bool { return r.id == d.ID && r.moved })
	})
}

// content is a file as the acts so far leave it.
func (o *Overlay) content(file string) ([]byte, error) {
	for _, r := range o.rewritten {
		for _, c := range r.changes {
			if c.Path == file && c.Content != nil {
				return c.Content, nil
			}
		}
	}
	return fs.ReadFile(o.tree, file)
}

// A dispatch that is withdrawn lies in dispatches/withdrawn, byte for byte as it
// was. No list names it, so that no syncer applies it; muster counts its agents
// until its lease is over.
