package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// File returns a file of a past commit of the branch, and keeps nothing. The error is [fs.ErrNotExist]
// if the commit has no such file. The server may refuse a commit that is no longer in the branch.
//
// File fetches single objects if the server sends them, and otherwise the last commits with everything
// in them.
func (b *Branch) File(ctx context.Context, commit, name string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, err := b.fileAt(ctx, commit, name)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: b.fail("reading an earlier commit of", err)}
	}
	return slices.Clone(content), nil
}

func (b *Branch) fileAt(ctx context.Context, commit, name string) ([]byte, error) {
	if !plumbing.IsHash(commit) || branch.CheckPath(name) != nil {
		return nil, fs.ErrInvalid
	}
	s, err := b.storeAt(ctx, commit, nil)
	if err != nil {
		return nil, err
	}
	defer func() { s.base.close() }()
	return s.file(ctx, strings.Split(name, "/"))
}

// Past returns a past commit of the branch, whose files are read lazily with ctx like those of
// [Branch.Head]. Past fetches the files in dirs together, the others when they are read. The branch's
// own head stays unchanged. The server may refuse a commit that is no longer in the branch.
func (b *Branch) Past(ctx context.Context, commit string, dirs []string) (branch.Head, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.storeAt(ctx, commit, dirs)
	if err != nil {
		return branch.Head{}, b.fail("reading an earlier commit of", err)
	}
	return branch.Head{Commit: commit, Tree: &treeFS{branch: b, store: s, ctx: ctx, root: s.root}}, nil
}

// storeAt fetches an earlier commit into a store of its own.
func (b *Branch) storeAt(ctx context.Context, commit string, dirs []string) (*store, error) {
	head, err := parseCommit(commit)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := branch.CheckPath(dir); err != nil {
			return nil, err
		}
	}
	if b.server.Caps != nil {
		b.store.chooseMode()
	}
	if b.server.Caps == nil || b.store.mode != partial && b.store.head.IsZero() {
		if err := b.refresh(ctx); err != nil {
			return nil, err
		}
	}
	s := &store{server: b.server, mode: b.store.mode, noLimit: b.store.noLimit, noDepth: b.store.noDepth, readFirst: dirs, objects: newObjects("")}
	if s.mode == partial {
		return s, b.moved(ctx, b.store.head, s.startPartial(ctx, nil, head))
	}
	s.head = head
	if s.base, s.root, err = b.store.past(ctx, head); err != nil {
		return nil, b.moved(ctx, b.store.head, err)
	}
	s.noteLarge(s.base)
	return s, nil
}

// moved returns [branch.ErrMoved] if a host refused the former head, here, with a message or a status,
// and the branch has moved since. Some hosts send only the current head, which is also git's default.
func (b *Branch) moved(ctx context.Context, here plumbing.Hash, err error) error {
	refused := errors.Is(err, remote.ErrNotOurs) || remote.RefusesRequest(err)
	if !refused || here.IsZero() {
		return err
	}
	if at, failed := b.pollHead(ctx, b.name); failed != nil || at == here {
		return err
	}
	return fmt.Errorf("%w: %w", branch.ErrMoved, err)
}

// past fetches an earlier commit with all of its files, and returns it and its tree.
func (s *store) past(ctx context.Context, commit plumbing.Hash) (*pack, plumbing.Hash, error) {
	requests := []remote.Request{{Wants: []plumbing.Hash{commit}, Depth: 1}}
	for _, deep := range []int{64, 1024, 0} { // commits, or all: most servers send only heads
		requests = append(requests, remote.Request{Wants: []plumbing.Hash{s.head}, Depth: deep})
	}
	if s.mode == whole {
		requests = []remote.Request{{Wants: []plumbing.Hash{s.head}}}
	}
	var failed error
	for _, q := range requests {
		answer, err := s.server.Fetch(ctx, nil, q)
		if errors.Is(err, remote.ErrNotOurs) || q.Wants[0] != s.head && remote.RefusesRequest(err) {
			failed = err // some hosts report that by a status
			continue
		}
		if err != nil {
			return nil, plumbing.ZeroHash, err
		}
		p, err := indexPack(ctx, answer, s.get)
		if err != nil {
			return nil, plumbing.ZeroHash, err
		}
		if raw, ok, err := p.object(commit); err == nil && ok && raw.kind == plumbing.CommitObject {
			root, err := rootOf(raw.data)
			return p, root, err
		}
		p.close()
		failed = fmt.Errorf("the server did not send commit %s", commit)
	}
	return nil, plumbing.ZeroHash, failed
}

// file walks down to a file, and returns its content.
func (s *store) file(ctx context.Context, parts []string) ([]byte, error) {
	at := s.root
	for i, part := range parts {
		t, err := s.tree(ctx, at)
		if err != nil {
			return nil, err
		}
		n, there := t.find(part, i < len(parts)-1)
		if !there {
			return nil, fs.ErrNotExist
		}
		if err := readable(t.at(n).mode); err != nil {
			return nil, err
		}
		at = t.hash(n)
	}
	return s.object(ctx, at, plumbing.BlobObject)
}

