// Package manifest turns the directories of a fleet repository into values and
// back: it reads policies, builds templates with kustomize, stamps a template
// to a dispatch, and reads a dispatch again. It reads git trees and returns
// changes; it writes nothing, fetches nothing, runs nothing and knows no clock.
//
// A tick goes through it like this:
//
//	tree ──Load──▶ []Overlay ──Repair──▶ ──Add──▶ ──Remove──▶
//
// where each of the last three returns the changes of one commit and the
// overlay that follows from them, which the next one starts from.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"muster/generator/plan"
)

// The names inside an overlay.
const (
	policyFile   = "scaling.yaml"
	templateDir  = "template"
	dispatchDir  = "dispatches"
	withdrawnDir = "withdrawn" // in dispatches/
	listFile     = "kustomization.yaml"
	stateFile    = "state.yaml"
	manifestType = ".yaml"
)

// Loader reads overlays out of trees. It remembers what it built from which
// files, so that an unchanged template is never built again, and which
// dispatches it has read. It is safe for concurrent use, one Load at a time.
type Loader struct {
	dir   string
	fleet string

	mu sync.Mutex
	// memos are what the builds of the last Load came to, and used those of
	// the one that runs: what is not used in a Load is forgotten.
	memos, used map[string]*memo
	// valid are dispatches that were read and proven, by path and content, and
	// by path and what stands for the content; see identityKey.
	valid, seen map[[sha256.Size]byte]plan.Dispatch
	builds      int
}

// NewLoader returns a loader for the overlays below directory dir of a fleet
// repository, as in "overlays".
func NewLoader(dir string) *Loader {
	return &Loader{dir: strings.TrimPrefix(path.Clean("/"+dir), "/")}
}

// InFleet makes the loader read overlays of a fleet repository that is known by
// the tag; see [plan.Overlay.Fleet]. It returns the loader.
func (l *Loader) InFleet(tag string) *Loader {
	l.fleet = tag
	return l
}

// Load reads every overlay of a tree: every directory below the loader's that
// holds a scaling.yaml, sorted by name. What is wrong with one of them is its
// Err and does not affect the others. An error is returned only when the
// directory itself cannot be read.
func (l *Loader) Load(tree fs.FS) ([]Overlay, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used, l.seen = map[string]*memo{}, map[[sha256.Size]byte]plan.Dispatch{}
	dir := l.dir
	if dir == "" {
		dir = "."
	}
	entries, err := fs.ReadDir(tree, dir)
	if err != nil {
		return nil, fmt.Errorf("reading the overlays: %w", err)
	}
	overlays := l.find(tree, dir, entries)
	slices.SortFunc(overlays, func(a, b Overlay) int { return strings.Compare(a.Name, b.Name) })
	for i := range overlays {
		overlays[i].tree = tree
		l.load(tree, &overlays[i])
	}
	apart(overlays)
	for i := range overlays {
		o := &overlays[i]
		if err := o.Err(); err != nil {
			o.Suspended = plan.Suspension{Code: plan.Invalid, Finding: err.Error()}
		} else if err := first(o.refused); err != nil {
			o.Refused = plan.Suspension{Code: plan.Invalid, Finding: err.Error()}
		}
	}
	l.memos, l.valid = l.used, l.seen
	return overlays, nil
}

// find lists the overlays at and below dir without reading them. It looks
// below an overlay too, to report one inside another, but not at its template
// and its dispatches.
func (l *Loader) find(tree fs.FS, dir string, entries []fs.DirEntry) []Overlay {
	var overlays []Overlay
	isOverlay := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == policyFile })
	if isOverlay {
		overlays = append(overlays, Overlay{Overlay: plan.Overlay{Name: l.nameOf(dir), Fleet: l.fleet}, Path: dir, loader: l})
	}
	for _, e := range entries {
		if !e.IsDir() || isOverlay && (e.Name() == templateDir || e.Name() == dispatchDir) {
			continue
		}
		below := path.Join(dir, e.Name())
		if strings.Count(strings.TrimPrefix(below, l.dir+"/"), "/") >= deepest {
			continue
		}
		inside, err := fs.ReadDir(tree, below)
		if err != nil {
			// It may hold an overlay: that must not look as if it were gone.
			o := Overlay{Overlay: plan.Overlay{Name: l.nameOf(below)}, Path: below, loader: l}
			o.reject(Finding{File: below, Problem: "cannot be read: " + oneLine(err)})
			overlays = append(overlays, o)
			continue
		}
		overlays = append(overlays, l.find(tree, below, inside)...)
	}
	return overlays
}

