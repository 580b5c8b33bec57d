package git

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/gitops/branch"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// builder makes the objects of a chain of commits. It reads only the trees on changed paths.
type builder struct {
	ctx    context.Context
	store  *store
	author author
	fresh  map[plumbing.Hash]*tree  // new trees
	files  map[plumbing.Hash][]byte // new contents
	known  map[plumbing.Hash]bool   // objects in list
	list   []newObject              // new objects in the order in which they are sent
	bases  map[plumbing.Hash]bool   // bases of deltas
}

func newBuilder(ctx context.Context, s *store, a author) *builder {
	return &builder{
		ctx: ctx, store: s, author: a,
		fresh: map[plumbing.Hash]*tree{}, files: map[plumbing.Hash][]byte{}, known: map[plumbing.Hash]bool{}, bases: map[plumbing.Hash]bool{},
	}
}

// chain adds commits on top of the store's head, and returns the last of them and its root tree.
func (b *builder) chain(drafts []branch.Draft) (head, root plumbing.Hash, err error) {
	head, root = b.store.head, b.store.root
	for _, d := range drafts {
		if head, root, err = b.commit(head, root, d); err != nil {
			return head, root, err
		}
	}
	return head, root, nil
}

// commit adds a commit with its trees and files, and returns it and its root tree. It returns parent if
// the commit changes nothing.
func (b *builder) commit(parent, root plumbing.Hash, d branch.Draft) (plumbing.Hash, plumbing.Hash, error) {
	top, err := changeTree(d.Changes)
	if err != nil {
		return parent, root, err
	}
	to, err := b.directory(root, top, "")
	if err != nil {
		return parent, root, err
	}
	if to.IsZero() {
		to = b.add(plumbing.TreeObject, nil)
	}
	if to == root {
		return parent, root, nil
	}
	raw, err := b.author.commit(parent, to, d)
	if err != nil {
		return parent, root, err
	}
	return b.add(plumbing.CommitObject, raw), to, nil
}

// directory applies n to the tree from and returns the new tree. Both are zero if empty.
func (b *builder) directory(from plumbing.Hash, n *node, path string) (plumbing.Hash, error) {
	old, err := b.tree(from)
	if err != nil {
		return from, err
	}
	var edits []edit
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		more, err := b.child(old, n.children[name], join(path, name))
		if err != nil {
			return from, err
		}
		edits = append(edits, more...)
	}
	if len(edits) == 0 {
		return from, nil
	}
	raw, copies, err := old.splice(edits)
	if err != nil {
		return from, err
	}
	if len(raw) == 0 {
		return plumbing.ZeroHash, nil
	}
	return b.storeTree(old, from, raw, copies), nil
}

