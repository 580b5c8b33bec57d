package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"

	"muster/gitops/branch"
)

// builder makes the objects of a chain of commits. It reads the trees on the
// changed paths and no others.
type builder struct {
	r     *Branch
	ctx   context.Context
	fresh map[plumbing.Hash]*tree  // trees made here
	known map[plumbing.Hash]bool   // objects listed
	list  []newObject              // in the order in which they are sent
	files map[plumbing.Hash][]byte // contents made here
	bases map[plumbing.Hash]bool   // what deltas are on
}

func newBuilder(ctx context.Context, r *Branch) *builder {
	return &builder{
		r: r, ctx: ctx,
		fresh: map[plumbing.Hash]*tree{}, known: map[plumbing.Hash]bool{}, files: map[plumbing.Hash][]byte{}, bases: map[plumbing.Hash]bool{},
	}
}

// node is what one commit does below one directory, or to one file.
type node struct {
	name     string
	children map[string]*node
	write    bool
	remove   bool
	content  []byte
}

// changeTree checks the changes of one commit and arranges them by directory.
func changeTree(changes []branch.Change) (*node, error) {
	top := &node{children: map[string]*node{}}
	for _, c := range changes {
		if err := CheckPath(c.Path); err != nil {
			return nil, err
		}
		at := top
		for part := range strings.SplitSeq(c.Path, "/") {
			if at.children == nil {
				at.children = map[string]*node{}
			}
			next := at.children[part]
			if next == nil {
				next = &node{name: part}
				at.children[part] = next
			}
			at = next
		}
		if at.write || at.remove {
			return nil, fmt.Errorf("path %q is changed twice in one commit", c.Path)
		}
		at.write, at.remove, at.content = c.Content != nil, c.Content == nil, c.Content
	}
	return top, nil
}

// commit adds one commit and its trees and files, and returns it and its root
// tree. A commit that would change nothing is not made: parent is returned.
func (b *builder) commit(parent, root plumbing.Hash, c branch.Draft) (plumbing.Hash, plumbing.Hash, error) {
	top, err := changeTree(c.Changes)
	if err != nil {
		return parent, root, err
	}
	to, err := b.directory(&root, top, "")
	if err != nil {
		return parent, root, err
	}
	if to == nil {
		empty := b.store(plumbing.TreeObject, nil)
		to = &empty
	}
	if *to == root {
		return parent, root, nil
	}
	hash, err := b.encode(parent, *to, c)
	return hash, *to, err
}

// encode adds the commit object itself, signed where that was asked for.
func (b *builder) encode(parent, root plumbing.Hash, c branch.Draft) (plumbing.Hash, error) {
	config := b.r.config
	at := time.Unix(c.At.Unix(), 0).UTC()
	who := object.Signature{Name: config.AuthorName, Email: config.AuthorEmail, When: at}
	if strings.TrimSpace(c.Message) == "" || strings.ContainsRune(c.Message, 0) {
		return plumbing.ZeroHash, errors.New("a commit needs a message, without zero bytes")
	}
	commit := object.Commit{Author: who, Committer: who, Message: c.Message, TreeHash: root, ParentHashes: []plumbing.Hash{parent}}
	raw, err := encodeCommit(&commit)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if config.Sign != nil {
		signature, err := config.Sign(raw, at)
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("signing the commit: %w", err)
		}
		commit.PGPSignature = strings.TrimRight(signature, "\n") + "\n"
		if raw, err = encodeCommit(&commit); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return b.store(plumbing.CommitObject, raw), nil
}

func encodeCommit(c *object.Commit) ([]byte, error) {
	var o plumbing.MemoryObject
	if err := c.Encode(&o); err != nil {
		return nil, fmt.Errorf("encoding the commit: %w", err)
	}
	reader, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("encoding the commit: %w", err)
	}
	var raw bytes.Buffer
	_, err = raw.ReadFrom(reader)
	return raw.Bytes(), err
}

// directory applies n to the tree from, nil for none, and returns the new
// tree, nil when nothing is left in it.
func (b *builder) directory(from *plumbing.Hash, n *node, path string) (*plumbing.Hash, error) {
	old := &tree{}
	if from != nil {
		var err error
		if old, err = b.tree(*from); err != nil {
			return nil, err
		}
	}
	var edits []edit
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		more, err := b.child(old, n.children[name], join(path, name))
		if err != nil {
			return nil, err
		}
		edits = append(edits, more...)
	}
	if len(edits) == 0 {
		return from, nil
	}
	raw, copies, err := old.splice(edits)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, nil
	}
	hash := b.storeTree(old, from, raw, copies)
	return &hash, nil
}

