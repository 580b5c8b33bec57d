package git

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// objects are the git objects in memory: the trees from the root down to the directory that is read
// ahead, its trees and small files, and those of other directories that were read. They are pruned
// when the branch moves, to those of one commit.
type objects struct {
	// readAhead is the directory that is read ahead; empty means none.
	readAhead string
	trees     map[plumbing.Hash]*tree
	blobs     map[plumbing.Hash][]byte
	// base is the pack of a whole commit, from a server that cannot send single objects; nil with
	// partial clone.
	base *pack
	// size and treeSize are the bytes of the blobs after pruning and of the trees.
	size, treeSize int
	// large are files and trees that are too large to be read, with their size.
	large map[plumbing.Hash]int64
	// visited are the directories outside readAhead that were read.
	visited map[string]bool
}

const (
	// smallFile is the size in bytes up to which a file is kept.
	smallFile = 256 << 10
	// maxKept limits all files that are kept, in bytes. Others are fetched again when they are
	// read.
	maxKept = 16 << 20
	// maxHere limits the files between two prunings, in bytes.
	maxHere = 2 * maxKept
	// maxTrees limits the trees in bytes. Others are fetched or inflated again when they are read.
	maxTrees = 16 << 20
	// maxVisited limits the directories outside readAhead that are kept.
	maxVisited = 1000
	// largeDir is the number of entries above which a directory's files are fetched only when one
	// of them is read, and not kept below readAhead.
	largeDir = 1000
	// fewKept is the number of files of a large directory that are kept as bases of deltas.
	fewKept = 8
)

func newObjects(readAhead string) objects {
	return objects{
		readAhead: readAhead,
		trees:     map[plumbing.Hash]*tree{},
		blobs:     map[plumbing.Hash][]byte{},
		large:     map[plumbing.Hash]int64{},
		visited:   map[string]bool{},
	}
}

// clear drops all objects, except the lists of directories that were read and of objects that are too
// large.
func (o *objects) clear() {
	visited, large := o.visited, o.large
	o.base.close()
	*o = newObjects(o.readAhead)
	o.visited, o.large = visited, large
}

// get returns an object if it is in memory or in base.
func (o *objects) get(h plumbing.Hash) (rawObject, bool) {
	if t, ok := o.trees[h]; ok {
		return rawObject{plumbing.TreeObject, t.raw}, true
	}
	if b, ok := o.blobs[h]; ok {
		return rawObject{plumbing.BlobObject, b}, true
	}
	if o.base != nil {
		if raw, ok, err := o.base.object(h); ok && err == nil {
			return raw, true
		}
	}
	return rawObject{}, false
}

// add keeps the trees and blobs of a pack and returns its commits, raw. Older blobs
// make room for those of the pack. If the pack has more than is kept, add keeps
// the wanted ones, in the order of wanted.
func (o *objects) add(p *pack, wanted []plumbing.Hash) (commits map[plumbing.Hash][]byte, err error) {
	commits = map[plumbing.Hash][]byte{}
	o.noteLarge(p)
	here := size(o.blobs)
	fresh, freshSize, room := map[plumbing.Hash][]byte{}, 0, max(maxHere-here, maxKept)
	done := make(map[plumbing.Hash]bool, len(wanted))
	take := func(h plumbing.Hash) error {
		raw, ok, err := p.object(h)
		if err != nil || !ok {
			return fmt.Errorf("reading the pack: %w", err)
		}
		switch raw.kind {
		case plumbing.CommitObject:
			commits[h] = raw.data
		case plumbing.TreeObject:
			t, err := parseTree(raw.data)
			if err != nil {
				return err
			}
			o.addTree(h, t)
		case plumbing.BlobObject:
			if n := freshSize + len(raw.data); n <= room {
				fresh[h], freshSize = raw.data, n
			}
		}
		return nil
	}
	for _, h := range wanted {
		if _, sent := p.names.find(h); !sent || done[h] {
			continue
		}
		done[h] = true
		if err := take(h); err != nil {
			return nil, err
		}
	}
	for h := range p.all() {
		if done[h] {
			continue
		}
		if err := take(h); err != nil {
			return nil, err
		}
	}
	if here+freshSize > maxHere { // not before: deltas of the pack may be based on them
		clear(o.blobs)
	}
	maps.Copy(o.blobs, fresh)
	return commits, nil
}

