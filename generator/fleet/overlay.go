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
	"sigs.k8s.io/kustomize/kyaml/yaml"
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
	// invalidState is why the first document of state.yaml cannot be read, and ordersProblem why the
	// second cannot. stateThere: the file exists; stateRead: its first document is valid.
	invalidState          *finding.Finding
	ordersProblem         string
	stateThere, stateRead bool
	// loaded: dispatches/ was read. recorded are the orders in state.yaml, and manifests the files that
	// may be manifests, by ID. over are those of finished orders, unexplained those of none, and lost the
	// orders whose manifest is missing or no Job any more; see [Overlay.Join].
	loaded            bool
	recorded          []plan.Dispatch
	manifests         map[string]manifest
	over, unexplained []string
	lost              map[string]bool
	// original contains the directories of overlays by identifier, and slugs the overlays' slugs; see
	// [Overlay.rejectOthers]. others are the orders that it rejects, and manifests that could not be read.
	original map[string]string
	slugs    map[string]bool
	others   []finding.Finding
	// held: its changes cannot be committed.
	held bool
	// list is the content of dispatches/kustomization.yaml, nil if the file is absent. surplus
	// are files that keep kustomize from reading it.
	list    []byte
	surplus []string
	// stateSize is the number of bytes of state.yaml.
	stateSize int
	// size is the number of bytes of dispatches/ that were read, now or before, and unread are
	// the files that were not read because the total of those before them is too large.
	size   int
	unread []string
}

// Err is why the overlay is suspended: a policy or a dispatch that cannot be
// read, a template or an overlay that does not build. Nothing of such an
// overlay can be changed. Nil when its files are valid.
func (o *Overlay) Err() error {
	return finding.Join(slices.Concat(o.findings, o.others, atMost(o, o.unexplainedFindings())))
}

// suspendInvalid suspends the overlay if its files are invalid.
func (o *Overlay) suspendInvalid() {
	o.Suspended, o.Refused = plan.Suspension{}, plan.Suspension{}
	if err := o.Err(); err != nil {
		o.Suspended = plan.Suspension{Code: plan.Invalid, Finding: err.Error()}
	} else if err := o.unorderable(); err != nil {
		o.Refused = plan.Suspension{Code: plan.Invalid, Finding: err.Error()}
	}
}

// unorderable is why nothing can be ordered, although dispatches can be retired.
func (o *Overlay) unorderable() error {
	return finding.Join(append(slices.Clip(o.refused), withoutFields(slices.Clone(o.harmful), o.refused)...))
}