// deepest is how many directories an overlay may lie below the first: looking
// further would let a few crafted objects stand for millions of directories.
const deepest = 4

// pathRule is what the path of an overlay may look like: what every forge, shell
// and terminal takes as it is.
var pathRule = regexp.MustCompile(`^[\pL\pN_@+~=,. -]+(/[\pL\pN_@+~=,. -]+)*$`)

func (l *Loader) nameOf(dir string) string {
	if dir == l.dir || dir == "." {
		return "."
	}
	return strings.TrimPrefix(dir, l.dir+"/")
}

// apart rejects overlays that lie in one another or share a slug.
func apart(overlays []Overlay) {
	slugs := map[string]int{}
	paths := map[string]int{}
	for i := range overlays {
		o := &overlays[i]
		if !pathRule.MatchString(o.Path) {
			o.reject(Finding{File: o.Path, Problem: "has a name that muster does not commit to", Remedy: "use letters, digits and -_. in the names of directories"})
		}
		if o.Name == "." {
			o.reject(Finding{File: path.Join(o.Path, policyFile), Problem: "lies in the directory of all overlays", Remedy: "move the overlay to a directory of its own below it"})
			continue
		}
		if first, taken := slugs[o.Slug()]; taken {
			for _, pair := range [][2]*Overlay{{o, &overlays[first]}, {&overlays[first], o}} {
				pair[0].reject(Finding{File: pair[0].Path, Problem: fmt.Sprintf("shares the short name %s with %s", o.Slug(), pair[1].Path), Remedy: "rename one of them"})
			}
		} else {
			slugs[o.Slug()] = i
		}
		paths[o.Path] = i
	}
	for i := range overlays {
		o := &overlays[i]
		for above := path.Dir(o.Path); above != "." && above != "/"; above = path.Dir(above) {
			outer, ok := paths[above]
			if !ok {
				continue
			}
			o.reject(Finding{File: o.Path, Problem: "lies inside the overlay " + above, Remedy: "move it beside it"})
			overlays[outer].reject(Finding{File: above, Problem: "has the overlay " + o.Path + " inside it", Remedy: "move that beside it"})
		}
	}
}

// load reads one overlay. An overlay without a valid policy is not built.
func (l *Loader) load(tree fs.FS, o *Overlay) {
	if len(o.findings) > 0 {
		return
	}
	file := path.Join(o.Path, policyFile)
	data, err := fs.ReadFile(tree, file)
	if err != nil {
		o.reject(Finding{File: file, Problem: "cannot be read: " + oneLine(err)})
		return
	}
	policy, findings := parsePolicy(file, data)
	o.reject(findings...)
	if len(findings) == 0 {
		o.Policy = policy
		if err := l.loadTemplate(tree, o); err != nil {
			o.reject(Finding{File: o.Path, Problem: "cannot be read: " + oneLine(err)})
		}
	}
	l.loadDispatches(tree, o)
}

// loadDispatches reads the overlay's directory dispatches: its list, and every
// manifest. Other files are left alone.
func (l *Loader) loadDispatches(tree fs.FS, o *Overlay) {
	dir := path.Join(o.Path, dispatchDir)
	entries, err := fs.ReadDir(tree, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.reject(Finding{File: dir, Problem: "cannot be read: " + oneLine(err)})
		return
	}
	for _, e := range entries {
		name := e.Name()
		file := path.Join(dir, name)
		switch {
		case (name == "kustomization.yml" || name == "Kustomization") && !e.IsDir():
			// kustomize wants one of the three names only.
			o.surplus = append(o.surplus, file)
			continue
		case e.IsDir() && (name == listFile || path.Ext(name) != manifestType):
			continue
		case path.Ext(name) == ".yml":
			o.reject(Finding{File: file, Problem: "was not written by muster, whose files end in .yaml", Remedy: "move it out of dispatches/, or delete it"})
			continue
		case path.Ext(name) != manifestType:
			continue
		}
		if name != listFile && name != stateFile {
			l.loadDispatch(tree, o, file, e)
			continue
		}
		data, err := readFile(tree, file, e)
		switch {
		case err != nil:
			o.reject(Finding{File: file, Problem: "cannot be read: " + oneLine(err)})
		case name == listFile:
			o.list = data
		default:
			if o.State, o.invalidState = readState(file, data); o.invalidState != nil {
				o.surplus = append(o.surplus, file)
			}
		}
	}
	l.loadWithdrawn(tree, o)
	slices.SortFunc(o.Dispatches, func(a, b plan.Dispatch) int { return strings.Compare(a.ID, b.ID) })
	for _, d := range o.Dispatches {
		if slices.Contains(o.jobs, d.ID) {
			o.reject(Finding{File: o.Path, Problem: "has a Job " + d.ID + " beside the dispatch of that name", Remedy: "rename it"})
		}
	}
}