const (
	// maxWants is the maximum number of objects in a request.
	maxWants = 1000
	// maxRefused is the number of refused objects after which the client stops requesting.
	maxRefused = 16
)

// objectReader reads objects of earlier commits. It fetches single objects if the server sends them,
// and otherwise the last commits with everything in them.
type objectReader struct {
	branch *Branch
	store  *store
	named  bool // the server sends single objects
	here   map[plumbing.Hash]rawObject
	whole  *pack
	all    bool // whole has all commits that the server sends
	// refused counts the objects that the server has refused to send.
	refused int
}

// roots returns the trees of those commits that the server has.
func (r *objectReader) roots(ctx context.Context, commits []plumbing.Hash) (map[plumbing.Hash]plumbing.Hash, error) {
	if err := r.fetch(ctx, commits); err != nil {
		return nil, err
	}
	found := map[plumbing.Hash]plumbing.Hash{}
	for _, h := range commits {
		if o, ok := r.object(h); ok && o.kind == plumbing.CommitObject {
			if root, err := rootOf(o.data); err == nil {
				found[h] = root
			}
		}
	}
	return found, nil
}

// fetch fetches missing objects. An object that the server does not send is left out, without an
// error.
func (r *objectReader) fetch(ctx context.Context, hashes []plumbing.Hash) error {
	var missing []plumbing.Hash
	asked := map[plumbing.Hash]bool{plumbing.ZeroHash: true}
	for _, h := range hashes {
		if _, ok := r.object(h); !ok && !asked[h] {
			asked[h] = true
			missing = append(missing, h)
		}
	}
	if !r.named {
		return r.fetchWhole(ctx, missing)
	}
	for some := range slices.Chunk(missing, maxWants) {
		err := r.fetchNamed(ctx, some)
		if errors.Is(err, remote.ErrFilter) {
			r.named = false
			return r.fetch(ctx, hashes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchNamed fetches single objects. If the server refuses or has too much to send,
// it retries with each half of them, down to the single objects that cannot be fetched.
func (r *objectReader) fetchNamed(ctx context.Context, hashes []plumbing.Hash) error {
	if r.refused > maxRefused {
		return nil
	}
	q := byName(hashes)
	if r.store.server.Caps.Supports(capability.Shallow) {
		q.Depth = 1 // without the ancestors of a commit
	}
	answer, err := r.store.server.Fetch(ctx, nil, q)
	switch {
	case (errors.Is(err, remote.ErrTooMany) || errors.Is(err, remote.ErrNotOurs)) && len(hashes) > 1:
		half := len(hashes) / 2
		if err := r.fetchNamed(ctx, hashes[:half]); err != nil {
			return err
		}
		return r.fetchNamed(ctx, hashes[half:])
	case errors.Is(err, remote.ErrTooMany), errors.Is(err, remote.ErrNotOurs):
		r.refused++
		return nil
	case err != nil:
		return err
	}
	p, err := indexPack(ctx, answer, r.object)
	if err != nil {
		return err
	}
	defer p.close()
	for h := range p.all() {
		if o, ok, err := p.object(h); err == nil && ok {
			r.here[h] = o
		}
	}
	return nil
}

// fetchWhole fetches more and more of the last commits, until they contain the objects.
func (r *objectReader) fetchWhole(ctx context.Context, missing []plumbing.Hash) error {
	if r.store.head.IsZero() && len(missing) > 0 {
		if err := r.branch.refresh(ctx); err != nil {
			return err
		}
	}
	for _, deep := range []int{64, 1024, 0} {
		if len(missing) == 0 || r.all {
			return nil
		}
		q := remote.Request{Wants: []plumbing.Hash{r.store.head}, Depth: deep}
		if !r.store.server.Caps.Supports(capability.Shallow) {
			q.Depth = 0
		}
		answer, err := r.store.server.Fetch(ctx, nil, q)
		if err != nil {
			return err
		}
		r.whole.close()
		if r.whole, err = indexPack(ctx, answer, nil); err != nil {
			return err
		}
		r.all = q.Depth == 0
		missing = slices.DeleteFunc(missing, func(h plumbing.Hash) bool { _, ok := r.whole.names.find(h); return ok })
	}
	return nil
}

func (r *objectReader) object(h plumbing.Hash) (rawObject, bool) {
	if o, ok := r.here[h]; ok {
		return o, true
	}
	if r.whole != nil {
		if o, ok, err := r.whole.object(h); err == nil && ok {
			return o, true
		}
	}
	return rawObject{}, false
}

// tree returns a directory; an empty one for the zero hash.
func (r *objectReader) tree(h plumbing.Hash) (*tree, error) {
	if h.IsZero() {
		return &tree{}, nil
	}
	o, ok := r.object(h)
	if !ok || o.kind != plumbing.TreeObject {
		return nil, fmt.Errorf("the server did not send tree %s", h)
	}
	return parseTree(o.data)
}

// file returns the content of a file; nil if it is missing or too large.
func (r *objectReader) file(h plumbing.Hash) []byte {
	o, ok := r.object(h)
	if !ok || o.kind != plumbing.BlobObject || len(o.data) > largestEdit {
		return nil
	}
	return bytes.Clone(o.data)
}
