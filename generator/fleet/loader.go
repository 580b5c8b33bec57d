// Package fleet reads and changes the overlays of a fleet repository: it reads policies, builds
// templates with kustomize, stamps manifests from templates, and keeps the orders. It reads git trees
// and returns changes. It does not write, fetch or run anything, and does not use a clock.
//
// A tick goes through it like this:
//
//	tree ──Load──▶ []Overlay ──Join──▶ ──Repair──▶ ──Add──▶ ──Withdraw──▶ ──Remove──▶
//
// Join adds what the files lack. Each of the last four returns the changes of one commit, and all but
// Repair the resulting overlay, from which the next one starts.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/generator/finding"
	"muster/generator/kustomize"
	"muster/generator/plan"
	"muster/generator/policy"
)

// maxFindings is the maximum number of findings for one overlay. fewFindings is the maximum
// after maxLogged findings for other overlays: thousands of overlays may be broken.
const (
	maxFindings = 50
	maxLogged   = 5000
	fewFindings = 5
)

// max is how many findings the overlay may have.
func (l *Loader) max() int {
	if l.findings > maxLogged {
		return fewFindings
	}
	return maxFindings
}

// The names inside an overlay.
const (
	policyFile   = "scaling.yaml"
	templateDir  = "template"
	dispatchDir  = "dispatches"
	listFile     = "kustomization.yaml"
	stateFile    = "state.yaml"
	manifestType = ".yaml"
)

// Loader reads overlays out of trees. It remembers which files each build read, so that it
// never rebuilds an unchanged template, and the digests of manifests. It is safe for
// concurrent use, one Load at a time.
type Loader struct {
	dir      string
	reserved []string

	mu sync.Mutex
	// memos are the results of the last Load's builds, and used those of the current Load, which
	// drops unused results.
	memos, used map[string]*memo
	// manifests are files in dispatches/, by path and key of the content.
	manifests remembered[manifest]
	// states are read state.yaml files, by path and content.
	states remembered[stateRead]
	// policies are read policies, by path and content. readable is what keeps an overlay's
	// dispatches from being read, by everything that they are stamped from. proofs are the
	// dispatches that represent those of any overlay on a template.
	policies remembered[*readPolicy]
	readable remembered[*finding.Finding]
	proofs   remembered[[]byte]
	// zones are the time zones of all policies.
	zones policy.Zones
	// builtFor are builds of the current Load that others may share, by key.
	builtFor map[string][]*memo
	builds   int
	// findings is the number of findings of the current Load.
	findings int

	builder  kustomize.Builder
	patience time.Duration
	after    func(context.Context, time.Duration) <-chan struct{}
	ctx      context.Context // of the current Load
	// slow are builds that an earlier Load did not wait for, by view and directory. overran and
	// overrunning are the slow ones of the last Load and of the current Load.
	slow map[string]*running
	// twoAtOnce: two builds may run at the same time. ahead are those of the current Load that
	// were begun before their turn.
	twoAtOnce            bool
	ahead                map[string]*running
	overran, overrunning map[string]bool
}

// NewLoader returns a loader for the overlays below directory dir of a fleet
// repository, as in "overlays".
func NewLoader(dir string) *Loader {
	return &Loader{
		dir:     strings.TrimPrefix(path.Clean("/"+dir), "/"),
		builder: kustomize.Here{}, slow: map[string]*running{}, zones: policy.Zones{},
	}
}

// Reserve makes the loader reject templates whose Job is in the namespace, such as the one
// of muster's own pod. An empty name has no effect. Reserve returns the loader.
func (l *Loader) Reserve(namespace string) *Loader {
	if namespace != "" {
		l.reserved = append(l.reserved, namespace)
	}
	return l
}

// noDirectory is the error of Load if the tree lacks the loader's directory.
type noDirectory struct{}

func (noDirectory) Error() string { return "there is no such directory" }

func (noDirectory) Unwrap() error { return fs.ErrNotExist }

// Load reads every overlay of a tree: every directory below the loader's that contains a
// scaling.yaml, sorted by name. A problem of one overlay is its Err, and does not affect the
// others. Load returns an error only if the directory itself cannot be read.
func (l *Loader) Load(tree fs.FS) ([]Overlay, error) {
	return l.LoadContext(context.Background(), tree)
}

// LoadContext is Load with a context. Load and the builds that continue after it end with ctx.
func (l *Loader) LoadContext(ctx context.Context, tree fs.FS) ([]Overlay, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.overrunning, l.findings = ctx, map[string]bool{}, 0
	l.builtFor, l.ahead = map[string][]*memo{}, map[string]*running{}
	l.used = map[string]*memo{}
	l.policies.begin()
	l.readable.begin()
	l.proofs.begin()
	l.manifests.begin()
	l.states.begin()
	dir := cmp.Or(l.dir, ".")
	entries, err := fs.ReadDir(tree, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, noDirectory{}
	case err != nil:
		return nil, fmt.Errorf("reading the overlays: %w", err)
	}
	overlays := l.find(tree, dir, entries)
	for i := range overlays {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading the overlays: %w", ctx.Err())
		}
		overlays[i].tree = tree
		if i+1 < len(overlays) {
			l.buildAhead(tree, &overlays[i+1])
		}
		l.load(tree, &overlays[i])
	}
	for _, r := range l.ahead { // that no Load has used
		r.stop()
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("reading the overlays: %w", ctx.Err())
	}
	rejectClashes(overlays)
	identify(tree, overlays)
	for i := range overlays {
		overlays[i].joined()
	}
	l.memos, l.overran = l.used, l.overrunning
	l.policies.end()
	l.readable.end()
	l.proofs.end()
	l.manifests.end()
	l.states.end()
	for key, r := range l.slow {
		if !l.overrunning[key] { // its files are gone, or are no longer the same
			r.stop()
			delete(l.slow, key)
		}
	}
	return overlays, nil
}