// loadDispatch adds one manifest to the overlay, or rejects it.
func (l *Loader) loadDispatch(tree fs.FS, o *Overlay, file string, e fs.DirEntry) {
	key, known := identityKey(file, e)
	d, valid := l.valid[key]
	if !known || !valid {
		data, err := readFile(tree, file, e)
		if err != nil {
			o.reject(Finding{File: file, Problem: "cannot be read: " + oneLine(err)})
			return
		}
		content := contentKey(file, data)
		if !known {
			key = content
		}
		if d, valid = l.valid[content]; !valid {
			var wrong *Finding
			if d, valid, wrong = l.dispatch(o, file, data); wrong != nil {
				o.reject(*wrong)
				return
			}
		}
	}
	if valid {
		l.seen[key] = d
	}
	d.Withdrawn = path.Base(path.Dir(file)) == withdrawnDir
	o.Dispatches = append(o.Dispatches, d)
	if o.Policy.Queue == "" {
		// Its own policy cannot be read; what it has on order must still count
		// where its agents will be.
		o.Policy = standIn(d)
	}
}

func readFile(tree fs.FS, file string, e fs.DirEntry) ([]byte, error) {
	if !e.Type().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return fs.ReadFile(tree, file)
}

// dispatch reads one manifest, and proves that kustomize can read it too, unless
// the overlay has no template. A file that is byte for byte what muster would
// write today is proven by the proof of the template. Any other was written from
// an older template or edited since: it is built once, alone.
func (l *Loader) dispatch(o *Overlay, file string, data []byte) (d plan.Dispatch, proven bool, wrong *Finding) {
	d, wrong = parseDispatch(file, data)
	if wrong != nil {
		return d, false, wrong
	}
	if of := overlayOf(data); of != o.Slug() {
		return d, false, &Finding{File: file, Field: "metadata.labels[" + LabelOverlay + "]", Problem: "is " + quote(of) + ": the dispatch is another overlay's", Remedy: "if --overlays is right and no directory was renamed, it is a copy: delete it, for it is the same Job twice"}
	}
	if o.template == nil {
		return d, false, nil // suspended; the proof waits until it is not
	}
	if stamped, err := o.stamp(d); err != nil || !bytes.Equal(stamped, data) {
		v := &view{name: "alone ", over: map[string][]byte{
			path.Join(file, listFile):                list([]string{"dispatch"}),
			path.Join(file, "dispatch"+manifestType): data,
		}}
		if _, wrong, _ := l.build(v, file); wrong != nil { // nothing to read: no error
			return d, false, &Finding{File: file, Problem: wrong.Problem, Remedy: putRight}
		}
		delete(l.used, v.name+file) // remembered by content instead
	}
	return d, true, nil
}

// overlayOf is the slug of the overlay that a dispatch was ordered for.
func overlayOf(dispatch []byte) string {
	job, wrong := parseOne("", dispatch)
	if wrong != nil {
		return ""
	}
	return scalar(job, "metadata", "labels", LabelOverlay)
}

// standIn is a policy that says where a dispatch's agents are, and no more.
func standIn(d plan.Dispatch) plan.Policy {
	var p plan.Policy
	for _, tag := range d.Tags {
		switch key, value, _ := strings.Cut(tag, "="); key {
		case plan.TagQueue:
			p.Queue = value
		case plan.TagOverlay, plan.TagFleet:
		default:
			p.Tags = append(p.Tags, tag)
		}
	}
	return p
}

func contentKey(file string, data []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(file))
	h.Write([]byte{0})
	h.Write(data)
	return [sha256.Size]byte(h.Sum(nil))
}

// identityKey is what stands for a file's content where the tree can tell it
// without reading it, as git can: its entries have a method Identity, whose
// result is another for every other content. An overlay of ten thousand
// dispatches is then read once, and not at each commit.
func identityKey(file string, e fs.DirEntry) (key [sha256.Size]byte, ok bool) {
	entry, ok := e.(interface{ Identity() string })
	if !ok || !e.Type().IsRegular() {
		return key, false
	}
	h := sha256.New()
	h.Write([]byte(file))
	h.Write([]byte{1})
	h.Write([]byte(entry.Identity()))
	return [sha256.Size]byte(h.Sum(nil)), true
}

// know keeps dispatches that were just written from being read again.
func (l *Loader) know(written map[[sha256.Size]byte]plan.Dispatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.valid == nil {
		l.valid = written
		return
	}
	for key, d := range written {
		l.valid[key] = d
	}
}