// addTree keeps a tree. If all trees would be too large together, it drops the others: a
// few directories of a hundred thousand names take more memory than everything else.
func (o *objects) addTree(h plumbing.Hash, t *tree) {
	if _, here := o.trees[h]; here {
		return
	}
	if o.treeSize += t.size(); o.treeSize > maxTrees {
		clear(o.trees)
		o.treeSize = t.size()
	}
	o.trees[h] = t
}

// noteLarge records the objects of a pack that are too large to be read.
func (o *objects) noteLarge(p *pack) {
	const most = 10_000
	if len(o.large)+len(p.large) > most {
		clear(o.large)
	}
	maps.Copy(o.large, p.large)
}

// prune drops every tree and blob that the tree root does not need.
func (o *objects) prune(root plumbing.Hash) {
	kept := newObjects(o.readAhead)
	o.mark(&kept, root, "", map[plumbing.Hash]bool{})
	o.trees, o.blobs, o.size, o.treeSize = kept.trees, kept.blobs, kept.size, kept.treeSize
}

// mark adds the needed objects of the tree h of the directory dir to kept. It visits equal trees below
// readAhead once, since millions of directories may share a few trees.
func (o *objects) mark(kept *objects, h plumbing.Hash, dir string, done map[plumbing.Hash]bool) {
	t, ok := o.trees[h]
	if !ok || done[h] {
		return
	}
	if o.isAhead(dir) {
		done[h] = true
	}
	if kept.treeSize+t.size() <= maxTrees {
		kept.addTree(h, t)
	}
	files := o.isAhead(dir) || o.visited[dir]
	most := t.len()
	if most > largeDir && o.isAhead(dir) {
		most = fewKept
	}
	for i := range t.len() {
		if t.isDir(i) {
			child := join(dir, string(t.name(i)))
			if o.isAhead(child) || o.leadsAhead(child) || o.visited[child] {
				o.mark(kept, t.hash(i), child, done)
			}
			continue
		}
		if !files || most == 0 {
			continue
		}
		if b, ok := o.blobs[t.hash(i)]; ok && len(b) <= smallFile && kept.size+len(b) <= maxKept {
			kept.blobs[t.hash(i)] = b
			kept.size += len(b)
			most--
		}
	}
}

// visit records that a directory and its parents are read.
func (o *objects) visit(dir string) {
	if dir == "" || o.isAhead(dir) || o.leadsAhead(dir) || o.visited[dir] {
		return
	}
	if len(o.visited) >= maxVisited {
		clear(o.visited)
	}
	for ; dir != "."; dir = path.Dir(dir) {
		o.visited[dir] = true
	}
}

// isAhead reports whether dir is the directory that is read ahead, or below it.
func (o *objects) isAhead(dir string) bool { return o.readAhead != "" && below(dir, o.readAhead) }

// leadsAhead reports whether the directory that is read ahead is dir, or below
// it.
func (o *objects) leadsAhead(dir string) bool { return below(o.readAhead, dir) }

// below reports whether dir is top or lies below it.
func below(dir, top string) bool {
	return dir == top || len(dir) > len(top) && dir[:len(top)] == top && dir[len(top)] == '/'
}

// selects reports whether a path is one of the directories or below one, and whether one of them is below it.
func selects(dirs []string, name string) (inside, leads bool) {
	inside = slices.ContainsFunc(dirs, func(dir string) bool { return below(name, dir) })
	leads = slices.ContainsFunc(dirs, func(dir string) bool { return below(dir, name) })
	return inside, leads
}

// join appends a name to a directory; empty means the top.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