func (l *Loader) nameOf(dir string) string {
	if dir == l.dir || dir == "." {
		return "."
	}
	return strings.TrimPrefix(dir, l.dir+"/")
}

// load reads one overlay. An overlay without a valid policy is not built.
func (l *Loader) load(tree fs.FS, o *Overlay) {
	if len(o.findings) > 0 {
		return
	}
	file := path.Join(o.Path, policyFile)
	data, err := fs.ReadFile(tree, file)
	if err != nil {
		o.reject(finding.Unreadable(file, err))
		return
	}
	policy, from, findings := l.policy(file, data)
	o.reject(findings...)
	if len(findings) == 0 {
		o.Policy, o.policyKey = policy, from
		if err := l.loadTemplate(tree, o); err != nil {
			o.reject(finding.Unreadable(o.Path, err))
		}
	}
	l.loadDispatches(tree, o)
}

// readPolicy is a policy, or its problems.
type readPolicy struct {
	policy   plan.Policy
	findings []finding.Finding
}

// policy reads a policy, unless the last Load has read the same. The key identifies the policy
// and its path.
func (l *Loader) policy(file string, data []byte) (plan.Policy, key, []finding.Finding) {
	from := contentKey(file, data)
	p, _ := l.policies.get(from, func() (*readPolicy, error) { // never an error
		policy, findings := l.zones.Parse(file, data)
		return &readPolicy{policy, slices.Clone(findings[:min(len(findings), l.max()+1)])}, nil
	})
	return p.policy, from, p.findings
}

// loadDispatches reads the overlay's directory dispatches: its list, and every manifest. It
// ignores other files.
func (l *Loader) loadDispatches(tree fs.FS, o *Overlay) {
	o.loaded, o.manifests = true, map[string]manifest{}
	dir := path.Join(o.Path, dispatchDir)
	entries, err := fs.ReadDir(tree, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.reject(finding.Unreadable(dir, err))
		return
	}
	for _, e := range entries {
		name := e.Name()
		file := path.Join(dir, name)
		switch {
		case (name == "kustomization.yml" || name == "Kustomization") && !e.IsDir():
			// kustomize accepts only one of the three names.
			o.surplus = append(o.surplus, file)
			continue
		case e.IsDir() && name == listFile:
			o.reject(finding.Finding{File: file, Problem: "is a directory, where muster writes its list of the dispatches", Remedy: "move it out of " + dispatchDir + "/, or delete it"})
			continue
		case e.IsDir() && path.Ext(name) != manifestType:
			continue
		case path.Ext(name) == ".yml":
			o.reject(finding.Finding{File: file, Problem: "was not written by muster, whose files end in .yaml", Remedy: "move it out of dispatches/, or delete it"})
			continue
		case path.Ext(name) != manifestType:
			continue
		}
		if name != listFile && name != stateFile {
			l.loadManifest(tree, o, file, e)
			continue
		}
		data, err := readFile(tree, file, e)
		switch {
		case err != nil:
			o.reject(finding.Unreadable(file, err))
		case name == listFile:
			o.list = data
		default:
			l.readState(o, file, data)
		}
	}
	o.checkSize()
	for _, d := range o.recorded {
		if slices.Contains(o.jobs, d.ID) {
			o.reject(finding.Finding{File: o.Path, Problem: "has a Job " + d.ID + " in addition to the dispatch of that name", Remedy: "rename it"})
		}
	}
}

// loadManifest adds the digest of one manifest to the overlay.
func (l *Loader) loadManifest(tree fs.FS, o *Overlay, file string, e fs.DirEntry) {
	id := idOf(file)
	k, known := identityKey(file, e)
	if known {
		if m, ok := l.manifests.known(k); ok {
			o.size, o.manifests[id] = o.size+m.size, m
			return
		}
	}
	o.manifests[id] = manifest{unread: true}
	if o.tooMuch(file) {
		return
	}
	data, err := readFile(tree, file, e)
	if err != nil {
		o.reject(finding.Unreadable(file, err))
		return
	}
	m := manifest{digest: digestOf(data), size: len(data)}
	if known {
		l.manifests.now[k] = m
	}
	o.size, o.manifests[id] = o.size+m.size, m
}

func idOf(file string) string { return strings.TrimSuffix(path.Base(file), manifestType) }

func readFile(tree fs.FS, file string, e fs.DirEntry) ([]byte, error) {
	if !e.Type().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return fs.ReadFile(tree, file)
}

// policyOf returns a policy that contains only the queue and tags of a dispatch's agents.
func policyOf(d plan.Dispatch) plan.Policy {
	var p plan.Policy
	for _, tag := range d.Tags {
		switch key, value, _ := strings.Cut(tag, "="); key {
		case plan.TagQueue:
			p.Queue = value
		case plan.TagOverlay, plan.TagIdentity:
		default:
			p.Tags = append(p.Tags, tag)
		}
	}
	return p
}
