package generator_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// tree is one state of the fleet repository. It is never changed.
type tree struct {
	fstest.MapFS
	files map[string][]byte
}

func newTree(files map[string][]byte) *tree {
	t := &tree{MapFS: fstest.MapFS{}, files: files}
	for name, content := range files {
		t.MapFS[name] = &fstest.MapFile{Data: content, Mode: 0o644}
	}
	return t
}

// with is the tree after some changes.
func (t *tree) with(changes []branch.Change) *tree {
	files := maps.Clone(t.files)
	for _, c := range changes {
		if c.Content == nil {
			delete(files, c.Path)
		} else {
			files[c.Path] = c.Content
		}
	}
	return newTree(files)
}

// below lists the files directly in a directory, sorted.
func (t *tree) below(dir string) []string {
	var names []string
	for name := range t.files {
		if below, ok := strings.CutPrefix(name, dir+"/"); ok && !strings.Contains(below, "/") {
			names = append(names, below)
		}
	}
	slices.Sort(names)
	return names
}

// commit is one commit of the fleet repository.
type commit struct {
	id        string
	parent    *commit
	tree      *tree
	at        time.Time
	who       string
	operation *ledger.Draft // nil where a person made it
	message   func() string
}

func (c *commit) head() branch.Head { return branch.Head{Commit: c.id, Tree: c.tree} }

// fleetRepository is a fleet repository in memory: a chain of commits, each made by
// compare-and-swap on the last. It applies the acts' changes exactly, keeps
// everything, and is safe for concurrent use.
type fleetRepository struct {
	mu   sync.Mutex
	log  []*commit
	at   map[string]int // places in log by identifier, of those that were looked up
	now  func() time.Time
	seen func(pushed []*commit) // triggered with every push that landed; optional
	// branches are the names of others that the repository has.
	branches []string
	ids      map[string]string // identifiers that the first commits to overlays' state.yaml wrote, by name
}

func newFleet(now func() time.Time, files map[string][]byte) *fleetRepository {
	f := &fleetRepository{now: now, ids: map[string]string{}}
	f.log = []*commit{f.next(nil, "a person", strings.Repeat("0", 40), newTree(files))}
	return f
}

func (f *fleetRepository) head() *commit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log[len(f.log)-1]
}

func (f *fleetRepository) history() []*commit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// push adds a chain of commits to the head, all or none.
func (f *fleetRepository) push(who, head string, ops []ledger.Draft) (*commit, error) {
	f.mu.Lock()
	parent := f.log[len(f.log)-1]
	if parent.id != head {
		f.mu.Unlock()
		return nil, branch.ErrMoved
	}
	var pushed []*commit
	for _, a := range ops {
		parent = f.change(parent, who, a.Changes)
		parent.operation = &a
		for _, c := range a.Changes {
			if name := a.Decision.Overlay; f.ids[name] == "" && c.Path == fleet.StateFile(a.Path) {
				f.ids[name] = fleet.ReadState(c.Content).Identity.ID
			}
		}
		// Made once, for it is read again and again.
		parent.message = sync.OnceValue(func() string { return ledger.Message(a, "v0") })
		pushed = append(pushed, parent)
	}
	f.log = append(f.log, pushed...)
	f.mu.Unlock()
	if f.seen != nil {
		f.seen(pushed)
	}
	return parent, nil
}

// id returns the identifier that the first commit to an overlay's state.yaml wrote; empty without one.
func (f *fleetRepository) id(overlay string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ids[overlay]
}

// next is a commit after parent.
func (f *fleetRepository) next(parent *commit, who, id string, t *tree) *commit {
	return &commit{id: id, parent: parent, tree: t, at: f.now(), who: who, message: func() string { return who + "\n" }}
}

// change is a commit that changes files. Its name depends on all that is in it.
func (f *fleetRepository) change(parent *commit, who string, changes []branch.Change) *commit {
	h := sha256.New()
	fmt.Fprintln(h, parent.id)
	for _, c := range changes {
		fmt.Fprintln(h, c.Path, c.Content == nil, len(c.Content))
		h.Write(c.Content)
	}
	return f.next(parent, who, hex.EncodeToString(h.Sum(nil))[:40], parent.tree.with(changes))
}

// edit is a person's commit on the current head.
func (f *fleetRepository) edit(what string, changes ...branch.Change) {
	f.mu.Lock()
	c := f.change(f.log[len(f.log)-1], what, changes)
	f.log = append(f.log, c)
	f.mu.Unlock()
	if f.seen != nil {
		f.seen([]*commit{c})
	}
}

