package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/gitops/branch"

	"sigs.k8s.io/kustomize/api/types"
)

// Decidable returns the overlays with a valid policy. If another file is invalid, muster does
// nothing for the overlay, but its agents and its share of the queue count.
func Decidable(loaded []Overlay) []plan.Overlay {
	var overlays []plan.Overlay
	for i := range loaded {
		o := &loaded[i]
		if o.Policy.Queue != "" {
			overlays = append(overlays, o.Overlay)
		}
	}
	return overlays
}

func (o *Overlay) reject(findings ...finding.Finding) {
	before := len(o.findings)
	if before > 0 {
		findings = append(o.findings, findings...)
	}
	o.findings = atMost(o, slices.Clip(findings)) // a policy's are remembered, and shared
	o.loader.findings += len(o.findings) - before
}

// atMost truncates a list of findings.
func atMost(o *Overlay, findings []finding.Finding) []finding.Finding {
	most := o.loader.max()
	if len(findings) <= most {
		return findings
	}
	findings = slices.Clone(findings[:most])
	findings[most-1] = finding.Finding{File: o.Path, Problem: fmt.Sprintf("has more than the %d problems above", most-1)}
	return findings
}

// Overlay is one overlay of a tree.
type Overlay struct {
	plan.Overlay
	// Path is its directory, as in "overlays/default".
	Path     string
	loader   *Loader
	tree     fs.FS // that it was loaded from
	findings []finding.Finding
	// misnamed: the directory has no policy, but a file that may be meant as one.
	misnamed bool
	// refused are the reasons for which the Kubernetes API server would refuse future
	// dispatches. Those that are in git can still be retired.
	refused []finding.Finding
	// harmful are findings for which future dispatches could end running agents, or start more than
	// were ordered.
	harmful []finding.Finding
	// template is the Job that the template builds to. policyKey identifies the policy and its
	// path.
	template  *template
	policyKey key
	// objects are the output of the build without dispatches. proof is the proof's dispatch before
	// the build and built after it, both empty if the build does not change it. jobs are the names
	// of the overlay's own Jobs.
	objects      []object
	proof, built []byte
	jobs         []string
	// invalidState is why state.yaml cannot be read. stateRead: it is valid.
	invalidState *finding.Finding
	stateRead    bool
	// list is the content of dispatches/kustomization.yaml, nil if the file is absent. surplus
	// are files that keep kustomize from reading it.
	list    []byte
	surplus []string
	// size is the number of bytes of dispatches/ that were read, now or before, and unread are
	// the files that were not read because the total of those before them is too large.
	size   int
	unread []string
	// edits are edited dispatches, and restored what the next repair does about them.
	edits    []Edit
	restored []restored
}

// Err is why the overlay is suspended: a policy or a dispatch that cannot be
// read, a template or an overlay that does not build. Nothing of such an
// overlay can be changed. Nil when its files are valid.
func (o *Overlay) Err() error { return finding.Join(o.findings) }

// unorderable is why nothing can be ordered, although dispatches can be retired.
func (o *Overlay) unorderable() error {
	return finding.Join(append(slices.Clip(o.refused), withoutFields(slices.Clone(o.harmful), o.refused)...))
}

// Suspend suspends the overlay as invalid for a problem outside of its files: its changes cannot
// be committed.
func (o *Overlay) Suspend(problem string) {
	o.reject(finding.Finding{File: o.Path, Problem: problem})
	o.Suspended = plan.Suspension{Code: plan.Invalid, Finding: o.Err().Error()}
}

func (o *Overlay) rejectIf(wrong *finding.Finding, err error) error {
	if wrong != nil {
		o.reject(*wrong)
	}
	return err
}

// listHeader is the comment on the list, word for word as muster init has it.
const listHeader = "# Written by muster: the dispatches. Do not edit: muster reverts changes.\n"

// list prints dispatches/kustomization.yaml. An empty list is written out: a
// kustomization with no field at all does not build, and a marshalled one
// would have none.
func list(ids []string) []byte {
	const head = listHeader + "apiVersion: " + types.KustomizationVersion + "\nkind: " + types.KustomizationKind + "\n"
	if len(ids) == 0 {
		return []byte(head + "resources: []\n")
	}
	text := []byte(head + "resources:\n")
	for _, id := range slices.Sorted(slices.Values(ids)) {
		// An ID needs no quotes: a file name never reads as another type.
		text = append(text, "- "+id+manifestType+"\n"...)
	}
	return text
}

func (o *Overlay) file(name string) string { return path.Join(o.Path, dispatchDir, name) }

// FileOf returns the path of a dispatch in the repository.
func (o *Overlay) FileOf(d plan.Dispatch) string {
	if d.Withdrawn {
		return o.file(path.Join(withdrawnDir, d.ID+manifestType))
	}
	return o.file(d.ID + manifestType)
}

func (o *Overlay) ids() []string {
	var ids []string
	for _, d := range o.listed() {
		ids = append(ids, d.ID)
	}
	return ids
}