// child returns the edits of a name of a directory: of the file and of the directory of that name.
func (b *builder) child(old *tree, n *node, path string) ([]edit, error) {
	i, isFile := old.find(n.name, false)
	j, isDir := old.find(n.name, true)
	var edits []edit
	if isFile && (n.write || n.remove) {
		if err := readable(old.at(i).mode); err != nil {
			return nil, fmt.Errorf("%w: %s %w", branch.ErrInvalid, path, err)
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
		var from plumbing.Hash
		if isDir {
			from = old.hash(j)
		}
		to, err := b.directory(from, n, path)
		if err != nil {
			return nil, err
		}
		dir = !to.IsZero()
		switch {
		case to == from:
		case to.IsZero():
			edits = append(edits, edit{name: n.name, dir: true})
		default:
			edits = append(edits, edit{name: n.name, dir: true, to: &entry{name: n.name, mode: filemode.Dir, hash: to}})
		}
	}
	if file && dir {
		return nil, fmt.Errorf("%w: %s cannot be a file and a directory at once", branch.ErrInvalid, path)
	}
	return edits, nil
}

// tree returns a tree; an empty one for the zero hash.
func (b *builder) tree(h plumbing.Hash) (*tree, error) {
	if h.IsZero() {
		return &tree{}, nil
	}
	if t, ok := b.fresh[h]; ok {
		return t, nil
	}
	return b.store.tree(b.ctx, h)
}

// storeTree adds a tree, as a delta on the former tree if that is shorter.
func (b *builder) storeTree(old *tree, from plumbing.Hash, raw []byte, copies []copied) plumbing.Hash {
	hash := b.add(plumbing.TreeObject, raw)
	o := &b.list[len(b.list)-1]
	if o.hash == hash && !from.IsZero() && o.delta == nil {
		if delta := deltaOf(old.raw, raw, copies); len(delta)+hashSize < len(raw) {
			b.delta(o, from, delta)
		}
	}
	if t, err := parseTree(raw); err == nil {
		b.fresh[hash] = t
	}
	return hash
}

// storeFile adds a file, as a delta if that is shorter. The base of a file that replaces the one at
// index i is that file, and the delta copies their common beginning and end: a line added to a long
// list costs no more than one added to a short list. The base of a new file is one near index i, since
// files of one directory are often similar.
func (b *builder) storeFile(old *tree, i int, replaced bool, content []byte) plumbing.Hash {
	hash := b.add(plumbing.BlobObject, content)
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
		base, ok := b.content(old.hash(i))
		if !ok {
			var o rawObject
			o, ok = b.store.get(old.hash(i))
			base = o.data
		}
		if ok {
			use(old.hash(i), shortDelta(base, content))
		}
		return hash
	}
	use(b.beside(old, i-1, -1, content))
	if o.delta == nil {
		use(b.beside(old, i, +1, content))
	}
	return hash
}

// shortDelta returns a delta that copies the common beginning and end of two files, or more of them if that
// is shorter: several lines of a long file may have changed.
func shortDelta(base, content []byte) []byte {
	const short = 4 << 10
	delta := deltaOf(base, content, ends(base, content))
	if len(delta) <= short {
		return delta
	}
	if other := packfile.DiffDelta(base, content); len(other) < len(delta) {
		return other
	}
	return delta
}

// beside returns a delta that makes a file from another file of the tree: the first of about its size
// whose content is in memory, from index i by step. The delta is nil if no file fits.
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

// content returns a file that is new or in memory. It does not inflate files from a pack.
func (b *builder) content(h plumbing.Hash) ([]byte, bool) {
	if content, ok := b.files[h]; ok {
		return content, true
	}
	content, ok := b.store.blobs[h]
	return content, ok
}

// delta makes an object a delta on another. Bases themselves are sent whole, so that no two objects
// need each other, which git refuses.
func (b *builder) delta(o *newObject, on plumbing.Hash, delta []byte) {
	if on == o.hash || b.bases[o.hash] {
		return
	}
	b.bases[on] = true
	o.base, o.delta = on, delta
}

// add lists an object, once.
func (b *builder) add(kind plumbing.ObjectType, data []byte) plumbing.Hash {
	hash := nameOf(kind, data)
	if !b.known[hash] {
		b.known[hash] = true
		b.list = append(b.list, newObject{hash: hash, rawObject: rawObject{kind, data}})
	}
	return hash
}

// node is the changes of a commit to a file or below a directory.
type node struct {
	name     string
	children map[string]*node
	write    bool
	remove   bool
	content  []byte
}

// changeTree validates the changes of one commit and arranges them by directory.
func changeTree(changes []branch.Change) (*node, error) {
	top := &node{children: map[string]*node{}}
	for _, c := range changes {
		if err := branch.CheckPath(c.Path); err != nil {
			return nil, fmt.Errorf("%w: %w", branch.ErrInvalid, err)
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
			return nil, fmt.Errorf("%w: path %q is changed twice in one commit", branch.ErrInvalid, c.Path)
		}
		at.write, at.remove, at.content = c.Content != nil, c.Content == nil, c.Content
	}
	return top, nil
}
