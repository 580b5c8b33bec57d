package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// PastTrees reads the files of many past commits, and objects that they share once. It keeps a limited
// number of objects, and does not change the branch. Close closes it.
//
// One git process reads a local repository. The error for an object that a shallow or partial clone
// lacks is [branch.ErrMissing]. Objects of a server are fetched, those that [PastTrees.Ahead] announces
// in batches. If the server does not send single objects, the whole history is fetched.
type PastTrees struct {
	branch *Branch // locked by the trees
	store  *store
	local  *catFile // nil if objects are fetched from a server
	roots  map[plumbing.Hash]plumbing.Hash
}

// maxRoots limits the commits whose trees are kept.
const maxRoots = 50_000

// PastTrees returns a reader of the branch's past. Those of a local repository work concurrently, those
// of a server take turns.
func (b *Branch) PastTrees(ctx context.Context) (*PastTrees, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &PastTrees{branch: b, roots: map[plumbing.Hash]plumbing.Hash{}}
	if b.server.Address.Scheme == "file" {
		server := &remote.Connection{Address: b.server.Address, Log: b.server.Log, Traffic: &remote.Counter{}}
		a.local = &catFile{dir: server.Address.Path}
		a.branch = &Branch{name: b.name, server: server}
		a.store = &store{server: server, mode: whole, objects: newObjects(""), pastTrees: a}
		a.branch.store = a.store
		return a, nil
	}
	if b.server.Caps == nil || b.store.head.IsZero() {
		if err := b.refresh(ctx); err != nil {
			return nil, b.fail("reading", err)
		}
	}
	b.store.chooseMode()
	a.store = &store{server: b.server, mode: b.store.mode, noLimit: b.store.noLimit, noDepth: b.store.noDepth, objects: newObjects(""), pastTrees: a}
	if a.store.mode == partial {
		return a, nil
	}
	answer, err := b.server.Fetch(ctx, nil, remote.Request{Wants: []plumbing.Hash{b.store.head}})
	if err == nil {
		a.store.base, err = indexPack(ctx, answer, nil)
	}
	if err != nil {
		return nil, b.fail("reading the history of", err)
	}
	a.store.noteLarge(a.store.base)
	return a, nil
}

// Close ends the git process and frees the objects. The trees cannot be read any more.
func (a *PastTrees) Close() {
	a.branch.mu.Lock()
	defer a.branch.mu.Unlock()
	if a.local != nil {
		a.local.close()
	}
	a.store.base.close()
	a.store.base = nil
}

// Know records the trees of commits, so that the commits need not be read.
func (a *PastTrees) Know(commits []branch.Commit) {
	a.branch.mu.Lock()
	defer a.branch.mu.Unlock()
	for _, c := range commits {
		if plumbing.IsHash(c.Tree) && plumbing.IsHash(c.ID) {
			a.note(plumbing.NewHash(c.ID), plumbing.NewHash(c.Tree))
		}
	}
}

func (a *PastTrees) note(commit, root plumbing.Hash) {
	if len(a.roots) >= maxRoots {
		clear(a.roots)
	}
	a.roots[commit] = root
}

// Tree returns the files of a commit, which are read lazily with ctx like those of [Branch.Head].
func (a *PastTrees) Tree(ctx context.Context, commit string) (fs.FS, error) {
	a.branch.mu.Lock()
	defer a.branch.mu.Unlock()
	root, err := a.root(ctx, commit)
	if err != nil {
		return nil, a.branch.describe("reading an earlier commit of", err)
	}
	return &treeFS{branch: a.branch, store: a.store, ctx: ctx, root: root}, nil
}

// root returns the top tree of a commit.
func (a *PastTrees) root(ctx context.Context, commit string) (plumbing.Hash, error) {
	h, err := parseCommit(commit)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if root, ok := a.roots[h]; ok {
		return root, nil
	}
	raw, err := a.commit(ctx, h)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	root, err := rootOf(raw)
	if err == nil {
		a.note(h, root)
	}
	return root, err
}

// commit returns a raw commit.
func (a *PastTrees) commit(ctx context.Context, h plumbing.Hash) ([]byte, error) {
	var o rawObject
	var err error
	switch {
	case a.local != nil:
		o, err = a.local.object(ctx, h)
	case a.store.mode == partial:
		var all map[plumbing.Hash][]byte
		all, err = a.store.fetchPast(ctx, []plumbing.Hash{h})
		o = rawObject{plumbing.CommitObject, all[h]}
	default:
		o, _ = a.store.get(h)
	}
	switch {
	case err != nil:
		return nil, err
	case o.data == nil || o.kind != plumbing.CommitObject:
		return nil, fmt.Errorf("commit %s: %w", h, branch.ErrMissing)
	}
	return o.data, nil
}