// relist completes an operation: it updates the overlay's list, adds it to the changes, and
// returns the changes sorted by path.
func (o *Overlay) relist(changes []branch.Change) []branch.Change {
	o.list = list(o.ids())
	changes = append(changes, branch.Change{Path: o.file(listFile), Content: o.list})
	slices.SortFunc(changes, func(a, b branch.Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

// InvalidState returns the reason why state.yaml is ignored, such as an invalid edit; nil if it is
// valid. If it is ignored, the overlay has the zero state and Repair removes the file.
func (o *Overlay) InvalidState() error {
	if o.invalidState == nil {
		return nil
	}
	return *o.invalidState
}

// LostState reports whether the overlay has no valid state.yaml: muster has not written it yet, or it
// was deleted or damaged.
func (o *Overlay) LostState() bool { return !o.stateRead }

// Add returns the changes that write new dispatches, and the resulting overlay. It returns an
// error, and no changes, for a suspended overlay, an existing ID or an invalid dispatch.
func (o *Overlay) Add(dispatches []plan.Dispatch) (Overlay, []branch.Change, error) {
	if err := o.Err(); err != nil {
		return *o, nil, fmt.Errorf("adding to %s: %w", o.Path, err)
	}
	if len(dispatches) == 0 {
		return *o, nil, nil
	}
	if err := o.unorderable(); err != nil {
		return *o, nil, fmt.Errorf("adding to %s: %w", o.Path, err)
	}
	next := *o
	next.Dispatches = slices.Clone(o.Dispatches)
	var changes []branch.Change
	written, size := map[key]readDispatch{}, 0
	for _, d := range dispatches {
		d.At, d.NotAfter = d.At.UTC(), d.NotAfter.UTC()
		if d.Tags == nil {
			d.Tags = o.AgentTags()
		}
		if d.Template == "" {
			d.Template = o.Template
		}
		at, taken := slices.BinarySearchFunc(next.Dispatches, d.ID, func(x plan.Dispatch, id string) int { return strings.Compare(x.ID, id) })
		if taken || slices.Contains(o.jobs, d.ID) {
			return *o, nil, fmt.Errorf("adding to %s: there is a Job %s already", o.Path, d.ID)
		}
		content, err := o.stamp(d)
		if err != nil {
			return *o, nil, fmt.Errorf("adding to %s: %w", o.Path, err)
		}
		next.Dispatches = slices.Insert(next.Dispatches, at, d)
		file := o.file(d.ID + manifestType)
		changes = append(changes, branch.Change{Path: file, Content: content})
		written[contentKey(file, content)] = readDispatch{Dispatch: d, proven: true}
		if size += len(content); size > largestOrder {
			return *o, nil, fmt.Errorf("adding to %s: the order has more than %d MiB of dispatches: keep large files of the template in a ConfigMap or in the image", o.Path, largestOrder>>20)
		}
	}
	o.loader.know(written)
	changes = next.relist(changes)
	return next, changes, nil
}

// Remove returns the changes that remove dispatches, and the resulting overlay. It returns an
// error for a suspended overlay or an unknown ID.
func (o *Overlay) Remove(ids []string) (Overlay, []branch.Change, error) {
	if err := o.Err(); err != nil {
		return *o, nil, fmt.Errorf("removing from %s: %w", o.Path, err)
	}
	if len(ids) == 0 {
		return *o, nil, nil
	}
	next := *o
	next.Dispatches = slices.Clone(o.Dispatches)
	var changes []branch.Change
	for _, id := range ids {
		at := slices.IndexFunc(next.Dispatches, func(d plan.Dispatch) bool { return d.ID == id })
		if at < 0 {
			return *o, nil, fmt.Errorf("removing from %s: there is no dispatch %s", o.Path, finding.Quote(id))
		}
		changes = append(changes, branch.Change{Path: o.FileOf(next.Dispatches[at])})
		next.Dispatches = slices.Delete(next.Dispatches, at, at+1)
	}
	changes = next.relist(changes)
	return next, changes, nil
}

// muster reads the files in dispatches/ when a process starts and when they change. Each file
// is small, but git has room for tens of thousands of them, and the other overlays wait until
// they are read. So their total size is bounded, for each overlay: ten thousand live dispatches
// of 8 KB, which a large fleet may have, total 80 MB.
const (
	// fullAt is the maximum number of bytes of dispatches in an overlay that still orders more.
	// Above it retirements continue, so that the overlay gets below it again.
	fullAt = 96 << 20
	// largestOrder is the maximum number of bytes that one order adds.
	largestOrder = 96 << 20
	// maxOfDispatches is the maximum number of bytes that are read: all that muster may write.
	maxOfDispatches = fullAt + largestOrder
)

// tooMuch reports whether enough of dispatches/ was read, and then stores that the file is not read.
// Which dispatch the file is, the log shows if muster ordered it.
func (o *Overlay) tooMuch(file string) bool {
	if o.size <= maxOfDispatches {
		return false
	}
	o.unread = append(o.unread, file)
	o.edits = append(o.edits, Edit{File: file, Dispatch: plan.Dispatch{ID: idOf(file)}})
	return true
}

// checkSize suspends the overlay if dispatches/ was not read completely, and refuses orders if
// its size is close to the limit.
func (o *Overlay) checkSize() {
	dir := path.Join(o.Path, dispatchDir)
	switch {
	case len(o.unread) > 0:
		others := ""
		if n := len(o.unread) - 1; n > 0 {
			others = fmt.Sprintf(", as %d others", n)
		}
		f := finding.Finding{File: o.unread[0], Problem: fmt.Sprintf("is not read%s: the files in %s have more than %d MiB", others, dir, maxOfDispatches>>20), Remedy: "delete those that are not dispatches of muster"}
		o.findings = atMost(o, append([]finding.Finding{f}, o.findings...)) // before the problems of thousands of files
	case o.size > fullAt:
		o.refused = append(slices.Clone(o.refused), finding.Finding{File: dir, Problem: fmt.Sprintf("has %d MiB of dispatches, and muster orders nothing more above %d MiB", o.size>>20, fullAt>>20), Remedy: "keep large files of the template in a ConfigMap or in the image"})
	}
}