// commits are the commit from and those before it, as a git client reads them.
func (f *fleetRepository) commits(from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		first, err := f.commit(cmp.Or(from, f.head().id))
		if err != nil {
			yield(branch.Commit{}, err)
			return
		}
		n := 0
		for c := first; c != nil; c = c.parent {
			if limit.Commits > 0 && n == limit.Commits {
				return
			}
			n++
			x := branch.Commit{ID: c.id, Author: c.who, At: c.at, Message: c.message()}
			if c.parent != nil {
				x.Parents = []string{c.parent.id}
			}
			if !yield(x, nil) {
				return
			}
		}
	}
}

// edits are what commits have changed in the files below some directories.
func (f *fleetRepository) edits(commits []branch.Commit, look branch.Selection) ([]branch.Edits, error) {
	var all []branch.Edits
	for _, x := range commits {
		c, err := f.commit(x.ID)
		if err != nil {
			return nil, err
		}
		before := map[string][]byte{}
		if c.parent != nil {
			before = c.parent.tree.files
		}
		var e branch.Edits
		if c.parent == nil || c.parent.tree != c.tree {
			for _, name := range slices.Sorted(maps.Keys(union(before, c.tree.files))) {
				was, had := before[name]
				is, has := c.tree.files[name]
				if below := slices.ContainsFunc(look.Below, func(top string) bool { return name == top || strings.HasPrefix(name, top+"/") }); below && (had != has || !bytes.Equal(was, is)) {
					e.Files = append(e.Files, branch.Edit{Path: name, Added: !had, Removed: !has, Before: was, After: is})
				}
			}
		}
		all = append(all, e)
	}
	return all, nil
}

func union(a, b map[string][]byte) map[string][]byte {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// reset sets the branch back to one of its commits.
func (f *fleetRepository) reset(commit int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = f.log[:commit+1]
}

// crowd are commits by another writer that change nothing here.
func (f *fleetRepository) crowd(n int) {
	f.mu.Lock()
	var pushed []*commit
	for range n {
		parent := f.log[len(f.log)-1]
		sum := sha256.Sum256([]byte(parent.id))
		c := f.next(parent, "a crowd", hex.EncodeToString(sum[:20]), parent.tree)
		f.log, pushed = append(f.log, c), append(pushed, c)
	}
	f.mu.Unlock()
	if f.seen != nil {
		f.seen(pushed)
	}
}

// file is a file as it was at a past commit.
func (f *fleetRepository) file(commitID, name string) ([]byte, error) {
	c, err := f.commit(commitID)
	if err != nil {
		return nil, err
	}
	return c.tree.ReadFile(name)
}

// commit returns a commit of the branch.
func (f *fleetRepository) commit(id string) (*commit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, found := f.at[id]
	if !found || at >= len(f.log) || f.log[at].id != id { // the branch was reset since
		f.at = map[string]int{}
		for i, c := range f.log {
			f.at[c.id] = i
		}
		if at, found = f.at[id]; !found {
			return nil, errUnreachable
		}
	}
	return f.log[at], nil
}

// The errors of a faulty fleet repository.
var (
	errUnreachable = errors.New("the remote cannot be reached")
	errCrashed     = errors.New("the process was killed")
)

// remote is one muster's view of the fleet repository, without faults.
type remote struct {
	fleet *fleetRepository
	who   string
}

// Head implements generator.Repository.
func (r remote) Head(context.Context) (branch.Head, error) { return r.fleet.head().head(), nil }

// Commit implements generator.Repository.
func (r remote) Commit(_ context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	c, err := r.fleet.push(r.who, head.Commit, ops)
	if err != nil {
		return branch.Head{}, err
	}
	return c.head(), nil
}

// Limits implements generator.Repository.
func (r remote) Limits() branch.Limits { return branch.Limits{} }

// HasBranch implements generator.Repository.
func (r remote) HasBranch(_ context.Context, name string) (bool, error) {
	return slices.Contains(r.fleet.branches, name), nil
}

// Past implements explanation.Repository.
func (r remote) Past(_ context.Context, id string, _ []string) (branch.Head, error) {
	c, err := r.fleet.commit(id)
	if err != nil {
		return branch.Head{}, err
	}
	return c.head(), nil
}

func (r remote) Commits(_ context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return r.fleet.commits(from, limit)
}

func (r remote) File(_ context.Context, commit, name string) ([]byte, error) {
	return r.fleet.file(commit, name)
}

func (r remote) Edits(_ context.Context, commits []branch.Commit, _ map[string]string, look branch.Selection) ([]branch.Edits, error) {
	return r.fleet.edits(commits, look)
}