// Ahead fetches the files below some directories of commits from a server, in batches. It does
// nothing for a local repository.
func (a *PastTrees) Ahead(ctx context.Context, commits []string, dirs []string) error {
	if a.local != nil || a.store.mode != partial {
		return nil
	}
	a.branch.mu.Lock()
	defer a.branch.mu.Unlock()
	if err := a.ahead(ctx, commits, dirs); err != nil {
		return a.branch.describe("reading earlier commits of", err)
	}
	return nil
}

func (a *PastTrees) ahead(ctx context.Context, commits []string, dirs []string) error {
	var unknown []plumbing.Hash
	for _, c := range commits {
		if h := plumbing.NewHash(c); a.roots[h].IsZero() {
			unknown = append(unknown, h)
		}
	}
	raw, err := a.store.fetchPast(ctx, unknown)
	if err != nil {
		return err
	}
	for h, data := range raw {
		if root, err := rootOf(data); err == nil {
			a.note(h, root)
		}
	}
	seen := map[plumbing.Hash]bool{plumbing.ZeroHash: true}
	level := map[plumbing.Hash]string{} // directories by their trees
	for _, c := range commits {
		level[a.roots[plumbing.NewHash(c)]] = ""
	}
	for depth := 0; len(level) > 0 && depth < deepestDifference; depth++ {
		if level, err = a.aheadLevel(ctx, level, dirs, seen); err != nil {
			return err
		}
	}
	return nil
}

// aheadLevel fetches trees, and the requested files in them. It returns the
// trees below that are wanted.
func (a *PastTrees) aheadLevel(ctx context.Context, level map[plumbing.Hash]string, dirs []string, seen map[plumbing.Hash]bool) (map[plumbing.Hash]string, error) {
	if _, err := a.store.fetchPast(ctx, slices.Collect(maps.Keys(level))); err != nil {
		return nil, err
	}
	var files []plumbing.Hash
	next := map[plumbing.Hash]string{}
	for h, dir := range level {
		t, here := a.store.trees[h]
		if !here || seen[h] {
			continue
		}
		seen[h] = true
		for i := range t.len() {
			name := join(dir, string(t.name(i)))
			inside, leads := selects(dirs, name)
			switch {
			case t.isDir(i) && (inside || leads):
				next[t.hash(i)] = name
			case inside && readable(t.at(i).mode) == nil:
				files = append(files, t.hash(i))
			}
		}
	}
	_, err := a.store.fetchPast(ctx, files)
	return next, err
}

// fetchPast fetches the missing ones of some objects of earlier commits. It returns
// the commits among them, raw. An object that the server does not send is left out, without
// an error.
func (s *store) fetchPast(ctx context.Context, hashes []plumbing.Hash) (map[plumbing.Hash][]byte, error) {
	all := map[plumbing.Hash][]byte{}
	asked := map[plumbing.Hash]bool{plumbing.ZeroHash: true}
	var missing []plumbing.Hash
	for _, h := range hashes {
		if _, here := s.get(h); !here && !asked[h] && s.readable(h) == nil {
			asked[h] = true
			missing = append(missing, h)
		}
	}
	for some := range slices.Chunk(missing, maxWants) {
		q := byName(some)
		q.Depth = 1
		answer, err := s.server.Fetch(ctx, nil, q)
		if errors.Is(err, remote.ErrTooMany) && len(hashes) == 1 {
			return nil, err
		}
		if errors.Is(err, remote.ErrTooMany) || errors.Is(err, remote.ErrNotOurs) {
			continue // each is requested again when it is read
		}
		if err != nil {
			return nil, err
		}
		commits, err := s.takeAll(ctx, answer)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, commits)
	}
	return all, nil
}

// fetchMissing fetches what a tree needs. Its error distinguishes objects that the repository
// lacks, and objects that cannot be read now, from files that are too large for every reader.
func (a *PastTrees) fetchMissing(ctx context.Context, hashes []plumbing.Hash) error {
	var err error
	switch {
	case a.local != nil:
		err = a.takeLocal(ctx, hashes)
	case a.store.mode == partial:
		_, err = a.store.fetchPast(ctx, hashes)
	}
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, remote.ErrTooMany), errors.Is(err, branch.ErrMissing):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", branch.ErrUnread, err)
	}
	if _, here := a.store.get(hashes[0]); !here && a.store.readable(hashes[0]) == nil {
		return fmt.Errorf("object %s: %w", hashes[0], branch.ErrMissing)
	}
	return nil
}