// Suspend suspends the overlay as invalid for a problem outside of its files: its changes cannot
// be committed.
func (o *Overlay) Suspend(problem string) {
	o.held = true
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

// ids returns the orders whose manifests the list contains, sorted.
func (o *Overlay) ids() []string {
	var ids []string
	for _, d := range o.Dispatches {
		if o.listed(d) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// finish completes an operation: it adds the list and state.yaml to the changes, and returns them sorted
// by path.
func (o *Overlay) finish(changes []branch.Change) []branch.Change {
	o.list = list(o.ids())
	changes = append(changes, branch.Change{Path: o.file(listFile), Content: o.list}, branch.Change{Path: o.file(stateFile), Content: printState(o.State, o.Dispatches)})
	slices.SortFunc(changes, func(a, b branch.Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

// InvalidState returns the reason why state.yaml is ignored, such as an invalid edit; nil if it is
// valid. If it is ignored, the overlay has the zero state unless [Overlay.RestoreState] replaces it.
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
	size := 0
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
		d.Manifest = digestOf(content)
		next.Dispatches = slices.Insert(next.Dispatches, at, d)
		changes = append(changes, branch.Change{Path: o.FileOf(d), Content: content})
		if size += len(content); size > largestOrder {
			return *o, nil, fmt.Errorf("adding to %s: the order has more than %d MiB of dispatches: keep large files of the template in a ConfigMap or in the image", o.Path, largestOrder>>20)
		}
	}
	changes = next.finish(changes)
	tooLarge := func(c branch.Change) bool {
		return c.Path == o.file(stateFile) && len(c.Content) > largestState-reserved
	}
	if slices.ContainsFunc(changes, tooLarge) {
		return *o, nil, fmt.Errorf("adding to %s: %s would have more than %d KiB: use fewer or shorter tags", o.Path, stateFile, (largestState-reserved)>>10)
	}
	return next, changes, nil
}

// Remove returns the changes that remove dispatches, and the resulting overlay. It returns an
// error for a suspended overlay or an unknown ID.
func (o *Overlay) Remove(ids []string) (Overlay, []branch.Change, error) {
	if err := o.Err(); err != nil {
		return *o, nil, fmt.Errorf("removing from %s: %w", o.Path, err)
	}
	return o.remove(ids)
}

func (o *Overlay) remove(ids []string) (Overlay, []branch.Change, error) {
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
		if o.listed(next.Dispatches[at]) {
			changes = append(changes, branch.Change{Path: o.FileOf(next.Dispatches[at])})
		}
		next.Dispatches = slices.Delete(next.Dispatches, at, at+1)
	}
	changes = next.finish(changes)
	return next, changes, nil
}

// Withdraw returns the changes that remove the manifests of orders, which count until their lease expires,
// and the resulting overlay. It returns an error for a suspended overlay or an unknown ID.
func (o *Overlay) Withdraw(ids []string) (Overlay, []branch.Change, error) {
	if err := o.Err(); err != nil {
		return *o, nil, fmt.Errorf("withdrawing from %s: %w", o.Path, err)
	}
	return o.withdraw(ids)
}

// Cancel is Withdraw for a person: it also works if the policy or the template is invalid, which
// may be the reason to cancel. It returns an error if a file in dispatches/ cannot be explained or read.
func (o *Overlay) Cancel(ids []string) (Overlay, []branch.Change, error) {
	if err := o.unwritable(); err != nil {
		return *o, nil, fmt.Errorf("withdrawing from %s: %w", o.Path, err)
	}
	return o.withdraw(ids)
}

// Forget is Remove for a person, who says that the Jobs of the orders were never created. It works where
// Cancel does.
func (o *Overlay) Forget(ids []string) (Overlay, []branch.Change, error) {
	if err := o.unwritable(); err != nil {
		return *o, nil, fmt.Errorf("removing from %s: %w", o.Path, err)
	}
	return o.remove(ids)
}

// unwritable is why a person's command cannot write dispatches/; nil if it can.
func (o *Overlay) unwritable() error {
	if o.unclear() {
		return o.Err()
	}
	return o.InvalidState() // a state without the identity in it would be that of a new overlay
}

func (o *Overlay) withdraw(ids []string) (Overlay, []branch.Change, error) {
	if len(ids) == 0 {
		return *o, nil, nil
	}
	next := *o
	next.Dispatches = slices.Clone(o.Dispatches)
	var changes []branch.Change
	for _, id := range ids {
		at := slices.IndexFunc(next.Dispatches, func(d plan.Dispatch) bool { return d.ID == id && !d.Withdrawn })
		if at < 0 {
			return *o, nil, fmt.Errorf("withdrawing from %s: there is no dispatch %s", o.Path, finding.Quote(id))
		}
		next.Dispatches[at].Withdrawn, next.Dispatches[at].Edited = true, false
		changes = append(changes, branch.Change{Path: o.FileOf(next.Dispatches[at])})
	}
	changes = next.finish(changes)
	return next, changes, nil
}

// KeepsJob reports whether annotations of a manifest prevent Argo CD and Flux from deleting its Job
// when it leaves git. It is false if either annotation is missing or the file cannot be
// read. Sources: argo-cd "Sync Options" (Prune=false) and Flux "Kustomization"
// (kustomize.toolkit.fluxcd.io/prune).
func (o *Overlay) KeepsJob(d plan.Dispatch) bool {
	text, err := fs.ReadFile(o.tree, o.FileOf(d))
	if err != nil {
		return false
	}
	manifest, wrong := finding.ParseOne("", text)
	return wrong == nil && keepsJob(manifest)
}

// keepsJob is [Overlay.KeepsJob] of a Job.
func keepsJob(manifest *yaml.Node) bool {
	annotation := func(name string) string { return finding.Scalar(manifest, "metadata", "annotations", name) }
	options := strings.Split(annotation("argocd.argoproj.io/sync-options"), ",")
	return annotation("kustomize.toolkit.fluxcd.io/prune") == "disabled" && slices.Contains(options, "Prune=false")
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
func (o *Overlay) tooMuch(file string) bool {
	if o.size <= maxOfDispatches {
		return false
	}
	o.unread = append(o.unread, file)
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
			if n == 1 {
				others = ", as 1 other"
			}
		}
		f := finding.Finding{File: o.unread[0], Problem: fmt.Sprintf("is not read%s: the files in %s have more than %d MiB", others, dir, maxOfDispatches>>20), Remedy: "delete those that are not dispatches of muster"}
		o.findings = atMost(o, append([]finding.Finding{f}, o.findings...)) // before the problems of thousands of files
	case o.stateSize > largestState-2*reserved:
		o.refused = append(slices.Clone(o.refused), finding.Finding{File: o.file(stateFile), Problem: fmt.Sprintf("has %d KiB of orders, and muster orders nothing more above %d KiB", o.stateSize>>10, (largestState-2*reserved)>>10), Remedy: "use fewer or shorter tags"})
	case o.size > fullAt:
		o.refused = append(slices.Clone(o.refused), finding.Finding{File: dir, Problem: fmt.Sprintf("has %d MiB of dispatches, and muster orders nothing more above %d MiB", o.size>>20, fullAt>>20), Remedy: "keep large files of the template in a ConfigMap or in the image"})
	}
}