// child returns what becomes of one name of a directory: of the file and of
// the directory that may have it.
func (b *builder) child(old *tree, n *node, path string) ([]edit, error) {
	i, isFile := old.find(n.name, false)
	j, isDir := old.find(n.name, true)
	var edits []edit
	if isFile && (n.write || n.remove) {
		if err := readable(old.at(i).mode); err != nil {
			return nil, fmt.Errorf("%s %w", path, err)
		}
	}
	file, dir := isFile && !n.remove, isDir
	switch {
	case n.write:
		mode := filemode.Regular
		if isFile {
			mode = old.at(i).mode
		}
		if hash := nameOf(plumbing.BlobObject, n.content); !isFile || old.hash(i) != hash {
			b.files[b.storeFile(old, i, isFile, n.content)] = n.content
			edits = append(edits, edit{name: n.name, to: &entry{name: n.name, mode: mode, hash: hash}})
		}
		file = true
	case n.remove && isFile:
		edits = append(edits, edit{name: n.name})
	}
	if n.children != nil {
		var from *plumbing.Hash
		if isDir {
			hash := old.hash(j)
			from = &hash
		}
		to, err := b.directory(from, n, path)
		if err != nil {
			return nil, err
		}
		dir = to != nil
		switch {
		case to == nil && from != nil:
			edits = append(edits, edit{name: n.name, dir: true})
		case to != nil && (from == nil || *to != *from):
			edits = append(edits, edit{name: n.name, dir: true, to: &entry{name: n.name, mode: filemode.Dir, hash: *to}})
		}
	}
	if file && dir {
		return nil, fmt.Errorf("%s cannot be a file and a directory at once", path)
	}
	return edits, nil
}

func (b *builder) tree(h plumbing.Hash) (*tree, error) {
	if t, ok := b.fresh[h]; ok {
		return t, nil
	}
	return b.r.tree(b.ctx, h)
}

// storeTree adds a tree, as a delta on the one that it was made from where
// that is shorter.
func (b *builder) storeTree(old *tree, from *plumbing.Hash, raw []byte, copies []copied) plumbing.Hash {
	hash := b.store(plumbing.TreeObject, raw)
	o := &b.list[len(b.list)-1]
	if o.hash == hash && from != nil && o.delta == nil {
		if delta := deltaOf(old.raw, raw, copies); len(delta)+hashSize < len(raw) {
			b.delta(o, *from, delta)
		}
	}
	if t, err := parseTree(raw); err == nil {
		b.fresh[hash] = t
	}
	return hash
}

// storeFile adds a file, as a delta where that is shorter: on the file whose
// place i it takes, of which it keeps what the two begin and end with, so that
// a list of ten thousand dispatches that gains one costs no more than a short
// one; or, where it is new, on a file beside that place, to which one dispatch
// next to another adds little more than its name.
func (b *builder) storeFile(old *tree, i int, replaced bool, content []byte) plumbing.Hash {
	hash := b.store(plumbing.BlobObject, content)
	o := &b.list[len(b.list)-1]
	if o.hash != hash || o.delta != nil {
		return hash
	}
	use := func(from plumbing.Hash, delta []byte) {
		if delta != nil && len(delta)+hashSize < len(content)/4 {
			b.delta(o, from, delta)
		}
	}
	if replaced {
		if base, ok := b.content(old.hash(i)); ok {
			use(old.hash(i), deltaOf(base, content, ends(base, content)))
		}
		return hash
	}
	use(b.beside(old, i-1, -1, content))
	if o.delta == nil {
		use(b.beside(old, i, +1, content))
	}
	return hash
}

// beside makes a file out of the first one of about its size whose content is
// at hand, from place i of a tree onward by step. A nil delta: there is none.
func (b *builder) beside(old *tree, i, step int, content []byte) (plumbing.Hash, []byte) {
	for ; i >= 0 && i < old.len(); i += step {
		if old.isDir(i) {
			continue
		}
		if base, ok := b.content(old.hash(i)); ok && len(base) < 4*len(content) {
			return old.hash(i), packfile.DiffDelta(base, content)
		}
	}
	return plumbing.ZeroHash, nil
}

// content returns a file that was made here or is kept. What would have to be
// inflated from a whole commit first is left alone.
func (b *builder) content(h plumbing.Hash) ([]byte, bool) {
	if content, ok := b.files[h]; ok {
		return content, true
	}
	content, ok := b.r.blobs[h]
	return content, ok
}

// delta sends an object as a delta on another. What others are deltas on is
// itself sent whole, so that no two of them need each other: git refuses that.
func (b *builder) delta(o *newObject, on plumbing.Hash, delta []byte) {
	if on == o.hash || b.bases[o.hash] {
		return
	}
	b.bases[on] = true
	o.base, o.delta = on, delta
}

// ends are what two contents have in common at their beginning and at their end.
func ends(base, target []byte) []copied {
	most := min(len(base), len(target))
	first := 0
	for first < most && base[first] == target[first] {
		first++
	}
	last := 0
	for last < most-first && base[len(base)-1-last] == target[len(target)-1-last] {
		last++
	}
	var both []copied
	if first > 0 {
		both = append(both, copied{from: 0, to: 0, size: first})
	}
	if last > 0 {
		both = append(both, copied{from: len(base) - last, to: len(target) - last, size: last})
	}
	return both
}

// store adds an object once.
func (b *builder) store(kind plumbing.ObjectType, data []byte) plumbing.Hash {
	hash := nameOf(kind, data)
	if !b.known[hash] {
		b.known[hash] = true
		b.list = append(b.list, newObject{hash: hash, rawObject: rawObject{kind, data}})
	}
	return hash
}
